//! A spinning disk, by what its data sheet says; and how long its arm takes for a way.

use std::time::Duration;

/// A track holds whole blocks of so many bytes.
const BLOCK: u64 = 4096;

/// In which order the arm serves requests that wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// As they came.
    #[default]
    Arrival,
    /// Upwards over the disk, then from its beginning again: nobody waits for ever.
    Elevator,
}

/// What a spinning disk is like. Its tracks are all alike (there are no zones), and the member or volume fills it from the first
/// to the last track, however small it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpinningDisk {
    /// Revolutions a minute.
    pub rpm: u32,
    /// The arm's way to the next track.
    pub track_to_track_seek: Duration,
    /// Its mean way between two places that were drawn at random.
    pub average_seek: Duration,
    /// Its way from the first to the last track.
    pub full_stroke_seek: Duration,
    /// What passes below the head in a second, changes of track included.
    pub transfer_bytes_per_s: u64,
    /// Bytes that it reads on by itself behind a read, as long as nobody wants anything else.
    pub read_ahead_bytes: u64,
    /// Bytes of writes that it acknowledges before they are on the platter; none at all with 0. A flush waits for them, a
    /// write with FUA for itself.
    pub write_cache_bytes: u64,
    /// Whom it serves next.
    pub order: Order,
    /// Where the platter stands at time zero: disks of other numbers stand elsewhere. With 0 the first byte is below the head.
    pub seed: u64,
}

impl Default for SpinningDisk {
    /// One of 7200 revolutions, as many servers have them.
    fn default() -> SpinningDisk {
        SpinningDisk::typical(7200, [800, 8500, 18_000], 180_000_000)
    }
}

/// Figures that no disk has. Sentences with a hint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpinningDiskError {
    /// The revolutions.
    #[error("a disk of {0} revolutions a minute is not possible; hint: give 60 to 100000, such as 7200")]
    Revolutions(u32),
    /// The transfer rate.
    #[error(
        "{0} bytes in a revolution are not possible; hint: give a transfer rate with which one passes 4096 bytes to 1 GiB"
    )]
    Track(u64),
    /// The ways of the arm.
    #[error(
        "an arm with a seek of {} us to the next track, {} us on average and {} us over all tracks is not possible; hint: the \
         average lies between a third and 0.73 of the way from the first to the last, which is a second at most",
        .0.as_micros(), .1.as_micros(), .2.as_micros()
    )]
    Seeks(Duration, Duration, Duration),
    /// A buffer.
    #[error("a buffer of {0} bytes is not possible; hint: a disk has up to 1 GiB")]
    Buffer(u64),
}

/// What is computed once from a [`SpinningDisk`].
#[derive(Clone, Debug)]
pub(super) struct Mechanics {
    /// Nanoseconds of a revolution.
    pub(super) revolution: u64,
    /// Bytes of a track.
    pub(super) track: u64,
    /// Nanoseconds by which the platter is ahead at time zero.
    pub(super) lead: u64,
    /// Seconds to the next track, and what a part x of the way over all tracks adds: `root` times its square root, and
    /// `linear` times itself.
    next: f64,
    root: f64,
    linear: f64,
}

impl SpinningDisk {
    /// What disks of these revolutions usually are, without a write cache: there are 7200, 10000 and 15000.
    pub fn of_rpm(rpm: u32) -> Option<SpinningDisk> {
        match rpm {
            7200 => Some(SpinningDisk::default()),
            10_000 => Some(SpinningDisk::typical(rpm, [400, 4600, 9000], 200_000_000)),
            15_000 => Some(SpinningDisk::typical(rpm, [250, 3400, 7000], 240_000_000)),
            _ => None,
        }
    }

    fn typical(rpm: u32, seeks_us: [u64; 3], transfer_bytes_per_s: u64) -> SpinningDisk {
        let [track_to_track_seek, average_seek, full_stroke_seek] = seeks_us.map(Duration::from_micros);
        SpinningDisk {
            rpm,
            track_to_track_seek,
            average_seek,
            full_stroke_seek,
            transfer_bytes_per_s,
            read_ahead_bytes: 1 << 20,
            write_cache_bytes: 0,
            order: Order::default(),
            seed: 0,
        }
    }

    /// Whether there can be such a disk.
    pub fn check(&self) -> Result<(), SpinningDiskError> {
        self.mechanics().map(drop)
    }

    /// Seek time grows with the root of short ways (the arm speeds up and slows down) and with long ways themselves (it
    /// coasts). Three figures decide the three terms: the way to the next track, the way over all, and the mean over
    /// two places drawn at random, whose distance x has the density 2 (1 - x): the mean of its root is 8/15, its own 1/3.
    pub(super) fn mechanics(&self) -> Result<Mechanics, SpinningDiskError> {
        if !(60..=100_000).contains(&self.rpm) {
            return Err(SpinningDiskError::Revolutions(self.rpm));
        }
        let revolution = 60_000_000_000 / u64::from(self.rpm);
        let passing = u128::from(self.transfer_bytes_per_s) * u128::from(revolution) / 1_000_000_000;
        let track = u64::try_from(passing).unwrap_or(u64::MAX);
        if !(BLOCK..=1 << 30).contains(&track) {
            return Err(SpinningDiskError::Track(track));
        }
        for bytes in [self.read_ahead_bytes, self.write_cache_bytes] {
            if bytes > 1 << 30 {
                return Err(SpinningDiskError::Buffer(bytes));
            }
        }
        let next = self.track_to_track_seek.as_secs_f64();
        let (average, full) =
            (self.average_seek.as_secs_f64() - next, self.full_stroke_seek.as_secs_f64() - next);
        let root = 5.0 * (average - full / 3.0);
        let linear = full - root;
        // It rises up to the end: a longer way takes longer.
        let rises = average >= 0.0 && root >= 0.0 && linear >= -root / 2.0;
        let is_sane = rises && self.full_stroke_seek <= Duration::from_secs(1);
        if !is_sane {
            let (next, average) = (self.track_to_track_seek, self.average_seek);
            return Err(SpinningDiskError::Seeks(next, average, self.full_stroke_seek));
        }
        let lead = (u128::from(self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)) * u128::from(revolution)) >> 64;
        let track = track / BLOCK * BLOCK;
        Ok(Mechanics { revolution, track, lead: lead as u64, next, root, linear })
    }
}

impl Mechanics {
    /// Nanoseconds in which `bytes` pass below the head.
    pub(super) fn passing(&self, bytes: u64) -> u64 {
        (u128::from(bytes) * u128::from(self.revolution) / u128::from(self.track)) as u64
    }

    /// Nanoseconds from the track of one byte to that of another, on a disk of `size` bytes.
    pub(super) fn seek(&self, from: u64, to: u64, size: u64) -> u64 {
        let distance = (from / self.track).abs_diff(to / self.track);
        if distance == 0 {
            return 0;
        }
        let most = (size.saturating_sub(1) / self.track).max(distance);
        let tracks = |count: u64| f64::from(u32::try_from(count - 1).unwrap_or(u32::MAX));
        let part = tracks(distance) / tracks(most).max(1.0);
        Duration::from_secs_f64(self.next + self.root * part.sqrt() + self.linear * part).as_nanos() as u64
    }

    /// Nanoseconds until the byte at `offset` comes below a head that is over its track from `time` on.
    pub(super) fn rotation(&self, time: u64, offset: u64) -> u64 {
        let below = (time % self.revolution + self.lead) % self.revolution;
        let wanted = self.passing(offset % self.track);
        (wanted + self.revolution - below) % self.revolution
    }
}
