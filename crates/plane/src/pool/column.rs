//! Columns of a row as a whole: read from all slots, verified, and made whole again where redundancy can. It is the way
//! of everything that is not the plain case: degraded reads and writes, repair, rebuilding, scrubbing, recovery.

use std::ops::Range;

use parity::Column;
use ring::Buffer;

use super::core::{Judged, NO_CHECKSUM, PoolCore, Trouble};
use super::events::Counters;
use super::format::{BLOCK, Cause, LOST, UNWRITTEN, block_entry};
use super::gather::Part;
use super::join::join;
use super::journal::{Change, Entries};
use super::layout::{Row, Slots, members, set};

/// What one slot has of one column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Block {
    /// As it was written, or made whole again.
    Good,
    /// Known to be lost. It is missing as if its slot were not in use: nothing follows from it, and it may follow from others.
    Lost,
    /// The medium gives something else.
    Wrong,
    /// The medium gives nothing.
    Unreadable,
    /// Its slot is not in use.
    Gone,
}

/// Some neighbouring columns of a row.
pub(super) struct Columns<'a> {
    core: &'a PoolCore,
    pub(super) number: u64,
    pub(super) row: Row,
    pub(super) positions: Range<usize>,
    /// Of each slot, its blocks.
    bytes: Vec<Buffer>,
    /// Of each slot, what they are.
    states: Vec<Vec<Block>>,
}

impl<'a> Columns<'a> {
    /// Nothing is known of any block. Who makes columns holds the row.
    pub(super) fn unknown(core: &'a PoolCore, number: u64, positions: Range<usize>) -> Columns<'a> {
        let row = Row::new(core.geometry(), number);
        // Nothing for slots of the sets before that of the row.
        let count = |slot: usize| if row.is_behind(slot) { 0 } else { positions.len() };
        let bytes = (0..row.end()).map(|slot| Buffer::zeroed(count(slot) * BLOCK)).collect();
        let states = (0..row.end()).map(|slot| vec![Block::Gone; count(slot)]).collect();
        Columns { core, number, row, positions, bytes, states }
    }

    /// Reads and verifies the blocks of all slots of `wanted` that are in use.
    pub(super) async fn load(
        core: &'a PoolCore,
        number: u64,
        positions: Range<usize>,
        wanted: Slots,
    ) -> Columns<'a> {
        let mut columns = Columns::unknown(core, number, positions);
        columns.read(wanted & !core.gone(number)).await;
        columns
    }

    /// Reads and verifies the blocks of `slots`.
    pub(super) async fn read(&mut self, slots: Slots) {
        let reads = members(slots).map(|slot| {
            let buffer = std::mem::take(&mut self.bytes[slot]);
            self.core.read_unit(slot, self.number, self.positions.start, buffer)
        });
        let answers = join(reads).await;
        for (slot, answer) in members(slots).zip(answers) {
            match answer.result {
                Ok(()) => self.bytes[slot] = answer.buffer,
                Err(Trouble::Error(_)) if self.read_one_by_one(slot).await => {}
                Err(Trouble::Error(_)) => continue,
                Err(trouble) => {
                    self.falls_silent(slot, &trouble);
                    continue;
                }
            }
            self.verify(slot);
            // Another member came to the slot meanwhile: the table is that of one that has nothing yet. Nobody rebuilds a row
            // that is held.
            if self.core.gone(self.number) & 1 << slot != 0 {
                self.states[slot].fill(Block::Gone);
            }
        }
    }

    /// A member does not answer: nothing is had of it.
    fn falls_silent(&mut self, slot: usize, trouble: &Trouble) {
        self.bytes[slot] = Buffer::zeroed(self.positions.len() * BLOCK);
        self.core.note_silence(slot, trouble);
        self.states[slot].fill(Block::Gone);
    }

