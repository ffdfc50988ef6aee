//! Writes: from the bytes of one row to changes of columns, with their parity and checksums.

use std::ops::Range;
use std::rc::Rc;

use ring::Buffer;

use super::column::Columns;
use super::core::{Judged, PoolCore};
use super::format::transaction::{HEAD, MAX_HEADER_BLOCKS, update_bytes};
use super::format::{BLOCK, Geometry, Kind};
use super::join::join;
use super::journal::Change;
use super::layout::{Piece, Row, Slots, members, set};
use crate::error::{Error, ErrorKind};

/// What is to be put into a piece of a row.
#[derive(Clone, Copy)]
pub(super) enum Content<'a> {
    /// These bytes.
    Bytes(&'a [u8]),
    /// Zeroes.
    Zeroes,
}

/// Neighbouring columns in which the same data units change.
struct Group {
    positions: Range<usize>,
    /// A bit for each data unit.
    units: u64,
}

/// Columns of one change at most: a transaction's header has an entry for each of their blocks.
fn most_columns(geometry: &Geometry) -> usize {
    let entries = (MAX_HEADER_BLOCKS * BLOCK - HEAD - update_bytes(Kind::Erase, 0, 0)) / 4;
    entries / usize::from(geometry.slots)
}

/// The columns that `pieces` touch, those in which the same units change together, but not more than `most` of them.
fn groups(pieces: &[(Piece, Content<'_>)], most: usize) -> Vec<Group> {
    let mut edges: Vec<usize> =
        pieces.iter().flat_map(|(piece, _)| [piece.positions().start, piece.positions().end]).collect();
    edges.sort_unstable();
    edges.dedup();
    let spans = edges
        .windows(2)
        .flat_map(|edge| (edge[0]..edge[1]).step_by(most).map(move |start| start..edge[1].min(start + most)));
    spans
        .map(|positions| {
            let touches = |(piece, _): &&(Piece, Content<'_>)| {
                piece.positions().start < positions.end && positions.start < piece.positions().end
            };
            let units = pieces.iter().filter(touches).fold(0, |units, (piece, _)| units | 1 << piece.unit);
            Group { positions, units }
        })
        .filter(|group| group.units != 0)
        .collect()
}

/// Whether a piece leaves a part of some block of `positions` as it is.
fn is_partial(piece: &Piece, positions: &Range<usize>) -> bool {
    let edges = [piece.offset, piece.offset + piece.length];
    edges.iter().any(|edge| !edge.is_multiple_of(BLOCK) && positions.contains(&(edge / BLOCK)))
}

/// Calls `put` with where in the blocks of `positions` the piece's bytes go, and which they are.
pub(super) fn overlay<'a>(
    piece: &Piece,
    content: Content<'a>,
    positions: &Range<usize>,
    mut put: impl FnMut(usize, Range<usize>, Content<'a>),
) {
    let from = piece.offset.max(positions.start * BLOCK);
    let to = (piece.offset + piece.length).min(positions.end * BLOCK);
    if from < to {
        put(from - positions.start * BLOCK, from - piece.offset..to - piece.offset, content);
    }
}

pub(super) fn put_content(out: &mut [u8], at: usize, part: Range<usize>, content: Content<'_>) {
    let out = &mut out[at..at + part.len()];
    match content {
        Content::Bytes(bytes) => out.copy_from_slice(&bytes[part]),
        Content::Zeroes => out.fill(0),
    }
}

type Pieces<'a> = [(Piece, Content<'a>)];

impl PoolCore {
    /// Changes one row: what `pieces` say, none of which overlap. Acknowledged when this ends; the places are written
    /// after.
    pub(super) async fn write_row(self: &Rc<Self>, number: u64, pieces: &Pieces<'_>) -> Result<(), Error> {
        let locked = self.lock(number).await;
        if self.shared.has_failed() {
            return Err(Error::new(
                ErrorKind::Failed,
                "writing to a pool that more members failed than it can replace",
            ));
        }
        let row = Row::new(self.geometry(), number);
        let mut changes = Vec::with_capacity(2);
        for group in groups(pieces, most_columns(self.geometry())) {
            if row.parities() == 0 {
                for unit in members(group.units) {
                    changes.push(self.change_copies(number, row, unit, &group.positions, pieces).await?);
                }
            } else {
                changes.push(self.change_parity(number, row, &group, pieces).await?);
            }
        }
        let (committed, result) = self.commit(changes).await;
        self.put_in_place(committed, locked);
        result
    }

