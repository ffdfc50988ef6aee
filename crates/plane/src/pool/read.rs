//! Reads. The plain case takes the bytes from one member and verifies them; everything else goes by whole columns.

use std::rc::Rc;

use ring::Buffer;

use super::column::{Block, Columns};
use super::core::{Judged, PoolCore, Trouble};
use super::events::Counters;
use super::format::{BLOCK, Cause, UNWRITTEN};
use super::layout::{Piece, Row, members, set};
use super::locks::parts_of;
use crate::error::{Error, ErrorKind};
use crate::request::Request;

impl PoolCore {
    /// Fills `buffer` with the blocks of a piece, the plain way. False when that cannot be: then its bytes mean nothing.
    pub(super) async fn read_blocks(self: &Rc<Self>, piece: &Piece, mut buffer: Buffer) -> (bool, Buffer) {
        let newcomers = self.newcomers();
        let Some(slot) = self.chosen(piece) else { return (false, buffer) };
        if self.is_unwritten(slot, piece) {
            buffer.fill(0);
            return (self.newcomers() == newcomers, buffer);
        }
        let answer =
            self.ask_one(slot, Request::read(self.place(piece.row, piece.positions().start), buffer)).await;
        let mut blocks = answer.buffer;
        match answer.result {
            Ok(()) => {
                let good =
                    blocks.chunks_exact_mut(BLOCK).zip(piece.positions()).all(|(block, position)| match self
                        .judge(slot, piece.row, position, block)
                    {
                        Judged::Good => true,
                        Judged::Unwritten => {
                            block.fill(0);
                            true
                        }
                        Judged::Lost | Judged::Wrong => false,
                    });
                (good && self.newcomers() == newcomers, blocks)
            }
            Err(trouble) => {
                self.note_stall(slot, &trouble);
                if blocks.len() != piece.length {
                    blocks = Buffer::new(piece.length);
                }
                (false, blocks)
            }
        }
    }

    fn note_stall(&self, slot: usize, trouble: &Trouble) {
        if matches!(trouble, Trouble::Stall | Trouble::Away) {
            self.fail(slot, Cause::Stall, trouble);
        }
    }

    /// The slot from which a piece may be read without its row, if there is one.
    fn chosen(&self, piece: &Piece) -> Option<usize> {
        // Whoever changes it may be about to say that it is done: what was acknowledged has to be seen.
        let first = piece.unit * self.geometry().unit as usize + piece.offset;
        let parts =
            parts_of(&(first..first + piece.length), self.geometry().row_bytes_of(piece.row) as usize);
        if self.shared.locks.may_change(piece.row, parts) { None } else { self.choose(piece) }
    }

    /// Fills `out` with the bytes of a piece.
    pub(super) async fn read_piece(self: &Rc<Self>, piece: Piece, out: &mut [u8]) -> Result<(), Error> {
        let newcomers = self.newcomers();
        if let Some(slot) = self.chosen(&piece) {
            let positions = piece.positions();
            if self.is_unwritten(slot, &piece) && self.newcomers() == newcomers {
                out.fill(0);
                return Ok(());
            }
            let buffer = Buffer::new(positions.len() * BLOCK);
            let answer = self.read_unit(slot, piece.row, positions.start, buffer).await;
            match answer.result {
                Ok(()) if self.take(slot, &piece, &answer.buffer, out) && self.newcomers() == newcomers => {
                    return Ok(());
                }
                Ok(()) => {}
                Err(trouble) => self.note_stall(slot, &trouble),
            }
        }
        let _row = self.lock(piece.row).await;
        self.read_columns_of(piece, out).await
    }

    /// The slot to read from; of several copies the one that the place falls to.
    fn choose(&self, piece: &Piece) -> Option<usize> {
        let row = Row::new(self.geometry(), piece.row);
        let copies = set(row.copies(piece.unit)) & !self.gone(piece.row);
        let nth = piece.row % u64::from(copies.count_ones()).max(1);
        members(copies).nth(nth as usize)
    }

    fn is_unwritten(&self, slot: usize, piece: &Piece) -> bool {
        piece.positions().all(|position| self.shared.table.entry(slot, piece.row, position) == UNWRITTEN)
    }

    /// Takes over what was read, if all of it is good.
    fn take(&self, slot: usize, piece: &Piece, blocks: &[u8], out: &mut [u8]) -> bool {
        let start = piece.positions().start * BLOCK;
        for (block, position) in blocks.chunks_exact(BLOCK).zip(piece.positions()) {
            // The bytes of `block` that are asked for.
            let from = piece.offset.max(position * BLOCK);
            let to = (piece.offset + piece.length).min((position + 1) * BLOCK);
            let place = &mut out[from - piece.offset..to - piece.offset];
            let is_whole = place.len() == BLOCK;
            let judged = if is_whole {
                self.judge_copied(slot, piece.row, position, block, place)
            } else {
                self.judge(slot, piece.row, position, block)
            };
            match judged {
                Judged::Good if is_whole => {}
                Judged::Good => place.copy_from_slice(&blocks[from - start..to - start]),
                Judged::Unwritten => place.fill(0),
                Judged::Lost | Judged::Wrong => return false,
            }
        }
        true
    }

    /// By whole columns: from other copies, or from all the others of the row. What is bad on its medium is repaired.
    /// The caller holds the row.
    pub(super) async fn read_columns_of(&self, piece: Piece, out: &mut [u8]) -> Result<(), Error> {
        let positions = piece.positions();
        let start = positions.start * BLOCK;
        let row = Row::new(self.geometry(), piece.row);
        let copies = row.copies(piece.unit);
        let mut columns = Columns::load(self, piece.row, positions, set(copies.clone())).await;
        let good = |columns: &Columns| {
            copies.clone().find(|slot| columns.states(*slot).iter().all(|state| *state == Block::Good))
        };
        if good(&columns).is_none() || row.parities() == 0 {
            if row.parities() > 0 {
                let others = row.group(copies.start) & !set(copies.clone()) & !self.gone(piece.row);
                columns.read(others).await;
            }
            columns.count_trouble();
            let mended = columns.mend().await;
            columns.write_again(&mended).await;
        }
        let Some(slot) = good(&columns) else {
            for (index, state) in columns.states(copies.start).iter().enumerate() {
                if *state != Block::Good {
                    let position = columns.positions.start + index;
                    tracing::error!(
                        pool = self.shared.name,
                        "block {position} of unit {} of row {} cannot be read or rebuilt: {state:?}",
                        piece.unit,
                        piece.row
                    );
                    Counters::count(&self.shared.counters.lost);
                }
            }
            return Err(Error::new(
                ErrorKind::Medium,
                "reading blocks of a pool that redundancy cannot rebuild",
            ));
        };
        let from = piece.offset - start;
        out.copy_from_slice(&columns.bytes(slot)[from..from + piece.length]);
        Ok(())
    }
}
