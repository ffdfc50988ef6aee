//! Initiators: one session to a target, used by many tasks of one core at once.

mod error;
mod file;
pub mod iscsi;
pub mod nbd;
mod null;
pub mod nvme;
mod operation;
mod pool;
mod receive;
mod send_queue;
mod table;

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::time::Duration;

use ring::{Buffer, CongestionControl, Instant, Ring, Shared, Socket};

pub use error::{Cause, IoError, OpenError};
pub use file::FileSession;
pub use iscsi::IscsiSession;
pub use nbd::NbdSession;
pub use null::NullSession;
pub use nvme::NvmeSession;
pub use operation::Operation;
pub use pool::PoolSession;

use crate::target::Target;

/// What a target is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes of a logical block: offsets and lengths are multiples of it.
    pub block_size: u32,
    /// Bytes of a physical block.
    pub physical_block_size: u32,
    /// Bytes in all.
    pub size: u64,
    /// Most bytes of one read or write.
    pub maximum_transfer: u32,
    /// Discards are carried out.
    pub discard: bool,
}

/// How a session is opened.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// Ask for header digests.
    pub header_digest: bool,
    /// Ask for data digests.
    pub data_digest: bool,
    /// iSCSI: how the data of writes is to be sent.
    pub wishes: iscsi::Wishes,
    /// iSCSI: the name of this initiator.
    pub initiator_name: String,
    /// NVMe: the NQN of this host.
    pub host_nqn: String,
    /// NVMe: commands that are to be in flight at once; an I/O queue has one entry more.
    pub depth: u32,
    /// NVMe: bytes of data in one H2CData at most, a multiple of 4, where the controller takes more.
    pub data_pdu: u32,
    /// NVMe: bytes of data that go along with a command at most, where the controller takes more; it asks for the others.
    pub in_capsule: u32,
    /// NVMe: do without the flow control of queues; a successful read needs no completion of its own then.
    pub without_flow_control: bool,
    /// Distinguishes sessions of one initiator; from the run's seed.
    pub session_id: u64,
    /// How long a command may take before its connection is given up.
    pub timeout: Duration,
    /// Bytes of `null:`.
    pub null_size: u64,
}

impl Default for OpenOptions {
    fn default() -> Self {
        OpenOptions {
            header_digest: false,
            data_digest: false,
            wishes: iscsi::Wishes::default(),
            initiator_name: "iqn.2026-11.internal.fels:lab".to_owned(),
            host_nqn: "nqn.2026-11.internal.fels:lab".to_owned(),
            depth: 128,
            data_pdu: u32::MAX,
            in_capsule: u32::MAX,
            without_flow_control: false,
            session_id: 0,
            timeout: Duration::from_secs(30),
            null_size: 1 << 40,
        }
    }
}

/// One session. Clones share it.
#[derive(Clone)]
pub enum Session {
    /// iSCSI.
    Iscsi(IscsiSession),
    /// Over TCP or a unix socket.
    Nbd(NbdSession),
    /// NVMe/TCP.
    Nvme(NvmeSession),
    /// Of this machine.
    File(FileSession),
    /// Of this process.
    Pool(PoolSession),
    /// Nothing.
    Null(NullSession),
}

impl Session {
    /// Opens a session to `target`: for iSCSI a login, until the unit is ready; for NVMe a controller of our own.
    pub async fn open(ring: &Ring, target: &Target, options: &OpenOptions) -> Result<Session, OpenError> {
        Ok(match target {
            Target::Iscsi(target) => Session::Iscsi(IscsiSession::open(ring, target, options).await?),
            Target::Nbd(target) => Session::Nbd(NbdSession::open(ring, target, options).await?),
            Target::Nvme(target) => Session::Nvme(NvmeSession::open(ring, target, options).await?),
            Target::File(path) => Session::File(FileSession::open(ring, path)?),
            Target::Pool(pool) => Session::Pool(PoolSession::open(ring, pool).await?),
            Target::Null => Session::Null(NullSession::new(ring, options.null_size)),
        })
    }

    /// What the target is like.
    pub fn geometry(&self) -> Geometry {
        match self {
            Session::Iscsi(session) => session.geometry(),
            Session::Nbd(session) => session.geometry(),
            Session::Nvme(session) => session.geometry(),
            Session::File(session) => session.geometry(),
            Session::Pool(session) => session.geometry(),
            Session::Null(session) => session.geometry(),
        }
    }

    /// Fills the buffer from `offset`. After an error the buffer may be another one, or empty.
    pub async fn read(&self, offset: u64, buffer: Buffer) -> (Result<(), IoError>, Buffer) {
        match self {
            Session::Iscsi(session) => session.read(offset, buffer).await,
            Session::Nbd(session) => session.read(offset, buffer).await,
            Session::Nvme(session) => session.read(offset, buffer).await,
            Session::File(session) => session.read(offset, buffer).await,
            Session::Pool(session) => session.read(offset, buffer).await,
            Session::Null(session) => session.read(buffer).await,
        }
    }

