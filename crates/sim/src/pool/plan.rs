//! What a history is played on: drawn from its seed.

use std::ops::Range;

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
    /// The chance that a core is not run for a while, each time that it could be.
    pub nap_chance: f64,
    /// Lanes, and requests of a round of work.
    pub lanes: Range<usize>,
    pub requests: Range<u32>,
    /// Whether an administrator is at work.
    pub is_tended: bool,
    /// Whether members are replaced by larger ones, and the pool grows.
    pub grows: bool,
    /// How many members more the pool gets now and then; none of most.
    pub further: usize,
    /// Whether accidents go beyond the redundancy.
    pub beyond: bool,
}

/// Bytes of all volumes together, about: small, so that requests meet.
const VOLUME_BYTES: u64 = 640 << 10;

impl Plan {
    /// Draws one of any level.
    pub fn draw(random: &mut fastrand::Rng, beyond: bool) -> Plan {
        let (level, slots) = match random.u8(0..12) {
            0 => (Level::Single, 1),
            1 => (Level::Raid0, random.usize(2..=4)),
            2..4 => (Level::Raid1, random.usize(2..=4)),
            4..6 => (Level::Raid10, 2 * random.usize(2..=3)),
            6..9 => (Level::Raid5, random.usize(3..=6)),
            _ => (Level::Raid6, random.usize(4..=7)),
        };
        Plan::of(random, level, slots, beyond)
    }

    /// Draws one of a level that takes further members, which it gets.
    pub fn draw_extended(random: &mut fastrand::Rng) -> Plan {
        let (level, slots, further) = match random.u8(0..3) {
            0 => (Level::Raid0, random.usize(2..=3), random.usize(1..=2)),
            1 => (Level::Raid1, 2, random.usize(1..=2)),
            _ => (Level::Raid10, 4, 2),
        };
        Plan { further, ..Plan::of(random, level, slots, false) }
    }

    /// Draws one of any level on cores that are not run now and then, with so much to do that they fill the journal meanwhile.
    pub fn draw_busy(random: &mut fastrand::Rng) -> Plan {
        let plan = Plan::draw(random, false);
        Plan { cores: random.usize(2..=4), nap_chance: 0.003, lanes: 8..17, requests: 300..900, ..plan }
    }

    fn of(random: &mut fastrand::Rng, level: Level, slots: usize, beyond: bool) -> Plan {
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
            nap_chance: 0.0,
            lanes: 1..7,
            requests: 20..90,
            is_tended: false,
            grows: false,
            further: 0,
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
