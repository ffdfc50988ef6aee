//! An entry of the slot table of a label.

use std::fmt;

use super::{Id, put, take, u64_at};

/// Bytes of an entry.
pub(super) const BYTES: usize = 48;

/// Why a member of a pool is not in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cause {
    /// Nobody said why.
    None,
    /// It was not there.
    Missing,
    /// A read failed.
    ReadError,
    /// A write failed.
    WriteError,
    /// It did not answer in time.
    Stall,
    /// Somebody wanted it so.
    Administrator,
    /// Another one is to take its place.
    Replaced,
}

impl Cause {
    const ALL: [Self; 7] = [
        Self::None,
        Self::Missing,
        Self::ReadError,
        Self::WriteError,
        Self::Stall,
        Self::Administrator,
        Self::Replaced,
    ];
}

impl fmt::Display for Cause {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Self::None => "no cause noted",
            Self::Missing => "missing",
            Self::ReadError => "read error",
            Self::WriteError => "write error",
            Self::Stall => "stalled",
            Self::Administrator => "taken out by an administrator",
            Self::Replaced => "replaced",
        })
    }
}

/// What a slot's member is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlotState {
    /// It has everything.
    InSync,
    /// It is not read and not written.
    Out {
        /// Why.
        cause: Cause,
        /// The label generation with which it went out.
        since: u64,
    },
    /// It is written; rows below the cursor may be read.
    Rebuilding {
        /// The label generation with which it went out.
        since: u64,
        /// Rows below are good.
        cursor: u64,
        /// Only what the bitmap names is rebuilt; the rest is good.
        by_bitmap: bool,
    },
}

/// A place in the arrangement and who has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    /// Zero when it was given up; then the slot is out.
    pub member: Id,
    /// What it is good for.
    pub state: SlotState,
}

impl Slot {
    pub(super) fn encode(&self, out: &mut [u8]) {
        put(out, 0, &self.member);
        match self.state {
            SlotState::InSync => out[16] = 1,
            SlotState::Out { cause, since } => {
                out[16] = 2;
                out[17] = cause as u8;
                put(out, 24, &since.to_le_bytes());
            }
            SlotState::Rebuilding { since, cursor, by_bitmap } => {
                out[16] = 3;
                put(out, 24, &since.to_le_bytes());
                put(out, 32, &cursor.to_le_bytes());
                out[40] = by_bitmap.into();
            }
        }
    }

    /// Reads an entry of the slot table, and holds it against what would be written.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, &'static str> {
        let since = u64_at(bytes, 24);
        let state = match bytes[16] {
            1 => SlotState::InSync,
            2 => {
                let cause = Cause::ALL.get(usize::from(bytes[17])).ok_or("the cause of a slot")?;
                SlotState::Out { cause: *cause, since }
            }
            3 => SlotState::Rebuilding { since, cursor: u64_at(bytes, 32), by_bitmap: bytes[40] == 1 },
            _ => return Err("the state of a slot"),
        };
        let slot = Self { member: take(bytes, 0), state };
        let mut again = [0; BYTES];
        slot.encode(&mut again);
        if again == bytes { Ok(slot) } else { Err("a slot has what its state does not have") }
    }
}
