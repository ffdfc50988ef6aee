//! The handshake of a connection: options in, replies out, until an export is chosen.

mod state;
#[cfg(test)]
mod tests;

pub use state::{BASE_ALLOCATION_ID, Directory, Entry, Handshake, Offered, Refusal, Step};

use std::rc::Rc;

use wire::nbd::{CLIENT_FLAGS_LENGTH, Greeting, OPTION_HEADER_LENGTH, OptionHeader};

use super::connection::Connection;
use super::export::View;
use super::service::Service;
use crate::limits::{LOGIN_TIME, NBD_OPTION_BYTES, NBD_OPTION_SKIP_BYTES};
use crate::session::notice::What;
use crate::transport::{Gone, Reader};
use crate::volume::Channel;

/// What a client has chosen.
pub struct Chosen {
    /// How it is to be served.
    pub entry: Entry,
    /// The name of the export.
    pub name: String,
    /// Its volume.
    pub channel: Rc<Channel>,
}

/// Why a handshake came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The peer or the network.
    #[error(transparent)]
    Gone(#[from] Gone),
    /// It does not speak the protocol.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// What came is no option.
    #[error("no NBD option but something else")]
    Garbage,
    /// An option that is too long even to be skipped.
    #[error("an option with {0} bytes of data")]
    TooLong(u32),
    /// It takes too long.
    #[error("the handshake took longer than {} seconds", LOGIN_TIME.as_secs())]
    Slow,
}

/// Leads the handshake. `None`: the client ended it in good order.
pub async fn negotiate(
    service: &Rc<Service>,
    connection: &Connection,
    reader: &mut Reader,
) -> Result<Option<Chosen>, Failure> {
    let ring = service.shard().ring();
    let result = ring.timeout(LOGIN_TIME, exchange(service, connection, reader)).await;
    result.unwrap_or(Err(Failure::Slow))
}

async fn exchange(
    service: &Rc<Service>,
    connection: &Connection,
    reader: &mut Reader,
) -> Result<Option<Chosen>, Failure> {
    connection.send_bytes(&Greeting { flags: Handshake::FLAGS }.encode());
    let mut flags = [0; CLIENT_FLAGS_LENGTH];
    reader.first(&mut flags).await?;
    let mut handshake = Handshake::new(u32::from_be_bytes(flags))?;
    let (mut data, mut replies) = (Vec::new(), Vec::new());
    loop {
        let mut header = [0; OPTION_HEADER_LENGTH];
        reader.first(&mut header).await?;
        let header = OptionHeader::decode(&header).map_err(|_| Failure::Garbage)?;
        let length = header.length as usize;
        if length > NBD_OPTION_SKIP_BYTES {
            return Err(Failure::TooLong(header.length));
        }
        let is_too_long = length > NBD_OPTION_BYTES;
        data.resize(if is_too_long { 0 } else { length }, 0);
        reader.exact(&mut data).await?;
        reader.skip(length - data.len()).await?;
        // One list for the whole option, of the time when all of it has come: nothing is waited for until the connection
        // belongs to the volume, so that a volume that goes meanwhile is not found, or takes the connection with it.
        let view = service.view();
        let step = if is_too_long {
            handshake.too_long(header.option, &mut replies)?
        } else {
            let step = handshake.option(header.option, &data, &view, &mut replies);
            if let Some(name) = handshake.take_unknown() {
                let why = "there is no such export".to_owned();
                service.tell(connection, &name, What::Refused(why));
            }
            step?
        };
        connection.send_bytes(&replies);
        replies.clear();
        match step {
            Step::Continue => {}
            Step::Enter(entry) => return Ok(Some(chosen(&view, connection, entry))),
            Step::Leave => {
                reader.put_aside();
                connection.outgoing.below(1).await;
                return Ok(None);
            }
        }
        // Whoever asks and does not listen gets no more.
        reader.put_aside();
        connection.outgoing.below(1).await;
    }
}

/// From now on the connection belongs to the volume, and goes with it.
fn chosen(view: &View<'_>, connection: &Connection, entry: Entry) -> Chosen {
    let export = &view.exports.list()[entry.export];
    connection.volume.set(Some(export.volume));
    Chosen { entry, name: export.name.clone(), channel: view.shard.volume(export.volume) }
}
