//! The section `[munin]`.

use super::error::Problems;
use super::key::Key;
use super::portal::{self, ReadPortals};
use super::table::Value;
use std::net::SocketAddr;
use std::ops::Range;

/// Where masters look for a node.
const PORT: u16 = 4949;

pub(super) const KEYS: &[Key] = &[Key {
    name: "listen",
    takes: "`\"address:port\"` on loopback, or a list of them",
    default: "`\"127.0.0.1:4949\"`",
    says: "Where masters of Munin poll the node.",
}];

/// Where masters of Munin poll the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Munin {
    /// Where it listens; port 0 where the kernel is to choose.
    pub listen: Vec<SocketAddr>,
}

/// The section with the places that later checks point to.
#[derive(Debug)]
pub(super) struct ReadMunin {
    pub munin: Munin,
    /// One for each portal; empty when the default holds.
    pub listen_spans: Vec<Range<usize>>,
}

impl ReadMunin {
    /// The portals that the file names, each with its place.
    pub fn portals(&self) -> impl Iterator<Item = (&SocketAddr, &Range<usize>)> {
        self.munin.listen.iter().zip(&self.listen_spans)
    }
}

/// `None` without the section: nobody is listened to who was not asked for.
pub(super) fn read(problems: &mut Problems<'_>, value: Option<Value<'_>>) -> Option<ReadMunin> {
    let table = value?.table(problems, "a section", "in [munin]", KEYS)?;
    let hint = "one address is enough for all masters of this machine";
    let ReadPortals { listen, spans } = portal::one_or_several(problems, &table, PORT, hint);
    Some(ReadMunin { munin: Munin { listen }, listen_spans: spans })
}
