//! A machine of a world: its reactors, its disk, its accidents.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::path::Path;
use std::rc::{Rc, Weak};
use std::time::Duration;

use super::disk::{Disk, DiskFile};
use super::driver::Driver as Simulated;
use super::network::{FIRST_PORT, address_of};
use super::state::{NodeState, ReactorState, random};
use super::world::World;
use crate::driver::Driver;
use crate::remote::Remote;
use crate::ring::{Options, Reactor};
use crate::task::Executor;

/// A machine: processes come and go, its disk stays. Clones are handles to the same one.
#[derive(Clone)]
pub struct Node {
    world: World,
    index: usize,
}

impl Node {
    pub(super) fn find_or_make(world: &World, name: &str) -> Node {
        let index = world.with(|state| {
            if let Some(found) = state.nodes.iter().position(|node| node.name == name) {
                return found;
            }
            let of = |purpose: &str| random(state.seed, &format!("{purpose} {name}"));
            state.nodes.push(NodeState {
                name: name.to_owned(),
                down: false,
                next_port: FIRST_PORT,
                disk: Disk::new(of("disk"), of("fault")),
                network_random: of("network"),
            });
            state.nodes.len() - 1
        });
        Node { world: world.clone(), index }
    }

    pub(super) fn index(&self) -> usize {
        self.index
    }

    pub(super) fn world(&self) -> &World {
        &self.world
    }

    /// Where the node is reached from others; from itself also at 127.0.0.1 or ::1.
    pub fn address(&self) -> IpAddr {
        address_of(self.index).into()
    }

    /// The node's address with a port.
    pub fn at(&self, port: u16) -> SocketAddr {
        SocketAddr::new(self.address(), port)
    }

    /// Starts a reactor with the usual options: a shard of the node's process. After a [`Node::kill`] or
    /// [`Node::power_cut`] this is the restart.
    pub fn reactor(&self) -> Reactor {
        self.reactor_with(&Options::default())
    }

    /// Starts a reactor; of `options` only the size of receive buffers matters.
    pub fn reactor_with(&self, options: &Options) -> Reactor {
        let (id, remote) = Remote::register(None);
        let reactor = self.add_reactor(options);
        let driver = Driver::Simulated(Simulated::new(self.world.clone(), self.index, reactor));
        let made = Reactor::with_driver(Executor::new(id, remote), driver, Duration::ZERO);
        let inner = Rc::downgrade(&made.ring().0);
        self.world.with(|state| state.reactors[reactor].inner = inner);
        made
    }

    /// A place for what is in flight, which has no turns yet.
    pub(super) fn add_reactor(&self, options: &Options) -> usize {
        self.world.with(|state| {
            if std::mem::replace(&mut state.nodes[self.index].down, false) {
                state.release_held();
            }
            state.reactors.push(ReactorState {
                node: self.index,
                inner: Weak::new(),
                alive: true,
                completions: VecDeque::new(),
                chunks: BTreeMap::new(),
                next_chunk: 0,
                receive_bytes: options.receive_buffer_bytes,
            });
            state.note("reactor", self.index as u64, 0);
            state.reactors.len() - 1
        })
    }

    /// `kill -9` of the node's process: its reactors do nothing more (drop them), its connections are reset, its
    /// locks released. What was written stays; writes in flight are there, or not, or in part.
    pub fn kill(&self) {
        self.end_processes(false);
    }

    /// The power goes: as [`Node::kill`], but peers hear nothing, and of what was not flushed each sector is kept
    /// or lost on its own; of what was in flight too. A new reactor brings the power back.
    pub fn power_cut(&self) {
        self.end_processes(true);
    }

    fn end_processes(&self, power: bool) {
        self.world.with(|state| {
            state.note(if power { "power cut" } else { "kill" }, self.index as u64, 0);
            let objects = state.take_processes(self.index);
            if power {
                state.nodes[self.index].down = true;
            } else {
                state.reset_peers(objects);
            }
            let tearing = state.tearing();
            state.nodes[self.index].disk.interrupt(tearing, power);
        });
    }

    /// Reads that touch `bytes` of the file fail with EIO.
    pub fn fail_reads(&self, path: &Path, bytes: Range<u64>) {
        self.with_file(path, |file| file.faults.reads.push(bytes));
    }

    /// Writes, punches and zeroings that touch `bytes` of the file fail with EIO.
    pub fn fail_writes(&self, path: &Path, bytes: Range<u64>) {
        self.with_file(path, |file| file.faults.writes.push(bytes));
    }

    /// Flushes of the file fail with EIO. As on Linux, what they should have made durable then reads well, is not
    /// flushed by later ones, and is gone after a power cut.
    pub fn fail_flushes(&self, path: &Path) {
        self.with_file(path, |file| file.faults.flushes = true);
    }

    /// Ends the errors of [`Node::fail_reads`], [`Node::fail_writes`] and [`Node::fail_flushes`].
    pub fn repair(&self, path: &Path) {
        self.with_file(path, |file| {
            let stalled = file.faults.stalled;
            file.faults = super::disk::Faults { stalled, ..Default::default() };
        });
    }

    /// Operations on the file do not end until [`Node::release`].
    pub fn stall(&self, path: &Path) {
        self.set_stalled(path, true);
    }

    /// Undoes [`Node::stall`].
    pub fn release(&self, path: &Path) {
        self.set_stalled(path, false);
    }

    fn set_stalled(&self, path: &Path, stalled: bool) {
        self.world.with(|state| {
            let file = state.nodes[self.index].disk.make(path);
            state.stall(self.index, file, stalled);
        });
    }

    /// Bytes of space on the node's disk, in units of 4 KiB; `None` without a limit. What is written beyond fails
    /// with ENOSPC, or is written in part.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.world.with(|state| state.nodes[self.index].disk.capacity = bytes);
    }

    /// Turns over one bit of the file at `offset`, as a disk does that lies. False when there is a hole.
    pub fn flip_bit(&self, path: &Path, offset: u64, bit: u8) -> bool {
        self.with_file(path, |file| file.content.flip(offset, bit))
    }

    /// Puts a file of the given bytes on the disk, durable, in place of what was there.
    pub fn put_file(&self, path: &Path, bytes: &[u8]) {
        self.with_file(path, |file| {
            file.content.set_length(0);
            file.content.write(0, bytes);
            file.content.flush_all();
        });
    }

    /// What reads of the file see now, up to its end; `None` when there is no such file.
    pub fn file_bytes(&self, path: &Path, offset: u64, length: usize) -> Option<Vec<u8>> {
        self.world.with(|state| {
            let disk = &state.nodes[self.index].disk;
            disk.find(path).map(|file| disk.files[file].content.read(offset, length))
        })
    }

    /// Takes the file's name away. Who has it open keeps it.
    pub fn remove_file(&self, path: &Path) -> io::Result<()> {
        let removed = self.world.with(|state| state.nodes[self.index].disk.remove(path));
        if removed { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
    }

    /// Looks into a file, which is made when it is missing.
    fn with_file<T>(&self, path: &Path, look: impl FnOnce(&mut DiskFile) -> T) -> T {
        self.world.with(|state| {
            let disk = &mut state.nodes[self.index].disk;
            let file = disk.make(path);
            look(&mut disk.files[file])
        })
    }
}
