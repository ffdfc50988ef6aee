//! The arm of a spinning disk: a state machine without I/O and clock. Requests come in with a time, and it says when each of them
//! is done. There is one arm, so one request is served at a time.

use super::spinning_disk::{Mechanics, Order, SpinningDisk, SpinningDiskError};

/// What is asked of the platter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Motion {
    /// A read.
    Read,
    /// A write that is done when it is on the platter.
    Write,
    /// A write that is done when it is in the cache, if it has room there.
    CachedWrite,
}

/// Names a request that waits for the arm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(u64);

/// How far a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It is done, or will be, at this time.
    Done(u64),
    /// That is decided at this time.
    Ask(u64),
}

struct Waiting {
    ticket: Ticket,
    arrived: u64,
    is_read: bool,
    /// It is in the cache: nobody waits for it.
    is_cached: bool,
    offset: u64,
    length: u64,
}

/// Times are nanoseconds, places and lengths bytes.
pub struct Arm {
    disk: SpinningDisk,
    mechanics: Mechanics,
    /// Bytes from the first to the last track.
    size: u64,
    /// The byte behind the last one that was read or written.
    head: u64,
    /// When the arm is done with what it has begun.
    free: u64,
    /// After a read: when `head` passed below the head, or will. It reads on from there.
    reads_on: Option<u64>,
    queue: Vec<Waiting>,
    /// Served, and not yet asked for: with the time of their end.
    served: Vec<(Ticket, u64)>,
    /// Bytes in the cache.
    dirty: u64,
    /// Those of them that the arm writes until it is free.
    leaving: u64,
    /// When the last one of those that were in the cache was on the platter.
    destaged: u64,
    last: u64,
}

impl Arm {
    /// An arm over the first track.
    pub fn new(disk: SpinningDisk) -> Result<Arm, SpinningDiskError> {
        Ok(Arm {
            mechanics: disk.mechanics()?,
            disk,
            size: 0,
            head: 0,
            free: 0,
            reads_on: None,
            queue: Vec::new(),
            served: Vec::new(),
            dirty: 0,
            leaving: 0,
            destaged: 0,
            last: 0,
        })
    }

    /// A request comes in. `size` are the bytes of the whole disk.
    pub fn enter(
        &mut self,
        now: u64,
        motion: Motion,
        offset: u64,
        length: u64,
        size: u64,
    ) -> (Ticket, Progress) {
        self.advance(now);
        self.size = size;
        self.last += 1;
        let ticket = Ticket(self.last);
        let is_cached = motion == Motion::CachedWrite && self.dirty + length <= self.disk.write_cache_bytes;
        if is_cached {
            self.dirty += length;
        }
        let is_read = motion == Motion::Read;
        self.queue.push(Waiting { ticket, arrived: now, is_read, is_cached, offset, length });
        let progress = if is_cached { Progress::Done(now) } else { self.ask(ticket, now) };
        (ticket, progress)
    }

    /// How far the request is. One that is done is forgotten.
    pub fn ask(&mut self, ticket: Ticket, now: u64) -> Progress {
        self.advance(now);
        match self.served.iter().position(|(served, _)| *served == ticket) {
            Some(index) => Progress::Done(self.served.swap_remove(index).1),
            None => Progress::Ask(self.free.max(now + 1)),
        }
    }

    /// Whether all that is in the cache now is on the platter: what a flush waits for. `until`: the last request that counts.
    pub fn ask_flushed(&mut self, until: Ticket, now: u64) -> Progress {
        self.advance(now);
        if self.queue.iter().any(|waiting| waiting.is_cached && waiting.ticket <= until) {
            return Progress::Ask(self.free.max(now + 1));
        }
        Progress::Done(self.destaged)
    }

    /// The last request that came in.
    pub fn last(&self) -> Ticket {
        Ticket(self.last)
    }

    /// Nobody waits for the request any more.
    pub fn forget(&mut self, ticket: Ticket) {
        self.queue.retain(|waiting| waiting.is_cached || waiting.ticket != ticket);
        self.served.retain(|(served, _)| *served != ticket);
    }

    /// Serves whatever the arm can have begun by now. What comes later has no say in that, however late somebody asks.
    fn advance(&mut self, now: u64) {
        while let Some(earliest) = self.queue.iter().map(|waiting| waiting.arrived).min() {
            let start = self.free.max(earliest);
            if start > now {
                break;
            }
            self.dirty -= std::mem::take(&mut self.leaving);
            let next = self.queue.remove(self.choose(start));
            let end = self.serve(start, &next);
            self.head = next.offset + next.length;
            self.free = end;
            if next.is_cached {
                self.leaving = next.length;
                self.destaged = end;
            } else {
                self.served.push((next.ticket, end));
            }
        }
        if self.free <= now {
            self.dirty -= std::mem::take(&mut self.leaving);
        }
    }

    /// Which of those that are there at `start` is next.
    fn choose(&self, start: u64) -> usize {
        let there = || self.queue.iter().enumerate().filter(|(_, waiting)| waiting.arrived <= start);
        let next = match self.disk.order {
            Order::Arrival => there().min_by_key(|(_, waiting)| waiting.ticket),
            Order::Elevator => there()
                .min_by_key(|(_, waiting)| (waiting.offset < self.head, waiting.offset, waiting.ticket)),
        };
        next.map_or(0, |(index, _)| index)
    }

    /// When a request is done that is begun at `start`.
    fn serve(&mut self, start: u64, request: &Waiting) -> u64 {
        let Waiting { offset, length, .. } = *request;
        if let Some(passed) = self.reads_on.take()
            && request.is_read
            && let Some(end) = self.read_on(start, passed, offset, length)
        {
            return end;
        }
        let mechanics = &self.mechanics;
        let seek = mechanics.seek(self.head, offset, self.size);
        let mut position = seek + mechanics.rotation(start + seek, offset);
        // It was there before the arm was free: the head is just behind the last byte, and what is between passes below it.
        if let Some(between) = offset.checked_sub(self.head)
            && request.arrived <= self.free
            && self.free > 0
        {
            position = position.min(mechanics.passing(between));
        }
        let end = start + position + mechanics.passing(length);
        if request.is_read {
            self.reads_on = Some(end);
        }
        end
    }

    /// When a read is done that the head passes, or has passed, while it reads on; `None` when it lies elsewhere.
    fn read_on(&mut self, start: u64, passed: u64, offset: u64, length: u64) -> Option<u64> {
        let most = self.disk.read_ahead_bytes;
        let between = offset.checked_sub(self.head)?;
        let way = self.mechanics.passing(between + length);
        let buffer = self.mechanics.passing(most);
        let has_stopped = start >= passed + buffer;
        if between > most || (has_stopped && way > buffer) {
            return None;
        }
        // A disk that has stopped because its buffer is full goes on when there is room again.
        let passed = if has_stopped { start - (buffer - way) } else { passed + way };
        self.reads_on = Some(passed);
        Some(start.max(passed))
    }
}
