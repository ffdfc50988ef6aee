//! The commands of one connection.
//!
//! A command is a slot. What names it to the peer is made of the slot's index and generation, so that an answer finds it
//! without a search, and a late one finds nothing.

use std::cell::RefMut;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};

use ring::{Buffer, Instant, Shared};

use super::error::{Cause, IoError};

/// What a command moves.
pub(super) enum Transfer {
    Nothing,
    /// From the peer; the buffer's length is what is expected.
    In(Buffer),
    /// So many bytes from the peer, which nobody will look at: they are received and forgotten. A copy of theirs would be one
    /// more than a program makes that waits for its data.
    Unseen(usize),
    /// To the peer.
    Out(Shared),
}

impl Transfer {
    /// Bytes of input that are expected.
    pub(super) fn expected(&self) -> usize {
        match self {
            Transfer::In(buffer) => buffer.len(),
            Transfer::Unseen(length) => *length,
            Transfer::Nothing | Transfer::Out(_) => 0,
        }
    }

    /// Bytes that are to be moved.
    pub(super) fn length(&self) -> usize {
        match self {
            Transfer::Out(data) => data.len(),
            _ => self.expected(),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Free,
    /// Waits for room at the peer.
    Queued,
    Issued,
    Done,
}

/// A command; `R` is what is asked for.
pub(super) struct Slot<R> {
    pub(super) request: R,
    /// Where input goes; empty when nobody will look at it.
    pub(super) buffer: Buffer,
    /// What is sent along; empty when there is nothing.
    pub(super) data: Shared,
    /// Bytes of input that are expected.
    pub(super) expected: usize,
    /// Bytes of input that have come, in order.
    pub(super) received: usize,
    /// When it was asked for.
    pub(super) since: Instant,
    generation: u32,
    stage: Stage,
    /// Nobody waits for the result any more.
    abandoned: bool,
    waker: Option<Waker>,
    result: Result<u64, IoError>,
}

impl<R> Slot<R> {
    fn new(request: R, now: Instant) -> Slot<R> {
        Slot {
            request,
            buffer: Buffer::empty(),
            data: Shared::empty(),
            expected: 0,
            received: 0,
            since: now,
            generation: 0,
            stage: Stage::Free,
            abandoned: false,
            waker: None,
            result: Ok(0),
        }
    }

    /// Whether somebody will look at its input.
    pub(super) fn is_seen(&self) -> bool {
        !self.buffer.is_empty()
    }

    /// Takes out what is told of its end.
    fn finish(&mut self) -> Finished<R>
    where
        R: Copy,
    {
        let transfer = if self.is_seen() {
            Transfer::In(std::mem::take(&mut self.buffer))
        } else if self.expected > 0 {
            Transfer::Unseen(self.expected)
        } else if self.data.is_empty() {
            Transfer::Nothing
        } else {
            Transfer::Out(std::mem::take(&mut self.data))
        };
        let result = std::mem::replace(&mut self.result, Ok(0));
        Finished { result, received: self.received, request: self.request, transfer }
    }
}

/// All commands of a connection, with those that wait.
pub(super) struct Table<R> {
    slots: Vec<Slot<R>>,
    free: Vec<u16>,
    /// Slots that there may be.
    most: usize,
    /// Bits of a generation.
    generations: u32,
    /// When the peer's last bytes came.
    pub(super) heard: Instant,
}

impl<R> Table<R> {
    /// For `most` commands at once, at most 2^16, with so many bits of a generation.
    pub(super) fn new(most: usize, generations: u32, now: Instant) -> Table<R> {
        let generations = u32::MAX >> (32 - generations);
        Table { slots: Vec::new(), free: Vec::new(), most, generations, heard: now }
    }

    /// A command that waits to be issued; none when there is no slot for it.
    pub(super) fn add(&mut self, request: R, transfer: Transfer, now: Instant) -> Option<u16> {
        let index = match self.free.pop() {
            Some(index) => {
                let slot = &mut self.slots[usize::from(index)];
                (slot.request, slot.since) = (request, now);
                index
            }
            None if self.slots.len() < self.most => {
                self.slots.push(Slot::new(request, now));
                (self.slots.len() - 1) as u16
            }
            None => return None,
        };
        let slot = &mut self.slots[usize::from(index)];
        slot.stage = Stage::Queued;
        slot.expected = transfer.expected();
        match transfer {
            Transfer::Nothing | Transfer::Unseen(_) => {}
            Transfer::In(buffer) => slot.buffer = buffer,
            Transfer::Out(data) => slot.data = data,
        }
        Some(index)
    }

    pub(super) fn generation(&self, index: u16) -> u32 {
        self.slots[usize::from(index)].generation
    }

    /// From now on the peer has it.
    pub(super) fn issue(&mut self, index: u16) -> &mut Slot<R> {
        let slot = &mut self.slots[usize::from(index)];
        slot.stage = Stage::Issued;
        slot
    }

    /// A command that the peer has.
    pub(super) fn issued(&mut self, index: usize, generation: u32) -> Option<&mut Slot<R>> {
        let slot = self.slots.get_mut(index);
        slot.filter(|slot| slot.stage == Stage::Issued && slot.generation == generation)
    }

    /// All commands that the peer has: index and slot.
    pub(super) fn all_issued(&self) -> impl Iterator<Item = (u16, &Slot<R>)> {
        let numbered = (0..).zip(&self.slots);
        numbered.filter(|(_, slot)| slot.stage == Stage::Issued)
    }

    /// All commands that have not ended.
    pub(super) fn waiting(&self) -> impl Iterator<Item = &Slot<R>> {
        self.slots.iter().filter(|slot| matches!(slot.stage, Stage::Queued | Stage::Issued))
    }

    /// The slot of a command, whatever has become of it.
    pub(super) fn slot(&mut self, index: u16) -> &mut Slot<R> {
        &mut self.slots[usize::from(index)]
    }

    /// Ends a command.
    pub(super) fn finish(&mut self, index: u16, result: Result<u64, IoError>) {
        let slot = &mut self.slots[usize::from(index)];
        slot.stage = Stage::Done;
        slot.result = result;
        if slot.abandoned {
            self.release(index);
        } else if let Some(waker) = slot.waker.take() {
            waker.wake();
        }
    }

    /// Ends every command that has not ended.
    pub(super) fn fail(&mut self, error: &IoError) {
        for index in 0..self.slots.len() {
            if matches!(self.slots[index].stage, Stage::Queued | Stage::Issued) {
                self.finish(index as u16, Err(error.clone()));
            }
        }
    }

    /// The slot of a command that has ended.
    fn poll(&mut self, index: u16, context: &Context<'_>) -> Poll<&mut Slot<R>> {
        let slot = &mut self.slots[usize::from(index)];
        if slot.stage == Stage::Done {
            return Poll::Ready(slot);
        }
        slot.waker = Some(context.waker().clone());
        Poll::Pending
    }

    fn release(&mut self, index: u16) {
        let slot = &mut self.slots[usize::from(index)];
        slot.generation = slot.generation.wrapping_add(1) & self.generations;
        slot.stage = Stage::Free;
        slot.abandoned = false;
        slot.waker = None;
        slot.buffer = Buffer::empty();
        slot.data = Shared::empty();
        slot.result = Ok(0);
        (slot.expected, slot.received) = (0, 0);
        self.free.push(index);
    }
}

/// A connection that commands are sent on.
pub(super) trait Connection {
    type Request: Copy;

    fn table(&self) -> RefMut<'_, Table<Self::Request>>;

    /// Bytes that a command has moved which ended well, with this result.
    fn moved(slot: &Slot<Self::Request>, result: u64) -> usize;
}

/// A command that was sent, or waits for it. When nobody waits for its end, it is dropped.
pub(super) struct Pending<C: Connection> {
    connection: Rc<C>,
    generation: u32,
    index: u16,
    /// Its end was heard, or there was no slot for it.
    over: bool,
}

/// How a command ended, and what it takes to send it again.
pub(super) struct Finished<R> {
    /// What the peer says of it.
    pub(super) result: Result<u64, IoError>,
    /// Bytes of input that came.
    pub(super) received: usize,
    pub(super) request: R,
    pub(super) transfer: Transfer,
}

impl<R> Finished<R> {
    /// The result, bytes of input that came, and the buffer of [`Transfer::In`].
    pub(super) fn parts(self) -> (Result<u64, IoError>, usize, Buffer) {
        let buffer = if let Transfer::In(buffer) = self.transfer { buffer } else { Buffer::empty() };
        (self.result, self.received, buffer)
    }
}

impl<C: Connection> Pending<C> {
    /// The command of a slot.
    pub(super) fn new(connection: &Rc<C>, index: u16, generation: u32) -> Pending<C> {
        Pending { connection: connection.clone(), generation, index, over: false }
    }

    /// One that there was no slot for.
    pub(super) fn without_slot(connection: &Rc<C>) -> Pending<C> {
        Pending { connection: connection.clone(), generation: 0, index: u16::MAX, over: true }
    }

    /// Index and generation of its slot, while it has one.
    pub(super) fn name(&self) -> Option<(u16, u32)> {
        (!self.over).then_some((self.index, self.generation))
    }

    /// Its end in short, when it has moved all of its bytes, or else the whole story.
    pub(super) fn poll_done(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), Box<Finished<C::Request>>>> {
        let mut short = None;
        if !self.over {
            let mut table = self.connection.table();
            let slot = ready!(table.poll(self.index, context));
            if let Ok(result) = slot.result {
                let (moved, wanted) = (C::moved(slot, result), slot.expected + slot.data.len());
                if moved == wanted {
                    table.release(self.index);
                    self.over = true;
                    return Poll::Ready(Ok(()));
                }
                short = Some(Cause::Short { moved: moved as u64, wanted: wanted as u64 });
            }
        }
        let mut finished = ready!(Pin::new(self).poll(context));
        if let Some(cause) = short {
            finished.result = Err(cause.into());
        }
        Poll::Ready(Err(Box::new(finished)))
    }
}

impl<C: Connection> Future for Pending<C> {
    type Output = Finished<C::Request>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut table = self.connection.table();
        if self.over {
            // Every slot is taken, so that there is one.
            let (result, request) =
                (Err(Cause::Unsupported("so many commands at once").into()), table.slot(0).request);
            return Poll::Ready(Finished { result, received: 0, request, transfer: Transfer::Nothing });
        }
        let finished = ready!(table.poll(self.index, context)).finish();
        table.release(self.index);
        drop(table);
        self.over = true;
        Poll::Ready(finished)
    }
}

impl<C: Connection> Drop for Pending<C> {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        let mut table = self.connection.table();
        let slot = table.slot(self.index);
        if slot.stage == Stage::Done {
            table.release(self.index);
        } else {
            slot.abandoned = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::pin::pin;

    use super::*;

    struct Line(RefCell<Table<&'static str>>);

    impl Connection for Line {
        type Request = &'static str;

        fn table(&self) -> RefMut<'_, Table<&'static str>> {
            self.0.borrow_mut()
        }

        fn moved(_slot: &Slot<&'static str>, result: u64) -> usize {
            result as usize
        }
    }

    fn line(most: usize) -> Rc<Line> {
        Rc::new(Line(RefCell::new(Table::new(most, 2, Instant::default()))))
    }

    /// A command that the peer has.
    fn send(line: &Rc<Line>, transfer: Transfer) -> Pending<Line> {
        let index = line.table().add("command", transfer, Instant::default());
        let Some(index) = index else { return Pending::without_slot(line) };
        line.table().issue(index);
        let generation = line.table().generation(index);
        Pending::new(line, index, generation)
    }

    fn context() -> Context<'static> {
        Context::from_waker(Waker::noop())
    }

    #[test]
    fn a_late_answer_finds_nothing() {
        let line = line(8);
        for generation in [0, 1, 2, 3, 0] {
            let mut pending = send(&line, Transfer::Out(Buffer::zeroed(512).share()));
            assert_eq!(pending.name(), Some((0, generation)), "the same slot under another name");
            assert!(pending.poll_done(&mut context()).is_pending());
            assert!(line.table().issued(0, generation).is_some());
            assert!(line.table().issued(0, (generation + 1) % 4).is_none());
            line.table().finish(0, Ok(512));
            assert!(line.table().issued(0, generation).is_none(), "it has ended");
            assert!(matches!(pending.poll_done(&mut context()), Poll::Ready(Ok(()))));
            assert_eq!(pending.name(), None);
        }
    }

    #[test]
    fn what_did_not_move_all_of_its_bytes_says_so_and_can_be_sent_again() {
        let line = line(8);
        let data = || Buffer::copy_of(&[7; 512]).share();
        for transfer in [Transfer::Unseen(512), Transfer::In(Buffer::new(512)), Transfer::Out(data())] {
            let mut pending = send(&line, transfer);
            line.table().finish(0, Ok(511));
            let Poll::Ready(Err(finished)) = pending.poll_done(&mut context()) else {
                panic!("it was short")
            };
            let error = finished.result.as_ref().unwrap_err();
            assert_eq!(error.to_string(), "511 of 512 bytes were moved");
            assert_eq!((finished.request, finished.transfer.length()), ("command", 512));
        }
        let mut pending = send(&line, Transfer::Out(data()));
        line.table().finish(0, Err(Cause::Aborted.into()));
        let Poll::Ready(Err(finished)) = pending.poll_done(&mut context()) else { panic!("it was aborted") };
        assert!(matches!(finished.result.as_ref().map_err(IoError::cause), Err(Cause::Aborted)));
        assert!(matches!(finished.transfer, Transfer::Out(data) if data[..] == [7; 512]));
    }

    #[test]
    fn a_command_that_nobody_waits_for_leaves_its_slot_when_it_ends() {
        let line = line(1);
        drop(send(&line, Transfer::In(Buffer::new(512))));
        assert!(line.table().issued(0, 0).is_some(), "the peer has it still");
        let refused = send(&line, Transfer::Nothing);
        let Poll::Ready(finished) = pin!(refused).poll(&mut context()) else { panic!("there is no slot") };
        assert!(matches!(finished.result.as_ref().map_err(IoError::cause), Err(Cause::Unsupported(_))));
        line.table().finish(0, Ok(512));
        assert!(line.table().slot(0).buffer.is_empty());
        let mut next = send(&line, Transfer::Nothing);
        line.table().finish(0, Ok(0));
        assert!(matches!(next.poll_done(&mut context()), Poll::Ready(Ok(()))), "somebody waits for this one");
        // One that has ended before it is let go.
        let ended = send(&line, Transfer::Nothing);
        line.table().finish(0, Ok(0));
        drop(ended);
        assert_eq!(send(&line, Transfer::Nothing).name(), Some((0, 3)));
    }
}
