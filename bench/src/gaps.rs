//! What the machine takes away: spans in which a thread that only looks at the clock is not run. Nothing that is measured on the
//! machine can have shorter tails.

use std::thread;
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_setaffinity};

use crate::error::Error;

/// Shorter ones are interrupts, which every machine has.
const SHORTEST: Duration = Duration::from_micros(200);

/// Of one core, or of the worst of several.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Gaps {
    /// Percent of the time that was in gaps of 0.2 ms and more.
    pub percent: f64,
    /// The longest one.
    pub longest: Duration,
}

/// Looks for `span` on all cores at once: of each list, as taskset takes them, on the first one.
pub fn worst(cores: &[&str], span: Duration) -> Result<Gaps, Error> {
    let looks = |list: &str| {
        let core = first_of(list);
        move || pinned(core).map(|()| look(span, Instant::now))
    };
    thread::scope(|scope| {
        let threads: Vec<_> = cores.iter().map(|list| scope.spawn(looks(list))).collect();
        threads.into_iter().try_fold(Gaps::default(), |worst, thread| {
            let gaps = thread.join().expect("looking at the clock does not panic")?;
            Ok(Gaps { percent: worst.percent.max(gaps.percent), longest: worst.longest.max(gaps.longest) })
        })
    })
}

/// The first core of `1`, `0,2` or `4-7`.
pub fn first_of(list: &str) -> usize {
    list.split([',', '-']).next().and_then(|core| core.parse().ok()).unwrap_or(0)
}

/// Keeps this thread on a core.
pub fn pinned(core: usize) -> Result<(), Error> {
    let mut set = CpuSet::new();
    set.set(core);
    let pinned = sched_setaffinity(None, &set).map_err(std::io::Error::from);
    pinned.map_err(Error::io(format!("cannot run on core {core}")))
}

fn look(span: Duration, mut now: impl FnMut() -> Instant) -> Gaps {
    let begun = now();
    let (mut last, mut lost, mut longest) = (begun, Duration::ZERO, Duration::ZERO);
    while last - begun < span {
        let looked = now();
        let gap = looked - last;
        if gap >= SHORTEST {
            lost += gap;
            longest = longest.max(gap);
        }
        last = looked;
    }
    Gaps { percent: 100.0 * lost.as_secs_f64() / (last - begun).as_secs_f64(), longest }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_jumps_shows_as_a_gap() {
        let begun = Instant::now();
        let mut looks = 0_u64;
        // A look each 100 us, and once 10 ms between two.
        let clock = || {
            looks += 1;
            begun
                + Duration::from_micros(100 * looks)
                + Duration::from_millis(if looks > 300 { 10 } else { 0 })
        };
        let gaps = look(Duration::from_millis(100), clock);
        assert_eq!(gaps.longest, Duration::from_micros(10_100));
        assert!((gaps.percent - 10.1).abs() < 0.1, "{gaps:?}");
    }

    #[test]
    fn lists_of_cores_begin_with_one() {
        assert_eq!(["1", "0,2", "4-7"].map(first_of), [1, 0, 4]);
        assert!(worst(&["0"], Duration::from_millis(5)).unwrap().percent <= 100.0);
        assert!(worst(&["1000"], Duration::from_millis(5)).is_err());
    }
}
