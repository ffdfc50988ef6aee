//! After a power cut: what the journal says is made again, in full or in part, or dropped. docs/formats/pool.md, "After a
//! power cut".

use std::ops::Range;
use std::rc::Rc;
use std::sync::atomic::Ordering;

use ring::Buffer;
use smallvec::smallvec;

use super::column::{Block, Columns};
use super::core::{NO_CHECKSUM, PoolCore, Trouble};
use super::events::Counters;
use super::findings::{Findings, Found};
use super::format::transaction::{Update, restamp};
use super::format::{BLOCK, Cause, Kind, LOST, UNWRITTEN, UpdateHead, block_entry};
use super::join::join;
use super::journal::{Blocks, Change, Changes, Entries};
use super::layout::{Row, Slots, members};
use crate::request::{Flags, Request};

/// Numbers that a member that is away may have seen beyond those that are here: the transactions that were under way, one
/// for each core. They are not given again, else its old parts would be taken for those of new transactions when it is back.
const UNSEEN: u64 = 1 << 16;

/// Columns of a row.
type Place = (u64, Range<usize>);

/// One update, with what there is of it.
struct Replay {
    head: UpdateHead,
    entries: Entries,
    /// Of each touched slot that has a part, its blocks.
    parts: Blocks,
    /// The slots whose part is right.
    right: Slots,
}

/// What is to become of an update, as far as its parts say: the judgement, without I/O.
pub(super) fn is_made(row: Row, gone: Slots, touched: Slots, right: Slots) -> bool {
    row.survives(gone | touched & !right)
}

impl Replay {
    fn start(&self) -> usize {
        usize::from(self.head.position)
    }

    fn columns(&self) -> usize {
        usize::from(self.head.columns)
    }

    fn positions(&self) -> Range<usize> {
        self.start()..self.start() + self.columns()
    }

    /// The entries of a touched slot; none for an erase.
    fn wanted(&self, slot: usize) -> &[u32] {
        let before = (self.head.touched & ((1 << slot) - 1)).count_ones() as usize * self.columns();
        self.entries.get(before..before + self.columns()).unwrap_or(&[])
    }

    fn part(&self, slot: usize) -> Option<&Buffer> {
        self.parts.iter().find(|(other, _)| *other == slot).map(|(_, bytes)| bytes)
    }
}

impl PoolCore {
    /// Reads the journals of all members, and makes what is not retired. `retired`: what the labels say. False when a member has
    /// failed meanwhile: before anything more is made that it lacks, the labels have to say that it is out.
    pub(super) async fn recover(self: &Rc<Self>, retired: u64) -> bool {
        let out = self.shared.states.out();
        // Where nothing can be written any more, what was acknowledged is to be read all the same.
        let is_labelled = || self.shared.states.out() == out || self.shared.has_failed();
        let findings = self.find(retired).await;
        // Of one that does not answer nobody knows what it has: nothing is judged without that.
        if self.silent.get().is_some() {
            return true;
        }
        let mut uneven = Vec::new();
        for (number, found) in findings.transactions.range(findings.retired..) {
            let updates = self.read_updates(found).await;
            if self.silent.get().is_some() {
                return true;
            }
            if updates.iter().all(|replay| self.is_made(replay)) {
                self.complete_parts(found, &updates).await;
            }
            if !is_labelled() {
                return false;
            }
            self.replay(*number, updates, &findings, &mut uneven).await;
        }
        // Only now every block of a column is what it was last, and those without a part follow from the others.
        for (row, positions) in uneven {
            self.repair(row, positions).await;
        }
        // What was made from some of its parts only is durable before the table says so: else the next cut could leave the new
        // entries, and nobody who has the blocks.
        self.flush_members().await;
        let next = (findings.highest() + 1).max(findings.retired) + UNSEEN;
        self.shared.next.store(next, Ordering::SeqCst);
        self.shared.retired.store(findings.retired, Ordering::SeqCst);
        true
    }

