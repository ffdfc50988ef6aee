//! After a power cut: what the journal says is made again, or dropped. docs/formats/pool.md, "After a power cut".

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use std::sync::atomic::Ordering;

use ring::Buffer;
use smallvec::smallvec;

use super::column::Columns;
use super::core::PoolCore;
use super::events::Counters;
use super::format::transaction::MAX_HEADER_BLOCKS;
use super::format::{BLOCK, Cause, Kind, LOST, NotOne, Transaction, UNWRITTEN, UpdateHead, block_entry};
use super::join::join;
use super::journal::{Blocks, Change};
use super::layout::{Row, Slots, members, set};
use crate::request::Request;

/// Numbers that a member that is away may have seen beyond those that are here: the transactions that were under way, one
/// for each core. They are not given again, else its old parts would be taken for those of new transactions when it is back.
const UNSEEN: u64 = 1 << 16;

/// A transaction as it was found.
struct Found {
    /// Of the first part that was whole.
    header: Vec<u8>,
    header_place: u64,
    /// For each slot that has a part: where that begins.
    parts: Vec<(usize, u64)>,
}

/// One slot's part of an update, if it is right.
type Part = Option<Buffer>;

/// What is to become of an update: the judgement, without I/O.
pub(super) fn is_made(row: Row, gone: Slots, touched: Slots, right: Slots) -> bool {
    row.survives(gone | touched & !right)
}

impl PoolCore {
    /// Reads the journals of all members, and makes what is not retired. `retired`: what the labels say.
    pub(super) async fn recover(self: &Rc<Self>, mut retired: u64) {
        let mut found: BTreeMap<u64, Found> = BTreeMap::new();
        let slots = self.geometry().slot_mask() & !self.shared.states.out();
        for slot in members(slots) {
            for segment in 0..self.geometry().segments {
                self.scan(slot, segment, &mut found, &mut retired).await;
            }
        }
        let highest = found.last_key_value().map_or(0, |(number, _)| *number);
        let mut uneven = Vec::new();
        for (_, found) in found.range(retired..) {
            self.replay(found, &mut uneven).await;
        }
        // Only now every block of a column is what it was last, and those without a part follow from the others.
        for (row, positions) in uneven {
            self.repair(row, positions).await;
        }
        // What was made from some of its parts only is durable before the table says so: else the next cut could leave the new
        // entries, and nobody who has the blocks.
        self.flush_members().await;
        let next = (highest + 1).max(retired) + UNSEEN;
        self.shared.next.store(next, Ordering::SeqCst);
        self.shared.retired.store(retired, Ordering::SeqCst);
    }

    /// Reads a segment of a member, from its start for as long as there are transactions.
    async fn scan(&self, slot: usize, segment: u32, found: &mut BTreeMap<u64, Found>, retired: &mut u64) {
        let geometry = *self.geometry();
        let start = geometry.segment_place(segment);
        let end = start + u64::from(geometry.segment_bytes);
        let (mut place, mut last) = (start, 0);
        while place < end {
            let most = (MAX_HEADER_BLOCKS * BLOCK).min((end - place) as usize);
            let bytes = self.read_pages(slot, place, most / BLOCK).await;
            let transaction = match Transaction::decode(&bytes, &self.shared.id, place, &geometry) {
                Ok(transaction)
                    if transaction.head.number > last && usize::from(transaction.head.slot) == slot =>
                {
                    transaction
                }
                Ok(_) | Err(NotOne::NoMagic | NotOne::Short { .. } | NotOne::Damaged) => return,
                Err(NotOne::Foreign | NotOne::Misplaced(_) | NotOne::Invalid(_)) => return,
            };
            last = transaction.head.number;
            *retired = (*retired).max(transaction.head.retired);
            let header = &bytes[..usize::from(transaction.header_blocks) * BLOCK];
            let entry = found.entry(last).or_insert_with(|| Found {
                header: header.to_vec(),
                header_place: place,
                parts: Vec::new(),
            });
            entry.parts.push((slot, place));
            place += u64::from(transaction.blocks()) * BLOCK as u64;
        }
    }

    async fn replay(self: &Rc<Self>, found: &Found, uneven: &mut Vec<(u64, Range<usize>)>) {
        let geometry = *self.geometry();
        let Ok(transaction) =
            Transaction::decode(&found.header, &self.shared.id, found.header_place, &geometry)
        else {
            return;
        };
        // Where in each slot's part its next blocks are.
        let mut offsets = vec![u64::from(transaction.header_blocks); usize::from(geometry.slots)];
        for update in transaction.updates() {
            let head = update.head;
            let mut parts: Vec<(usize, Part)> = Vec::new();
            for slot in members(head.touched) {
                let blocks = head.payload_blocks(slot as u16) as usize;
                let start = found.parts.iter().find(|(other, _)| *other == slot).map(|(_, start)| *start);
                let part = match start {
                    None => None,
                    Some(_) if blocks == 0 => Some(Buffer::empty()),
                    Some(start) => {
                        let place = start + offsets[slot] * BLOCK as u64;
                        let bytes = self.read_pages(slot, place, blocks).await;
                        fits(&bytes, update.entries_of(slot as u16)).then_some(bytes)
                    }
                };
                offsets[slot] += blocks as u64;
                parts.push((slot, part));
            }
            let entries: Vec<u32> = update.entries().collect();
            if let Some(columns) = self.replay_update(&head, &entries, parts).await {
                uneven.push(columns);
            }
        }
    }

