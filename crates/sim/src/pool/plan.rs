//! What a history is played on: drawn from its seed.

use plane::pool::Level;

/// The members, and what is kept on them.
#[derive(Clone, Debug)]
pub struct Plan {
    /// How they are arranged.
    pub level: Level,
    /// Their number.
    pub slots: usize,
    /// Bytes of a unit.
    pub unit: u32,
    /// Bytes of a member.
    pub member_bytes: u64,
    /// Of each volume: rows, and the size of its blocks.
    pub volumes: Vec<(u64, u32)>,
    /// Cores that serve it.
    pub cores: usize,
    /// Whether accidents go beyond the redundancy.
    pub beyond: bool,
}

/// Bytes of all volumes together, about: small, so that requests meet.
const VOLUME_BYTES: u64 = 640 << 10;

impl Plan {
    /// Draws one. `redundant`: of the levels that replace a member.
    pub fn draw(random: &mut fastrand::Rng, beyond: bool) -> Plan {
        let (level, slots) = match random.u8(0..12) {
            0 => (Level::Single, 1),
            1 => (Level::Raid0, random.usize(2..=4)),
            2..4 => (Level::Raid1, random.usize(2..=4)),
            4..6 => (Level::Raid10, 2 * random.usize(2..=3)),
            6..9 => (Level::Raid5, random.usize(3..=6)),
            _ => (Level::Raid6, random.usize(4..=7)),
        };
        let unit = 4096 << random.u32(0..5);
        let row_bytes = u64::from(unit) * u64::from(level.data_units(slots as u16));
        let rows = (VOLUME_BYTES / row_bytes).clamp(3, 24);
        let second = if random.bool() { random.u64(1..rows) } else { 0 };
        let mut volumes = vec![(rows - second, 512)];
        if second > 0 {
            volumes.push((second, if random.bool() { 512 } else { 4096 }));
        }
        Plan {
            level,
            slots,
            unit,
            member_bytes: random.u64(1024..2048) * 4096,
            volumes,
            cores: random.usize(1..=2),
            beyond,
        }
    }
}