    /// A member that cannot read all of the blocks may read some of them. False when it does not answer: it is asked for no more.
    async fn read_one_by_one(&mut self, slot: usize) -> bool {
        self.bytes[slot] = Buffer::zeroed(self.positions.len() * BLOCK);
        for index in 0..self.positions.len() {
            let position = self.positions.start + index;
            let answer = self.core.read_unit(slot, self.number, position, Buffer::new(BLOCK)).await;
            match answer.result {
                Ok(()) => {
                    self.bytes[slot][index * BLOCK..][..BLOCK].copy_from_slice(&answer.buffer);
                    self.states[slot][index] = Block::Good;
                }
                Err(Trouble::Error(_)) => self.states[slot][index] = Block::Unreadable,
                Err(trouble) => {
                    self.falls_silent(slot, &trouble);
                    return false;
                }
            }
        }
        true
    }

    /// Finds out what has been read.
    fn verify(&mut self, slot: usize) {
        let one_by_one = self.states[slot].contains(&Block::Unreadable);
        for index in 0..self.positions.len() {
            let position = self.positions.start + index;
            let block = &mut self.bytes[slot][index * BLOCK..][..BLOCK];
            let judged = self.core.judge(slot, self.number, position, block);
            let readable = !(one_by_one && self.states[slot][index] == Block::Unreadable);
            self.states[slot][index] = match judged {
                Judged::Unwritten | Judged::Lost => {
                    block.fill(0);
                    if judged == Judged::Lost { Block::Lost } else { Block::Good }
                }
                _ if !readable => Block::Unreadable,
                Judged::Good => Block::Good,
                Judged::Wrong => Block::Wrong,
            };
        }
    }

    /// How many slots there are, up to the last one of the row.
    pub(super) fn slots(&self) -> usize {
        self.states.len()
    }

    /// The slots of which nothing can be had.
    pub(super) fn gone(&self) -> Slots {
        self.core.gone(self.number)
    }

    /// Whether nothing was ever written to a slot's block.
    pub(super) fn is_unwritten(&self, slot: usize, position: usize) -> bool {
        self.core.shared.table.entry(slot, self.number, position) == UNWRITTEN
    }

    /// The blocks of a slot.
    pub(super) fn bytes(&self, slot: usize) -> &[u8] {
        &self.bytes[slot]
    }

    /// What the blocks of a slot are.
    pub(super) fn states(&self, slot: usize) -> &[Block] {
        &self.states[slot]
    }

    /// Puts in blocks of a slot that are right.
    pub(super) fn put(&mut self, slot: usize, blocks: &[u8]) {
        self.bytes[slot].copy_from_slice(blocks);
        self.states[slot].fill(Block::Good);
    }

    /// Puts in one block of a slot that is right.
    pub(super) fn put_block(&mut self, slot: usize, index: usize, block: &[u8]) {
        self.bytes[slot][index * BLOCK..][..BLOCK].copy_from_slice(block);
        self.states[slot][index] = Block::Good;
    }

    /// Takes over a slot's blocks that are good in `other`, of the same columns.
    pub(super) fn put_good(&mut self, slot: usize, other: &Columns<'_>) {
        for (index, state) in other.states(slot).iter().enumerate() {
            if *state == Block::Good {
                self.put_block(slot, index, other.block(slot, index));
            }
        }
    }

    /// A block has no bytes: it was erased, or is lost.
    pub(super) fn void(&mut self, slot: usize, index: usize, entry: u32) {
        self.bytes[slot][index * BLOCK..][..BLOCK].fill(0);
        self.states[slot][index] = if entry == LOST { Block::Lost } else { Block::Good };
    }

    /// Blocks of a slot that are not what its entries are to be are lost. Those that are to be void are that.
    pub(super) fn hold_against(&mut self, slot: usize, wanted: &[u32]) {
        for (index, entry) in wanted.iter().enumerate() {
            if matches!(*entry, LOST | UNWRITTEN) {
                self.void(slot, index, *entry);
            } else if self.states[slot][index] != Block::Good
                || block_entry(self.block(slot, index)) != *entry
            {
                self.void(slot, index, LOST);
            }
        }
    }

    /// Takes the blocks of a slot out.
    pub(super) fn take(&mut self, slot: usize) -> Buffer {
        std::mem::take(&mut self.bytes[slot])
    }

