//! Our own NBD client: fixed newstyle, simple replies, many requests in flight on one connection.
//!
//! Structured replies are not asked for: they cost twelve bytes a read and say nothing that a load needs.

mod connection;
mod handshake;
mod receive;
#[cfg(test)]
mod tests;

use std::io;
use std::rc::Rc;

use ring::{Buffer, Instant, Ring, Shared, Socket};
use wire::nbd::{Command, CommandFlags, TransmissionFlags};

pub use handshake::HandshakeError;

use super::operation::{self, Operation};
use super::table::{Connection, Finished, Pending, Transfer};
use super::{Cause, Geometry, IoError, OpenError, OpenOptions};
use crate::target::{NbdAddress, NbdTarget};
pub(super) use connection::Inner;
use handshake::Export;

/// Bytes of one trim; lengths on the wire have 32 bits.
const TRIM_BYTES: u64 = 1 << 30;
/// What a server is assumed to take that names no block sizes, in bytes (section "Block size constraints").
const ASSUMED_BLOCK: u32 = 512;
const ASSUMED_PHYSICAL: u32 = 4096;

/// A connection to one export. Clones share it; when the last one goes, so does the connection.
#[derive(Clone)]
pub struct NbdSession(Rc<Owner>);

pub(super) struct Owner {
    inner: Rc<Inner>,
    export: Export,
    geometry: Geometry,
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.inner.fail("the session was dropped");
    }
}

impl Owner {
    fn begin_read(&self, offset: u64, length: u32, transfer: Transfer) -> Pending<Inner> {
        self.inner.request(Command::READ, CommandFlags::empty(), offset, length, transfer)
    }
}

impl operation::Owner for Owner {
    type Connection = Inner;

    /// No error of this protocol asks for another try.
    async fn again(&self, finished: Finished<Command>) -> Result<(), IoError> {
        finished.result.map(|_| ())
    }
}

impl NbdSession {
    /// Connects and chooses the export.
    pub(super) async fn open(
        ring: &Ring,
        target: &NbdTarget,
        options: &OpenOptions,
    ) -> Result<NbdSession, OpenError> {
        let socket = connect(ring, &target.address).await?;
        let shaken = ring.timeout(options.timeout, handshake::go(&socket, &target.export)).await;
        let export = shaken.unwrap_or(Err(HandshakeError::Silent))?;
        let geometry = geometry(&export)?;
        let inner = Inner::start(ring, socket, options.timeout);
        Ok(NbdSession(Rc::new(Owner { inner, export, geometry })))
    }

    /// What the export is like.
    pub fn geometry(&self) -> Geometry {
        self.0.geometry
    }

    /// What the export can do.
    pub fn flags(&self) -> TransmissionFlags {
        self.0.export.flags
    }

    /// Why the connection is gone, if it is.
    pub fn lost(&self) -> Option<String> {
        self.0.inner.lost().map(|reason| reason.to_string())
    }

    /// See [`super::Session::heard`].
    pub fn heard(&self) -> Instant {
        self.0.inner.table().heard
    }

    /// `NBD_CMD_READ`.
    pub async fn read(&self, offset: u64, buffer: Buffer) -> (Result<(), IoError>, Buffer) {
        let length = buffer.len() as u32;
        let read = self.0.begin_read(offset, length, Transfer::In(buffer));
        let (result, _, buffer) = read.await.parts();
        (result.map(|_| ()), buffer)
    }

    /// See [`super::Session::read_unseen`].
    pub fn read_unseen(&self, offset: u64, length: usize) -> Operation<'_> {
        Operation::nbd(&self.0, self.0.begin_read(offset, length as u32, Transfer::Unseen(length)))
    }

    /// `NBD_CMD_WRITE`.
    pub fn write(&self, offset: u64, data: Shared, fua: bool) -> Operation<'_> {
        let known = self.flags().contains(TransmissionFlags::SEND_FUA);
        let flags = if fua && known { CommandFlags::FUA } else { CommandFlags::empty() };
        let length = data.len() as u32;
        let written = self.0.inner.request(Command::WRITE, flags, offset, length, Transfer::Out(data));
        let written = Operation::nbd(&self.0, written);
        if !fua || known {
            return written;
        }
        // A server without FUA is asked to flush instead.
        Operation::later(async move {
            written.await?;
            self.flush().await
        })
    }

    /// `NBD_CMD_FLUSH`, where the server has one; one without it claims to need none.
    pub async fn flush(&self) -> Result<(), IoError> {
        if !self.flags().contains(TransmissionFlags::SEND_FLUSH) {
            return Ok(());
        }
        self.plain(Command::FLUSH, CommandFlags::empty(), 0, 0).await
    }

    /// `NBD_CMD_TRIM`, in as many requests as it takes.
    pub async fn discard(&self, offset: u64, length: u64) -> Result<(), IoError> {
        if !self.0.geometry.discard {
            return Err(Cause::Unsupported("NBD_CMD_TRIM").into());
        }
        let (mut at, end) = (offset, offset + length);
        while at < end {
            let part = (end - at).min(TRIM_BYTES);
            self.plain(Command::TRIM, CommandFlags::empty(), at, part as u32).await?;
            at += part;
        }
        Ok(())
    }

    /// `NBD_CMD_WRITE_ZEROES`, with flags.
    pub async fn write_zeroes(&self, offset: u64, length: u32, flags: CommandFlags) -> Result<(), IoError> {
        if !self.flags().contains(TransmissionFlags::SEND_WRITE_ZEROES) {
            return Err(Cause::Unsupported("NBD_CMD_WRITE_ZEROES").into());
        }
        self.plain(Command::WRITE_ZEROES, flags, offset, length).await
    }

    /// Any request without a payload.
    pub async fn plain(
        &self,
        command: Command,
        flags: CommandFlags,
        offset: u64,
        length: u32,
    ) -> Result<(), IoError> {
        self.0.inner.request(command, flags, offset, length, Transfer::Nothing).await.result.map(|_| ())
    }

    /// Says that we are leaving. Nothing may be in flight.
    pub async fn close(&self) {
        self.0.inner.leave().await;
    }
}

fn geometry(export: &Export) -> Result<Geometry, OpenError> {
    let sizes = export.sizes;
    let block_size = sizes.map_or(ASSUMED_BLOCK, |sizes| sizes.minimum.max(ASSUMED_BLOCK));
    let physical = sizes.map_or(ASSUMED_PHYSICAL, |sizes| sizes.preferred.max(block_size));
    let most = sizes.map_or(u32::MAX, |sizes| sizes.maximum).min(ring::LARGEST as u32);
    if !block_size.is_power_of_two() || block_size > 1 << 16 || most < block_size {
        return Err(OpenError::Unusable(format!("the block sizes of the export make no sense: {sizes:?}")));
    }
    Ok(Geometry {
        block_size,
        physical_block_size: physical,
        size: export.size - export.size % u64::from(block_size),
        maximum_transfer: most - most % block_size,
        discard: export.flags.contains(TransmissionFlags::SEND_TRIM),
    })
}

async fn connect(ring: &Ring, address: &NbdAddress) -> Result<Socket, OpenError> {
    let path = match address {
        NbdAddress::Inet { host, port } => return Ok(super::reach(ring, host, *port).await?.0),
        NbdAddress::Unix(path) => path,
    };
    let connected = ring.timeout(super::CONNECT_PATIENCE, Socket::connect_unix(ring, path)).await;
    connected.unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into())).map_err(OpenError::Connect)
}
