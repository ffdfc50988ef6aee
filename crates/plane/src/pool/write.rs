//! Writes: from what waits for a row to changes of columns, with their parity and checksums.

use std::ops::Range;
use std::rc::Rc;

use ring::{Buffer, PooledFuture};
use smallvec::SmallVec;

use super::column::Columns;
use super::core::{Judged, Locked, PoolCore};
use super::format::transaction::{HEAD, MAX_HEADER_BLOCKS, update_bytes};
use super::format::{BLOCK, Geometry, Kind, UNWRITTEN};
use super::gather::Part;
use super::join::{Several, join};
use super::journal::{Blocks, Change, Changes};
use super::layout::{Piece, Row, Slots, members, set};
use super::locks::parts_of;
use crate::error::{Error, ErrorKind};
use crate::request::Request;

/// Neighbouring columns in which the same data units change.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Group {
    positions: Range<usize>,
    /// A bit for each data unit.
    units: u64,
    /// Some block changes in part only.
    partial: bool,
}

type Groups = SmallVec<[Group; 3]>;

/// Columns of one change at most: a transaction's header has an entry for each of their blocks.
fn most_columns(geometry: &Geometry) -> usize {
    let entries = (MAX_HEADER_BLOCKS * BLOCK - HEAD - update_bytes(Kind::Erase, 0, 0)) / 4;
    entries / usize::from(geometry.widest())
}

/// The columns that `pieces` touch, those in which the same units change together, but not more than `most` of them.
fn groups(pieces: &[Piece], most: usize) -> Groups {
    let edges = pieces.iter().flat_map(|piece| [piece.positions().start, piece.positions().end]);
    let mut edges: SmallVec<[usize; 16]> = edges.collect();
    edges.sort_unstable();
    edges.dedup();
    let mut groups = Groups::new();
    for edge in edges.windows(2) {
        let mut group = Group { positions: edge[0]..edge[1], units: 0, partial: false };
        for piece in pieces {
            let touched = piece.positions();
            if touched.start < edge[1] && edge[0] < touched.end {
                group.units |= 1 << piece.unit;
                group.partial |= is_partial(piece, &group.positions);
            }
        }
        match groups.last_mut() {
            _ if group.units == 0 => {}
            Some(last) if last.continues_with(&group) => last.positions.end = group.positions.end,
            _ => groups.push(group),
        }
    }
    let cut = |group: Group| {
        group.positions.clone().step_by(most).map(move |start| Group {
            positions: start..group.positions.end.min(start + most),
            ..group.clone()
        })
    };
    groups.into_iter().flat_map(cut).collect()
}

impl Group {
    fn continues_with(&self, next: &Group) -> bool {
        self.positions.end == next.positions.start && self.units == next.units && self.partial == next.partial
    }
}

/// Whether a piece leaves a part of some block of `positions` as it is.
fn is_partial(piece: &Piece, positions: &Range<usize>) -> bool {
    let edges = [piece.offset, piece.offset + piece.length];
    edges.iter().any(|edge| !edge.is_multiple_of(BLOCK) && positions.contains(&(edge / BLOCK)))
}

/// Their requests hear of them.
fn end(parts: &mut Vec<Part>, result: &Result<(), Error>) {
    for part in parts.drain(..) {
        part.end(match result {
            Ok(()) => Ok(()),
            Err(error) => Err(error.again()),
        });
    }
}

impl PoolCore {
    /// Something is to be changed in a row.
    pub(super) fn change(self: &Rc<Self>, row: u64, part: Part) {
        if self.gather.push(row, part) {
            self.ring.spawn(self.clone().write_row(row));
        }
    }

    /// Changes a row as long as something waits for it. What waits is acknowledged when the journal has it; the places are
    /// written after.
    async fn write_row(self: Rc<Self>, number: u64) {
        loop {
            let locked = self.lock(number).await;
            let mut parts = self.gather.take(number);
            if parts.is_empty() {
                return self.gather.give_back(parts);
            }
            self.narrow(number, &locked, &parts);
            match self.changes(number, &parts).await {
                Ok(changes) => {
                    let result = self.carry_out(changes, locked).await;
                    end(&mut parts, &result);
                }
                // What cannot be read concerns those alone that need it.
                Err(_) if parts.len() > 1 => self.write_apart(&mut parts, number, locked).await,
                Err(error) => end(&mut parts, &Err(error)),
            }
            self.gather.give_back(parts);
        }
    }

