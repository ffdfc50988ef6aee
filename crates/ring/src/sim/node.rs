//! A machine of a world: its reactors, its disk, its accidents.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::rc::{Rc, Weak};
use std::time::Duration;

use super::content::Content;
use super::disk::{Disk, DiskFile};
use super::driver::Driver as Simulated;
use super::network::{FIRST_PORT, address_of};
use super::receive_buffers::ReceiveBuffers;
use super::state::{NodeState, ReactorState, random};
use super::world::World;
use crate::driver::Driver;
use crate::patience::BusyPoll;
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

    /// Starts a reactor; of `options` only the receive buffers matter.
    pub fn reactor_with(&self, options: &Options) -> Reactor {
        let (id, remote) = Remote::register(None);
        let reactor = self.add_reactor(options);
        let driver = Driver::Simulated(Simulated::new(self.world.clone(), self.index, reactor));
        let made = Reactor::with_driver(Executor::new(id, remote), driver, BusyPoll::Most(Duration::ZERO));
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
                naps_until: 0,
                chunks: BTreeMap::new(),
                next_chunk: 0,
                receive_buffers: ReceiveBuffers::new(options.receive_buffers, options.receive_buffer_bytes),
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

    /// Bytes of space on the node's disk, in units of 4 KiB; `None` without a limit. What is written beyond fails
    /// with ENOSPC, or is written in part.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.world.with(|state| state.nodes[self.index].disk.capacity = bytes);
    }

    /// Puts a file of the given bytes on the disk, durable, in place of what was there.
    pub fn put_file(&self, path: &Path, bytes: &[u8]) {
        let put = |content: &mut Content| {
            content.set_length(0);
            content.write(0, bytes);
            content.flush_all();
        };
        self.with_file(path, |file, sector| {
            file.medium.change(put);
            file.faults.written(0..u64::MAX, sector);
        });
    }

    /// Puts what reads of `from` see now, holes and damage too, on the disk as `to`, durable, in place of what was there.
    /// What is planted in the two files stays where it is.
    pub fn copy_file(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.world.with(|state| {
            let sector = state.settings.sector_bytes;
            let disk = &mut state.nodes[self.index].disk;
            let from = disk.find(from).ok_or(io::ErrorKind::NotFound)?;
            let to = disk.make(to);
            // A flush that was begun before it has nothing to do with what comes after it.
            let sequence = disk.files[to].medium.content().sequence() + 1;
            disk.files[to].medium = disk.files[from].medium.copy(sequence);
            disk.files[to].faults.written(0..u64::MAX, sector);
            Ok(())
        })
    }

    /// Bytes in the file, as reads see it now; `None` when there is no such file.
    pub fn file_length(&self, path: &Path) -> Option<u64> {
        self.look(path, |file, _| file.medium.content().length())
    }

    /// What reads of the file see now, up to its end; `None` when there is no such file.
    pub fn file_bytes(&self, path: &Path, offset: u64, length: usize) -> Option<Vec<u8>> {
        self.look(path, |file, _| file.medium.content().read(offset, length))
    }

    /// Takes the file's name away. Who has it open keeps it.
    pub fn remove_file(&self, path: &Path) -> io::Result<()> {
        let removed = self.world.with(|state| state.nodes[self.index].disk.remove(path));
        if removed { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
    }

    /// Looks into a file if there is one; told the bytes of a sector too.
    pub(super) fn look<T>(&self, path: &Path, look: impl FnOnce(&DiskFile, usize) -> T) -> Option<T> {
        self.world.with(|state| {
            let disk = &state.nodes[self.index].disk;
            disk.find(path).map(|file| look(&disk.files[file], state.settings.sector_bytes))
        })
    }

    /// Changes a file, which is made when it is missing; told the bytes of a sector too.
    pub(super) fn with_file<T>(&self, path: &Path, change: impl FnOnce(&mut DiskFile, usize) -> T) -> T {
        self.world.with(|state| {
            let disk = &mut state.nodes[self.index].disk;
            let file = disk.make(path);
            change(&mut disk.files[file], state.settings.sector_bytes)
        })
    }
}