    /// Reads `length` bytes that nobody will look at.
    pub fn read_unseen(&self, offset: u64, length: usize) -> Operation<'_> {
        match self {
            Session::Iscsi(session) => session.read_unseen(offset, length),
            Session::Nbd(session) => session.read_unseen(offset, length),
            Session::Nvme(session) => session.read_unseen(offset, length),
            Session::Null(_) => Operation::nothing(),
            // Not by `read` of this one, whose future has room for those of all kinds.
            Session::File(session) => {
                Operation::later(async move { session.read(offset, Buffer::new(length)).await.0 })
            }
            Session::Pool(session) => {
                Operation::later(async move { session.read(offset, Buffer::new(length)).await.0 })
            }
        }
    }

    /// Writes `data` at `offset`; with `fua` it is on stable media at the end.
    pub fn write(&self, offset: u64, data: Shared, fua: bool) -> Operation<'_> {
        match self {
            Session::Iscsi(session) => session.write(offset, data, fua),
            Session::Nbd(session) => session.write(offset, data, fua),
            Session::Nvme(session) => session.write(offset, data, fua),
            Session::Null(_) => Operation::nothing(),
            Session::File(session) => Operation::later(session.write(offset, data, fua)),
            Session::Pool(session) => Operation::later(session.write(offset, data, fua)),
        }
    }

    /// When the answer came of the operation that has ended just now, by the clock of the turn that begins with its bytes in this
    /// process: answers that come together have waited for one another in here only.
    pub fn heard(&self) -> Instant {
        match self {
            Session::Iscsi(session) => session.heard(),
            Session::Nbd(session) => session.heard(),
            Session::Nvme(session) => session.heard(),
            Session::File(session) => session.heard(),
            Session::Pool(session) => session.heard(),
            Session::Null(session) => session.heard(),
        }
    }

    /// Everything acknowledged before is on stable media afterwards.
    pub async fn flush(&self) -> Result<(), IoError> {
        match self {
            Session::Iscsi(session) => session.flush().await,
            Session::Nbd(session) => session.flush().await,
            Session::Nvme(session) => session.flush().await,
            Session::File(session) => session.flush().await,
            Session::Pool(session) => session.flush().await,
            Session::Null(session) => session.flush().await,
        }
    }

    /// Gives the space of `length` bytes back.
    pub async fn discard(&self, offset: u64, length: u64) -> Result<(), IoError> {
        match self {
            Session::Iscsi(session) => session.discard(offset, length).await,
            Session::Nbd(session) => session.discard(offset, length).await,
            Session::Nvme(session) => session.discard(offset, length).await,
            Session::File(session) => session.discard(offset, length).await,
            Session::Pool(session) => session.discard(offset, length).await,
            Session::Null(session) => session.flush().await,
        }
    }

    /// Operations that were sent again: unit attentions, a busy target.
    pub fn retries(&self) -> u64 {
        match self {
            Session::Iscsi(session) => session.retries(),
            Session::Nvme(session) => session.retries(),
            _ => 0,
        }
    }

    /// While nothing is in flight: how many commands the target takes at once, where it says so. Of more, those beyond wait in
    /// the lab.
    pub fn room(&self) -> Option<u32> {
        match self {
            Session::Iscsi(session) => Some(session.room()),
            Session::Nvme(session) => Some(session.room()),
            _ => None,
        }
    }

    /// Why the session is gone, if it is.
    pub fn lost(&self) -> Option<String> {
        match self {
            Session::Iscsi(session) => session.lost(),
            Session::Nbd(session) => session.lost(),
            Session::Nvme(session) => session.lost(),
            Session::File(_) | Session::Pool(_) | Session::Null(_) => None,
        }
    }

    /// Leaves in good order. Nothing may be in flight.
    pub async fn close(&self) {
        match self {
            Session::Iscsi(session) => session.logout().await,
            Session::Nbd(session) => session.close().await,
            Session::Nvme(session) => session.shut_down().await,
            Session::Pool(session) => session.close().await,
            Session::File(_) | Session::Null(_) => {}
        }
    }
}

/// How long a connection may take to be made.
const CONNECT_PATIENCE: Duration = Duration::from_secs(10);

async fn connect(ring: &Ring, address: SocketAddr) -> Result<Socket, OpenError> {
    let connected = ring.timeout(CONNECT_PATIENCE, Socket::connect(ring, address)).await;
    let socket =
        connected.unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into())).map_err(OpenError::Connect)?;
    // As the target does for its side; who cannot sends as the host usually does.
    socket.set_congestion_control(&CongestionControl::Auto).ok();
    Ok(socket)
}

/// Connects to a host: to the first of its addresses that takes the connection. Says which that was, for further ones.
async fn reach(ring: &Ring, host: &str, port: u16) -> Result<(Socket, SocketAddr), OpenError> {
    first_of(ring, resolve(host, port)?).await
}

async fn first_of(ring: &Ring, addresses: Vec<SocketAddr>) -> Result<(Socket, SocketAddr), OpenError> {
    let mut refused = OpenError::Connect(io::ErrorKind::NotFound.into());
    for address in addresses {
        match connect(ring, address).await {
            Ok(socket) => return Ok((socket, address)),
            Err(error) => refused = error,
        }
    }
    Err(refused)
}

/// The addresses of the host; a literal one needs no resolver. There may be some that the target does not listen on: of
/// `localhost` that of IPv6 often comes first.
fn resolve(host: &str, port: u16) -> Result<Vec<SocketAddr>, OpenError> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    let wrong = |source| OpenError::Resolve { host: host.to_owned(), source };
    let addresses: Vec<_> = (host, port).to_socket_addrs().map_err(wrong)?.collect();
    if addresses.is_empty() { Err(wrong(io::ErrorKind::NotFound.into())) } else { Ok(addresses) }
}

#[cfg(test)]
mod tests;
