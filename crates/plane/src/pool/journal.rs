//! The journal as one core writes it: changes of many tasks become one transaction, which is on stable media on all
//! members that it touches before any of them is acknowledged. docs/formats/pool.md, "Journal".

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;
use std::sync::atomic::Ordering;

use ring::{Buffer, Notify};
use smallvec::{SmallVec, smallvec};

use super::core::{Locked, PoolCore, Trouble};
use super::format::transaction::{HEAD, MAX_HEADER_BLOCKS, TransactionWriter, restamp, update_bytes};
use super::format::{BLOCK, Cause, Geometry, Kind, TransactionHead, UNWRITTEN, UpdateHead, block_entry};
use super::join::{Several, join};
use super::keeper::Message;
use super::layout::{Row, Slots, members};
use super::segments::Tail;
use crate::error::{Error, ErrorKind};
use crate::limits::POOL_TRANSACTION_BYTES;
use crate::request::{Flags, Request};

/// Blocks of slots, and the lists of changes: those of a small request take no memory of their own.
pub(super) type Blocks = SmallVec<[(usize, Buffer); 4]>;
/// Entries of the table.
pub(super) type Entries = SmallVec<[u32; 12]>;
/// What one request changes.
pub(super) type Changes = SmallVec<[Change; 1]>;

/// Neighbouring columns of a row that change together.
pub(super) struct Change {
    /// Which row.
    pub(super) row: u64,
    /// Which of its columns.
    pub(super) positions: Range<usize>,
    /// The slots whose blocks change.
    pub(super) touched: Slots,
    /// The blocks are of no use any more and read as zeroes; then there are no entries and no blocks.
    pub(super) erase: bool,
    /// For each touched slot, ascending, an entry for each column.
    pub(super) entries: Entries,
    /// For each touched slot, ascending, its new blocks.
    pub(super) blocks: Blocks,
}

impl Change {
    /// New blocks for some slots.
    pub(super) fn write(row: u64, positions: Range<usize>, mut blocks: Blocks) -> Change {
        blocks.sort_unstable_by_key(|(slot, _)| *slot);
        let touched = blocks.iter().fold(0, |touched, (slot, _)| touched | 1 << slot);
        let entries =
            blocks.iter().flat_map(|(_, bytes)| bytes.chunks_exact(BLOCK).map(block_entry)).collect();
        Change { row, positions, touched, erase: false, entries, blocks }
    }

    /// The same new blocks for some slots.
    pub(super) fn copies(row: u64, positions: Range<usize>, blocks: Blocks) -> Change {
        let touched = blocks.iter().fold(0, |touched, (slot, _)| touched | 1 << slot);
        let first = blocks.first().map_or(&[][..], |(_, bytes)| bytes);
        let of_one: Entries = first.chunks_exact(BLOCK).map(block_entry).collect();
        let entries = blocks.iter().flat_map(|_| &of_one).copied().collect();
        Change { row, positions, touched, erase: false, entries, blocks }
    }

    /// Zeroes that take no space.
    pub(super) fn erase(row: u64, positions: Range<usize>, touched: Slots) -> Change {
        Change { row, positions, touched, erase: true, entries: Entries::new(), blocks: Blocks::new() }
    }

    /// Bytes that it takes in a header at most.
    fn head_bytes(&self) -> usize {
        let kind = if self.erase { Kind::Erase } else { Kind::Write };
        update_bytes(kind, self.touched.count_ones(), self.positions.len() as u16)
    }

    fn payload_bytes(&self, slot: usize) -> usize {
        if self.erase || self.touched & 1 << slot == 0 { 0 } else { self.positions.len() * BLOCK }
    }
}

/// How large the transaction of some changes is.
struct Size {
    head: usize,
    payloads: SmallVec<[usize; 16]>,
    most: usize,
}

impl Size {
    fn new(geometry: &Geometry) -> Size {
        let most = POOL_TRANSACTION_BYTES.min(geometry.segment_bytes as usize);
        Size { head: HEAD, payloads: smallvec![0; usize::from(geometry.slots)], most }
    }

    /// Of the transaction that a batch becomes.
    fn of(geometry: &Geometry, batch: &[Rc<Waiting>]) -> Size {
        let mut size = Size::new(geometry);
        for waiting in batch {
            waiting.changes.borrow().iter().for_each(|change| _ = size.add(change));
        }
        size
    }

