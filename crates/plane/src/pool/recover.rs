//! After a power cut: what the journal says is made again, or dropped. docs/formats/pool.md, "After a power cut".

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use std::sync::atomic::Ordering;

use ring::Buffer;

use super::column::{Block, Columns};
use super::core::PoolCore;
use super::events::Counters;
use super::format::transaction::MAX_HEADER_BLOCKS;
use super::format::{BLOCK, Kind, LOST, NotOne, Transaction, UNWRITTEN, UpdateHead, block_entry};
use super::journal::Change;
use super::layout::{Row, Slots, members, set};

/// Bytes of the journal that are read at once.
const READ: usize = 1 << 20;

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
        for (_, found) in found.range(retired..) {
            self.replay(found).await;
        }
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
            let Some(bytes) = self.read_journal(slot, place, most).await else { return };
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

    /// Bytes of a member's journal. What cannot be read in one go is read block by block, and zeroes where even that
    /// fails.
    async fn read_journal(&self, slot: usize, place: u64, bytes: usize) -> Option<Buffer> {
        use crate::request::Request;
        debug_assert!(bytes <= READ);
        let answer = self.ask(slot, Request::read(place, Buffer::new(bytes))).await;
        if answer.result.is_ok() {
            return Some(answer.buffer);
        }
        let mut all = Buffer::zeroed(bytes);
        for (index, block) in all.chunks_exact_mut(BLOCK).enumerate() {
            let place = place + (index * BLOCK) as u64;
            let answer = self.ask(slot, Request::read(place, Buffer::new(BLOCK))).await;
            if answer.result.is_ok() {
                block.copy_from_slice(&answer.buffer);
            }
        }
        Some(all)
    }

    async fn replay(self: &Rc<Self>, found: &Found) {
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
                        let bytes = self.read_journal(slot, place, blocks * BLOCK).await;
                        bytes.filter(|bytes| fits(bytes, update.entries_of(slot as u16)))
                    }
                };
                offsets[slot] += blocks as u64;
                parts.push((slot, part));
            }
            let entries: Vec<u32> = update.entries().collect();
            self.replay_update(&head, &entries, parts).await;
        }
    }

    async fn replay_update(self: &Rc<Self>, head: &UpdateHead, entries: &[u32], parts: Vec<(usize, Part)>) {
        let row = Row::new(self.geometry(), head.row);
        let gone = self.gone(head.row);
        let right =
            parts.iter().filter(|(_, part)| part.is_some()).fold(0, |right, (slot, _)| right | 1u64 << slot);
        let counters = &self.shared.counters;
        if !is_made(row, gone, head.touched, right) {
            Counters::count(&counters.dropped);
            return;
        }
        Counters::count(&counters.replayed);
        let start = usize::from(head.position);
        let positions = start..start + usize::from(head.columns);
        self.shared.bitmap.touch(head.row);
        if self.shared.states.out() | self.shared.states.rebuilding() != 0 {
            self.shared.bitmap.set(head.row);
        }
        let change = if head.kind == Kind::Erase {
            Change::erase(head.row, positions, head.touched & !gone)
        } else if head.touched & !gone & !right == 0 {
            let blocks = parts.into_iter().filter_map(|(slot, part)| part.map(|part| (slot, part)));
            let entries = entries.to_vec();
            Change {
                row: head.row,
                positions,
                touched: head.touched,
                erase: false,
                entries,
                blocks: blocks.collect(),
            }
        } else {
            self.rebuild_update(head, positions, entries, parts, gone).await
        };
        self.note(&change, gone);
        if !self.write_places(vec![change]).await {
            self.shared.fail_stop("what the journal has could not be written to its places");
        }
    }

    /// An update of which some parts are not right: they follow from the others.
    async fn rebuild_update(
        self: &Rc<Self>,
        head: &UpdateHead,
        positions: Range<usize>,
        entries: &[u32],
        parts: Vec<(usize, Part)>,
        gone: Slots,
    ) -> Change {
        let columns_count = positions.len();
        let mut columns = Columns::unknown(self, head.row, positions.clone());
        let all = set(0..usize::from(self.geometry().slots));
        let untouched = all & !gone & !head.touched;
        columns.read(untouched).await;
        let is_good = |slot: usize| columns.states(slot).iter().all(|state| *state == Block::Good);
        if !members(untouched).all(is_good) {
            // More is missing than what was torn. As long as the columns are what they were before, those say what it is.
            let mut before = Columns::load(self, head.row, positions.clone(), all).await;
            before.mend();
            members(untouched).for_each(|slot| columns.put_good(slot, &before));
        }
        for (slot, part) in &parts {
            if let Some(part) = part {
                columns.put(*slot, part);
            }
        }
        // A block that is known to be lost stays so; its bytes are zeroes.
        for (index, slot) in members(head.touched).enumerate() {
            for column in 0..columns_count {
                if matches!(entries[index * columns_count + column], LOST | UNWRITTEN) {
                    columns.void(slot, column, entries[index * columns_count + column]);
                }
            }
        }
        columns.mend();
        let touched = head.touched & !gone;
        let mut new_entries = Vec::with_capacity(entries.len());
        let mut blocks = Vec::new();
        for (index, slot) in members(head.touched).enumerate() {
            if touched & 1 << slot == 0 {
                continue;
            }
            for column in 0..columns_count {
                let wanted = entries[index * columns_count + column];
                let is_wanted = columns.states(slot)[column] == Block::Good
                    && block_entry(&columns.bytes(slot)[column * BLOCK..][..BLOCK]) == wanted;
                new_entries.push(if is_wanted || matches!(wanted, LOST | UNWRITTEN) { wanted } else { LOST });
            }
            blocks.push((slot, columns.take(slot)));
        }
        Change { row: head.row, positions, touched, erase: false, entries: new_entries, blocks }
    }
}

/// Whether the blocks of a part are what its entries say.
fn fits(blocks: &[u8], entries: impl Iterator<Item = u32>) -> bool {
    blocks
        .chunks_exact(BLOCK)
        .zip(entries)
        .all(|(block, entry)| matches!(entry, LOST | UNWRITTEN) || block_entry(block) == entry)
}
