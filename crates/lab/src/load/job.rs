//! What a load is: data that can be printed, compared and repeated.

use std::time::Duration;

use ring::BusyPoll;
use serde::Serialize;

use crate::initiator::Geometry;

/// When the operations of an open loop are due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Arrivals {
    /// Evenly.
    Constant,
    /// As independent users do: gaps of an exponential distribution.
    Poisson,
}

/// An open loop: operations are due at points in time, whatever became of those before.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Rate {
    /// Operations per second, of all jobs together.
    pub per_second: f64,
    /// When.
    pub arrivals: Arrivals,
}

/// A load. Every one of its jobs has a session of its own.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Load {
    /// Operations of 100 that read; the others write.
    pub read_percent: u8,
    /// Operations of 100 that go to a random place; the others follow their job's last one.
    pub random_percent: u8,
    /// Bytes of an operation.
    pub block_size: u32,
    /// Operations in flight for each job.
    pub depth: u32,
    /// Jobs.
    pub jobs: u32,
    /// First byte of the range that is used.
    pub offset: u64,
    /// Bytes of the range; the rest of the target if there is none.
    pub size: Option<u64>,
    /// An open loop.
    pub rate: Option<Rate>,
    /// How long it is measured.
    #[serde(rename = "time_s", serialize_with = "seconds")]
    pub time: Duration,
    /// How long it runs before.
    #[serde(rename = "warm_up_s", serialize_with = "seconds")]
    pub warm_up: Duration,
    /// The same seed makes the same operations in the same order.
    pub seed: u64,
    /// Writes are stamped, reads are checked, and in the end everything written is.
    pub verify: bool,
    /// Writes go to stable media at once.
    pub fua: bool,
    /// A flush after so many writes of a job; 0 is none.
    pub flush_every: u64,
    /// How long a thread of the lab looks for answers at most before it sleeps; in seconds, or `auto`.
    #[serde(rename = "busy_poll_s", serialize_with = "busy_poll")]
    pub busy_poll: BusyPoll,
}

fn seconds<S: serde::Serializer>(span: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(span.as_secs_f64())
}

fn busy_poll<S: serde::Serializer>(busy_poll: &BusyPoll, serializer: S) -> Result<S::Ok, S::Error> {
    match busy_poll {
        BusyPoll::Auto => serializer.serialize_str("auto"),
        BusyPoll::Most(span) => seconds(span, serializer),
    }
}

impl Default for Load {
    fn default() -> Self {
        Load {
            read_percent: 100,
            random_percent: 100,
            block_size: 4096,
            depth: 32,
            jobs: 1,
            offset: 0,
            size: None,
            rate: None,
            time: Duration::from_secs(10),
            warm_up: Duration::from_secs(1),
            seed: 1,
            verify: false,
            fua: false,
            flush_every: 0,
            busy_poll: BusyPoll::default(),
        }
    }
}

/// A load does not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misfit {
    /// What is wrong.
    pub problem: String,
    /// What to do.
    pub hint: String,
}

/// The part of the target that one job uses, in operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Byte where the range begins.
    pub offset: u64,
    /// Places for an operation in it.
    pub slots: u64,
    /// Where sequential operations begin.
    pub first: u64,
}

fn misfit<T>(problem: impl Into<String>, hint: impl Into<String>) -> Result<T, Misfit> {
    Err(Misfit { problem: problem.into(), hint: hint.into() })
}

/// Most operations in flight of one job.
pub const MAX_DEPTH: u32 = 4096;
/// Most jobs.
pub const MAX_JOBS: u32 = 1024;
/// Most operations a second that may be due: to drop what is overdue takes some tens of nanoseconds for each, and of many more a
/// job would never come to its end.
pub const MAX_RATE: f64 = 1e7;
/// Most places of a load that is verified: 4 bytes of memory each.
pub const MAX_VERIFIED_SLOTS: u64 = 1 << 28;

