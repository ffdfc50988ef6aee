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

use ring::{Buffer, Ring, Shared, Socket};
use wire::nbd::{Command, CommandFlags, TransmissionFlags};

pub use handshake::HandshakeError;

use super::{Geometry, IoError, OpenError, OpenOptions};
use crate::target::{NbdAddress, NbdTarget};
use connection::{Inner, Transfer};
use handshake::Export;

/// Bytes of one trim; lengths on the wire have 32 bits.
const TRIM_BYTES: u64 = 1 << 30;
/// What a server is assumed to take that names no block sizes, in bytes (section "Block size constraints").
const ASSUMED_BLOCK: u32 = 512;
const ASSUMED_PHYSICAL: u32 = 4096;

/// A connection to one export. Clones share it; when the last one goes, so does the connection.
#[derive(Clone)]
pub struct NbdSession(Rc<Owner>);

struct Owner {
    inner: Rc<Inner>,
    export: Export,
    geometry: Geometry,
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.inner.fail("the session was dropped");
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

    /// See [`super::Session::forget_data`].
    pub fn forget_data(&self) {
        self.0.inner.forgets.set(true);
    }

    /// `NBD_CMD_READ`.
    pub async fn read(&self, offset: u64, buffer: Buffer) -> (Result<(), IoError>, Buffer) {
        let length = buffer.len() as u32;
        let finished = self
            .0
            .inner
            .request(Command::READ, CommandFlags::empty(), offset, length, Transfer::In(buffer))
            .await;
        (finished.result, finished.buffer)
    }

    /// `NBD_CMD_WRITE`.
    pub async fn write(&self, offset: u64, data: Shared, fua: bool) -> Result<(), IoError> {
        let flags = self.durability(fua);
        let length = data.len() as u32;
        let written = self.0.inner.request(Command::WRITE, flags, offset, length, Transfer::Out(data)).await;
        written.result?;
        self.flush_after(fua, flags).await
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
            return Err(IoError::Unsupported("NBD_CMD_TRIM"));
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
            return Err(IoError::Unsupported("NBD_CMD_WRITE_ZEROES"));
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
        self.0.inner.request(command, flags, offset, length, Transfer::Nothing).await.result
    }

    fn durability(&self, fua: bool) -> CommandFlags {
        let known = self.flags().contains(TransmissionFlags::SEND_FUA);
        if fua && known { CommandFlags::FUA } else { CommandFlags::empty() }
    }

    /// A server without FUA is asked to flush instead.
    async fn flush_after(&self, fua: bool, flags: CommandFlags) -> Result<(), IoError> {
        if fua && flags.is_empty() { self.flush().await } else { Ok(()) }
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
        NbdAddress::Inet { host, port } => return super::connect(ring, super::resolve(host, *port)?).await,
        NbdAddress::Unix(path) => path,
    };
    let connected = ring.timeout(super::CONNECT_PATIENCE, Socket::connect_unix(ring, path)).await;
    connected.unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into())).map_err(OpenError::Connect)
}
