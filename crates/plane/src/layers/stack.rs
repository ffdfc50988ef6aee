//! A volume's layers over its disk, on one core, and the one guarded hop between any two of them.

use std::cell::Cell;
use std::time::Duration;

use ring::{Ring, Shared, Soon, Writing};

use crate::disk::Disk;
use crate::error::Error;
use crate::layers::Layer;
use crate::layers::follow::{Book, Followed};
use crate::request::{Completion, Extent, Flags, Geometry, Io, Request, Run, Verb};

/// Where traced requests spent their time at one level, everything below it included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Requests.
    pub requests: u64,
    /// Their time in all.
    pub time: Duration,
}

struct Level {
    layer: Box<dyn Layer>,
    geometry: Geometry,
    spent: Cell<Spent>,
}

/// Layers, top first, over a disk.
pub struct Stack {
    ring: Ring,
    levels: Vec<Level>,
    disk: Box<dyn Disk>,
    disk_geometry: Geometry,
    disk_spent: Cell<Spent>,
    book: Book,
}

impl Stack {
    /// Puts `layers` (top first) over `disk`.
    pub fn new(ring: Ring, layers: Vec<Box<dyn Layer>>, disk: Box<dyn Disk>) -> Stack {
        let disk_geometry = disk.geometry();
        let mut below = disk_geometry;
        let mut levels: Vec<Level> = layers
            .into_iter()
            .rev()
            .map(|layer| {
                below = layer.geometry(below);
                Level { layer, geometry: below, spent: Cell::default() }
            })
            .collect();
        levels.reverse();
        Stack { ring, levels, disk, disk_geometry, disk_spent: Cell::default(), book: Book::default() }
    }

    /// Its reactor.
    pub fn ring(&self) -> &Ring {
        &self.ring
    }

    /// What the whole is.
    pub fn geometry(&self) -> Geometry {
        self.levels.first().map_or(self.disk_geometry, |level| level.geometry)
    }

    /// A request for `extent` is about to come. Only a hint, which no layer passes on: below it bytes may be elsewhere.
    pub fn expect(&self, verb: Verb, extent: Extent, soon: Soon) {
        if self.levels.is_empty() {
            self.disk.expect(verb, extent, soon);
        }
    }

    /// The bytes of `extent` as they are now, where a disk without layers can lend them. What lies outside is not lent.
    pub fn lend(&self, extent: Extent) -> Option<Shared> {
        if self.levels.is_empty() { self.disk.lend(extent) } else { None }
    }

    /// Whether [`Stack::absorb`] and [`Stack::lend`] are worth a try.
    pub fn is_prompt(&self) -> bool {
        self.levels.is_empty() && self.disk.is_prompt()
    }

    /// Whether requests wait for their turn within limits.
    pub fn is_limited(&self) -> bool {
        self.levels.iter().any(|level| level.layer.name() == super::limit::NAME)
    }

    /// Writes these pieces to `extent` at once, where a disk without layers can: they are there when what it gives is dropped.
    /// The hop's checks are made; `None`: nothing was written, and a request will do it or tell why not.
    pub fn absorb(&self, extent: Extent, pieces: &[&[u8]]) -> Option<Writing> {
        let bytes = pieces.iter().map(|piece| piece.len()).sum();
        let fits = self.is_prompt() && self.disk_geometry.check_parts(Verb::Write, extent, bytes).is_ok();
        if fits { self.disk.absorb(extent, pieces) } else { None }
    }

    /// Sends a request in at the top.
    pub fn submit(&self, request: Request) -> Io<'_> {
        Next { stack: self, depth: 0 }.submit(request)
    }

    /// See [`Layer::allocation`].
    pub fn allocation(&self, extent: Extent) -> Result<Run, Error> {
        Next { stack: self, depth: 0 }.allocation(extent)
    }

    /// The time of traced requests by level, top first, the disk last.
    pub fn spent(&self) -> impl Iterator<Item = (&'static str, Spent)> {
        let levels = self.levels.iter().map(|level| (level.layer.name(), level.spent.get()));
        levels.chain([("disk", self.disk_spent.get())])
    }

    /// The same requests by how long they took.
    pub fn followed(&self) -> Followed {
        self.book.followed()
    }
}

/// The rest of a stack below some layer.
#[derive(Clone, Copy)]
pub struct Next<'a> {
    stack: &'a Stack,
    depth: usize,
}

impl<'a> Next<'a> {
    /// The hop: checks range, buffer and capability, then enters the next layer or the disk.
    pub fn submit(self, request: Request) -> Io<'a> {
        if let Err(error) = self.geometry().check(&request) {
            return Io::ready(request.failed(error));
        }
        if request.flags.contains(Flags::TRACED) {
            return self.traced(request);
        }
        self.enter(request)
    }

    /// What is below.
    pub fn geometry(self) -> Geometry {
        self.stack.levels.get(self.depth).map_or(self.stack.disk_geometry, |level| level.geometry)
    }

    /// See [`Layer::allocation`].
    pub fn allocation(self, extent: Extent) -> Result<Run, Error> {
        match self.stack.levels.get(self.depth) {
            Some(level) => level.layer.allocation(extent, self.below()),
            None => self.stack.disk.allocation(extent),
        }
    }

    fn below(self) -> Next<'a> {
        Next { stack: self.stack, depth: self.depth + 1 }
    }

    fn enter(self, request: Request) -> Io<'a> {
        let Some(level) = self.stack.levels.get(self.depth) else {
            return self.stack.disk.submit(request);
        };
        match request.verb {
            Verb::Read => level.layer.read(request, self.below()),
            Verb::Write => level.layer.write(request, self.below()),
            Verb::Flush => level.layer.flush(request, self.below()),
            Verb::Discard => level.layer.discard(request, self.below()),
            Verb::WriteZeroes => level.layer.write_zeroes(request, self.below()),
        }
    }

    fn traced(self, mut request: Request) -> Io<'a> {
        let book = &self.stack.book;
        let slot = if self.depth == 0 {
            let slot = book.open(self.stack.levels.len() + 1);
            request.flags -= Flags::TRACED | Flags::SLOT;
            let Some(slot) = slot else { return self.enter(request) };
            request.flags |= slot.flags();
            Some(slot)
        } else {
            None
        };
        Io::pending(async move {
            let start = self.stack.ring.now();
            let flags = request.flags;
            let completion: Completion = self.enter(request).await;
            let time = self.stack.ring.now().since(start);
            let cell = self.stack.levels.get(self.depth).map_or(&self.stack.disk_spent, |level| &level.spent);
            let mut spent = cell.get();
            spent.requests += 1;
            spent.time += time;
            cell.set(spent);
            match slot {
                Some(slot) => slot.end(time),
                None => book.add(flags, self.depth, time),
            }
            completion
        })
    }
}