    /// Reads the parts of one update. `offsets`: of each slot's part, where its next blocks are.
    async fn read_update(&self, found: &Found, update: &Update<'_>, offsets: &mut [u64]) -> Replay {
        let head = update.head;
        let entries = update.entries().collect();
        let mut replay = Replay { head, entries, parts: Blocks::new(), right: 0 };
        for slot in members(head.touched) {
            let blocks = head.payload_blocks(slot as u16) as usize;
            let offset = offsets[slot] * BLOCK as u64;
            offsets[slot] += blocks as u64;
            // One that did not answer is not asked for every update.
            if self.shared.states.out() & 1 << slot != 0 {
                continue;
            }
            let Some(part) = found.parts.iter().find(|part| part.slot == slot) else { continue };
            if blocks == 0 {
                replay.right |= u64::from(part.has_header) << slot;
                continue;
            }
            let bytes = self.read_pages(slot, part.place + offset, blocks).await;
            if bytes.chunks_exact(BLOCK).zip(replay.wanted(slot)).all(|(block, entry)| fits(block, *entry)) {
                replay.right |= 1 << slot;
            }
            replay.parts.push((slot, bytes));
        }
        replay
    }

    /// The updates of a transaction, each with its parts.
    async fn read_updates(&self, found: &Found) -> Vec<Replay> {
        let Some(transaction) = self.decode(found) else { return Vec::new() };
        let mut offsets = vec![u64::from(transaction.header_blocks); usize::from(self.geometry().slots)];
        let mut updates = Vec::new();
        for update in transaction.updates() {
            updates.push(self.read_update(found, &update, &mut offsets).await);
        }
        updates
    }

    /// What lies in the places of an update's blocks; zeroes where it cannot be read.
    async fn read_place(&self, slot: usize, replay: &Replay) -> Buffer {
        let place = self.geometry().unit_place(replay.head.row) + (replay.start() * BLOCK) as u64;
        self.read_pages(slot, place, replay.columns()).await
    }

    /// What becomes of the updates of a transaction.
    async fn replay(
        self: &Rc<Self>,
        number: u64,
        updates: Vec<Replay>,
        findings: &Findings,
        uneven: &mut Vec<Place>,
    ) {
        for replay in updates {
            let head = replay.head;
            let gone = self.gone(head.row);
            let place = (head.row, replay.positions());
            let is_made = self.is_made(&replay);
            let is_kept = is_made && self.follows(&replay, gone).await
                || findings.was_complete(number, head.row)
                || self.lies_in_place(&replay, gone).await;
            if !is_kept {
                Counters::count(&self.shared.counters.dropped);
            } else if is_made {
                if self.make(replay, gone).await {
                    uneven.push(place);
                }
            } else {
                self.make_in_part(replay, gone).await;
                uneven.push(place);
            }
        }
    }

    fn is_made(&self, replay: &Replay) -> bool {
        let (row, touched) = (replay.head.row, replay.head.touched);
        is_made(Row::new(self.geometry(), row), self.gone(row), touched, replay.right)
    }

    /// Whether the blocks of members that lack their part follow from the others: more may be bad in these columns than parts.
    async fn follows(&self, replay: &Replay, gone: Slots) -> bool {
        let lacking = self.lacking(replay);
        if lacking == 0 || replay.head.kind == Kind::Erase {
            return true;
        }
        let columns = self.complete(replay, gone, false).await;
        members(lacking).all(|slot| is_complete(&columns, slot, replay))
    }

    /// Whether a block that an update was to change is in its place already: then all of its parts were on stable media.
    async fn lies_in_place(&self, replay: &Replay, gone: Slots) -> bool {
        // Of what was erased there is nothing to be seen.
        let slots = if replay.head.kind == Kind::Write { replay.head.touched & !gone } else { 0 };
        for slot in members(slots) {
            let blocks = self.read_place(slot, replay).await;
            let entries = replay.positions().zip(replay.wanted(slot));
            for ((position, entry), block) in entries.zip(blocks.chunks_exact(BLOCK)) {
                let before = self.shared.table.entry(slot, replay.head.row, position);
                // Of what lay there before something has to be known.
                let is_other = before != *entry && !matches!(before, LOST | UNWRITTEN | NO_CHECKSUM);
                // Zeroes may be what was put in place of what cannot be read.
                let is_there = !matches!(*entry, LOST | UNWRITTEN) && block.iter().any(|byte| *byte != 0);
                if is_other && is_there && block_entry(block) == *entry {
                    return true;
                }
            }
        }
        false
    }

    /// The slots that take part in an update and have no right part of it.
    fn lacking(&self, replay: &Replay) -> Slots {
        replay.head.touched & !self.gone(replay.head.row) & !replay.right
    }

