//! Growing: when all members are larger than they have to be, the pool gets more rows. docs/formats/pool.md, "Growing".

use ring::Buffer;

use super::format::{BLOCK, End, Geometry, TablePage, bitmap_block, catalogue};
use super::join::join;
use super::keeper::Keeper;
use super::layout::members;
use crate::request::{Flags, Request};

/// Pages of the table that are written at once, with both places of each.
pub(super) const PAGES: u64 = 128;

impl Keeper {
    /// As [`Keeper::try_grow`], with what is to be said of it in the log.
    pub(super) async fn grow(&mut self) {
        let pool = self.shared().name.clone();
        let grown = self.try_grow().await;
        self.growing = None;
        match grown {
            Ok(bytes) => tracing::info!(pool, "the pool has {bytes} bytes now"),
            Err(why) => tracing::error!(
                pool,
                "the pool cannot be grown: {why}; hint: nothing was changed; bring all members in sync, and try again"
            ),
        }
    }

    /// Gives the pool the rows that its members have room for. The error is why not.
    async fn try_grow(&mut self) -> Result<u64, String> {
        let shared = self.core.shared.clone();
        let geometry = self.larger()?;
        // In memory first: whatever becomes of it, nobody uses what is behind the last row.
        shared.table.grow(&geometry);
        shared.bitmap.grow(&geometry);
        self.growing = Some(geometry);
        for slot in members(geometry.slot_mask()) {
            self.write_new_places(slot, &geometry).await.map_err(|why| format!("member {slot}: {why}"))?;
        }
        let catalogue = catalogue::encode(&self.volumes, &geometry).map_err(|error| error.to_string())?;
        let place = geometry.catalogue_place(End::Tail, self.label.catalogue.copy);
        if !catalogue.is_empty() {
            self.write_everywhere(place, |_| Buffer::copy_of(&catalogue)).await;
        }
        self.flush(geometry.slot_mask()).await;
        if !shared.states.all_in_sync() || shared.has_failed() {
            return Err("a member failed meanwhile".to_owned());
        }
        // The new tails before the heads: a head that is torn still has a label at the end of its member.
        self.label.geometry = geometry;
        self.label.generation += 1;
        for end in [End::Tail, End::Head] {
            self.write_label(end, geometry.label_place(end)).await;
        }
        if shared.has_failed() {
            return Err("the labels could not be written".to_owned());
        }
        shared.geometry.set(geometry);
        self.write_spares().await;
        Ok(geometry.pool_bytes())
    }

    /// The geometry that there is room for. The error is why there is none.
    fn larger(&self) -> Result<Geometry, String> {
        let shared = self.shared();
        if !shared.states.all_in_sync() {
            return Err("not all members are in sync".to_owned());
        }
        if !shared.geometry.can_grow() {
            return Err("it was grown too often since it was opened".to_owned());
        }
        let slots = 0..self.label.slots.len();
        let sizes = slots.map(|slot| shared.member(slot).map_or(0, |member| member.bytes()));
        let bytes = sizes.min().unwrap_or(0);
        let spares = shared.watch.spares();
        if let Some((_, spare)) = spares.iter().find(|(_, spare)| spare.bytes() < bytes) {
            return Err(format!("the spare {} has {} bytes only", spare.place(), spare.bytes()));
        }
        shared.geometry.grown(bytes).ok_or_else(|| {
            format!("the smallest member has {bytes} bytes, which is no more than it has in use")
        })
    }

    /// Writes table and bitmap of a member where they lie from then on, beside those in use. What changes meanwhile is marked,
    /// and in the journal: it is written with the next checkpoint, to the new places as well.
    async fn write_new_places(&mut self, slot: usize, geometry: &Geometry) -> Result<(), String> {
        for first in (0..geometry.table_pages).step_by(PAGES as usize) {
            self.write_new_pages(slot, geometry, first).await?;
            // This takes long on a large member: until the labels say who failed nothing is acknowledged.
            if !self.is_in_order() {
                return Err("another member failed meanwhile".to_owned());
            }
            // Nor is the journal to be full meanwhile.
            if self.shared().segments.is_short() {
                self.checkpoint().await;
            }
            if self.growing.is_none() {
                return Err("its table cannot be written behind the units".to_owned());
            }
        }
        self.write_new_bitmap(slot, geometry).await
    }

    /// Writes some pages of a member's table to both of their places, from page `first` on.
    pub(super) async fn write_new_pages(
        &self,
        slot: usize,
        geometry: &Geometry,
        first: u64,
    ) -> Result<(), String> {
        let shared = self.shared();
        let count = (geometry.table_pages - first).min(PAGES);
        let mut bytes = Buffer::zeroed(count as usize * 2 * BLOCK);
        for (index, pair) in bytes.chunks_exact_mut(2 * BLOCK).enumerate() {
            let page = first + index as u64;
            let last = shared.table.generation(slot, page);
            for generation in [last + 1, last + 2] {
                let head = TablePage { pool: shared.id, slot: slot as u16, page, generation };
                let place = (generation % 2) as usize * BLOCK;
                head.encode(shared.table.page(slot, page), &mut pair[place..place + BLOCK]);
            }
            shared.table.written(slot, page, last + 2);
        }
        let place = geometry.table_page_place(first, 0);
        let answer = self.core.ask(slot, Request::write(place, bytes)).await;
        answer.result.map_err(|trouble| trouble.to_string())
    }

    /// Writes the bitmap to a member, durably.
    pub(super) async fn write_new_bitmap(&self, slot: usize, geometry: &Geometry) -> Result<(), String> {
        let shared = self.shared();
        let words = shared.bitmap.words();
        let mut writes = Vec::new();
        for number in 0..geometry.bitmap_blocks {
            let first = (number as usize * bitmap_block::WORDS).min(words.len());
            let end = (first + bitmap_block::WORDS).min(words.len());
            let mut block = Buffer::new(BLOCK);
            bitmap_block::encode(&shared.id, number, &words[first..end], &mut block);
            let request = Request::write(geometry.bitmap_place(number), block).with(Flags::FUA);
            writes.push(self.core.ask(slot, request));
        }
        for answer in join(writes).await {
            answer.result.map_err(|trouble| trouble.to_string())?;
        }
        Ok(())
    }
}