    /// Puts what is to be written over the blocks of a data unit. False when a block that is changed in part is not known.
    pub(super) fn overlay(&mut self, unit: usize, part: &Part) -> bool {
        let slot = self.row.copies(unit).start;
        let geometry = self.core.geometry();
        let Some(new) = part.put(geometry, unit, &self.positions, &mut self.bytes[slot]) else { return true };
        let whole = new.start.div_ceil(BLOCK)..new.end / BLOCK;
        let mut fits = true;
        for index in new.start / BLOCK..new.end.div_ceil(BLOCK) {
            if whole.contains(&index) {
                self.states[slot][index] = Block::Good;
            }
            fits &= self.states[slot][index] == Block::Good;
        }
        fits
    }

    /// The change that these columns are, after the data units of `units` got new bytes: those, what of the others
    /// turned out to be lost, and parity, which is lost where one of them is. `None` when a unit is lost whose slot is among
    /// `awaited`: it may come back and still have it; and when new bytes are of a slot that is gone, and there is no parity.
    pub(super) fn into_change(mut self, units: u64, gone: Slots, awaited: Slots) -> Option<Change> {
        let mut touched = members(units).fold(0, |slots, unit| slots | set(self.row.copies(unit)));
        let mut torn = Vec::new();
        for unit in 0..self.row.units() {
            let slot = self.row.copies(unit).start;
            for index in 0..self.positions.len() {
                if self.states[slot][index] == Block::Good {
                    continue;
                }
                if awaited & 1 << slot != 0 {
                    return None;
                }
                self.void(slot, index, LOST);
                torn.push(index);
                touched |= 1 << slot;
            }
        }
        if !torn.is_empty() && members(units).any(|unit| gone & 1 << self.row.copies(unit).start != 0) {
            return None;
        }
        self.compute_parity();
        // Parity over zeroes in the place of what is lost would give those zeroes as good when the slot is out.
        for (parity, index) in
            members(self.row.parity_slots()).flat_map(|slot| torn.iter().map(move |index| (slot, *index)))
        {
            self.void(parity, index, LOST);
        }
        touched = (touched | self.row.parity_slots()) & !gone;
        let mut entries = Entries::new();
        members(touched).for_each(|slot| entries.extend(self.entries(slot)));
        let blocks = members(touched).map(|slot| (slot, std::mem::take(&mut self.bytes[slot]))).collect();
        Some(Change {
            row: self.number,
            positions: self.positions.clone(),
            touched,
            erase: false,
            entries,
            blocks,
        })
    }

    /// Makes whole in memory what redundancy can make whole. Says which blocks were found to be bad and are good now:
    /// they are to be written again. What it cannot is read once more before it passes for lost: a bit that was flipped on the way
    /// is right on the medium.
    pub(super) async fn mend(&mut self) -> Vec<(usize, usize)> {
        let mut mended = self.mend_columns();
        if self.read_wrong_again().await {
            mended.extend(self.mend_columns());
        }
        mended
    }

    /// Gives whether some of the blocks that are wrong were right this time.
    async fn read_wrong_again(&mut self) -> bool {
        let mut any = false;
        for slot in 0..self.states.len() {
            for index in 0..self.states[slot].len() {
                if self.states[slot][index] != Block::Wrong {
                    continue;
                }
                let position = self.positions.start + index;
                let answer = self.core.read_unit(slot, self.number, position, Buffer::new(BLOCK)).await;
                match answer.result {
                    Ok(()) if self.is_right(slot, position, &answer.buffer) => {
                        self.put_block(slot, index, &answer.buffer);
                        any = true;
                    }
                    Ok(()) | Err(Trouble::Error(_)) => {}
                    Err(trouble) => {
                        self.core.note_silence(slot, &trouble);
                        break;
                    }
                }
            }
        }
        any
    }