impl Load {
    /// Whether it makes sense on such a target.
    pub fn fits(&self, geometry: &Geometry) -> Result<(), Misfit> {
        if self.read_percent > 100 || self.random_percent > 100 {
            return misfit("a percentage is above 100", "give numbers from 0 to 100");
        }
        if !(1..=MAX_DEPTH).contains(&self.depth) || !(1..=MAX_JOBS).contains(&self.jobs) {
            return misfit(
                format!("{} jobs with {} operations in flight each", self.jobs, self.depth),
                format!("1 to {MAX_JOBS} jobs, 1 to {MAX_DEPTH} in flight"),
            );
        }
        if self.rate.is_some_and(|rate| rate.per_second.is_nan() || rate.per_second <= 0.0) {
            return misfit("the rate is not above 0", "leave --rate out for a closed loop");
        }
        if self.rate.is_some_and(|rate| rate.per_second > MAX_RATE) {
            return misfit(
                "the rate is beyond what can be counted",
                format!("give at most {MAX_RATE}, or leave --rate out for a closed loop"),
            );
        }
        let block = geometry.block_size;
        if self.block_size == 0 || !self.block_size.is_multiple_of(block) {
            return misfit(
                format!("operations of {} bytes on blocks of {block}", self.block_size),
                format!("give a multiple of {block} with --bs"),
            );
        }
        if self.block_size > geometry.maximum_transfer {
            return misfit(
                format!("operations of {} bytes", self.block_size),
                format!("this target takes {} at most", geometry.maximum_transfer),
            );
        }
        if !self.offset.is_multiple_of(u64::from(block)) {
            return misfit("the offset lies within a block", format!("give a multiple of {block}"));
        }
        let end = self.size.map_or(Some(geometry.size), |size| self.offset.checked_add(size));
        let slots = end.filter(|&end| end <= geometry.size).map(|_| self.slots(geometry));
        let Some(slots) = slots else {
            return misfit(
                "the range goes beyond the target's end",
                format!("the target has {} bytes: give a smaller --size", geometry.size),
            );
        };
        let wanted = if self.verify { 4 * u64::from(self.depth) * u64::from(self.jobs) } else { 1 };
        if slots < wanted {
            return misfit(
                format!("room for {slots} operations, {wanted} are needed"),
                "give a larger --size, or less --depth and --jobs",
            );
        }
        if self.verify && slots > MAX_VERIFIED_SLOTS {
            return misfit(
                format!("{slots} places are too many to verify"),
                format!("at most {MAX_VERIFIED_SLOTS}: give a smaller --size or a larger --bs"),
            );
        }
        Ok(())
    }

    fn slots(&self, geometry: &Geometry) -> u64 {
        let most = geometry.size.saturating_sub(self.offset);
        self.size.unwrap_or(most).min(most) / u64::from(self.block_size)
    }

    /// What job `index` uses. Sequential streams begin at equal distances and go round the whole range, so that no
    /// job reads what another one has just brought into a cache. Verified jobs have parts of their own.
    pub fn extent(&self, geometry: &Geometry, index: u32) -> Extent {
        let slots = self.slots(geometry);
        let (jobs, index) = (u64::from(self.jobs), u64::from(index));
        let first = (u128::from(slots) * u128::from(index) / u128::from(jobs)) as u64;
        if !self.verify {
            return Extent { offset: self.offset, slots, first };
        }
        let end = (u128::from(slots) * u128::from(index + 1) / u128::from(jobs)) as u64;
        let offset = self.offset + first * u64::from(self.block_size);
        Extent { offset, slots: end - first, first: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GEOMETRY: Geometry = Geometry {
        block_size: 512,
        physical_block_size: 4096,
        size: 1 << 20,
        maximum_transfer: 1 << 16,
        discard: false,
    };

    #[test]
    fn what_does_not_fit_is_refused_with_a_hint() {
        let load = Load::default();
        let rate = |per_second| Rate { per_second, arrivals: Arrivals::Constant };
        assert_eq!(load.fits(&GEOMETRY), Ok(()));
        assert_eq!(Load { rate: Some(rate(1e7)), ..load.clone() }.fits(&GEOMETRY), Ok(()));
        for (wrong, part) in [
            (Load { block_size: 1000, ..load.clone() }, "multiple of 512"),
            (Load { block_size: 1 << 17, ..load.clone() }, "65536 at most"),
            (Load { size: Some(1 << 21), ..load.clone() }, "smaller --size"),
            (Load { offset: 1 << 20, size: Some(4096), ..load.clone() }, "smaller --size"),
            (Load { offset: u64::MAX - 511, size: Some(4096), ..load.clone() }, "smaller --size"),
            (Load { depth: 0, ..load.clone() }, "1 to 4096"),
            (Load { verify: true, depth: 100, ..load.clone() }, "larger --size"),
            (Load { read_percent: 101, ..load.clone() }, "0 to 100"),
            (Load { rate: Some(rate(f64::INFINITY)), ..load.clone() }, "at most 10000000"),
            (Load { rate: Some(rate(1.01e7)), ..load.clone() }, "at most 10000000"),
            (Load { rate: Some(rate(f64::NAN)), ..load.clone() }, "closed loop"),
        ] {
            let misfit = wrong.fits(&GEOMETRY).unwrap_err();
            assert!(misfit.hint.contains(part), "{misfit:?}");
        }
    }

    #[test]
    fn streams_begin_apart_and_verified_jobs_do_not_meet() {
        let load = Load { jobs: 3, ..Load::default() };
        let firsts: Vec<_> = (0..3).map(|index| load.extent(&GEOMETRY, index).first).collect();
        assert_eq!(firsts, [0, 85, 170]);
        let load = Load { verify: true, ..load };
        let mut end = 0;
        for index in 0..3 {
            let extent = load.extent(&GEOMETRY, index);
            assert_eq!(extent.offset, end);
            end += extent.slots * 4096;
        }
        assert_eq!(end, 1 << 20);
    }
}
