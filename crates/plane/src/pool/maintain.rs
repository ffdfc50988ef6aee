//! What goes over all rows in the background: scrubbing, and rebuilding a slot. Row by row, each under its lock, between
//! requests.

use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use smallvec::smallvec;

use super::column::{Block, Columns};
use super::core::PoolCore;
use super::events::Counters;
use super::format::{ScrubPlace, row_of, within};
use super::journal::Change;
use super::keeper::Message;
use super::layout::{Row, Slots, members};
use super::watch::Pace;
use crate::limits::{POOL_BACKGROUND_CEILING, POOL_BACKGROUND_FLOOR};

/// How often the cursor of a rebuilding is made durable.
const SAVE: Duration = Duration::from_secs(2);

/// How often the place of a scrub is made durable.
const SAVE_SCRUB: Duration = Duration::from_secs(5);

/// How long a rebuilding that cannot go on waits for another member to come back.
const AGAIN: Duration = Duration::from_secs(10);

/// Rows that a rebuilding passes in one turn which the member has.
const ROWS_A_TURN: u64 = 256;

/// How long, when all members are there: one that is being rebuilt too has that time to come to the row.
const SOON: Duration = Duration::from_millis(50);

/// What a scrub found.
#[derive(Default)]
pub struct ScrubReport {
    /// The next row.
    pub row: AtomicU64,
    /// Blocks whose checksum did not fit, or that could not be read.
    pub bad: AtomicU64,
    /// Of those, how many were made good.
    pub repaired: AtomicU64,
    /// Of those, how many could not be.
    pub lost: AtomicU64,
    /// Columns whose blocks fit, but not one another: parity was computed anew, or copies made alike.
    pub uneven: AtomicU64,
    /// How many were begun since the pool was opened.
    pub begun: AtomicU64,
    /// It runs.
    pub runs: AtomicBool,
    /// It is to stop.
    pub stop: AtomicBool,
}

impl ScrubReport {
    /// It runs, from a place on.
    pub(super) fn begin(&self, place: &ScrubPlace) {
        let ScrubPlace { row, bad, repaired, lost, uneven } = *place;
        let counters = [&self.row, &self.bad, &self.repaired, &self.lost, &self.uneven];
        for (counter, value) in counters.into_iter().zip([row, bad, repaired, lost, uneven]) {
            counter.store(value, Ordering::Release);
        }
        self.stop.store(false, Ordering::Release);
        self.runs.store(true, Ordering::Release);
        self.begun.fetch_add(1, Ordering::Release);
    }

    /// How far it is, and what it found until there.
    pub(super) fn place(&self) -> ScrubPlace {
        let count = |counter: &AtomicU64| counter.load(Ordering::Acquire);
        ScrubPlace {
            row: count(&self.row),
            bad: count(&self.bad),
            repaired: count(&self.repaired),
            lost: count(&self.lost),
            uneven: count(&self.uneven),
        }
    }
}

/// How long to pause after `bytes` took `took`: a busy pool gets four fifths of the time, but never less than the floor is
/// done; an idle one goes as fast as the ceiling.
pub(super) fn pause(bytes: u64, took: Duration, busy: bool) -> Duration {
    let at_rate = |rate: u64| Duration::from_nanos(bytes.saturating_mul(1_000_000_000) / rate);
    let least = at_rate(POOL_BACKGROUND_CEILING).saturating_sub(took);
    if busy { least.max((took * 4).min(at_rate(POOL_BACKGROUND_FLOOR).saturating_sub(took))) } else { least }
}

impl PoolCore {
    fn slots_of(&self, number: u64) -> Slots {
        Row::new(self.geometry(), number).slots()
    }