    /// Each part by itself.
    async fn write_apart(self: &Rc<Self>, parts: &mut Vec<Part>, number: u64, locked: Locked) {
        let mut locked = Some(locked);
        for part in parts.drain(..) {
            let locked = match locked.take() {
                Some(locked) => locked,
                None => self.lock(number).await,
            };
            self.narrow(number, &locked, std::slice::from_ref(&part));
            let result = match self.changes(number, std::slice::from_ref(&part)).await {
                Ok(changes) => self.carry_out(changes, locked).await,
                Err(error) => Err(error),
            };
            part.end(result);
        }
    }

    /// What `parts` leave as it is may be read meanwhile.
    fn narrow(&self, number: u64, locked: &Locked, parts: &[Part]) {
        let row_bytes = self.geometry().row_bytes_of(number) as usize;
        locked.narrow(parts.iter().fold(0, |all, part| all | parts_of(&part.bytes(), row_bytes)));
    }

    /// Makes changes durable, and puts them in their places after.
    async fn carry_out(self: &Rc<Self>, changes: Changes, locked: Locked) -> Result<(), Error> {
        let (committed, result) = self.commit(changes).await;
        self.put_in_place(committed, locked);
        result
    }

    /// The changes that `parts` are, later ones over earlier ones.
    async fn changes(self: &Rc<Self>, number: u64, parts: &[Part]) -> Result<Changes, Error> {
        if self.shared.has_failed() {
            return Err(Error::new(
                ErrorKind::Failed,
                "writing to a pool that more members failed than it can replace",
            ));
        }
        let row = Row::new(self.geometry(), number);
        let mut changes = Changes::new();
        let pieces: Several<Piece> =
            parts.iter().flat_map(|part| part.pieces(self.geometry(), number)).collect();
        for group in groups(&pieces, most_columns(self.geometry())) {
            if row.parities() == 0 {
                for unit in members(group.units) {
                    changes.push(self.change_copies(number, row, unit, &group, parts).await?);
                }
            } else {
                changes.push(self.change_parity(number, row, &group, parts).await?);
            }
        }
        Ok(changes)
    }

    /// Puts what is new into blocks of a unit.
    fn lay_over(&self, parts: &[Part], unit: usize, positions: &Range<usize>, out: &mut [u8]) {
        for part in parts {
            part.put(self.geometry(), unit, positions, out);
        }
    }

    /// Levels without parity: one unit by itself, all of its copies alike.
    async fn change_copies(
        self: &Rc<Self>,
        number: u64,
        row: Row,
        unit: usize,
        group: &Group,
        parts: &[Part],
    ) -> Result<Change, Error> {
        let positions = &group.positions;
        let touched = set(row.copies(unit)) & !self.gone(number);
        if !group.partial && parts.iter().all(Part::zeroes) {
            return Ok(Change::erase(number, positions.clone(), touched));
        }
        let mut bytes = Buffer::new(positions.len() * BLOCK);
        if group.partial {
            let unit = Piece { row: number, unit, offset: positions.start * BLOCK, length: bytes.len() };
            self.read_columns_of(unit, &mut bytes).await?;
        }
        self.lay_over(parts, unit, positions, &mut bytes);
        let mut bytes = Some(bytes);
        let last = touched.checked_ilog2();
        let copies = members(touched).map(|slot| {
            let whole =
                if Some(slot as u32) == last { bytes.take() } else { bytes.as_deref().map(Buffer::copy_of) };
            (slot, whole.expect("it is taken for the last one"))
        });
        Ok(Change::copies(number, positions.clone(), copies.collect()))
    }

