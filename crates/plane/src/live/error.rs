//! Why what a node serves cannot be changed. Sentences for people, with a hint.

use std::path::PathBuf;

use crate::session::nvme::OfferError;
use crate::volume::OpenError;

/// Why a volume does not come, change or go.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// Its bytes.
    #[error(transparent)]
    Open(#[from] OpenError),
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
        "the volume {volume} is out of service, but not erased: {source}; hint: look at its pool, and try again"
    )]
    Erase {
        /// Which.
        volume: String,
        /// Why.
        source: crate::Error,
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
