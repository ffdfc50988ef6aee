//! How many I/O queues each core serves, by which the core of a new connection is chosen.
//!
//! In turn alone would not do: a host with one I/O queue connects an admin queue before it, so that on two cores all
//! I/O queues of all hosts would come to the same one. What kind of queue a connection becomes is told by its Connect
//! command, so it counts as an I/O queue until then.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::node::Node;
use crate::limits::SHARDS;

/// I/O queues of each core, those that connections may become included.
pub struct Seats([AtomicUsize; SHARDS]);

impl Default for Seats {
    fn default() -> Self {
        Seats([const { AtomicUsize::new(0) }; SHARDS])
    }
}

impl Seats {
    /// Takes a seat on the one of `cores` with the fewest queues, of those the next after `last`. Give it to [`Taken`]
    /// there.
    pub fn choose(&self, cores: usize, last: usize) -> usize {
        let load = |core: &usize| self.0[*core % SHARDS].load(Ordering::Relaxed);
        let after = (1..=cores).map(|step| (last + step) % cores);
        let core = after.min_by_key(load).unwrap_or(0);
        self.0[core % SHARDS].fetch_add(1, Ordering::Relaxed);
        core
    }
}

/// A seat on a core, free again when this is dropped.
pub struct Taken {
    node: Arc<Node>,
    core: usize,
}

impl Taken {
    /// The seat that [`Seats::choose`] took.
    pub fn new(node: &Arc<Node>, core: usize) -> Taken {
        Taken { node: node.clone(), core }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.node.seats().0[self.core % SHARDS].fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_core_with_the_fewest_queues_is_next_and_otherwise_the_next_in_turn() {
        let node = Node::new(Vec::new());
        let mut last = 0;
        let mut next = || {
            last = node.seats().choose(3, last);
            (last, Taken::new(&node, last))
        };
        let taken: Vec<_> = (0..7).map(|_| next()).collect();
        assert_eq!(taken.iter().map(|(core, _)| *core).collect::<Vec<_>>(), [1, 2, 0, 1, 2, 0, 1]);
        let left: Vec<_> =
            taken.into_iter().enumerate().filter(|(index, _)| ![0, 3].contains(index)).collect();
        assert_eq!(next().0, 1, "two of its three have gone");
        drop(left);
    }
}
