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
    /// Bytes of each file: of the first members, then of spares.
    pub sizes: Vec<u64>,
    /// Bytes of files that come later: those of the smallest member, or more.
    pub later_bytes: u64,
    /// Of each volume: rows, and the size of its blocks.
    pub volumes: Vec<(u64, u32)>,
    /// Cores that serve it.
    pub cores: usize,
    /// Whether an administrator is at work.
    pub is_tended: bool,
    /// Whether members are replaced by larger ones, and the pool grows.
    pub grows: bool,
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
        let mut plan = Plan {
            level,
            slots,
            unit,
            sizes: Vec::new(),
            later_bytes: 0,
            volumes,
            cores: random.usize(1..=2),
            is_tended: false,
            grows: false,
            beyond,
        };
        plan.draw_files(random);
        plan
    }

    /// Members of one size, or of several; spares; and an administrator.
    fn draw_files(&mut self, random: &mut fastrand::Rng) {
        let smallest = random.u64(1024..2048) * 4096;
        self.later_bytes = smallest;
        self.sizes = vec![smallest; self.slots];
        if random.u8(0..4) == 0 {
            for bytes in &mut self.sizes[1..] {
                *bytes += random.u64(0..64) * 4096;
            }
            random.shuffle(&mut self.sizes);
        }
        if !self.is_redundant() || random.bool() {
            return;
        }
        self.is_tended = true;
        self.grows = random.u8(0..3) == 0;
        if self.grows {
            self.later_bytes += random.u64(64..384) * 4096;
            // One or two have no room yet.
            let small = random.usize(1..=2);
            for (slot, bytes) in self.sizes.iter_mut().enumerate() {
                let more = random.u64(0..16) * 4096;
                *bytes = if slot < small { smallest } else { self.later_bytes + more };
            }
            random.shuffle(&mut self.sizes);
        }
        let spares = random.usize(0..=2);
        // Some are in the way of growing.
        let bytes = if random.u8(0..4) == 0 { smallest } else { self.later_bytes };
        self.sizes.extend(vec![bytes; spares]);
    }

    /// Whether a member can be replaced.
    pub fn is_redundant(&self) -> bool {
        !matches!(self.level, Level::Single | Level::Raid0)
    }

    /// How many files there are at first.
    pub fn files(&self) -> usize {
        self.sizes.len()
    }
}