    /// Levels with parity: all columns of the group as a whole.
    async fn change_parity(
        self: &Rc<Self>,
        number: u64,
        row: Row,
        group: &Group,
        parts: &[Part],
    ) -> Result<Change, Error> {
        let positions = &group.positions;
        let all_slots = row.slots();
        let gone = self.gone(number);
        let whole = group.units.count_ones() as usize == row.units() && !group.partial;
        if whole && parts.iter().all(Part::zeroes) {
            return Ok(Change::erase(number, positions.clone(), all_slots & !gone));
        }
        let is_near = group.units.count_ones() as usize + row.parities() <= row.units();
        if !whole
            && is_near
            && gone == 0
            && let Some(change) = self.change_near(number, row, group, parts).await
        {
            return Ok(change);
        }
        let mut columns = Columns::unknown(self, number, positions.clone());
        if !whole {
            columns.read(all_slots & !gone).await;
            columns.count_trouble();
            columns.mend().await;
        }
        for unit in members(group.units) {
            for part in parts {
                if !columns.overlay(unit, part) {
                    return Err(Error::new(
                        ErrorKind::Medium,
                        "reading the rest of a block that is changed in part",
                    ));
                }
            }
        }
        columns.into_change(group.units, gone, gone).ok_or_else(|| {
            Error::new(ErrorKind::Medium, "reading the rest of a row, which redundancy cannot rebuild")
        })
    }

    /// The old blocks that change and the old parity are read, and parity follows from the difference. `None` when one
    /// of them is not good.
    async fn change_near(
        self: &Rc<Self>,
        number: u64,
        row: Row,
        group: &Group,
        parts: &[Part],
    ) -> Option<Change> {
        let positions = &group.positions;
        let data = members(group.units).fold(0, |slots, unit| slots | set(row.copies(unit)));
        let touched: Slots = data | row.parity_slots();
        let reads = members(touched)
            .map(|slot| PooledFuture::future(self.good_blocks(slot, number, positions.clone())));
        let mut old = Blocks::new();
        for (slot, blocks) in members(touched).zip(join(reads).await) {
            old.push((slot, blocks?));
        }
        let mut take = |slot: usize| {
            let place = old.iter().position(|(other, _)| *other == slot).expect("it was read");
            old.swap_remove(place).1
        };
        let (p_slot, q_slot) = (row.p()?, row.q());
        let mut p = take(p_slot);
        let mut q = q_slot.map(|slot| (slot, take(slot)));
        let mut made = Blocks::new();
        for unit in members(group.units) {
            let slot = row.copies(unit).start;
            let old = take(slot);
            let mut new = Buffer::copy_of(&old);
            self.lay_over(parts, unit, positions, &mut new);
            match &mut q {
                Some((_, q)) => parity::update_pq(&mut p, q, unit, &old, &new),
                None => parity::update_p(&mut p, &old, &new),
            }
            made.push((slot, new));
        }
        made.push((p_slot, p));
        made.extend(q);
        Some(Change::write(number, positions.clone(), made))
    }

    /// The blocks of a slot, if all of them are good. What nobody wrote need not be read. The caller holds the row.
    async fn good_blocks(&self, slot: usize, number: u64, positions: Range<usize>) -> Option<Buffer> {
        let mut blocks = Buffer::new(positions.len() * BLOCK);
        let is_unwritten = |position| self.shared.table.entry(slot, number, position) == UNWRITTEN;
        if positions.clone().all(is_unwritten) {
            blocks.fill(0);
        } else {
            let read = Request::read(self.place(number, positions.start), blocks);
            let answer = self.ask_one(slot, read).await;
            answer.result.ok()?;
            blocks = answer.buffer;
            for (block, position) in blocks.chunks_exact_mut(BLOCK).zip(positions) {
                match self.judge(slot, number, position, block) {
                    Judged::Good => {}
                    Judged::Unwritten => block.fill(0),
                    Judged::Lost | Judged::Wrong => return None,
                }
            }
        }
        // Another member may have come to the slot meanwhile: then the table is that of one that has nothing yet.
        (self.gone(number) & 1 << slot == 0).then_some(blocks)
    }
}