    /// Gives every member its part of a transaction that is about to be made from fewer of them: with the next cut in between,
    /// blocks would lie in their places of which the journal beside them says nothing.
    async fn complete_parts(&self, found: &Found, updates: &[Replay]) {
        let lacking = updates.iter().fold(0, |lacking, replay| lacking | self.lacking(replay));
        let mut payloads: Vec<(usize, Option<Vec<u8>>)> =
            members(lacking).map(|slot| (slot, Some(Vec::new()))).collect();
        for replay in updates.iter().filter(|replay| replay.head.kind == Kind::Write && lacking != 0) {
            let columns = self.complete(replay, self.gone(replay.head.row), false).await;
            for (slot, payload) in
                payloads.iter_mut().filter(|(slot, _)| replay.head.touched & 1 << slot != 0)
            {
                // One of which a later update is in its place was complete once: then that later one is in all journals.
                if is_complete(&columns, *slot, replay) {
                    if let Some(payload) = payload {
                        payload.extend_from_slice(columns.bytes(*slot));
                    }
                } else {
                    *payload = None;
                }
            }
        }
        let parts = payloads.into_iter().filter_map(|(slot, payload)| {
            let part = found.parts.iter().find(|part| part.slot == slot)?;
            Some((slot, completed(found, slot, part.place, &payload?)))
        });
        let (slots, writes): (Vec<usize>, Vec<Request>) = parts.unzip();
        let answers = join(slots.iter().zip(writes).map(|(slot, write)| self.ask(*slot, write))).await;
        for (slot, answer) in slots.into_iter().zip(answers) {
            if let Err(trouble) = answer.result
                && !self.fail(slot, Cause::WriteError, &trouble)
            {
                self.shared.fail_stop("the journal could not be completed");
            }
        }
    }

    /// What every change of a row does to the bitmap.
    fn touch(&self, row: u64) {
        Counters::count(&self.shared.counters.replayed);
        self.shared.bitmap.touch(row);
        if !self.shared.states.all_in_sync() {
            self.shared.bitmap.set(row);
        }
    }

    /// Makes one update. Gives whether blocks are lacking that follow from the others only once these are what they were last.
    async fn make(self: &Rc<Self>, replay: Replay, gone: Slots) -> bool {
        let head = replay.head;
        self.touch(head.row);
        let erase = head.kind == Kind::Erase;
        let lacking = if erase { 0 } else { head.touched & !gone & !replay.right };
        let mut made = Vec::new();
        if lacking != 0 {
            let mut columns = self.complete(&replay, gone, false).await;
            for slot in members(lacking) {
                if columns.states(slot).iter().all(|state| *state == Block::Good) {
                    made.push((slot, columns.take(slot)));
                }
            }
        }
        let is_complete = made.len() == lacking.count_ones() as usize;
        let (right, positions) = (replay.right, replay.positions());
        let mut blocks: Blocks =
            replay.parts.into_iter().filter(|(slot, _)| right & 1 << slot != 0).collect();
        blocks.extend(made);
        let entries = replay.entries;
        let change = Change { row: head.row, positions, touched: head.touched, erase, entries, blocks };
        self.note(&change, gone);
        self.put(smallvec![change]).await;
        !is_complete
    }

    async fn put(&self, changes: Changes) {
        if !self.write_places(changes).await {
            self.shared.fail_stop("what the journal has could not be written to its places");
        }
    }

    /// Makes what there is of an update that was complete once, and notes the rest as lost.
    async fn make_in_part(self: &Rc<Self>, replay: Replay, gone: Slots) {
        let head = replay.head;
        self.touch(head.row);
        if head.kind == Kind::Erase {
            let change = Change::erase(head.row, replay.positions(), head.touched);
            self.note(&change, gone);
            return self.put(smallvec![change]).await;
        }
        let columns = self.complete(&replay, gone, true).await;
        let mut lost = 0;
        let changes = (0..replay.columns()).map(|index| {
            let position = replay.start() + index;
            let mut entries = Entries::new();
            let mut blocks = Blocks::new();
            for slot in members(head.touched) {
                let wanted = replay.wanted(slot)[index];
                let is_good = columns.states(slot)[index] == Block::Good;
                entries.push(if is_good { wanted } else { LOST });
                if is_good && wanted != UNWRITTEN {
                    blocks.push((slot, Buffer::copy_of(&columns.bytes(slot)[index * BLOCK..][..BLOCK])));
                }
                lost += u64::from(!is_good && gone & 1 << slot == 0);
            }
            let positions = position..position + 1;
            Change { row: head.row, positions, touched: head.touched, erase: false, entries, blocks }
        });
        let changes: Changes = changes.collect();
        changes.iter().for_each(|change| self.note(change, gone));
        Counters::add(&self.shared.counters.lost, lost);
        tracing::error!(
            pool = self.shared.name,
            "row {}: {lost} blocks were written, and too few members still have what was to come there",
            head.row
        );
        self.put(changes).await;
    }