    /// Whether a block that was wrong is what the table says.
    fn is_right(&self, slot: usize, position: usize, block: &[u8]) -> bool {
        let is_right = self.core.judge(slot, self.number, position, block) == Judged::Good
            && self.core.gone(self.number) & 1 << slot == 0;
        if is_right {
            tracing::warn!(
                pool = self.core.shared.name,
                "member {slot}: block {position} of row {} was wrong, and right when it was read again; hint: look at the cable of the \
                 member, at its controller and at the memory",
                self.number
            );
        }
        is_right
    }

    fn mend_columns(&mut self) -> Vec<(usize, usize)> {
        let mut mended = Vec::new();
        for index in 0..self.positions.len() {
            self.mend_column(index, &mut mended);
        }
        mended
    }

    fn mend_column(&mut self, index: usize, mended: &mut Vec<(usize, usize)>) {
        let bad = members(self.row.slots())
            .filter(|slot| self.states[*slot][index] != Block::Good)
            .fold(0, |bad, slot| bad | 1u64 << slot);
        if bad == 0 {
            return;
        }
        let state = |states: &Vec<Block>| states.get(index).copied().unwrap_or(Block::Gone);
        let before: Vec<Block> = self.states.iter().map(state).collect();
        let found: Vec<Vec<u8>> = members(bad).map(|slot| self.block(slot, index).to_vec()).collect();
        if self.row.parities() == 0 {
            self.copy(index, bad);
        } else if bad.count_ones() as usize <= self.row.parities() {
            self.compute(index, bad);
        } else {
            return;
        }
        let made = |columns: &Self, slot: usize| {
            columns.states[slot][index] == Block::Good && before[slot] != Block::Gone
        };
        let mut fit = 0;
        for (slot, found) in members(bad).zip(found) {
            if !made(self, slot) {
                continue;
            }
            if !self.agrees(slot, index, before[slot], &found) {
                // One of those that it was made from is not what it seems: nothing that was made here is right.
                for slot in members(bad) {
                    self.states[slot][index] = before[slot];
                }
                return;
            }
            fit |= 1 << slot;
        }
        for slot in members(fit) {
            self.correct(slot, index);
            mended.push((slot, index));
        }
    }

    /// Whether what was made in place of a bad block is what has to be there: it fits the block's entry; or that says that
    /// it was lost; or the block on the medium says the same, so that two witnesses stand against the entry; or it is a copy
    /// that is right by its own entry.
    fn agrees(&self, slot: usize, index: usize, before: Block, found: &[u8]) -> bool {
        if !self.core.shared.integrity || before == Block::Lost || self.row.parities() == 0 {
            return true;
        }
        let noted = self.core.shared.table.entry(slot, self.number, self.positions.start + index);
        let is_witness = before == Block::Wrong && found == self.block(slot, index);
        // Of a page of which both places are damaged nothing is known.
        noted == NO_CHECKSUM || noted == block_entry(self.block(slot, index)) || is_witness
    }

    /// Lets the table have the entry of a block that was made whole again.
    fn correct(&self, slot: usize, index: usize) {
        let (position, table) = (self.positions.start + index, &self.core.shared.table);
        let entry = self.core.table_entry(block_entry(self.block(slot, index)));
        let noted = table.entry(slot, self.number, position);
        if noted == entry {
            return;
        }
        if noted != LOST && noted != NO_CHECKSUM {
            Counters::count(&self.core.shared.counters.corrected);
        }
        table.set(slot, self.number, position, entry);
    }

    fn block(&self, slot: usize, index: usize) -> &[u8] {
        &self.bytes[slot][index * BLOCK..][..BLOCK]
    }

    /// Levels with copies: any good copy stands for the others.
    fn copy(&mut self, index: usize, bad: Slots) {
        for slot in members(bad) {
            let good = |other: &usize| self.states[*other][index] == Block::Good;
            let group = self.row.group(slot) & !(1 << slot);
            let Some(source) = members(group).find(good) else { continue };
            let block = self.block(source, index).to_vec();
            self.bytes[slot][index * BLOCK..][..BLOCK].copy_from_slice(&block);
            self.states[slot][index] = Block::Good;
        }
    }

