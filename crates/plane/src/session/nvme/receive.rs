//! What comes on a connection, PDU by PDU: TCP Transport 1.1 sections 3.5 and 3.6.

use std::rc::Rc;

use ring::{Buffer, Soon};
use wire::nvme::tcp::{
    ADMIN_IN_CAPSULE, CapsuleCmd, CommonHeader, Crc32c, DataAlignment, DigestFlags, FatalError, Framing,
    H2CData, ICReq, ICResp, MAX_HEADER_LENGTH, PFV_1_0, PduFlags, PduType, Sender, Shape, TermReq,
    header_digest,
};
use wire::nvme::{Command, Status};

use super::connection::Connection;
use super::queue::Queue;
use crate::limits::{ANSWER_QUEUE_BYTES, NVME_IN_CAPSULE, NVME_MAXH2CDATA};
use crate::memory_gate::has_memory;
use crate::transport::{Gone, Reader};

/// Why a connection ended. The text is for the log.
#[derive(Debug, thiserror::Error)]
pub enum End {
    /// The peer or the network.
    #[error(transparent)]
    Gone(#[from] Gone),
    /// Something that the host has to be told of before the connection ends.
    #[error("the host broke the rules of NVMe/TCP: {0}")]
    Fatal(FatalError, Vec<u8>),
    /// The host ended it and says why.
    #[error("the host ended the connection: {0}")]
    Terminated(FatalError),
    /// The Connect command was refused.
    #[error("its Connect command was refused: {0:?}")]
    Refused(Status),
}

/// One PDU up to its data.
struct Pdu {
    /// Of these bytes `shape.header`.
    header: [u8; MAX_HEADER_LENGTH],
    common: CommonHeader,
    shape: Shape,
}

impl Pdu {
    /// The place for one.
    fn none() -> Pdu {
        let header = [0; MAX_HEADER_LENGTH];
        let common = CommonHeader::decode(header.first_chunk().expect("a header is longer"));
        Pdu { header, common, shape: Shape::default() }
    }

    fn fatal(&self, error: FatalError) -> End {
        End::Fatal(error, self.header[..self.shape.header].to_vec())
    }

