//! The driver that is a simulated world: what a reactor asks of the kernel, asked of the world.

use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::os::fd::RawFd;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use super::state::{Caller, State};
use super::world::World;
use crate::buffer::Buffer;
use crate::chunk::Chunk;
use crate::clock::Instant;
use crate::file::FileOptions;
use crate::op::{Completion, Keep, OpKey, Operation, Orphan, Table};

/// Descriptors that were closed where the world cannot be reached: on their way between rings. It looks by itself.
#[derive(Clone, Default)]
pub(crate) struct Afar(Arc<Mutex<Vec<RawFd>>>);

impl Afar {
    pub(crate) fn close(&self, descriptor: RawFd) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(descriptor);
    }

    pub(super) fn take(&self) -> Vec<RawFd> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl PartialEq for Afar {
    fn eq(&self, other: &Afar) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// One reactor's side of the world. What a turn calls is never inlined: `bench/counts` leaves these functions out by their
/// names.
pub(crate) struct Driver {
    world: World,
    node: usize,
    reactor: usize,
}

impl Driver {
    pub(super) fn new(world: World, node: usize, reactor: usize) -> Driver {
        Driver { world, node, reactor }
    }

    pub(crate) fn world(&self) -> &World {
        &self.world
    }

    pub(crate) fn afar(&self) -> Afar {
        self.world.afar()
    }

    fn caller(&self, key: OpKey) -> Caller {
        Caller { reactor: self.reactor, key }
    }

    /// Runs `act` unless this reactor's process is gone.
    fn alive<T>(&self, act: impl FnOnce(&mut State) -> io::Result<T>) -> io::Result<T> {
        self.world.with(|state| {
            let alive = state.reactors[self.reactor].alive;
            if alive { act(state) } else { Err(io::Error::from_raw_os_error(libc::ESHUTDOWN)) }
        })
    }

    /// See [`Settings::lockstep`](super::Settings::lockstep).
    #[inline(never)]
    pub(crate) fn has_lockstep(&self) -> bool {
        self.world().with(|state| state.settings.lockstep)
    }

    #[inline(never)]
    pub(crate) fn now(&self) -> Instant {
        self.world.now()
    }

    #[inline(never)]
    pub(crate) fn submit(&self, key: OpKey, operation: Operation, descriptor: RawFd, keep: &mut Keep) {
        let (length, bytes) = match (operation, keep) {
            (Operation::Write { .. }, Keep::Buffer(buffer)) => (0, buffer.to_vec()),
            (Operation::ReceiveInto { start, end }, Keep::Buffer(_)) => (end - start, Vec::new()),
            (_, Keep::Buffer(buffer)) => (buffer.len(), Vec::new()),
            (_, Keep::List(list)) => (0, list.pieces().flatten().copied().collect()),
            _ => (0, Vec::new()),
        };
        let caller = self.caller(key);
        self.world.with(|state| {
            state.begin(caller, operation, descriptor);
            if !state.reactors[self.reactor].alive {
                return;
            }
            state.note("submit", key.to_bits(), descriptor as u64);
            match operation {
                Operation::Read { .. }
                | Operation::Write { .. }
                | Operation::Sync
                | Operation::Allocate { .. } => {
                    state.begin_disk(caller, operation, descriptor, length, bytes);
                }
                Operation::Receive | Operation::KeepReceiving => {
                    let limit = state.reactors[self.reactor].receive_buffers.size;
                    state.begin_network(caller, operation, descriptor, limit, bytes);
                }
                _ => state.begin_network(caller, operation, descriptor, length, bytes),
            }
        });
    }

    #[inline(never)]
    pub(crate) fn cancel(&self, key: OpKey) {
        let caller = self.caller(key);
        self.world.with(|state| state.cancel_network(caller));
    }

    /// Puts completions into `table`; never waits, as the world moves the clock when no reactor can go on.
    #[inline(never)]
    pub(crate) fn turn(&self, table: &mut Table, orphans: &mut Vec<Orphan>) {
        let completions = self.world.with(|state| {
            let reactor = &mut state.reactors[self.reactor];
            std::mem::take(&mut reactor.completions)
        });
        for completion in completions {
            let mut flags = 0;
            match (table.target(completion.key), completion.hold) {
                (Some((operation, Keep::Buffer(buffer))), _) => {
                    let start = if let Operation::ReceiveInto { start, .. } = operation { start } else { 0 };
                    buffer[start..start + completion.bytes.len()].copy_from_slice(&completion.bytes);
                }
                (Some(_), Some(hold)) => {
                    flags = self.world.with(|state| state.keep_chunk(self.reactor, completion.bytes, hold));
                }
                _ => {}
            }
            let (result, more) = (completion.result, completion.more);
            orphans.extend(table.complete(completion.key, Completion { result, flags, more }));
        }
    }

    #[inline(never)]
    pub(crate) fn chunk(&self, flags: u32) -> Option<Chunk> {
        let (bytes, hold) = self.world.with(|state| state.reactors[self.reactor].chunks.remove(&flags))?;
        Some(Chunk::simulated(Buffer::copy_of(&bytes), hold))
    }

    #[inline(never)]
    pub(crate) fn has_plenty(&self) -> bool {
        self.world.with(|state| state.reactors[self.reactor].receive_buffers.are_plenty())
    }

    /// Nothing more comes for this reactor; what it has in flight ends at its next turn.
    pub(crate) fn leave(&self) {
        self.world.with(|state| state.leave(self.reactor));
    }

    #[inline(never)]
    pub(crate) fn close(&self, descriptor: RawFd) {
        self.world.with(|state| state.close(descriptor));
    }

    pub(crate) fn listen(&self, address: SocketAddr) -> io::Result<RawFd> {
        self.alive(|state| state.listen(self.node, address))
    }

    pub(crate) fn socket(&self, to: SocketAddr) -> io::Result<RawFd> {
        self.alive(|state| Ok(state.new_stream(self.node, to)))
    }

    pub(crate) fn shutdown(&self, descriptor: RawFd) {
        self.world.with(|state| state.shutdown(descriptor));
    }

    pub(crate) fn peer(&self, descriptor: RawFd) -> io::Result<SocketAddr> {
        self.world.with(|state| state.peer(descriptor))
    }

    pub(crate) fn local(&self, descriptor: RawFd) -> io::Result<SocketAddr> {
        self.world.with(|state| state.local(descriptor))
    }

    pub(crate) fn open(&self, path: &Path, options: FileOptions) -> io::Result<RawFd> {
        self.alive(|state| state.open(self.node, path, options))
    }

    pub(crate) fn lock(&self, descriptor: RawFd) -> io::Result<bool> {
        self.world.with(|state| state.lock(descriptor))
    }

    pub(crate) fn length(&self, descriptor: RawFd) -> io::Result<u64> {
        self.world.with(|state| Ok(state.attached_file(descriptor)?.medium.content().length()))
    }

    pub(crate) fn set_length(&self, descriptor: RawFd, length: u64) -> io::Result<()> {
        self.world.with(|state| state.set_length(descriptor, length))
    }

    pub(crate) fn data_after(&self, descriptor: RawFd, offset: u64) -> io::Result<Option<Range<u64>>> {
        self.world.with(|state| Ok(state.attached_file(descriptor)?.medium.content().data_after(offset)))
    }

    pub(crate) fn direct_alignment(&self, descriptor: RawFd) -> io::Result<u32> {
        self.world.with(|state| {
            state.attached_file(descriptor)?;
            Ok(state.settings.sector_bytes as u32)
        })
    }
}