    /// Levels with parity: what is missing follows from the rest.
    fn compute(&mut self, index: usize, bad: Slots) {
        let range = index * BLOCK..(index + 1) * BLOCK;
        let mut places: Vec<Column> = self
            .bytes
            .iter_mut()
            .enumerate()
            .map(|(slot, bytes)| match &mut bytes[range.clone()] {
                bytes if bad & 1 << slot != 0 => Column::Missing(bytes),
                bytes => Column::Known(bytes),
            })
            .collect();
        let mut role = |slot: Option<usize>| {
            slot.map_or(Column::Absent, |slot| std::mem::replace(&mut places[slot], Column::Absent))
        };
        let mut data: Vec<Column> =
            (0..self.row.units()).map(|unit| role(Some(self.row.copies(unit).start))).collect();
        let (mut p, mut q) = (role(self.row.p()), role(self.row.q()));
        if parity::recover(&mut data, &mut p, &mut q).is_err() {
            return;
        }
        for slot in members(bad) {
            self.states[slot][index] = Block::Good;
        }
    }

    /// Computes the parity of all columns anew from the data units.
    pub(super) fn compute_parity(&mut self) {
        let (p, q) = (self.row.p(), self.row.q());
        let Some(p) = p else { return };
        let mut p_bytes = std::mem::take(&mut self.bytes[p]);
        let mut q_bytes = q.map(|q| std::mem::take(&mut self.bytes[q]));
        let data: Vec<&[u8]> =
            (0..self.row.units()).map(|unit| &self.bytes[self.row.copies(unit).start][..]).collect();
        match &mut q_bytes {
            Some(q_bytes) => parity::pq(&mut p_bytes, q_bytes, &data),
            None => parity::xor(&mut p_bytes, &data),
        }
        self.bytes[p] = p_bytes;
        self.states[p].fill(Block::Good);
        if let (Some(q), Some(bytes)) = (q, q_bytes) {
            self.bytes[q] = bytes;
            self.states[q].fill(Block::Good);
        }
    }

    /// Writes blocks that were made whole again to their places. A member that cannot even do that is faulted.
    pub(super) async fn write_again(&self, mended: &[(usize, usize)]) {
        let gone = self.core.gone(self.number);
        for &(slot, index) in mended.iter().filter(|(slot, _)| gone & 1 << slot == 0) {
            let block = Buffer::copy_of(self.block(slot, index));
            let position = self.positions.start + index;
            let answer = self.core.write_unit(slot, self.number, position, block).await;
            match answer.result {
                Ok(()) => {
                    Counters::count(&self.core.shared.counters.repaired);
                    tracing::warn!(
                        pool = self.core.shared.name,
                        "member {slot}: block {position} of row {} was bad and is repaired",
                        self.number
                    );
                }
                Err(trouble) => self.fail_again(slot, &trouble),
            }
        }
    }

    /// A member did not take a block again. What it may still take later, when the row is no more ours, must not come over what is
    /// written then.
    fn fail_again(&self, slot: usize, trouble: &Trouble) {
        let stalls = matches!(trouble, Trouble::Stall);
        let cause = if stalls { Cause::Stall } else { Cause::WriteError };
        if !self.core.fail(slot, cause, trouble) && stalls {
            self.core.shared.fail_stop("a block that was made whole again could not be written");
        }
    }

    /// Counts what was found to be bad.
    pub(super) fn count_trouble(&self) {
        let counters = &self.core.shared.counters;
        for state in self.states.iter().flatten() {
            match state {
                Block::Wrong => Counters::count(&counters.wrong),
                Block::Unreadable => Counters::count(&counters.unreadable),
                Block::Good | Block::Lost | Block::Gone => {}
            }
        }
    }

    /// The entries that a slot's blocks are to have.
    pub(super) fn entries(&self, slot: usize) -> impl Iterator<Item = u32> + '_ {
        let states = &self.states[slot];
        let blocks = self.bytes[slot].chunks_exact(BLOCK).zip(states);
        blocks.map(|(block, state)| if *state == Block::Good { block_entry(block) } else { LOST })
    }
}