    fn bytes<const N: usize>(&self) -> &[u8; N] {
        self.header.first_chunk().expect("no header is longer than the longest")
    }
}

/// Waits until the next PDU begins to come.
async fn ready(connection: &Connection, reader: &mut Reader) -> Result<(), End> {
    connection.receiving.set(false);
    // Refusals wait for nothing: who sends what causes them and does not read is not read from either.
    if connection.outgoing.bytes() >= ANSWER_QUEUE_BYTES {
        reader.put_aside();
        connection.outgoing.below(ANSWER_QUEUE_BYTES).await;
    }
    reader.ready().await?;
    connection.receiving.set(true);
    Ok(())
}

/// Receives the header of a PDU that begins to come to `pdu` and checks it. `limit`: bytes of data that it may have.
async fn header(
    reader: &mut Reader,
    framing: Framing,
    limit: impl Fn(PduType) -> u32,
    pdu: &mut Pdu,
) -> Result<(), End> {
    let (start, rest) = pdu.header.split_at_mut(CommonHeader::LENGTH);
    reader.exact(start).await?;
    pdu.common = CommonHeader::decode(start.as_ref().try_into().expect("eight bytes"));
    let kind = pdu.common.pdu_type;
    let refuse = |error| End::Fatal(error, start.to_vec());
    pdu.shape = framing.shape(&pdu.common, Sender::Host, limit(kind)).map_err(refuse)?;
    reader.exact(&mut rest[..pdu.shape.header - CommonHeader::LENGTH]).await?;
    if pdu.shape.header_digest {
        let mut digest = [0; 4];
        reader.exact(&mut digest).await?;
        if digest != header_digest(&pdu.header[..pdu.shape.header]) {
            return Err(pdu.fatal(FatalError::header_digest(digest)));
        }
    }
    if kind == PduType::H2C_TERM_REQ {
        let term = TermReq::decode(pdu.bytes());
        return Err(End::Terminated(FatalError { fes: term.fes, fei: term.fei }));
    }
    Ok(reader.skip(pdu.shape.padding()).await?)
}

/// Receives the data of a PDU to `start` in `buffer`. False when its digest is wrong.
async fn data(
    reader: &mut Reader,
    shape: &Shape,
    buffer: Buffer,
    start: usize,
) -> Result<(Buffer, bool), End> {
    let end = start + shape.data;
    let buffer = reader.fill(buffer, start, end).await?;
    if !shape.data_digest {
        return Ok((buffer, true));
    }
    let mut digest = [0; 4];
    reader.exact(&mut digest).await?;
    let mut crc = Crc32c::new();
    crc.update(&buffer[start..end]);
    Ok((buffer, digest == crc.wire()))
}

/// Agrees on what a connection needs: ICReq and ICResp.
pub async fn initialize(connection: &Connection, reader: &mut Reader) -> Result<(), End> {
    let mut pdu = Pdu::none();
    ready(connection, reader).await?;
    header(reader, Framing::default(), |_| 0, &mut pdu).await?;
    if pdu.common.pdu_type != PduType::IC_REQ {
        return Err(pdu.fatal(FatalError::SEQUENCE));
    }
    let request = ICReq::decode(pdu.bytes());
    if request.pfv != PFV_1_0 {
        return Err(pdu.fatal(FatalError::unsupported(8)));
    }
    let Some(hpda) = DataAlignment::new(request.hpda) else { return Err(pdu.fatal(FatalError::field(10))) };
    let framing = Framing {
        header_digest: request.digests.contains(DigestFlags::HEADER),
        data_digest: request.digests.contains(DigestFlags::DATA),
        hpda,
        cpda: DataAlignment::default(),
    };
    connection.send_init(&ICResp::new(framing.cpda.field(), request.digests, NVME_MAXH2CDATA));
    connection.set_framing(framing);
    Ok(())
}

/// The first capsule of a connection, which has to be a Connect command, and its data.
pub async fn first_capsule(connection: &Connection, reader: &mut Reader) -> Result<(Command, Buffer), End> {
    let mut pdu = Pdu::none();
    ready(connection, reader).await?;
    header(reader, connection.framing(), |_| ADMIN_IN_CAPSULE, &mut pdu).await?;
    if pdu.common.pdu_type != PduType::CAPSULE_CMD {
        return Err(pdu.fatal(FatalError::SEQUENCE));
    }
    let (data, intact) = data(reader, &pdu.shape, Buffer::new(pdu.shape.data), 0).await?;
    if !intact {
        return Err(pdu.fatal(FatalError::SEQUENCE));
    }
    Ok((CapsuleCmd::decode(pdu.bytes()).command, data))
}

/// While one PDU is worked on, of which `rest` bytes have still to be taken, the memory for the next ones comes nearer.
fn look_ahead(queue: &Queue, reader: &mut Reader, rest: usize) {
    reader.look_ahead(rest, |begin: &[u8; CapsuleCmd::LENGTH], soon| {
        (begin[0] == PduType::CAPSULE_CMD.0).then(|| {
            let capsule = CapsuleCmd::decode(begin);
            queue.expect(&capsule.command, soon);
            capsule.header.plen as usize
        })
    });
}

/// Carries out a command whose capsule has come whole, where that can be done at once, on a connection without digests: most
/// are such. False: nothing was taken, and the capsule is received part by part.
fn at_once(queue: &Queue, reader: &mut Reader, framing: Framing, in_capsule: u32) -> bool {
    let Some(CapsuleCmd { header, command }) = reader.begin().map(CapsuleCmd::decode) else { return false };
    let whole = header.plen as usize;
    if header.pdu_type != PduType::CAPSULE_CMD || reader.gathered(0, whole).is_none() {
        return false;
    }
    let Ok(shape) = framing.shape(&header, Sender::Host, in_capsule) else { return false };
    if reader.is_unforeseen() {
        queue.expect(&command, Soon::Now);
    }
    look_ahead(queue, reader, whole);
    let data = reader.gathered(shape.data_offset, shape.data);
    let done = data.as_ref().is_some_and(|data| queue.at_once(&command, data));
    if done {
        reader.consume(whole);
    }
    done
}

/// Waits for the rest of a Write that can be carried out at once when it is there, on a connection without digests. False
/// where there is none to be waited for, and the PDU is received part by part.
async fn gather(queue: &Queue, reader: &mut Reader, framing: Framing, in_capsule: u32) -> Result<bool, End> {
    let Some(CapsuleCmd { header, command }) = reader.begin().map(CapsuleCmd::decode) else {
        return Ok(false);
    };
    let whole = header.plen as usize;
    let is_one = header.pdu_type == PduType::CAPSULE_CMD
        && reader.gathered(0, whole).is_none()
        && framing.shape(&header, Sender::Host, in_capsule).is_ok()
        && queue.is_prompt_write(&command);
    Ok(is_one && reader.gather(whole).await?)
}

/// Receives the commands of a queue until its connection ends.
pub async fn receive(queue: &Rc<Queue>, reader: &mut Reader) -> Result<(), End> {
    let connection = queue.connection.clone();
    let framing = connection.framing();
    let in_capsule = if queue.qid == 0 { ADMIN_IN_CAPSULE } else { NVME_IN_CAPSULE };
    let limit = move |kind| if kind == PduType::CAPSULE_CMD { in_capsule } else { NVME_MAXH2CDATA };
    let is_plain = !framing.header_digest && !framing.data_digest;
    let mut pdu = Pdu::none();
    while !connection.outgoing.is_closed() {
        ready(&connection, reader).await?;
        if is_plain
            && (at_once(queue, reader, framing, in_capsule)
                || gather(queue, reader, framing, in_capsule).await?
                    && at_once(queue, reader, framing, in_capsule))
        {
            continue;
        }
        header(reader, framing, limit, &mut pdu).await?;
        look_ahead(queue, reader, pdu.shape.data + pdu.shape.trailer());
        match pdu.common.pdu_type {
            PduType::CAPSULE_CMD => {
                let command = CapsuleCmd::decode(pdu.bytes()).command;
                if !pdu.shape.data_digest
                    && let Some(data) = reader.received(pdu.shape.data)
                    && queue.at_once(&command, &data.into())
                {
                    reader.skip(pdu.shape.data).await?;
                    continue;
                }
                if !has_memory(pdu.shape.data) {
                    reader.put_aside();
                    if !queue.wait_for_capsule(pdu.shape.data).await {
                        reader.skip(pdu.shape.data + pdu.shape.trailer()).await?;
                        queue.refuse(&command, queue.no_memory());
                        continue;
                    }
                }
                let (data, intact) = data(reader, &pdu.shape, Buffer::new(pdu.shape.data), 0).await?;
                if intact {
                    queue.take(command, data).map_err(|error| pdu.fatal(error))?;
                } else {
                    queue.refuse(&command, Status::TRANSIENT_TRANSPORT_ERROR);
                }
            }
            PduType::H2C_DATA => {
                let header = H2CData::decode(pdu.bytes());
                if header.datal as usize != pdu.shape.data {
                    return Err(pdu.fatal(FatalError::field(16)));
                }
                let last = pdu.common.flags.contains(PduFlags::LAST_PDU);
                let expected = queue.expect_data(&header, last);
                let (id, buffer, start) = expected.map_err(|error| pdu.fatal(error))?;
                let (buffer, intact) = data(reader, &pdu.shape, buffer, start).await?;
                queue.take_data(id, buffer, intact);
            }
            _ => return Err(pdu.fatal(FatalError::SEQUENCE)),
        }
    }
    Ok(())
}
