//! What the journals of all members have after a power cut. docs/formats/pool.md, "After a power cut".

use std::collections::BTreeMap;

use super::core::PoolCore;
use super::format::transaction::MAX_HEADER_BLOCKS;
use super::format::{BLOCK, Transaction};
use super::layout::{Slots, members};

/// One member's part of a transaction.
pub(super) struct Part {
    /// Of the member.
    pub(super) slot: usize,
    /// Where it begins, in bytes.
    pub(super) place: u64,
    /// Its own header is whole. Otherwise that of another member's part says where its blocks are.
    pub(super) has_header: bool,
}

/// A transaction as it was found.
pub(super) struct Found {
    /// Of the first part whose header was whole.
    pub(super) header: Vec<u8>,
    pub(super) header_place: u64,
    pub(super) segment: u32,
    pub(super) parts: Vec<Part>,
}

/// All that was found.
pub(super) struct Findings {
    /// By their numbers.
    pub(super) transactions: BTreeMap<u64, Found>,
    /// Transactions with a lower number are of no use any more.
    pub(super) retired: u64,
    /// The highest number in each segment.
    segments: Vec<u64>,
    /// The highest number that changes each row.
    rows: BTreeMap<u64, u64>,
}

/// How far the reading of one member's segment is.
struct Cursor {
    slot: usize,
    place: u64,
    end: u64,
    /// The number of the transaction before.
    last: u64,
}

impl Findings {
    /// The highest number of all.
    pub(super) fn highest(&self) -> u64 {
        self.transactions.last_key_value().map_or(0, |(number, _)| *number)
    }

    /// Whether something came later that comes only after all parts of a transaction, which changes `row`, were on stable media.
    pub(super) fn was_complete(&self, number: u64, row: u64) -> bool {
        let segment = self.transactions.get(&number).map_or(0, |found| self.segments[found.segment as usize]);
        segment.max(self.rows.get(&row).copied().unwrap_or(0)) > number
    }

    fn take(&mut self, transaction: &Transaction<'_>, header: &[u8], segment: u32, cursor: &Cursor) {
        let number = transaction.head.number;
        self.retired = self.retired.max(transaction.head.retired);
        let highest = &mut self.segments[segment as usize];
        *highest = number.max(*highest);
        for update in transaction.updates() {
            let highest = self.rows.entry(update.head.row).or_default();
            *highest = number.max(*highest);
        }
        let found = self.transactions.entry(number).or_insert_with(|| Found {
            header: header.to_vec(),
            header_place: cursor.place,
            segment,
            parts: Vec::new(),
        });
        found.parts.push(Part { slot: cursor.slot, place: cursor.place, has_header: true });
    }
}

impl PoolCore {
    /// Reads the journals of all members that are used. `retired`: what the labels say.
    pub(super) async fn find(&self, retired: u64) -> Findings {
        let segments = vec![0; self.geometry().segments as usize];
        let mut findings =
            Findings { transactions: BTreeMap::new(), retired, segments, rows: BTreeMap::new() };
        for segment in 0..self.geometry().segments {
            self.scan(segment, &mut findings).await;
        }
        findings
    }

    /// Reads a segment of all members, from its start for as long as there are transactions.
    async fn scan(&self, segment: u32, findings: &mut Findings) {
        let place = self.geometry().segment_place(segment);
        let end = place + u64::from(self.geometry().segment_bytes);
        let slots = self.geometry().slot_mask() & !self.shared.states.out();
        let mut cursors: Vec<Cursor> =
            members(slots).map(|slot| Cursor { slot, place, end, last: 0 }).collect();
        let mut goes_on = true;
        while goes_on {
            goes_on = false;
            for cursor in &mut cursors {
                while self.find_next(segment, cursor, findings).await {}
            }
            // One that did not answer is out, and is not asked for each of those that the others have.
            let out = self.shared.states.out();
            cursors.retain(|cursor| out & 1 << cursor.slot == 0);
            // A header that is not whole does not hide what is behind it, if another member has the same.
            for cursor in &mut cursors {
                goes_on |= self.pass_by(segment, cursor, findings);
            }
        }
    }

    async fn find_next(&self, segment: u32, cursor: &mut Cursor, findings: &mut Findings) -> bool {
        if cursor.place >= cursor.end {
            return false;
        }
        let geometry = *self.geometry();
        let most = (MAX_HEADER_BLOCKS * BLOCK).min((cursor.end - cursor.place) as usize);
        let bytes = self.read_pages(cursor.slot, cursor.place, most / BLOCK).await;
        let Ok(transaction) = Transaction::decode(&bytes, &self.shared.id, cursor.place, &geometry) else {
            return false;
        };
        if transaction.head.number <= cursor.last || usize::from(transaction.head.slot) != cursor.slot {
            return false;
        }
        let header = &bytes[..usize::from(transaction.header_blocks) * BLOCK];
        findings.take(&transaction, header, segment, cursor);
        cursor.last = transaction.head.number;
        cursor.place += u64::from(transaction.blocks()) * BLOCK as u64;
        true
    }

    /// Steps over a part whose header is not whole, as long as the header on another member says.
    fn pass_by(&self, segment: u32, cursor: &mut Cursor, findings: &mut Findings) -> bool {
        let first = findings.retired.max(cursor.last + 1);
        let later = findings.transactions.range_mut(first..);
        for (number, found) in later.filter(|(_, found)| found.segment == segment) {
            let Some(transaction) = self.decode(found) else { continue };
            let touched: Slots =
                transaction.updates().fold(0, |touched, update| touched | update.head.touched);
            if touched & 1 << cursor.slot == 0 {
                continue;
            }
            let payload = transaction.updates().map(|update| update.head.payload_blocks(cursor.slot as u16));
            let blocks = u64::from(transaction.header_blocks) + payload.map(u64::from).sum::<u64>();
            let end = cursor.place + blocks * BLOCK as u64;
            if end > cursor.end {
                return false;
            }
            found.parts.push(Part { slot: cursor.slot, place: cursor.place, has_header: false });
            (cursor.last, cursor.place) = (*number, end);
            return true;
        }
        false
    }

    /// The transaction that was found.
    pub(super) fn decode<'a>(&self, found: &'a Found) -> Option<Transaction<'a>> {
        Transaction::decode(&found.header, &self.shared.id, found.header_place, self.geometry()).ok()
    }
}