    /// Levels without parity: one unit by itself, all of its copies alike.
    async fn change_copies(
        self: &Rc<Self>,
        number: u64,
        row: Row,
        unit: usize,
        positions: &Range<usize>,
        pieces: &Pieces<'_>,
    ) -> Result<Change, Error> {
        let touched = set(row.copies(unit)) & !self.gone(number);
        let ours = || pieces.iter().filter(|(piece, _)| piece.unit == unit);
        let partial = ours().any(|(piece, _)| is_partial(piece, positions));
        if !partial && ours().all(|(_, content)| matches!(content, Content::Zeroes)) {
            return Ok(Change::erase(number, positions.clone(), touched));
        }
        let mut bytes = Buffer::new(positions.len() * BLOCK);
        if partial {
            let unit = Piece { row: number, unit, offset: positions.start * BLOCK, length: bytes.len() };
            self.read_columns_of(unit, &mut bytes).await?;
        }
        for (piece, content) in ours() {
            overlay(piece, *content, positions, |at, part, content| {
                put_content(&mut bytes, at, part, content);
            });
        }
        let copies = members(touched).map(|slot| (slot, Buffer::copy_of(&bytes)));
        Ok(Change::write(number, positions.clone(), copies.collect()))
    }

    /// Levels with parity: all columns of the group as a whole.
    async fn change_parity(
        self: &Rc<Self>,
        number: u64,
        row: Row,
        group: &Group,
        pieces: &Pieces<'_>,
    ) -> Result<Change, Error> {
        let positions = &group.positions;
        let inside = || pieces.iter().filter(|(piece, _)| group.units & 1 << piece.unit != 0);
        let all_slots = set(0..usize::from(self.geometry().slots));
        let gone = self.gone(number);
        let partial = inside().any(|(piece, _)| is_partial(piece, positions));
        let whole = group.units.count_ones() as usize == row.units() && !partial;
        if whole && inside().all(|(_, content)| matches!(content, Content::Zeroes)) {
            return Ok(Change::erase(number, positions.clone(), all_slots & !gone));
        }
        let is_near = group.units.count_ones() as usize + row.parities() <= row.units();
        if !whole
            && is_near
            && gone == 0
            && let Some(change) = self.change_near(number, row, group, pieces).await
        {
            return Ok(change);
        }
        let mut columns = Columns::unknown(self, number, positions.clone());
        if !whole {
            columns.read(all_slots & !gone).await;
            columns.count_trouble();
            columns.mend();
        }
        for (piece, content) in inside() {
            let slot = row.copies(piece.unit).start;
            let fits = columns.overlay(slot, piece, *content);
            if !fits {
                return Err(Error::new(
                    ErrorKind::Medium,
                    "reading the rest of a block that is changed in part",
                ));
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
        pieces: &Pieces<'_>,
    ) -> Option<Change> {
        let positions = &group.positions;
        let data = members(group.units).fold(0, |slots, unit| slots | set(row.copies(unit)));
        let touched: Slots = data | row.parity_slots();
        let reads = members(touched)
            .map(|slot| self.read_unit(slot, number, positions.start, Buffer::new(positions.len() * BLOCK)));
        let answers = join(reads.collect()).await;
        let mut old: Vec<(usize, Buffer)> = Vec::with_capacity(answers.len());
        for (slot, answer) in members(touched).zip(answers) {
            answer.result.ok()?;
            let mut bytes = answer.buffer;
            for (block, position) in bytes.chunks_exact_mut(BLOCK).zip(positions.clone()) {
                match self.judge(slot, number, position, block) {
                    Judged::Good => {}
                    Judged::Unwritten => block.fill(0),
                    Judged::Lost | Judged::Wrong => return None,
                }
            }
            old.push((slot, bytes));
        }
        let mut take = |slot: usize| {
            let place = old.iter().position(|(other, _)| *other == slot).expect("it was read");
            old.swap_remove(place).1
        };
        let (p_slot, q_slot) = (row.p()?, row.q());
        let mut p = take(p_slot);
        let mut q = q_slot.map(|slot| (slot, take(slot)));
        let mut made = Vec::with_capacity(4);
        for unit in members(group.units) {
            let slot = row.copies(unit).start;
            let old = take(slot);
            let mut new = Buffer::copy_of(&old);
            for (piece, content) in pieces.iter().filter(|(piece, _)| piece.unit == unit) {
                overlay(piece, *content, positions, |at, part, content| {
                    put_content(&mut new, at, part, content);
                });
            }
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
}
