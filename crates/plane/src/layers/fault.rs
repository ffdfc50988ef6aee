//! A layer that fails on purpose: for tests and drills.

use std::sync::{Arc, Mutex, PoisonError};

use crate::error::{Error, ErrorKind};
use crate::layers::{Layer, Next};
use crate::request::{Extent, Io, Request, Verb};

/// One planted fault: requests of `verb` that touch `extent` fail with `kind`.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// Which requests.
    pub verb: Verb,
    /// Where. Flushes have no place: any extent catches them.
    pub extent: Extent,
    /// With what.
    pub kind: ErrorKind,
}

/// The planted faults, shared by all cores and by whoever plants them.
#[derive(Clone, Default, Debug)]
pub struct Faults(Arc<Mutex<Vec<Fault>>>);

impl Faults {
    /// Plants one.
    pub fn plant(&self, fault: Fault) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(fault);
    }

    /// Removes them all.
    pub fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn pass<'a>(&self, request: Request, next: Next<'a>) -> Io<'a> {
        let catches = |fault: &&Fault| {
            fault.verb == request.verb
                && (request.verb == Verb::Flush || fault.extent.overlaps(request.extent))
        };
        let caught = self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().find(catches).copied();
        match caught {
            Some(fault) => Io::ready(request.failed(Error::new(fault.kind, "meeting a planted fault"))),
            None => next.submit(request),
        }
    }
}

impl Layer for Faults {
    fn name(&self) -> &'static str {
        "fault"
    }

    fn read<'a>(&'a self, request: Request, next: Next<'a>) -> Io<'a> {
        self.pass(request, next)
    }

    fn write<'a>(&'a self, request: Request, next: Next<'a>) -> Io<'a> {
        self.pass(request, next)
    }

    fn flush<'a>(&'a self, request: Request, next: Next<'a>) -> Io<'a> {
        self.pass(request, next)
    }

    fn discard<'a>(&'a self, request: Request, next: Next<'a>) -> Io<'a> {
        self.pass(request, next)
    }

    fn write_zeroes<'a>(&'a self, request: Request, next: Next<'a>) -> Io<'a> {
        self.pass(request, next)
    }
}
