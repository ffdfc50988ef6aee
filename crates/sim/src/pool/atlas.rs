//! Which blocks are damaged or gone now, by what was planted, and so which sectors have to be readable.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use plane::pool::format::table_page::ENTRIES;
use plane::pool::format::{Geometry, Id, TablePage, VolumeEntry, row_of, set_of, within};
use plane::pool::layout::{Piece, Row, Slots, members, pieces_from, set};
use ring::sim::Fault;

use super::roster::Roster;

const BLOCK: u64 = 4096;

/// The entry of a block of whose checksum nothing is known.
const NO_CHECKSUM: u32 = 2;

/// A row and a position in it.
pub type Column = (u64, u64);

/// What is known of the pool's redundancy.
pub struct Atlas {
    geometry: Geometry,
    volumes: Vec<VolumeEntry>,
    /// Of each slot, the file that had everything last; none of one that is new.
    seats: Vec<Option<usize>>,
    /// Members of which nothing has to be good: they are out, or what they keep beside the data may be wrong.
    pub away: Slots,
    /// Blocks whose checksums are lost, until they are verified by a scrub.
    unknown: BTreeMap<Column, Slots>,
    /// Blocks that may be lost, or were for a time: more was bad than redundancy replaces.
    doomed: BTreeMap<Column, Slots>,
    /// Members of which a page of the table can be read at one place only: it may be the older one.
    halved: Slots,
    /// There was a time without enough members: any request of that time may have failed.
    broken: bool,
}

impl Atlas {
    /// All is well.
    pub fn new(geometry: Geometry, volumes: Vec<VolumeEntry>) -> Atlas {
        let (unknown, doomed) = (BTreeMap::new(), BTreeMap::new());
        let seats = (0..usize::from(geometry.slots)).map(Some).collect();
        Atlas { geometry, volumes, seats, away: 0, unknown, doomed, halved: 0, broken: false }
    }

