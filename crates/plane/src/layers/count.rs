//! A layer that counts what passes: for tests of what others send down.

use std::cell::Cell;
use std::rc::Rc;

use crate::layers::{Layer, Next};
use crate::request::{Flags, Io, Request};

/// How many requests passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Reads.
    pub reads: u64,
    /// Writes, those with FUA included.
    pub writes: u64,
    /// Writes with FUA.
    pub durable_writes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Discards.
    pub discards: u64,
    /// Write zeroes.
    pub zeroes: u64,
}

/// Counts into a cell that the test keeps.
#[derive(Clone, Default)]
pub struct Count(pub Rc<Cell<Counted>>);

impl Count {
    fn note(&self, change: impl FnOnce(&mut Counted)) {
        let mut counted = self.0.get();
        change(&mut counted);
        self.0.set(counted);
    }
}

impl Layer for Count {
    fn name(&self) -> &'static str {
        "count"
    }

    fn read<'a>(&'a self, request: Request, next: Next<'a>) -> Io<'a> {
        self.note(|counted| counted.reads += 1);
        next.submit(request)
    }

    fn write<'a>(&'a self, request: Request, next: Next<'a>) -> Io<'a> {
        let durable = u64::from(request.flags.contains(Flags::FUA));
        self.note(|counted| {
            counted.writes += 1;
            counted.durable_writes += durable;
        });
        next.submit(request)
    }

    fn flush<'a>(&'a self, request: Request, next: Next<'a>) -> Io<'a> {
        self.note(|counted| counted.flushes += 1);
        next.submit(request)
    }

    fn discard<'a>(&'a self, request: Request, next: Next<'a>) -> Io<'a> {
        self.note(|counted| counted.discards += 1);
        next.submit(request)
    }

    fn write_zeroes<'a>(&'a self, request: Request, next: Next<'a>) -> Io<'a> {
        self.note(|counted| counted.zeroes += 1);
        next.submit(request)
    }
}