    /// One more change. Whether all still fit a header, and their parts a segment.
    fn add(&mut self, change: &Change) -> bool {
        self.head += change.head_bytes();
        for (slot, payload) in self.payloads.iter_mut().enumerate() {
            *payload += change.payload_bytes(slot);
        }
        let largest = self.payloads.iter().max().copied().unwrap_or(0);
        self.header() <= MAX_HEADER_BLOCKS * BLOCK && self.header() + largest <= self.most
    }

    /// Bytes of the header.
    fn header(&self) -> usize {
        self.head.next_multiple_of(BLOCK)
    }

    /// Bytes of the part of a slot.
    fn part(&self, slot: usize) -> usize {
        self.header() + self.payloads[slot]
    }
}

/// Changes that are on stable media in the journal and now go to their places.
pub(super) struct Committed {
    changes: Changes,
    number: u64,
}

type AllCommitted = SmallVec<[Committed; 1]>;

/// Changes of one task that wait for their transaction.
#[derive(Default)]
struct Waiting {
    changes: RefCell<Changes>,
    outcome: RefCell<Option<Result<u64, Error>>>,
    done: Notify,
}

/// Those that become one transaction.
type Batch = Several<Rc<Waiting>>;

/// What a core appends to.
#[derive(Default)]
pub(super) struct Journal {
    queue: RefCell<VecDeque<Rc<Waiting>>>,
    /// To be used again.
    spare: RefCell<Vec<Rc<Waiting>>>,
    writes: Cell<bool>,
    tail: RefCell<Option<Tail>>,
    /// Transactions whose blocks are not all in their places, with how many tasks still write.
    unfinished: RefCell<VecDeque<(u64, usize)>>,
}

fn rows_of(changes: &[Change]) -> Several<u64> {
    changes.iter().map(|change| change.row).collect()
}

impl PoolCore {
    /// Writes changes of one row to the journal. When this ends, those that are given back are durable: all of them,
    /// unless there is an error. A row that is too wide for one transaction takes several.
    pub(super) async fn commit(self: &Rc<Self>, changes: Changes) -> (AllCommitted, Result<(), Error>) {
        let mut batches: SmallVec<[Changes; 1]> = smallvec![Changes::new()];
        let mut size = Size::new(self.geometry());
        for change in changes {
            if !size.add(&change) && !batches.last().is_some_and(SmallVec::is_empty) {
                batches.push(Changes::new());
                size = Size::new(self.geometry());
                size.add(&change);
            }
            batches.last_mut().expect("there is one").push(change);
        }
        let mut committed = AllCommitted::new();
        for batch in batches {
            match self.commit_together(batch).await {
                Ok(done) => committed.push(done),
                Err(error) => return (committed, Err(error)),
            }
        }
        (committed, Ok(()))
    }

    async fn commit_together(self: &Rc<Self>, changes: Changes) -> Result<Committed, Error> {
        let waiting = self.journal.spare.borrow_mut().pop().unwrap_or_default();
        waiting.changes.replace(changes);
        self.journal.queue.borrow_mut().push_back(waiting.clone());
        if !self.journal.writes.replace(true) {
            let core = self.clone();
            self.ring.spawn_later(async move {
                while let Some(batch) = core.next_batch() {
                    core.write_batch(batch).await;
                }
                core.leave_segment();
                core.journal.writes.set(false);
            });
        }
        let outcome = waiting.done.until(|| waiting.outcome.take()).await;
        let changes = waiting.changes.take();
        if Rc::strong_count(&waiting) == 1 {
            self.journal.spare.borrow_mut().push(waiting);
        }
        outcome.map(|number| Committed { changes, number })
    }

    /// As many of those that wait as fit a transaction.
    fn next_batch(&self) -> Option<Batch> {
        let mut queue = self.journal.queue.borrow_mut();
        let mut size = Size::new(self.geometry());
        let mut batch = Batch::new();
        while let Some(next) = queue.front() {
            let fits = next.changes.borrow().iter().all(|change| size.add(change));
            if !fits && !batch.is_empty() {
                break;
            }
            batch.extend(queue.pop_front());
        }
        (!batch.is_empty()).then_some(batch)
    }

