//! Pools that the lab makes for itself: to compare levels, checksums and kinds of members without a node and a network.

mod bed;
mod spec;

pub use bed::{Bed, BedError, OpenPool};
pub use spec::{FORM, Members, PoolSpec};

use std::fmt;
use std::sync::Arc;

/// A pool as a target. Clones are the same pool.
#[derive(Clone)]
pub struct PoolTarget(Arc<Bed>);

impl PoolTarget {
    /// A pool of its own.
    pub fn new(spec: PoolSpec) -> PoolTarget {
        PoolTarget(Arc::new(Bed::new(spec)))
    }

    /// What it is.
    pub fn spec(&self) -> &PoolSpec {
        self.0.spec()
    }

    /// Its members.
    pub fn bed(&self) -> &Arc<Bed> {
        &self.0
    }
}

impl PartialEq for PoolTarget {
    fn eq(&self, other: &PoolTarget) -> bool {
        self.spec() == other.spec()
    }
}

impl Eq for PoolTarget {}

impl fmt::Debug for PoolTarget {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "PoolTarget({})", self.spec())
    }
}

#[cfg(test)]
mod tests;