    /// The columns of an update as they are to be: its parts, what else lies in them, and what follows from both. Of touched
    /// blocks those are good that are what their entries say. `from_places`: also what lies in its place already.
    async fn complete(&self, replay: &Replay, gone: Slots, from_places: bool) -> Columns<'_> {
        let (row, touched) = (replay.head.row, replay.head.touched);
        let all = Row::new(self.geometry(), row).slots();
        let mut in_places = Vec::new();
        for slot in members(if from_places { touched & !gone } else { 0 }) {
            in_places.push((slot, self.read_place(slot, replay).await));
        }
        // What else is bad follows from the rest as long as the columns are what they were before.
        let mut before = Columns::load(self, row, replay.positions(), all).await;
        let mut mended = before.mend().await;
        mended.retain(|(slot, _)| touched & 1 << slot == 0);
        before.write_again(&mended).await;
        let mut columns = Columns::unknown(self, row, replay.positions());
        for slot in members(all & !gone & !touched) {
            columns.put_good(slot, &before);
        }
        for slot in members(touched) {
            let in_place = in_places.iter().find(|(other, _)| *other == slot).map(|(_, bytes)| bytes);
            let sources = [replay.part(slot), in_place];
            for (index, entry) in replay.wanted(slot).iter().enumerate() {
                if matches!(*entry, LOST | UNWRITTEN) {
                    columns.void(slot, index, *entry);
                    continue;
                }
                let mut blocks =
                    sources.iter().flatten().filter_map(|bytes| bytes.chunks_exact(BLOCK).nth(index));
                if let Some(block) = blocks.find(|block| block_entry(block) == *entry) {
                    columns.put_block(slot, index, block);
                }
            }
        }
        columns.mend().await;
        for slot in members(touched) {
            columns.hold_against(slot, replay.wanted(slot));
        }
        columns
    }

    /// Makes durable what members have. One that does not is out, or the pool writes nothing any more; one that does not answer is noted.
    pub(super) async fn flush_members(&self) {
        let slots = self.geometry().slot_mask() & !self.shared.states.out();
        let flushes = members(slots).map(|slot| self.ask(slot, Request::flush()));
        for (slot, answer) in members(slots).zip(join(flushes).await) {
            match answer.result {
                Ok(()) => {}
                Err(trouble @ Trouble::Error(_)) => {
                    if !self.fail(slot, Cause::WriteError, &trouble) {
                        self.shared.fail_stop("what members have could not be made durable");
                    }
                }
                Err(trouble) => self.note_silence(slot, &trouble),
            }
        }
    }

    /// Repairs what redundancy can of some columns.
    async fn repair(&self, row: u64, positions: Range<usize>) {
        let all = Row::new(self.geometry(), row).slots();
        let mut columns = Columns::load(self, row, positions, all).await;
        let mended = columns.mend().await;
        columns.write_again(&mended).await;
    }
}

/// Writes the part of a slot that lacks it, with its blocks, where it has to be.
fn completed(found: &Found, slot: usize, place: u64, payload: &[u8]) -> Request {
    let mut bytes = Buffer::new(found.header.len() + payload.len());
    let (header, blocks) = bytes.split_at_mut(found.header.len());
    header.copy_from_slice(&found.header);
    blocks.copy_from_slice(payload);
    restamp(header, slot as u16, place, (payload.len() / BLOCK) as u32);
    Request::write(place, bytes).with(Flags::FUA)
}

/// Whether all blocks of a slot are what an update wants them to be.
fn is_complete(columns: &Columns<'_>, slot: usize, replay: &Replay) -> bool {
    let mut blocks = columns.states(slot).iter().zip(replay.wanted(slot));
    blocks.all(|(state, wanted)| *state == Block::Good || matches!(*wanted, LOST | UNWRITTEN))
}

/// Whether a block of a part is what its entry says.
fn fits(block: &[u8], entry: u32) -> bool {
    matches!(entry, LOST | UNWRITTEN) || block_entry(block) == entry
}