    async fn write_batch(self: &Rc<Self>, batch: Batch) {
        let shared = self.shared.clone();
        let (out, touched) = self.prepare(&batch).await;
        let number = self.next_number(batch.len());
        // After the number is taken: the keeper sees that, or we see that it has sealed the journal.
        if shared.sealed.load(Ordering::SeqCst) {
            for waiting in batch {
                self.finish(number);
                let error = Error::new(ErrorKind::Aborted, "writing to a pool that is being closed");
                waiting.outcome.replace(Some(Err(error)));
                waiting.done.notify();
            }
            return;
        }
        for waiting in &batch {
            waiting.changes.borrow().iter().for_each(|change| shared.bitmap.touch(change.row));
        }
        let (failed, error) = self.write_parts(&batch, number, touched).await;
        self.until(|| shared.is_labelled()).await;
        let unusable = out | failed;
        let mut is_noted = true;
        if !shared.states.all_in_sync() {
            let changes = batch.iter().flat_map(|waiting| rows_of(&waiting.changes.borrow())).collect();
            is_noted = self.note_in_bitmap(changes).await;
        }
        // Rows of a member that is being rebuilt are good where no label says so yet: a recovery would not know. Asked as late
        // as this: one that has come in meanwhile may by now be all that is left.
        let unknown = unusable | shared.states.rebuilding();
        // Of a pool that has failed, nobody knows whether the labels say who is out.
        let is_durable = error.is_none() && is_noted && !shared.has_failed();
        for waiting in batch {
            let changes = waiting.changes.borrow();
            let survives = |change: &Change| {
                Row::new(&shared.geometry, change.row).survives(self.gone(change.row) | unknown)
            };
            let outcome = if is_durable && changes.iter().all(survives) {
                changes.iter().for_each(|change| self.note(change, unusable));
                Ok(number)
            } else {
                self.finish(number);
                // Nobody knows whether a recovery would make it: what is computed from the old blocks must not follow it.
                shared.fail_stop("the journal could not be written");
                Err(Error::new(
                    ErrorKind::Failed,
                    "writing the journal of a pool: too many of its members fail",
                ))
            };
            drop(changes);
            waiting.outcome.replace(Some(outcome));
            waiting.done.notify();
        }
    }

    /// Waits until the labels say who is out, and the parts of a batch have room in a segment, or nothing can be written any more. Gives
    /// the slots that are out, and those that the batch touches. All of it before there is a number: a transaction that has one and waits
    /// for a segment to be free keeps all those from it that others have filled since.
    async fn prepare(&self, batch: &[Rc<Waiting>]) -> (Slots, Slots) {
        let size = Size::of(self.geometry(), batch);
        loop {
            // A recovery has to know who was out when this was written.
            self.until(|| self.shared.is_labelled()).await;
            let out = self.shared.states.out();
            let touched = batch.iter().fold(0, |touched, waiting| {
                waiting.changes.borrow().iter().fold(touched, |touched, change| touched | change.touched)
            }) & !out;
            if touched == 0 || self.has_room(touched, &size) || self.shared.has_failed() {
                return (out, touched);
            }
            self.claim_segment().await;
        }
    }

    /// The number of a transaction of so many tasks.
    fn next_number(&self, tasks: usize) -> u64 {
        let shared = &self.shared;
        let mut unfinished = self.journal.unfinished.borrow_mut();
        // Announced before the number is taken, so that no checkpoint passes it.
        if unfinished.is_empty() {
            shared.oldest[self.index].store(shared.next.load(Ordering::SeqCst), Ordering::SeqCst);
        }
        let number = shared.next.fetch_add(1, Ordering::SeqCst);
        unfinished.push_back((number, tasks));
        number
    }

