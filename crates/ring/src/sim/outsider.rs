//! One end of a connection that no reactor serves: the program that runs the world talks through it. What a node does
//! for its peer can then be measured alone, as nothing of the peer runs on a reactor.

use std::io;
use std::net::SocketAddr;
use std::os::fd::RawFd;

use super::node::Node;
use super::state::{Caller, State};
use super::world::{Stall, World};
use crate::op::{OpKey, Operation};
use crate::ring::Options;

/// Most bytes that one receive takes.
const RECEIVE_BYTES: usize = 1 << 20;

/// See [`Node::outsider`].
pub struct Outsider {
    world: World,
    reactor: usize,
    descriptor: RawFd,
    /// Names operations.
    next: u64,
    received: Vec<u8>,
}

impl Node {
    /// Connects to `to` from this node, for a program that is not simulated itself.
    pub fn outsider(&self, to: SocketAddr) -> io::Result<Outsider> {
        let reactor = self.add_reactor(&Options::default());
        let descriptor = self.world().with(|state| state.new_stream(self.index(), to));
        let world = self.world().clone();
        let mut outsider = Outsider { world, reactor, descriptor, next: 0, received: Vec::new() };
        outsider.carry_out(Operation::Connect { to }, 0, Vec::new())?;
        Ok(outsider)
    }
}

impl Outsider {
    /// Sends all of `bytes`; the world runs until they are on their way.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.carry_out(Operation::Send, 0, bytes.to_vec())?;
        Ok(())
    }

    /// The next `length` bytes; the world runs until they have come.
    pub fn receive(&mut self, length: usize) -> io::Result<Vec<u8>> {
        while self.received.len() < length {
            let bytes = self.carry_out(Operation::Receive, RECEIVE_BYTES, Vec::new())?;
            if bytes.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.received.extend(bytes);
        }
        let rest = self.received.split_off(length);
        Ok(std::mem::replace(&mut self.received, rest))
    }

    fn carry_out(&mut self, operation: Operation, limit: usize, bytes: Vec<u8>) -> io::Result<Vec<u8>> {
        self.next += 1;
        let caller = Caller { reactor: self.reactor, key: OpKey::from_bits(self.next) };
        self.world.with(|state| {
            state.begin(caller, operation, self.descriptor);
            state.begin_network(caller, operation, self.descriptor, limit, bytes);
        });
        let has_ended = |state: &mut State| !state.reactors[self.reactor].completions.is_empty();
        self.world.run_until(|| self.world.with(has_ended)).map_err(stalled)?;
        let ended = self.world.with(|state| state.reactors[self.reactor].completions.pop_front());
        match ended {
            Some(end) if end.result < 0 => Err(io::Error::from_raw_os_error(-end.result)),
            Some(end) => Ok(end.bytes),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

impl Drop for Outsider {
    fn drop(&mut self) {
        self.world.with(|state| {
            state.close(self.descriptor);
            state.leave(self.reactor);
        });
    }
}

fn stalled(stall: Stall) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, stall)
}