    /// Makes one update, if that is to be. Gives its columns when some of its parts are not right: those blocks follow from
    /// the others, once these are what they were last.
    async fn replay_update(
        self: &Rc<Self>,
        head: &UpdateHead,
        entries: &[u32],
        parts: Vec<(usize, Part)>,
    ) -> Option<(u64, Range<usize>)> {
        let row = Row::new(self.geometry(), head.row);
        let gone = self.gone(head.row);
        let right =
            parts.iter().filter(|(_, part)| part.is_some()).fold(0, |right, (slot, _)| right | 1u64 << slot);
        let counters = &self.shared.counters;
        if !is_made(row, gone, head.touched, right) {
            Counters::count(&counters.dropped);
            return None;
        }
        Counters::count(&counters.replayed);
        let start = usize::from(head.position);
        let positions = start..start + usize::from(head.columns);
        self.shared.bitmap.touch(head.row);
        if self.shared.states.out() | self.shared.states.rebuilding() != 0 {
            self.shared.bitmap.set(head.row);
        }
        let erase = head.kind == Kind::Erase;
        let blocks = parts.into_iter().filter_map(|(slot, part)| part.map(|part| (slot, part)));
        let mut blocks: Blocks = blocks.collect();
        let mut lacking = if erase { 0 } else { head.touched & !gone & !right };
        if lacking != 0 {
            lacking = self.complete(head, entries, &mut blocks, lacking).await;
        }
        let change = Change {
            row: head.row,
            positions: positions.clone(),
            touched: head.touched,
            erase,
            entries: entries.into(),
            blocks: if erase { Blocks::new() } else { blocks },
        };
        self.note(&change, gone);
        if !self.write_places(smallvec![change]).await {
            self.shared.fail_stop("what the journal has could not be written to its places");
        }
        (lacking != 0).then_some((head.row, positions))
    }

    /// Adds the blocks that are lacking and follow from those of the update and from what else lies in its columns. Gives
    /// the slots of which they do not, because a later update is in its place already.
    async fn complete(
        self: &Rc<Self>,
        head: &UpdateHead,
        entries: &[u32],
        blocks: &mut Blocks,
        lacking: Slots,
    ) -> Slots {
        let start = usize::from(head.position);
        let count = usize::from(head.columns);
        let all = set(0..usize::from(self.geometry().slots));
        // What else is bad follows from the rest as long as the columns are what they were before.
        let mut before = Columns::load(self, head.row, start..start + count, all).await;
        let mended = before.mend();
        before.write_again(&mended).await;
        let mut columns = Columns::unknown(self, head.row, start..start + count);
        for slot in members(all & !self.gone(head.row) & !head.touched) {
            columns.put_good(slot, &before);
        }
        for (slot, part) in blocks.iter() {
            columns.put(*slot, part);
        }
        let wanted = |slot: usize| {
            let before = (head.touched & ((1 << slot) - 1)).count_ones() as usize;
            &entries[before * count..][..count]
        };
        for slot in members(head.touched) {
            for (index, entry) in wanted(slot).iter().enumerate() {
                if matches!(*entry, LOST | UNWRITTEN) {
                    columns.void(slot, index, *entry);
                }
            }
        }
        columns.mend();
        let mut left = 0;
        for slot in members(lacking) {
            if columns
                .entries(slot)
                .zip(wanted(slot))
                .all(|(entry, wanted)| entry == *wanted || matches!(*wanted, LOST | UNWRITTEN))
            {
                blocks.push((slot, columns.take(slot)));
            } else {
                left |= 1 << slot;
            }
        }
        left
    }

    async fn flush_members(&self) {
        let slots = self.geometry().slot_mask() & !self.shared.states.out();
        let flushes = members(slots).map(|slot| self.ask(slot, Request::flush()));
        for (slot, answer) in members(slots).zip(join(flushes).await) {
            if let Err(trouble) = answer.result
                && !self.fail(slot, Cause::WriteError, &trouble)
            {
                self.shared.fail_stop("what the journal has could not be made durable");
            }
        }
    }

    /// Repairs what redundancy can of some columns.
    async fn repair(&self, row: u64, positions: Range<usize>) {
        let all = set(0..usize::from(self.geometry().slots));
        let mut columns = Columns::load(self, row, positions, all).await;
        let mended = columns.mend();
        columns.write_again(&mended).await;
    }
}

/// Whether the blocks of a part are what its entries say.
fn fits(blocks: &[u8], entries: impl Iterator<Item = u32>) -> bool {
    blocks
        .chunks_exact(BLOCK)
        .zip(entries)
        .all(|(block, entry)| matches!(entry, LOST | UNWRITTEN) || block_entry(block) == entry)
}