    /// Writes the parts of a transaction to all members that it touches. Gives those that did not take theirs.
    async fn write_parts(&self, batch: &[Rc<Waiting>], number: u64, touched: Slots) -> (Slots, Option<()>) {
        let mut header = Buffer::new(MAX_HEADER_BLOCKS * BLOCK);
        let mut writer = TransactionWriter::new(&mut header);
        for waiting in batch {
            for change in waiting.changes.borrow().iter() {
                let head = UpdateHead {
                    row: change.row,
                    position: change.positions.start as u16,
                    columns: change.positions.len() as u16,
                    kind: if change.erase { Kind::Erase } else { Kind::Write },
                    touched: change.touched,
                };
                if writer.push(&head, change.entries.iter().copied()).is_err() {
                    return (0, Some(()));
                }
            }
        }
        let payload = |slot: usize| writer.payload_blocks(slot as u16) as usize * BLOCK;
        let header_bytes = usize::from(writer.header_blocks()) * BLOCK;
        // What failed may have left a gap in the segment, and a recovery looks no further than that.
        if self.shared.has_failed() {
            return (0, Some(()));
        }
        // Whoever was to get something is out: nothing is to be written, and what the others have is as it is to be.
        if touched == 0 {
            return (0, None);
        }
        let places = self.append(number, touched, |slot| header_bytes + payload(slot));
        let parts: Several<(usize, u64, usize)> =
            members(touched).zip(places).map(|(slot, place)| (slot, place, payload(slot))).collect();
        let Some(&(slot, place, bytes)) = parts.first() else { return (0, Some(())) };
        let header = writer.finish(&TransactionHead {
            pool: self.shared.id,
            number,
            retired: self.shared.retired.load(Ordering::Acquire),
            place,
            slot: slot as u16,
            payload_blocks: (bytes / BLOCK) as u32,
        });
        let mut writes = Several::new();
        for (slot, place, bytes) in parts {
            restamp(header, slot as u16, place, (bytes / BLOCK) as u32);
            let mut part = Buffer::new(header_bytes + bytes);
            part[..header_bytes].copy_from_slice(header);
            let mut at = header_bytes;
            for waiting in batch {
                for change in waiting.changes.borrow().iter() {
                    for (_, blocks) in change.blocks.iter().filter(|(other, _)| *other == slot) {
                        part[at..at + blocks.len()].copy_from_slice(blocks);
                        at += blocks.len();
                    }
                }
            }
            writes.push(self.ask(slot, Request::write(place, part).with(Flags::FUA)));
        }
        let answers = join(writes).await;
        let mut failed = 0;
        for (slot, answer) in members(touched).zip(answers) {
            if let Err(trouble) = answer.result {
                let cause = if matches!(trouble, Trouble::Stall) { Cause::Stall } else { Cause::WriteError };
                self.fail(slot, cause, &trouble);
                failed |= 1 << slot;
            }
        }
        (failed, None)
    }

    /// Where the parts of a transaction go, in bytes of their members; nowhere without a segment.
    fn append(&self, number: u64, touched: Slots, bytes: impl Fn(usize) -> usize) -> Several<u64> {
        let mut tail = self.journal.tail.borrow_mut();
        let Some(tail) = tail.as_mut() else { return Several::new() };
        tail.last = number;
        let segment = self.geometry().segment_place(tail.segment);
        let place = |slot: usize| {
            let place = u64::from(tail.places[slot]);
            tail.places[slot] += bytes(slot) as u32;
            segment + place
        };
        members(touched).map(place).collect()
    }

    /// Whether parts of this size have room in the segment.
    fn has_room(&self, touched: Slots, size: &Size) -> bool {
        let most = self.geometry().segment_bytes as usize;
        // A member that came in since has nothing at the start of the segment, and a recovery looks no further than that.
        let replaced = self.shared.replaced.load(Ordering::Acquire);
        let fits = |tail: &Tail| {
            tail.replaced == replaced
                && members(touched).all(|slot| tail.places[slot] as usize + size.part(slot) <= most)
        };
        self.journal.tail.borrow().as_ref().is_some_and(fits)
    }

    /// Takes another segment, as soon as one is to be had, or nothing can be written any more.
    async fn claim_segment(&self) {
        let (journal, shared) = (&self.journal, &self.shared);
        // Its list is used again: a segment is no reason to take memory.
        let mut places = Vec::new();
        if let Some(tail) = journal.tail.take() {
            shared.segments.fill(&tail);
            places = tail.places;
        }
        if shared.segments.is_short() {
            shared.keeper.send(Message::Checkpoint).ok();
        }
        self.until(|| {
            let claimed = shared.segments.claim();
            let is_claimed = claimed.is_some();
            if !is_claimed {
                shared.keeper.send(Message::Checkpoint).ok();
            }
            journal.tail.replace(claimed);
            is_claimed || shared.has_failed()
        })
        .await;
        let mut tail = journal.tail.borrow_mut();
        let Some(tail) = tail.as_mut() else { return };
        if tail.last == 0 {
            places.clear();
            tail.places = places;
            tail.replaced = shared.replaced.load(Ordering::Acquire);
        }
        // Also for slots that come while this one is filled.
        tail.places.resize(self.geometry().level.most_slots(), 0);
    }

    /// Nothing is to be written for now: where segments are few, others may need this one.
    fn leave_segment(&self) {
        if self.shared.segments.are_few()
            && let Some(tail) = self.journal.tail.take()
        {
            self.shared.segments.leave(tail);
        }
    }