    /// Verifies everything of a row, and repairs what can be.
    pub(super) async fn scrub_row(self: &Rc<Self>, number: u64, report: &ScrubReport) {
        let locked = self.lock(number).await;
        let positions = 0..self.geometry().blocks_per_unit() as usize;
        if self.is_row_unwritten(number) {
            return;
        }
        let gone = self.gone(number);
        let mut columns = Columns::load(self, number, positions.clone(), self.slots_of(number)).await;
        let bad = columns.count(Block::Wrong) + columns.count(Block::Unreadable);
        columns.count_trouble();
        let mended = columns.mend().await;
        columns.write_again(&mended).await;
        let lost = columns.count(Block::Wrong) + columns.count(Block::Unreadable);
        report.bad.fetch_add(bad, Ordering::Relaxed);
        report.repaired.fetch_add(bad - lost, Ordering::Relaxed);
        report.lost.fetch_add(lost, Ordering::Relaxed);
        Counters::add(&self.shared.counters.lost, lost);
        let Some(change) = columns.level_out(gone) else { return };
        report.uneven.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(
            pool = self.shared.name,
            "row {number}: blocks that fit their checksums do not fit one another"
        );
        let (committed, result) = self.commit(smallvec![change]).await;
        self.put_in_place(committed, locked);
        if let Err(error) = result {
            tracing::warn!(pool = self.shared.name, "row {number} could not be made even: {error}");
        }
    }

    fn is_row_unwritten(&self, number: u64) -> bool {
        let gone = self.gone(number);
        members(self.slots_of(number) & !gone).all(|slot| {
            (0..self.geometry().blocks_per_unit() as usize)
                .all(|position| self.shared.table.entry(slot, number, position) == super::format::UNWRITTEN)
        })
    }

    /// Gives a slot its unit of a row, and says that it has it. `stuck`: that could not be done just now.
    pub(super) async fn rebuild_row(self: &Rc<Self>, slot: usize, life: u64, number: u64, stuck: bool) {
        let locked = self.lock(number).await;
        let shared = &self.shared;
        let gone = self.gone(number);
        if !self.is_life(slot, life) || gone & 1 << slot == 0 {
            return;
        }
        let positions = 0..self.geometry().blocks_per_unit() as usize;
        if self.is_row_unwritten(number) {
            positions.for_each(|position| shared.table.set(slot, number, position, super::format::UNWRITTEN));
            shared.states.advance(slot, within(number) + 1);
            return;
        }
        let mut columns = Columns::load(self, number, positions.clone(), self.slots_of(number)).await;
        columns.count_trouble();
        let mended = columns.mend().await;
        columns.write_again(&mended).await;
        let change = if columns.is_whole(gone & !(1 << slot)) {
            Some(columns.unit_of(slot))
        } else {
            // More is missing than redundancy replaces: what is lost is noted, in this slot and where else it is.
            let (lost, awaited) = (columns.lost_of(slot), self.awaited(number, stuck) & !(1 << slot));
            columns.into_change_with(slot, gone & !(1 << slot), awaited).inspect(|_| {
                Counters::add(&shared.counters.lost, lost);
            })
        };
        let Some(change) = change else { return };
        // While this waited another member may have taken the slot, which has nothing yet.
        if !self.is_life(slot, life) {
            return;
        }
        // Once the cursor has passed requests use what the slot has of this row; they wait for its lock.
        if change.touched == 1 << slot {
            shared.states.advance(slot, within(number) + 1);
            // Nobody reads it before the cursor is durable, which comes after a flush: it need not be in the journal.
            self.note(&change, 0);
            // A member that does not take them is out afterwards.
            self.write_places(smallvec![change]).await;
        } else {
            let (committed, result) = self.commit(smallvec![change]).await;
            match result {
                Ok(()) if self.is_life(slot, life) => shared.states.advance(slot, within(number) + 1),
                Ok(()) => {}
                Err(error) => {
                    tracing::error!(pool = shared.name, "row {number} could not be rebuilt: {error}");
                }
            }
            self.put_in_place(committed, locked);
        }
    }

    /// The slots that may still bring what a row lacks: those that are out, and those that are being rebuilt and have not come
    /// to it. Who stands at it as well and gets no further (`stuck`: so do we) lacks what we lack.
    fn awaited(&self, row: u64, stuck: bool) -> Slots {
        let states = &self.shared.states;
        let comes = |slot: &usize| !stuck || states.cursor(*slot) < within(row);
        members(states.rebuilding()).filter(comes).fold(states.out(), |awaited, slot| awaited | 1 << slot)
    }

