//! Operations in flight. What an operation uses (its buffer, its descriptor) belongs to the table from submission
//! to completion: dropping the caller's future only abandons the result, and [`Table::complete`] is the one place
//! where the belongings of an abandoned operation are let go.

use std::net::SocketAddr;
use std::rc::Rc;
use std::task::Waker;

use crate::buffer::Buffer;
use crate::handle::Handle;
use crate::send_list::SendList;

/// What to do with a run of bytes of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Allocate {
    /// Give space to a sparse part; reads stay as they are.
    Reserve,
    /// Give the space back; reads give zeroes.
    Punch,
    /// Make it read as zeroes, space kept.
    Zero,
}

/// One operation. Both drivers, kernel and simulation, interpret this.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operation {
    /// Into the buffer.
    Read {
        offset: u64,
    },
    /// From the buffer; `durable`: on stable media at completion.
    Write {
        offset: u64,
        durable: bool,
    },
    /// Everything written so far on stable media.
    Sync,
    Allocate {
        mode: Allocate,
        offset: u64,
        length: u64,
    },
    Accept,
    Connect {
        to: SocketAddr,
    },
    /// To the address that is kept, of so many bytes.
    ConnectUnix {
        length: u32,
    },
    /// Into a buffer of the driver's choice.
    Receive,
    /// Into the buffer from `start`.
    ReceiveInto {
        start: usize,
        end: usize,
    },
    /// The whole list.
    Send,
}

/// What an operation owns while it is in flight, beside its handle.
pub(crate) enum Keep {
    Nothing,
    Buffer(Buffer),
    List(Box<SendList>),
    Address(Box<libc::sockaddr_storage>),
}

/// How an operation ended: the kernel's result (negative: an errno) and flags, and its belongings.
pub(crate) struct Outcome {
    pub(crate) result: i32,
    pub(crate) flags: u32,
    pub(crate) keep: Keep,
    /// Let go outside of the table's borrow.
    pub(crate) _handle: Option<Rc<Handle>>,
}

/// Names an operation in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub(crate) struct OpKey(u64);

impl OpKey {
    pub(crate) fn to_bits(self) -> u64 {
        self.0
    }
    pub(crate) fn from_bits(bits: u64) -> OpKey {
        OpKey(bits)
    }
    fn index(self) -> usize {
        (self.0 & 0xffff_ffff) as usize
    }
    fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

enum State {
    Free,
    Waiting(Option<Waker>),
    Done { result: i32, flags: u32 },
    Abandoned,
}

struct Slot {
    generation: u32,
    state: State,
    operation: Operation,
    handle: Option<Rc<Handle>>,
    keep: Keep,
}

/// The table of one ring.
#[derive(Default)]
pub(crate) struct Table {
    slots: Vec<Slot>,
    free: Vec<u32>,
    in_flight: usize,
}

/// What the driver has to clean up after an operation that nobody waited for.
pub(crate) struct Orphan {
    pub(crate) operation: Operation,
    pub(crate) result: i32,
    pub(crate) flags: u32,
    /// Let go outside of the table's borrow.
    pub(crate) _belongings: (Option<Rc<Handle>>, Keep),
}

impl Table {
    pub(crate) fn insert(&mut self, operation: Operation, handle: Rc<Handle>, keep: Keep) -> OpKey {
        self.in_flight += 1;
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot {
                generation: 0,
                state: State::Free,
                operation: Operation::Sync,
                handle: None,
                keep: Keep::Nothing,
            });
            u32::try_from(self.slots.len() - 1).expect("fewer than 2^32 operations in flight")
        });
        let slot = &mut self.slots[index as usize];
        slot.state = State::Waiting(None);
        slot.operation = operation;
        slot.handle = Some(handle);
        slot.keep = keep;
        OpKey(u64::from(slot.generation) << 32 | u64::from(index))
    }

    fn slot(&mut self, key: OpKey) -> Option<&mut Slot> {
        self.slots.get_mut(key.index()).filter(|slot| slot.generation == key.generation())
    }

    /// What the operation owns; for drivers.
    pub(crate) fn keep(&mut self, key: OpKey) -> Option<&mut Keep> {
        self.slot(key).map(|slot| &mut slot.keep)
    }

    /// An operation and where its bytes go; for drivers that move them themselves.
    pub(crate) fn target(&mut self, key: OpKey) -> Option<(Operation, &mut Keep)> {
        self.slot(key).map(|slot| (slot.operation, &mut slot.keep))
    }

    /// Operations submitted and not completed.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Takes in a completion: wakes who waits, or hands back what an abandoned operation leaves.
    pub(crate) fn complete(&mut self, key: OpKey, result: i32, flags: u32) -> Option<Orphan> {
        let slot = self.slot(key)?;
        match std::mem::replace(&mut slot.state, State::Done { result, flags }) {
            State::Waiting(waker) => {
                if let Some(waker) = waker {
                    waker.wake();
                }
                self.in_flight -= 1;
                None
            }
            State::Abandoned => {
                let operation = slot.operation;
                let belongings = self.release(key);
                self.in_flight -= 1;
                Some(Orphan { operation, result, flags, _belongings: belongings })
            }
            other => {
                slot.state = other;
                None
            }
        }
    }

    /// The outcome when it is there; else remembers whom to wake.
    pub(crate) fn poll(&mut self, key: OpKey, waker: &Waker) -> Option<Outcome> {
        let slot = self.slot(key)?;
        if let State::Done { result, flags } = slot.state {
            let (handle, keep) = self.release(key);
            return Some(Outcome { result, flags, keep, _handle: handle });
        }
        slot.state = State::Waiting(Some(waker.clone()));
        None
    }

    /// The caller is gone. Gives the operation when it is still in flight, or what is left of a completed one.
    pub(crate) fn abandon(&mut self, key: OpKey) -> Abandoned {
        let Some(slot) = self.slot(key) else { return Abandoned::Nothing };
        match slot.state {
            State::Done { result, flags } => {
                let operation = slot.operation;
                let belongings = self.release(key);
                Abandoned::Completed(Orphan { operation, result, flags, _belongings: belongings })
            }
            State::Waiting(_) => {
                slot.state = State::Abandoned;
                Abandoned::InFlight(slot.operation)
            }
            State::Free | State::Abandoned => Abandoned::Nothing,
        }
    }

    fn release(&mut self, key: OpKey) -> (Option<Rc<Handle>>, Keep) {
        let slot = &mut self.slots[key.index()];
        slot.state = State::Free;
        slot.generation = slot.generation.wrapping_add(1);
        let belongings = (slot.handle.take(), std::mem::replace(&mut slot.keep, Keep::Nothing));
        self.free.push(key.index() as u32);
        belongings
    }
}

/// What [`Table::abandon`] found.
pub(crate) enum Abandoned {
    Nothing,
    InFlight(Operation),
    Completed(Orphan),
}
