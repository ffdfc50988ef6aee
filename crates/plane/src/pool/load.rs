//! What an opening takes in of the members: their tables, the bitmap and the catalogue.

use ring::Buffer;

use super::core::{NO_CHECKSUM, PoolCore, Trouble};
use super::format::{BLOCK, End, Label, TablePage, VolumeEntry, bitmap_block, catalogue, table_page};
use super::layout::members;
use crate::request::Request;

/// Bytes of the table that are read or written at once.
pub(super) const TABLE_BYTES: usize = 1 << 20;

impl PoolCore {
    /// Takes in what a member's table says of its first `rows`. False when it does not answer: then nobody knows that.
    pub(super) async fn load_table(&self, slot: usize, rows: u64) -> bool {
        let geometry = *self.geometry();
        let blocks = rows * u64::from(geometry.blocks_per_unit());
        let pages = blocks.div_ceil(table_page::ENTRIES as u64);
        for first in (0..pages).step_by(TABLE_BYTES / 2 / BLOCK) {
            let count = (pages - first).min((TABLE_BYTES / 2 / BLOCK) as u64);
            let place = geometry.table_page_place(first, 0);
            let Some(bytes) = self.read_if_it_answers(slot, place, count as usize * 2).await else {
                return false;
            };
            for (index, pair) in bytes.chunks_exact(2 * BLOCK).enumerate() {
                self.load_page(slot, first + index as u64, pair);
            }
        }
        true
    }

    fn load_page(&self, slot: usize, page: u64, pair: &[u8]) {
        let shared = &self.shared;
        let decode = |bytes| TablePage::decode(bytes, &shared.id, slot as u16, page);
        let (one, other) = (decode(&pair[..BLOCK]), decode(&pair[BLOCK..]));
        let is_alone = one.is_none() || other.is_none();
        let best = match (one, other) {
            (Some(one), Some(other)) if other.0 > one.0 => Some(other),
            (None, other) => other,
            (one, _) => one,
        };
        if let Some((generation, entries)) = best {
            // The other place is written at the next two checkpoints.
            if is_alone {
                shared.table.mark(slot, page);
            }
            return shared.table.load(slot, page, generation, entries);
        }
        tracing::error!(
            pool = shared.name,
            "member {slot}: page {page} of the table is damaged at both places"
        );
        // An entry that hardly any block has: what redundancy gives is taken.
        let entries = std::iter::repeat_n(NO_CHECKSUM, table_page::ENTRIES);
        shared.table.load(slot, page, 1, entries);
        shared.table.mark(slot, page);
    }

    /// Blocks of a member; zeroes where it cannot be read. A member that does not answer is asked once, and fails.
    pub(super) async fn read_pages(&self, slot: usize, place: u64, blocks: usize) -> Buffer {
        let read = self.read_if_it_answers(slot, place, blocks).await;
        read.unwrap_or_else(|| Buffer::zeroed(blocks * BLOCK))
    }

    /// The same; `None` of a member that does not answer.
    async fn read_if_it_answers(&self, slot: usize, place: u64, blocks: usize) -> Option<Buffer> {
        let answer = self.ask(slot, Request::read(place, Buffer::new(blocks * BLOCK))).await;
        match &answer.result {
            Ok(()) => return Some(answer.buffer),
            Err(Trouble::Error(_)) => {}
            Err(trouble) => {
                self.note_silence(slot, trouble);
                return None;
            }
        }
        let mut all = Buffer::zeroed(blocks * BLOCK);
        for (index, block) in all.chunks_exact_mut(BLOCK).enumerate() {
            let request = Request::read(place + (index * BLOCK) as u64, Buffer::new(BLOCK));
            let answer = self.ask(slot, request).await;
            match &answer.result {
                Ok(()) => block.copy_from_slice(&answer.buffer),
                Err(Trouble::Error(_)) => {}
                Err(trouble) => {
                    self.note_silence(slot, trouble);
                    return None;
                }
            }
        }
        Some(all)
    }

    pub(super) async fn load_bitmap(&self) {
        let geometry = *self.geometry();
        let shared = &self.shared;
        if shared.states.all_in_sync() {
            return;
        }
        for slot in members(geometry.slot_mask() & !shared.states.out() & !shared.states.rebuilding()) {
            for number in 0..geometry.bitmap_blocks {
                let place = geometry.bitmap_place(number);
                let Some(bytes) = self.read_if_it_answers(slot, place, 1).await else { break };
                let first = number as usize * bitmap_block::WORDS;
                match bitmap_block::decode(&bytes, &shared.id, number) {
                    Some(words) => shared.bitmap.load(first, words),
                    None => shared.bitmap.load(first, std::iter::repeat_n(u64::MAX, bitmap_block::WORDS)),
                }
            }
        }
    }

    pub(super) async fn load_catalogue(&self, label: &Label) -> Option<Vec<VolumeEntry>> {
        let geometry = self.geometry();
        if label.catalogue.volumes == 0 {
            return Some(Vec::new());
        }
        let blocks = catalogue::blocks(label.catalogue.volumes) as usize;
        for slot in members(geometry.slot_mask() & !self.shared.states.out()) {
            for end in End::BOTH {
                let place = geometry.catalogue_place(end, label.catalogue.copy);
                let bytes = self.read_pages(slot, place, blocks).await;
                if let Ok(volumes) = catalogue::decode(&bytes, &label.catalogue, geometry) {
                    return Some(volumes);
                }
            }
        }
        None
    }
}