    /// Whether a slot is still in the rebuilding that was begun as its `life`th one.
    fn is_life(&self, slot: usize, life: u64) -> bool {
        let states = &self.shared.states;
        states.rebuilding() & 1 << slot != 0 && states.life(slot) == life
    }

    /// Rebuilds a slot from where its cursor is. Ends early when the slot goes out, or when another member takes it.
    pub(super) fn rebuild(self: Rc<Self>, slot: usize, by_bitmap: bool) -> impl Future<Output = ()> {
        // Now, and not when it is first polled: another one may have begun by then.
        let life = self.shared.states.life(slot);
        self.rebuild_life(slot, life, by_bitmap)
    }

    async fn rebuild_life(self: Rc<Self>, slot: usize, life: u64, by_bitmap: bool) {
        let shared = self.shared.clone();
        let mut saved = self.ring.now();
        let mut written = shared.next.load(Ordering::Relaxed);
        let (mut stuck, mut passed) = (false, 0_u64);
        let (mut pace, rate) = (Pace::default(), &shared.watch.rebuilds[slot]);
        rate.reset();
        tracing::info!(
            pool = shared.name,
            "member {slot} is being rebuilt from row {}",
            shared.states.cursor(slot)
        );
        loop {
            let cursor = shared.states.cursor(slot);
            let row = row_of(shared.geometry.set_of_slot(slot), cursor);
            if !self.is_life(slot, life) || shared.stops() {
                return;
            }
            if cursor >= shared.geometry.rows {
                shared.keeper.send(Message::Rebuilt { slot, life }).ok();
                return;
            }
            if by_bitmap && !shared.bitmap.is_set(row) {
                let locked = self.lock(row).await;
                // Set meanwhile, or still not.
                let is_here = self.is_life(slot, life) && shared.states.cursor(slot) == cursor;
                if !shared.bitmap.is_set(row) && is_here {
                    shared.states.advance(slot, cursor + 1);
                    pace.note(self.ring.turn_time(), cursor + 1, 0, rate);
                }
                drop(locked);
                passed += 1;
                // Passing rows keeps the core busy: others have their turn.
                if passed.is_multiple_of(ROWS_A_TURN) {
                    self.ring.next_turn().await;
                }
                continue;
            }
            let start = self.ring.now();
            self.rebuild_row(slot, life, row, stuck).await;
            if !self.is_life(slot, life) {
                return;
            }
            stuck = shared.states.cursor(slot) == cursor;
            if stuck {
                // It cannot go on: another member lacks what this row needs, or this one is going out.
                self.ring.sleep(if shared.states.out() == 0 { SOON } else { AGAIN }).await;
                continue;
            }
            let took = self.ring.now().since(start);
            if self.ring.now().since(saved) > SAVE {
                saved = self.ring.now();
                shared.keeper.send(Message::Cursor { slot, life, row: cursor + 1 }).ok();
            }
            let next = shared.next.load(Ordering::Relaxed);
            let bytes = u64::from(shared.geometry.unit) * u64::from(self.slots_of(row).count_ones());
            pace.note(self.ring.now(), cursor + 1, bytes, rate);
            self.ring.sleep(pause(bytes, took, next != written)).await;
            written = next;
        }
    }

    /// Scrubs all rows from where the report is.
    pub(super) async fn scrub(self: Rc<Self>) {
        let shared = self.shared.clone();
        let report = &shared.scrub;
        let mut written = shared.next.load(Ordering::Relaxed);
        let mut saved = self.ring.now();
        let (mut pace, rate) = (Pace::default(), &shared.watch.scrub);
        rate.reset();
        while !report.stop.load(Ordering::Acquire) && !shared.stops() {
            let Some(row) = shared.geometry.row_from(report.row.load(Ordering::Acquire)) else { break };
            let start = self.ring.now();
            self.scrub_row(row, report).await;
            report.row.store(row + 1, Ordering::Release);
            if self.ring.now().since(saved) > SAVE_SCRUB {
                saved = self.ring.now();
                shared.keeper.send(Message::ScrubPlace).ok();
            }
            let next = shared.next.load(Ordering::Relaxed);
            let bytes = u64::from(shared.geometry.unit) * u64::from(self.slots_of(row).count_ones());
            pace.note(self.ring.now(), shared.geometry.rows_before(row) + 1, bytes, rate);
            self.ring.sleep(pause(bytes, self.ring.now().since(start), next != written)).await;
            written = next;
        }
        if shared.stops() && !report.stop.load(Ordering::Acquire) {
            // It goes on at the next start, from where the labels say then.
            return;
        }
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        tracing::info!(
            pool = shared.name,
            bad = count(&report.bad),
            repaired = count(&report.repaired),
            lost = count(&report.lost),
            uneven = count(&report.uneven),
            "scrubbed up to row {} of {}",
            shared.geometry.rows_before(count(&report.row)),
            shared.geometry.all_rows()
        );
        report.runs.store(false, Ordering::Release);
        shared.keeper.send(Message::Scrubbed).ok();
    }
}