    /// What is changed while a member is out is noted for it, on stable media. False when that cannot be done any more.
    async fn note_in_bitmap(&self, mut rows: Several<u64>) -> bool {
        let (bitmap, states) = (&self.shared.bitmap, &self.shared.states);
        loop {
            rows.retain(|row| bitmap.set(*row));
            if rows.is_empty() {
                return true;
            }
            if self.shared.has_failed() {
                return false;
            }
            self.shared.keeper.send(Message::Bitmap).ok();
            // When the last member is back, the keeper clears all bits: then nobody lacks these rows.
            let is_cleared = || rows.iter().any(|row| !bitmap.is_set(*row));
            let has_failed = || self.shared.has_failed();
            self.until(|| rows.iter().all(|row| bitmap.is_durable(*row)) || is_cleared() || has_failed())
                .await;
            if states.all_in_sync() {
                return true;
            }
        }
    }

    /// From now on the table says what the blocks are to be.
    pub(super) fn note(&self, change: &Change, unusable: Slots) {
        let columns = change.positions.len();
        for (index, slot) in members(change.touched).enumerate() {
            if unusable & 1 << slot != 0 {
                continue;
            }
            for (column, position) in change.positions.clone().enumerate() {
                let entry = if change.erase { UNWRITTEN } else { change.entries[index * columns + column] };
                self.shared.table.set(slot, change.row, position, self.table_entry(entry));
            }
        }
    }

    /// Writes committed changes to their places, and then lets go of the row.
    pub(super) fn put_in_place(self: &Rc<Self>, committed: AllCommitted, locked: Locked) {
        self.under_way.set(self.under_way.get() + 1);
        let core = self.clone();
        self.ring.spawn(async move {
            for Committed { changes, number } in committed {
                let rows = rows_of(&changes);
                if !core.write_places(changes).await {
                    core.shared.fail_stop(
                        "acknowledged blocks, which are in the journal, could not be written to their places",
                    );
                    continue;
                }
                // A checkpoint that ended meanwhile has not flushed this. A member that goes out from now on may lack it,
                // as may one that went out since it was acknowledged.
                for row in &rows {
                    core.shared.bitmap.touch(*row);
                }
                // What a member lacks and no bitmap has stays in the journal.
                if core.shared.states.all_in_sync() || core.note_in_bitmap(rows).await {
                    core.finish(number);
                }
            }
            drop(locked);
            core.under_way.set(core.under_way.get() - 1);
        });
    }

    /// Writes changes to their places. False when a member that cannot be spared did not take its blocks.
    pub(super) async fn write_places(&self, changes: Changes) -> bool {
        let mut writes = Several::new();
        let mut slots: Several<(usize, bool)> = Several::new();
        for change in changes {
            let gone = self.gone(change.row);
            if change.erase {
                for slot in members(change.touched & !gone) {
                    slots.push((slot, true));
                    writes.push(self.discard_unit(
                        slot,
                        change.row,
                        change.positions.start,
                        change.positions.len(),
                    ));
                }
            }
            for (slot, blocks) in change.blocks {
                if gone & 1 << slot == 0 {
                    slots.push((slot, false));
                    writes.push(self.write_unit(slot, change.row, change.positions.start, blocks));
                }
            }
        }
        let mut done = true;
        for ((slot, is_discard), answer) in slots.into_iter().zip(join(writes).await) {
            let Err(trouble) = answer.result else { continue };
            let stalls = matches!(trouble, Trouble::Stall);
            // What comes of a discard does not matter, as long as it is over: else it takes what is written there next.
            if stalls || !is_discard {
                let cause = if stalls { Cause::Stall } else { Cause::WriteError };
                done &= self.fail(slot, cause, &trouble);
            }
        }
        done
    }

    /// One task of a transaction is done with its places.
    fn finish(&self, number: u64) {
        let mut unfinished = self.journal.unfinished.borrow_mut();
        if let Some((_, tasks)) = unfinished.iter_mut().find(|(other, _)| *other == number) {
            *tasks -= 1;
        }
        while matches!(unfinished.front(), Some((_, 0))) {
            unfinished.pop_front();
        }
        let oldest = unfinished.front().map_or(u64::MAX, |(number, _)| *number);
        self.shared.oldest[self.index].store(oldest, Ordering::SeqCst);
    }
}
