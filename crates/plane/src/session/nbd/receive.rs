//! Transmission: requests as they come, judged one by one, carried out at once.

use std::rc::Rc;

use ring::{Buffer, Soon};
use wire::nbd::{Command, CommandFlags, Errno, NotARequest, REQUEST_LENGTH, Request};

use super::connection::{Connection, Phase, Slot};
use super::errors::Refused;
use super::execute::Transmission;
use crate::limits::{FILL_BYTES, NBD_PAYLOAD_BYTES, NBD_SKIP_BYTES, SEND_QUEUE_BYTES};
use crate::memory_gate::{has_memory, wait_for_memory};
use crate::request::Geometry;
use crate::transport::{Gone, Reader};

/// Why a connection ended. The text is for the log.
#[derive(Debug, thiserror::Error)]
pub enum End {
    /// The peer or the network.
    #[error(transparent)]
    Gone(#[from] Gone),
    /// Out of step.
    #[error(transparent)]
    Garbage(#[from] NotARequest),
    /// A payload that is not even skipped.
    #[error("a write of {0} bytes, at most {NBD_PAYLOAD_BYTES} were agreed")]
    TooLong(u32),
}

/// Receives until the client leaves (`Ok`) or the connection ends otherwise.
pub async fn receive(transmission: &Rc<Transmission>, reader: &mut Reader) -> Result<(), End> {
    let connection = &transmission.connection;
    loop {
        connection.phase.set(Phase::Idle);
        reader.ready().await?;
        connection.receiving();
        if !(at_once(transmission, reader)
            || gather(transmission, reader).await? && at_once(transmission, reader))
        {
            let mut header = [0; REQUEST_LENGTH];
            reader.exact(&mut header).await?;
            let request = Request::decode(&header)?;
            if request.command == Command::DISC {
                return Ok(());
            }
            let payload = payload_of(&request);
            look_ahead(transmission, reader, payload);
            take(transmission, &request, payload, reader).await?;
        }
        if connection.outgoing.is_closed() {
            return Ok(());
        }
    }
}

/// Carries out a request that has come whole, where that can be done at once: most are such. False: nothing was taken, and the
/// request is received part by part.
fn at_once(transmission: &Transmission, reader: &mut Reader) -> bool {
    let Some(Ok(request)) = reader.begin().map(Request::decode) else { return false };
    let payload = payload_of(&request);
    let whole = REQUEST_LENGTH + payload;
    if reader.gathered(0, whole).is_none() {
        return false;
    }
    if reader.is_unforeseen() {
        transmission.expect(&request, Soon::Now);
    }
    look_ahead(transmission, reader, whole);
    let data = reader.gathered(REQUEST_LENGTH, payload);
    let done = data.as_ref().is_some_and(|data| transmission.at_once(&request, data));
    if done {
        reader.consume(whole);
    }
    done
}

/// Waits for the rest of a write that can be carried out at once when it is there. False where there is none to be waited for,
/// and the request is received part by part.
async fn gather(transmission: &Transmission, reader: &mut Reader) -> Result<bool, End> {
    let Some(Ok(request)) = reader.begin().map(Request::decode) else { return Ok(false) };
    let whole = REQUEST_LENGTH + payload_of(&request);
    let is_one = request.command == Command::WRITE
        && transmission.channel.is_prompt()
        && reader.gathered(0, whole).is_none();
    Ok(is_one && reader.gather(whole).await?)
}

/// While one request is worked on, of which `rest` bytes have still to be taken, the memory for the next ones comes nearer.
fn look_ahead(transmission: &Transmission, reader: &mut Reader, rest: usize) {
    reader.look_ahead(rest, |header, soon| {
        let request = Request::decode(header).ok()?;
        transmission.expect(&request, soon);
        Some(REQUEST_LENGTH + payload_of(&request))
    });
}

fn payload_of(request: &Request) -> usize {
    if request.command == Command::WRITE { request.length as usize } else { 0 }
}

/// Takes a request in that `payload` bytes follow.
async fn take(
    transmission: &Rc<Transmission>,
    request: &Request,
    payload: usize,
    reader: &mut Reader,
) -> Result<(), End> {
    let connection = &transmission.connection;
    let judged = if connection.draining.get() {
        Err(Refused::new(Errno::ESHUTDOWN, "the node is stopping"))
    } else {
        transmission.judge(request)
    };
    if let Err(refused) = judged {
        if payload > NBD_SKIP_BYTES {
            connection.refuse(request.cookie, refused);
            return Err(End::TooLong(request.length));
        }
        reader.skip(payload).await?;
        let _slot = make_room(connection, reader, 0).await;
        connection.refuse(request.cookie, refused);
        return Ok(());
    }
    let bytes = match request.command {
        Command::READ => request.length as usize,
        // It is read in parts, with one buffer.
        Command::CACHE => FILL_BYTES.min(request.length as usize),
        _ => payload,
    };
    let slot = make_room(connection, reader, bytes).await;
    let mut buffer = Buffer::empty();
    if payload > 0 {
        buffer = reader.fill(Buffer::new(payload), 0, payload).await?;
    }
    transmission.start(request, buffer, slot);
    Ok(())
}

/// Waits until the peer has taken some of what it asked for, there is memory, and not too much is in flight.
async fn make_room(connection: &Rc<Connection>, reader: &mut Reader, bytes: usize) -> Slot {
    // What is waited for is ours: the peer need not send meanwhile.
    connection.phase.set(Phase::Idle);
    if connection.outgoing.bytes() >= SEND_QUEUE_BYTES || !has_memory(bytes) || !connection.has_room(bytes) {
        reader.put_aside();
    }
    connection.outgoing.below(SEND_QUEUE_BYTES).await;
    wait_for_memory(connection.ring(), bytes, || !connection.outgoing.is_closed()).await;
    let slot = connection.enter(bytes).await;
    connection.receiving();
    slot
}

/// Whether a request may be carried out, by the rules of the protocol alone (sections "Request types", "Command
/// flags", "Block size constraints", "Error values").
pub fn judge(
    request: &Request,
    geometry: &Geometry,
    structured: bool,
    base_allocation: bool,
) -> Result<(), Refused> {
    let refuse = |error, why| Err(Refused::new(error, why));
    let Request { flags, command, offset, length, .. } = *request;
    let allowed = match command {
        Command::READ if structured => CommandFlags::FUA | CommandFlags::DF,
        Command::READ | Command::WRITE | Command::FLUSH | Command::TRIM | Command::CACHE => CommandFlags::FUA,
        Command::WRITE_ZEROES => CommandFlags::FUA | CommandFlags::NO_HOLE | CommandFlags::FAST_ZERO,
        Command::BLOCK_STATUS if base_allocation => CommandFlags::FUA | CommandFlags::REQ_ONE,
        Command::BLOCK_STATUS => {
            return refuse(Errno::EINVAL, "no metadata context was chosen for this export");
        }
        _ => return refuse(Errno::EINVAL, "this command is not known"),
    };
    if !allowed.contains(flags) {
        return refuse(Errno::EINVAL, "a flag that this command does not have here");
    }
    if command == Command::FLUSH {
        let plain = offset == 0 && length == 0;
        return if plain { Ok(()) } else { refuse(Errno::EINVAL, "a flush has no offset and no length") };
    }
    let writes = matches!(command, Command::WRITE | Command::TRIM | Command::WRITE_ZEROES);
    if writes && geometry.read_only {
        return refuse(Errno::EPERM, "the export is read-only");
    }
    if matches!(command, Command::READ | Command::WRITE) && length as usize > NBD_PAYLOAD_BYTES {
        let whole = flags.contains(CommandFlags::DF);
        let error = if whole { Errno::EOVERFLOW } else { Errno::EINVAL };
        return refuse(error, "more than the maximum block size");
    }
    if offset.checked_add(u64::from(length)).is_none_or(|end| end > geometry.bytes()) {
        let grows = matches!(command, Command::WRITE | Command::WRITE_ZEROES);
        let error = if grows { Errno::ENOSPC } else { Errno::EINVAL };
        return refuse(error, "beyond the end of the export");
    }
    if (offset | u64::from(length)) & u64::from(geometry.block_size - 1) != 0 {
        return refuse(Errno::EINVAL, "not a multiple of the minimum block size");
    }
    if command == Command::BLOCK_STATUS && length == 0 {
        return refuse(Errno::EINVAL, "block status of no bytes");
    }
    if command == Command::TRIM && !geometry.discard {
        return refuse(Errno::EINVAL, "the export has no trim");
    }
    Ok(())
}