    /// The rows of the volumes that requests go to.
    pub fn rows(&self) -> impl Iterator<Item = u64> + use<'_> {
        let extents = self.volumes.iter().flat_map(|volume| &volume.extents);
        extents.flat_map(|extent| extent.first_row..extent.first_row + extent.rows)
    }

    /// These are the volumes now. Gives those that are new.
    pub fn know_volumes<'a>(&mut self, volumes: &'a [VolumeEntry]) -> &'a [VolumeEntry] {
        let more = &volumes[self.volumes.len()..];
        self.volumes.extend_from_slice(more);
        more
    }

    /// How many slots there are.
    pub fn slots(&self) -> usize {
        usize::from(self.geometry.slots)
    }

    /// Where everything is now: the pool has grown, or was extended.
    pub fn know_geometry(&mut self, geometry: Geometry) {
        self.geometry = geometry;
        self.seats.resize(self.slots(), None);
    }

    /// Whether everything can be had without these slots.
    pub fn survives(&self, gone: Slots) -> bool {
        self.geometry.survives(gone)
    }

    /// The first row of a set behind all volumes.
    pub fn end(&self, set: usize) -> u64 {
        let rows = self.rows().filter(|row| set_of(*row) == set);
        rows.max().map_or(row_of(set, 0), |row| row + 1)
    }

    fn positions(&self) -> u64 {
        u64::from(self.geometry.blocks_per_unit())
    }

    /// The columns that lie in some bytes of a slot's member.
    fn columns(
        &self,
        slot: usize,
        bytes: &Range<u64>,
        whole_units: bool,
    ) -> impl Iterator<Item = Column> + use<> {
        let (unit, positions) = (u64::from(self.geometry.unit), self.positions());
        let set = self.geometry.set_of_slot(slot);
        let end = self.geometry.unit_place(self.end(set));
        let from = bytes.start.clamp(self.geometry.data, end) - self.geometry.data;
        let to = bytes.end.clamp(self.geometry.data, end) - self.geometry.data;
        let blocks = if whole_units {
            from / unit * positions..to.div_ceil(unit) * positions
        } else {
            from / BLOCK..to.div_ceil(BLOCK)
        };
        let blocks = if from < to { blocks } else { 0..0 };
        blocks.map(move |block| (row_of(set, block / positions), block % positions))
    }

    /// The pages of the table that cover what requests go to.
    fn pages(&self) -> BTreeSet<u64> {
        let blocks = self.rows().map(|row| within(row) * self.positions());
        blocks
            .flat_map(|first| first / ENTRIES as u64..=(first + self.positions() - 1) / ENTRIES as u64)
            .collect()
    }

    /// The columns whose checksums of a slot's member were in some of its bytes, at both places of a page.
    fn columns_of_pages(&self, slot: usize, geometry: &Geometry, damage: &[Range<u64>]) -> Vec<Column> {
        let hit = |place: u64| damage.iter().any(|bytes| bytes.start < place + BLOCK && place < bytes.end);
        let bad = |page: &u64| (0..2).all(|copy| hit(geometry.table_page_place(*page, copy)));
        let bad: Vec<u64> =
            if damage.is_empty() { Vec::new() } else { self.pages().into_iter().filter(bad).collect() };
        bad.into_iter().flat_map(|page| self.columns_of_page(slot, page)).map(|(column, _)| column).collect()
    }

    /// The columns that a page of a slot's member covers, each with the number of its entry.
    fn columns_of_page(&self, slot: usize, page: u64) -> Vec<(Column, usize)> {
        let (first, set) = (page * ENTRIES as u64, self.geometry.set_of_slot(slot));
        let rows = self.rows().filter(|row| set_of(*row) == set).map(within).filter(|row| {
            let block = row * self.positions();
            block < first + ENTRIES as u64 && first < block + self.positions()
        });
        let blocks = rows.flat_map(|row| row * self.positions()..(row + 1) * self.positions());
        let blocks = blocks.filter(|block| (first..first + ENTRIES as u64).contains(block));
        let column = |block: u64| (row_of(set, block / self.positions()), block % self.positions());
        blocks.map(|block| (column(block), (block - first) as usize)).collect()
    }

    /// Before the pool is opened: notes of which blocks the checksums are lost. False when a page that was never written
    /// lies in the place of one that is damaged, as nobody can tell then what is missing in it.
    pub fn look_at_tables(&mut self, roster: &Roster, pool: &Id) -> bool {
        let mut honest = true;
        self.halved = 0;
        let out = roster.labelled_out();
        for slot in 0..usize::from(self.geometry.slots) {
            if out & 1 << slot != 0 && Some(roster.seat(slot)) != self.seats[slot] {
                // It has nothing yet, and gets everything.
                self.unknown.values_mut().for_each(|slots| *slots &= !(1 << slot));
                continue;
            }
            for page in self.pages() {
                honest &= self.look_at_page(roster, pool, slot, page);
            }
        }
        self.look(roster);
        honest
    }

    fn look_at_page(&mut self, roster: &Roster, pool: &Id, slot: usize, page: u64) -> bool {
        let (damage, plants) = (roster.damage(slot), roster.planted(slot));
        let touches = |range: &Range<u64>, place: u64| range.start < place + BLOCK && place < range.end;
        let unreadable = |place: u64| {
            plants.iter().any(|plant| {
                let fails =
                    matches!(plant.fault, Fault::FailReads | Fault::FailReadsUntilWritten | Fault::Misread);
                fails && plant.left != Some(0) && touches(&plant.range, place)
            })
        };
        let mut best: Option<(u64, Vec<u32>, u64)> = None;
        let geometry = roster.geometry();
        for place in (0..2).map(|copy| geometry.table_page_place(page, copy)) {
            let bytes = roster.node.file_bytes(&roster.path_of(slot), place, BLOCK as usize);
            let bytes = bytes.unwrap_or_default();
            let decoded = TablePage::decode(&bytes, pool, slot as u16, page);
            match decoded.filter(|_| !unreadable(place)) {
                Some((generation, entries)) => {
                    if best.as_ref().is_none_or(|best| generation > best.0) {
                        best = Some((generation, entries.collect(), place));
                    }
                }
                None => self.halved |= 1 << slot,
            }
        }
        for (column, index) in self.columns_of_page(slot, page) {
            if best.as_ref().is_none_or(|(_, entries, _)| entries[index] == NO_CHECKSUM) {
                *self.unknown.entry(column).or_insert(0) |= 1 << slot;
            }
        }
        best.is_none_or(|(_, _, place)| !damage.iter().any(|bytes| touches(bytes, place)))
    }

    /// These slots are in sync: who has them has everything.
    pub fn seated(&mut self, roster: &Roster, slots: Slots) {
        for slot in members(slots) {
            self.seats[slot] = Some(roster.seat(slot));
        }
    }

    /// The members of which an older page of the table may count, as the newer one cannot be read.
    pub fn halved(&self) -> Slots {
        self.halved
    }

    /// The members whose journal cannot be relied on now.
    pub fn without_journal(&self, roster: &Roster) -> Slots {
        let journal = self.geometry.journal;
        let journal =
            journal..journal + u64::from(self.geometry.segments) * u64::from(self.geometry.segment_bytes);
        let meets = |bytes: &Range<u64>| bytes.start < journal.end && journal.start < bytes.end;
        let is_bad = |slot: &usize| {
            roster.damage(*slot).iter().any(meets)
                || roster.planted(*slot).iter().any(|plant| {
                    let lies = matches!(
                        plant.fault,
                        Fault::FailReads | Fault::FailReadsUntilWritten | Fault::Misread
                    );
                    lies && plant.left != Some(0) && meets(&plant.range)
                })
        };
        (0..usize::from(self.geometry.slots)).filter(is_bad).fold(0, |slots, slot| slots | 1 << slot)
    }

    /// Everything was verified, and what was bad is good again or lost.
    pub fn scrubbed(&mut self) {
        self.unknown.clear();
    }

    /// The slots of each column that cannot be relied on now, but for members that are away altogether.
    pub fn bad(&self, roster: &Roster) -> BTreeMap<Column, Slots> {
        let mut bad = self.unknown.clone();
        for slot in 0..usize::from(self.geometry.slots) {
            let damage = roster.damage(slot);
            let mut columns: Vec<Column> = self.columns_of_pages(slot, &roster.geometry(), &damage);
            columns.extend(damage.iter().flat_map(|bytes| self.columns(slot, bytes, false)));
            for plant in roster.planted(slot).iter().filter(|plant| plant.left != Some(0)) {
                match plant.fault {
                    Fault::FailReads | Fault::FailReadsUntilWritten | Fault::Misread => {
                        columns.extend(self.columns(slot, &plant.range, false));
                    }
                    // A write that touches the range may be of the whole unit.
                    Fault::DropWrites => columns.extend(self.columns(slot, &plant.range, true)),
                    Fault::MisdirectWrites { distance } => {
                        columns.extend(self.columns(slot, &plant.range, true));
                        columns.extend(self.columns(slot, &self.landing(&plant.range, distance), true));
                    }
                    _ => {}
                }
            }
            for column in columns {
                *bad.entry(column).or_insert(0) |= 1 << slot;
            }
        }
        bad
    }

    /// Where writes that touch `range` can land.
    pub fn landing(&self, range: &Range<u64>, distance: i64) -> Range<u64> {
        let (unit, data) = (u64::from(self.geometry.unit), self.geometry.data);
        let start = data + (range.start - data) / unit * unit;
        let end = data + (range.end - data).div_ceil(unit) * unit;
        start.saturating_add_signed(distance)..end.saturating_add_signed(distance)
    }

    /// The columns that a fault in `range` of a slot's member would make bad: of a lying write those of whole units.
    pub fn reach(&self, slot: usize, range: &Range<u64>, whole_units: bool) -> Vec<Column> {
        self.columns(slot, range, whole_units).collect()
    }

    /// Whether `slot` may be bad too in these columns, so that all can still be read.
    pub fn affords(&self, bad: &BTreeMap<Column, Slots>, columns: &[Column], slot: usize) -> bool {
        columns.iter().all(|column| {
            let bad = bad.get(column).copied().unwrap_or(0) | self.away | 1 << slot;
            Row::new(&self.geometry, column.0).survives(bad)
        })
    }

    /// Whether all of the member may be gone too.
    pub fn affords_all(&self, bad: &BTreeMap<Column, Slots>, slot: usize) -> bool {
        let away = self.away | 1 << slot;
        let survives =
            |(column, slots): (&Column, &Slots)| Row::new(&self.geometry, column.0).survives(slots | away);
        self.survives(away) && bad.iter().all(survives)
    }

    /// Looks at what is bad now, and remembers what may be lost by it.
    pub fn look(&mut self, roster: &Roster) {
        let mut bad = self.bad(roster);
        if !self.survives(self.away) {
            self.broken = true;
        }
        // Where something was lost, parity is lost as well: nothing else can be missed there.
        for (column, lost) in &self.doomed {
            *bad.entry(*column).or_insert(0) |= lost;
        }
        for (column, slots) in bad {
            let slots = slots | self.away;
            if !Row::new(&self.geometry, column.0).survives(slots) {
                *self.doomed.entry(column).or_insert(0) |= slots;
            }
        }
        if self.broken {
            let positions = self.positions();
            let rows: Vec<u64> = self.rows().collect();
            for row in rows {
                for position in 0..positions {
                    *self.doomed.entry((row, position)).or_insert(0) |= self.away;
                }
            }
        }
    }

    /// Nothing may be left of what was written to these bytes of a volume: the journal cannot say.
    pub fn doubt(&mut self, volume: usize, bytes: &Range<u64>) {
        let all = self.geometry.slot_mask();
        for piece in self.pieces(volume, bytes).collect::<Vec<_>>() {
            for position in piece.positions() {
                *self.doomed.entry((piece.row, position as u64)).or_insert(0) |= all;
            }
        }
    }

    /// There are enough members again: requests have to be served, but for what is lost.
    pub fn mended(&mut self) {
        self.broken = false;
    }

    /// Whether there are too few members.
    pub fn is_broken(&self) -> bool {
        self.broken
    }

    /// Whether anything may be lost.
    pub fn is_doomed(&self) -> bool {
        !self.doomed.is_empty()
    }

    /// The pieces of a volume's bytes.
    fn pieces(&self, volume: usize, bytes: &Range<u64>) -> impl Iterator<Item = Piece> {
        let mut before = 0;
        let mut parts = Vec::new();
        for extent in &self.volumes[volume].extents {
            let (start, length) = (before, extent.rows * self.geometry.row_bytes_of(extent.first_row));
            before += length;
            let (from, to) = (bytes.start.max(start), bytes.end.min(start + length));
            if from < to {
                parts.push((extent.first_row, from - start, to - from));
            }
        }
        let geometry = self.geometry;
        parts.into_iter().flat_map(move |(row, offset, length)| pieces_from(&geometry, row, offset, length))
    }

    /// Whether a read of these bytes may fail.
    pub fn may_fail_read(&self, volume: usize, bytes: &Range<u64>) -> bool {
        let lost = |piece: Piece| {
            let copies = set(Row::new(&self.geometry, piece.row).copies(piece.unit));
            piece.positions().any(|position| {
                let column = (piece.row, position as u64);
                self.doomed.get(&column).is_some_and(|lost| members(copies).all(|slot| lost & 1 << slot != 0))
            })
        };
        self.broken || self.pieces(volume, bytes).any(lost)
    }

    /// Whether a write to these bytes may fail: it may need to read what is lost.
    pub fn may_fail_write(&self, volume: usize, bytes: &Range<u64>) -> bool {
        let touches = |piece: Piece| {
            piece.positions().any(|position| self.doomed.contains_key(&(piece.row, position as u64)))
        };
        self.broken || self.pieces(volume, bytes).any(touches)
    }
}