impl Columns<'_> {
    /// How many blocks are in a state.
    pub(super) fn count(&self, wanted: Block) -> u64 {
        (0..self.slots()).flat_map(|slot| self.states(slot)).filter(|state| **state == wanted).count() as u64
    }

    /// Whether all blocks are good, but for those of slots that are gone.
    fn is_whole(&self, gone: Slots) -> bool {
        let good = |slot: usize| self.states(slot).iter().all(|state| *state == Block::Good);
        (0..self.slots()).filter(|slot| gone & 1 << slot == 0).all(good)
    }

    fn lost_of(&self, slot: usize) -> u64 {
        self.states(slot).iter().filter(|state| **state != Block::Good).count() as u64
    }

    /// The change that gives a slot its blocks. Blocks of zeroes that nobody wrote stay unwritten.
    fn unit_of(&mut self, slot: usize) -> Change {
        let blocks = self.take(slot);
        let mut change = Change::write(self.number, self.positions.clone(), smallvec![(slot, blocks)]);
        let others = self.row.group(slot) & !(1 << slot) & !self.gone();
        for (entry, position) in change.entries.iter_mut().zip(self.positions.clone()) {
            if members(others).all(|other| self.is_unwritten(other, position)) {
                *entry = super::format::UNWRITTEN;
            }
        }
        change
    }

    /// The change that notes what is lost, and brings the rest of a slot.
    fn into_change_with(self, slot: usize, gone: Slots, awaited: Slots) -> Option<Change> {
        if self.row.parities() == 0 {
            let entries = self.entries(slot).collect();
            let (row, positions) = (self.number, self.positions.clone());
            let mut columns = self;
            let blocks = smallvec![(slot, columns.take(slot))];
            return Some(Change { row, positions, touched: 1 << slot, erase: false, entries, blocks });
        }
        let units = match self.row.role(slot) {
            super::layout::Role::Data(unit) => 1 << unit,
            super::layout::Role::P | super::layout::Role::Q => 0,
        };
        self.into_change(units, gone, awaited)
    }

    /// The change that makes blocks fit one another which all fit their checksums: parity follows data, copies follow
    /// the first. `None` when they do.
    fn level_out(&mut self, gone: Slots) -> Option<Change> {
        let whole = (0..self.slots())
            .filter(|slot| gone & 1 << slot == 0)
            .all(|slot| self.states(slot).iter().all(|state| *state == Block::Good));
        if !whole || gone != 0 {
            return None;
        }
        let before: Vec<Vec<u8>> = (0..self.slots()).map(|slot| self.bytes(slot).to_vec()).collect();
        self.compute_parity();
        for unit in 0..self.row.units() {
            let mut copies = self.row.copies(unit);
            let first = copies.next().map(|slot| self.bytes(slot).to_vec()).unwrap_or_default();
            for slot in copies {
                if self.bytes(slot) != first {
                    self.put(slot, &first);
                }
            }
        }
        let changed = (0..self.slots()).filter(|slot| self.bytes(*slot) != before[*slot]);
        let changed: Vec<usize> = changed.collect();
        if changed.is_empty() {
            return None;
        }
        let blocks = changed.into_iter().map(|slot| (slot, self.take(slot))).collect();
        Some(Change::write(self.number, self.positions.clone(), blocks))
    }
}
