//! Initiators: one session to a target, used by many tasks of one core at once.

mod file;
pub mod iscsi;
pub mod nbd;
mod null;
pub mod nvme;
mod pool;
mod receive;
mod send_queue;

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use ring::{Buffer, CongestionControl, Ring, Shared, Socket};
use wire::nbd::Errno;
use wire::scsi::{Sense, Status};

pub use file::FileSession;
pub use iscsi::IscsiSession;
pub use nbd::NbdSession;
pub use null::NullSession;
pub use nvme::NvmeSession;
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
            session_id: 0,
            timeout: Duration::from_secs(30),
            null_size: 1 << 40,
        }
    }
}

/// Why a session could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The host has no address.
    #[error("{host} has no address ({source}); hint: check the name, or give an IP address")]
    Resolve {
        /// As it was given.
        host: String,
        /// The resolver's answer.
        #[source]
        source: io::Error,
    },
    /// Nobody listens, or nobody answers.
    #[error("no connection ({0}); hint: start the target with `fels serve`, and check host and port")]
    Connect(#[source] io::Error),
    /// The login did not succeed.
    #[error(transparent)]
    Login(#[from] iscsi::LoginError),
    /// The NBD handshake did not succeed.
    #[error(transparent)]
    Handshake(#[from] nbd::HandshakeError),
    /// No controller could be had.
    #[error(transparent)]
    Nvme(#[from] nvme::ConnectError),
    /// A command at the start failed.
    #[error("{command} at the start of the session: {source}")]
    Start {
        /// The command's name.
        command: &'static str,
        /// Why.
        #[source]
        source: IoError,
    },
    /// The unit is nothing that can be measured.
    #[error("{0}")]
    Unusable(String),
    /// The file.
    #[error("cannot be opened ({0}); hint: {1}")]
    File(#[source] io::Error, &'static str),
    /// A pool of our own.
    #[error(transparent)]
    Pool(#[from] crate::pool::BedError),
}

/// Why an operation failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum IoError {
    /// The connection is gone; everything on it ended with this.
    #[error("{0}")]
    Connection(Arc<str>),
    /// The device server refused, or failed.
    #[error("{}", scsi_sentence(*.status, .sense.as_ref()))]
    Scsi {
        /// SAM-5 status.
        status: u8,
        /// What it says, if it says something.
        sense: Option<Sense>,
    },
    /// The NBD server refused, or failed.
    #[error("the server answered {0}")]
    Nbd(Errno),
    /// The controller refused, or failed.
    #[error("NVMe {status}")]
    Nvme {
        /// Base 2.1 section 4.2.3.
        status: wire::nvme::Status,
        /// Dwords 0 and 1 of the completion.
        result: u64,
    },
    /// A pool in this process said so.
    #[error("{0}")]
    Pool(Arc<plane::Error>),
    /// Task management ended it.
    #[error("the command was aborted")]
    Aborted,
    /// Less was moved than was asked for.
    #[error("{moved} of {wanted} bytes were moved")]
    Short {
        /// Bytes.
        moved: u64,
        /// Bytes.
        wanted: u64,
    },
    /// The operating system refused.
    #[error("{0}")]
    System(Arc<io::Error>),
    /// The target, or its kind, cannot do it.
    #[error("the target does not support {0}")]
    Unsupported(&'static str),
}

impl From<io::Error> for IoError {
    fn from(error: io::Error) -> Self {
        IoError::System(Arc::new(error))
    }
}

impl From<plane::Error> for IoError {
    fn from(error: plane::Error) -> Self {
        IoError::Pool(Arc::new(error))
    }
}

impl IoError {
    /// Nothing on this session will work any more.
    pub fn is_final(&self) -> bool {
        matches!(self, IoError::Connection(_))
    }
}

fn scsi_sentence(status: u8, sense: Option<&Sense>) -> String {
    let name = Status::from_wire(status).map_or_else(|| format!("{status:#04x}"), |s| format!("{s:?}"));
    match sense {
        Some(sense) => format!("SCSI status {name}: {sense}"),
        None => format!("SCSI status {name}"),
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

    /// From now on data of reads is received and forgotten: buffers come back with anything in them. It saves a copy, as one
    /// from the socket is all that a program which waits for its data has.
    pub fn forget_data(&self) {
        match self {
            Session::Iscsi(session) => session.forget_data(),
            Session::Nbd(session) => session.forget_data(),
            Session::Nvme(session) => session.forget_data(),
            // Theirs comes straight into the buffer.
            Session::File(_) | Session::Pool(_) | Session::Null(_) => {}
        }
    }

    /// Writes `data` at `offset`; with `fua` it is on stable media at the end.
    pub async fn write(&self, offset: u64, data: Shared, fua: bool) -> Result<(), IoError> {
        match self {
            Session::Iscsi(session) => session.write(offset, data, fua).await,
            Session::Nbd(session) => session.write(offset, data, fua).await,
            Session::Nvme(session) => session.write(offset, data, fua).await,
            Session::File(session) => session.write(offset, &data, fua).await,
            Session::Pool(session) => session.write(offset, &data, fua).await,
            Session::Null(session) => session.write(data).await,
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

/// The first address of the host; a literal one needs no resolver.
fn resolve(host: &str, port: u16) -> Result<SocketAddr, OpenError> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(SocketAddr::new(address, port));
    }
    let wrong = |source| OpenError::Resolve { host: host.to_owned(), source };
    let mut addresses = (host, port).to_socket_addrs().map_err(wrong)?;
    addresses.next().ok_or_else(|| wrong(io::ErrorKind::NotFound.into()))
}
