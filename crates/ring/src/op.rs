//! Operations in flight. What an operation uses (its buffer, its descriptor) belongs to the table from submission
//! to completion: dropping the caller's future only abandons the result, and [`Table::complete`] is the one place
//! where the belongings of an abandoned operation are let go.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};

use crate::buffer::Buffer;
use crate::chunk::Chunk;
use crate::handle::Handle;
use crate::memory::Memory;
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
    /// The same again and again, until it ends by itself, as it may at any time, or is cancelled.
    KeepReceiving,
    /// Into the buffer from `start`.
    ReceiveInto {
        start: usize,
        end: usize,
    },
    /// The whole list.
    Send,
    /// So many bytes of the memory, of which the system has given none yet.
    Populate {
        at: usize,
        length: usize,
    },
}

impl Operation {
    /// Whether it takes bytes from a connection.
    pub(crate) fn receives(self) -> bool {
        self.takes_a_receive_buffer() || matches!(self, Operation::ReceiveInto { .. })
    }

    /// Whether the driver chooses where these bytes are.
    pub(crate) fn takes_a_receive_buffer(self) -> bool {
        matches!(self, Operation::Receive | Operation::KeepReceiving)
    }
}

/// What an operation owns while it is in flight, beside its handle.
pub(crate) enum Keep {
    Nothing,
    Buffer(Buffer),
    List(Box<SendList>),
    Address(Box<libc::sockaddr_storage>),
    Memory(Arc<Memory>),
}

/// What a driver says of an operation: the kernel's result (negative: an errno) and flags; `more`: it goes on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Completion {
    pub(crate) result: i32,
    pub(crate) flags: u32,
    pub(crate) more: bool,
}

/// What an operation that stands has brought and nobody has taken yet.
pub(crate) enum Came {
    /// As the driver said it: received bytes are in a buffer of the driver's.
    Here { result: i32, flags: u32 },
    /// Received bytes that had to make room.
    Moved(Chunk),
}

/// So much of what one operation has brought may wait to be taken before it is asked to end.
const MOST_WAITING: usize = 16;

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
    Done {
        result: i32,
        flags: u32,
    },
    /// It has many completions.
    Standing {
        waker: Option<Waker>,
        came: VecDeque<Came>,
        ended: bool,
    },
    Abandoned,
}

impl State {
    fn new(operation: Operation) -> State {
        match operation {
            Operation::KeepReceiving => State::Standing { waker: None, came: VecDeque::new(), ended: false },
            _ => State::Waiting(None),
        }
    }
}

struct Slot {
    generation: u32,
    state: State,
    operation: Operation,
    handle: Option<Rc<Handle>>,
    keep: Keep,
}

impl Slot {
    fn waiting(&self) -> impl Iterator<Item = &Came> {
        let came = if let State::Standing { came, .. } = &self.state { Some(came) } else { None };
        came.into_iter().flatten()
    }
}

/// The table of one ring.
#[derive(Default)]
pub(crate) struct Table {
    slots: Vec<Slot>,
    free: Vec<u32>,
    in_flight: usize,
    /// Standing operations of which too much waits to be taken: they are to be ended.
    crowded: Vec<OpKey>,
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
    pub(crate) fn insert(&mut self, operation: Operation, handle: Option<Rc<Handle>>, keep: Keep) -> OpKey {
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
        slot.state = State::new(operation);
        slot.operation = operation;
        slot.handle = handle;
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
    pub(crate) fn complete(&mut self, key: OpKey, completion: Completion) -> Option<Orphan> {
        let Completion { result, flags, more } = completion;
        let slot = self.slot(key)?;
        match &mut slot.state {
            State::Waiting(waker) => {
                if let Some(waker) = waker.take() {
                    waker.wake();
                }
                slot.state = State::Done { result, flags };
            }
            State::Standing { waker, came, ended } => {
                came.push_back(Came::Here { result, flags });
                *ended = !more;
                if let Some(waker) = waker.take() {
                    waker.wake();
                }
                if more {
                    if came.len() == MOST_WAITING {
                        self.crowded.push(key);
                    }
                    return None;
                }
            }
            State::Abandoned => {
                let operation = slot.operation;
                let belongings = if more { (None, Keep::Nothing) } else { self.release(key) };
                self.in_flight -= usize::from(!more);
                return Some(Orphan { operation, result, flags, _belongings: belongings });
            }
            State::Free | State::Done { .. } => return None,
        }
        self.in_flight -= 1;
        None
    }

    /// One of the standing operations that are to be ended.
    pub(crate) fn crowded(&mut self) -> Option<OpKey> {
        self.crowded.pop()
    }

    /// What a standing operation has brought next. None when it has ended and all is taken: its name is nobody's then.
    #[inline]
    pub(crate) fn next(&mut self, key: OpKey, by: &Waker) -> Poll<Option<Came>> {
        let Some(Slot { state: State::Standing { waker, came, ended }, .. }) = self.slot(key) else {
            return Poll::Ready(None);
        };
        if let Some(came) = came.pop_front() {
            return Poll::Ready(Some(came));
        }
        if !*ended {
            *waker = Some(by.clone());
            return Poll::Pending;
        }
        // Who asks has the handle, too: it is not closed here.
        self.release(key);
        Poll::Ready(None)
    }

    /// Empties the driver's buffers that standing operations have brought and nobody has taken, and ends these operations.
    /// `chunk` takes such a buffer. Beyond `limit` bytes in all, what has come is lost: its place says ENOMEM, which ends the
    /// connection when its task comes to it. False when there was none.
    pub(crate) fn make_room(&mut self, limit: usize, chunk: impl Fn(i32, u32) -> Option<Chunk>) -> bool {
        let moved = |came: &Came| if let Came::Moved(chunk) = came { chunk.len() } else { 0 };
        let mut held: usize = self.slots.iter().flat_map(Slot::waiting).map(moved).sum();
        let mut is_made = false;
        for (index, slot) in self.slots.iter_mut().enumerate() {
            let State::Standing { came, ended, .. } = &mut slot.state else { continue };
            for came in came {
                let Came::Here { result, flags } = *came else { continue };
                let Some(chunk) = chunk(result, flags) else { continue };
                held += chunk.len();
                *came = if held <= limit {
                    Came::Moved(Chunk::owned(Buffer::copy_of(&chunk)))
                } else {
                    held -= chunk.len();
                    Came::Here { result: -libc::ENOMEM, flags: 0 }
                };
                is_made = true;
                if !*ended {
                    self.crowded.push(OpKey(u64::from(slot.generation) << 32 | index as u64));
                }
            }
        }
        is_made
    }

    /// The outcome when it is there; else remembers whom to wake.
    #[inline]
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
            State::Standing { ref mut came, ended, .. } => {
                let came = std::mem::take(came);
                slot.state = State::Abandoned;
                let belongings = ended.then(|| self.release(key));
                Abandoned::Standing { came, is_in_flight: !ended, _belongings: belongings }
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
    /// A standing operation, with what it has brought.
    Standing {
        came: VecDeque<Came>,
        is_in_flight: bool,
        /// Let go outside of the table's borrow.
        _belongings: Option<(Option<Rc<Handle>>, Keep)>,
    },
}
