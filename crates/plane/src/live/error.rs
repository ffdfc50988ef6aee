//! Why what a node serves cannot be changed. Sentences for people, with a hint.

use std::path::PathBuf;

use crate::pool::PoolError;
use crate::portals::ListenError;
use crate::session::nvme::OfferError;
use crate::volume::OpenError;

/// Why a volume does not come, change or go.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// Its bytes.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A pool cannot be opened.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// There is an open pool of that name.
    #[error("pool {pool} is open already; hint: take another name")]
    PoolExists {
        /// Which.
        pool: String,
    },
    /// There is no such pool.
    #[error("pool {pool} is not open; hint: `fels pool status` has all of them")]
    NoPool {
        /// Which.
        pool: String,
    },
    /// It is needed.
    #[error(
        "pool {pool} has the volume {volume}, which is served; hint: switch the volume off first, or delete it"
    )]
    PoolInUse {
        /// Which.
        pool: String,
        /// One of those that it has.
        volume: String,
    },
    /// It is busy.
    #[error(
        "pool {pool} is destroying the bytes of the volume {volume}; hint: wait for that (`fels job list`)"
    )]
    PoolDestroys {
        /// Which.
        pool: String,
        /// One of those that it had.
        volume: String,
    },
    /// It did not come to its end.
    #[error("pool {pool} cannot be closed now: {why}; hint: look at its members, and try again")]
    PoolBusy {
        /// Which.
        pool: String,
        /// What keeps it open.
        why: String,
    },
    /// Where is to be listened.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// There is one of that name.
    #[error("there is a volume {volume} already; hint: take another name")]
    Exists {
        /// Which.
        volume: String,
    },
    /// There is none of that name.
    #[error("there is no volume {volume}; hint: `fels volume list` has all of them")]
    Missing {
        /// Which.
        volume: String,
    },
    /// Something about it is for ever.
    #[error("{what} of the volume {volume} cannot be changed; hint: make another volume and copy it")]
    Fixed {
        /// Which.
        volume: String,
        /// What was to be changed.
        what: &'static str,
    },
    /// Another namespace has its number.
    #[error(
        "{volume} cannot be the namespace {nsid}, which is {other} by now; hint: give {other} another number first, or take another one"
    )]
    Number {
        /// Which volume.
        volume: String,
        /// The number that it was to have.
        nsid: u32,
        /// Whose number that is.
        other: String,
    },
    /// It would lose bytes.
    #[error(
        "the volume {volume} has {is} bytes and cannot be made smaller, to {wanted}; hint: what initiators have at its end would be lost"
    )]
    Smaller {
        /// Which.
        volume: String,
        /// Its size.
        is: u64,
        /// What was wished.
        wanted: u64,
    },
    /// It is out of service, but not closed.
    #[error(
        "requests of the volume {volume} are still under way; hint: it is offered to nobody any more; look at its disk, and try again"
    )]
    Busy {
        /// Which.
        volume: String,
    },
    /// It cannot be changed now.
    #[error(
        "requests of the volume {volume} do not come to their end; hint: nothing was changed; look at its disk, and try again"
    )]
    Held {
        /// Which.
        volume: String,
    },
    /// Another change does not come to its end.
    #[error(
        "another change of volumes does not come to its end; hint: look at the disks, and try again; if one of them is dead, start the node again"
    )]
    Occupied,
    /// It is closed, and what was acknowledged may be lost.
    #[error("the volume {volume} was closed, but not made durable: {source}; hint: look at its disk")]
    Flush {
        /// Which.
        volume: String,
        /// Why.
        source: crate::Error,
    },
    /// Its rows are still its own.
    #[error(
        "the bytes of a volume {volume} are still being destroyed; hint: wait for that (`fels job list`), or take another name"
    )]
    Destroyed {
        /// Which.
        volume: String,
    },
    /// Its file is still there.
    #[error("{path} cannot be removed: {source}; hint: remove it by hand", path = path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// NVMe has no room for it.
    #[error("{0}; hint: put it into another `subsystem`")]
    Nvme(#[from] OfferError),
    /// The node is not complete, or ends.
    #[error("{protocol} is not served; hint: the node is stopping")]
    Protocol {
        /// Which.
        protocol: &'static str,
    },
}
