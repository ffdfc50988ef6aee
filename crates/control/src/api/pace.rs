//! How fast things go on in the background: from what was seen each time somebody looked.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::model::Progress;

/// Over how long a rate is taken at most.
const WINDOW: Duration = Duration::from_secs(20);
/// Over how long at least: less says nothing.
pub(super) const LEAST: Duration = Duration::from_millis(200);
/// Looks that are kept of each thing; closer ones are left out.
const SAMPLES: usize = 64;

/// What is watched: a pool, and a slot of it, or its scrub.
pub(super) type Subject = (String, Option<usize>);

/// What was seen lately.
#[derive(Default)]
pub(super) struct Paces(Mutex<HashMap<Subject, VecDeque<(Instant, u64)>>>);

impl Paces {
    /// Takes in that so much is done now, and says how it goes on. A slot and a scrub for each pool are watched at most.
    pub(super) fn see(&self, subject: Subject, done_bytes: u64, total_bytes: u64, now: Instant) -> Progress {
        let mut paces = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let samples = paces.entry(subject).or_default();
        // It began anew, or nobody looked for long.
        if samples.back().is_some_and(|(_, done)| *done > done_bytes) {
            samples.clear();
        }
        while samples.front().is_some_and(|(when, _)| now.duration_since(*when) > WINDOW) {
            samples.pop_front();
        }
        let rate = samples.front().and_then(|(when, done)| {
            let took = now.duration_since(*when);
            (took >= LEAST).then(|| ((done_bytes - done) as f64 / took.as_secs_f64()) as u64)
        });
        let close = WINDOW / SAMPLES as u32;
        if samples.back().is_none_or(|(when, _)| now.duration_since(*when) >= close) {
            samples.push_back((now, done_bytes));
        }
        let left =
            rate.filter(|rate| *rate > 0).map(|rate| total_bytes.saturating_sub(done_bytes).div_ceil(rate));
        Progress { done_bytes, total_bytes, bytes_per_s: rate, left_s: left }
    }

    /// Forgets what is not going on any more.
    pub(super) fn forget(&self, subject: &Subject) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(subject);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_over_the_last_while_and_says_how_long_it_takes() {
        let (paces, start) = (Paces::default(), Instant::now());
        let subject = || ("tank".to_owned(), Some(3));
        let at = |ms: u64, done| paces.see(subject(), done, 1000, start + Duration::from_millis(ms));
        assert_eq!(at(0, 100).bytes_per_s, None);
        assert_eq!(at(100, 110).bytes_per_s, None, "too short to say");
        let seen = at(1000, 200);
        assert_eq!((seen.bytes_per_s, seen.left_s), (Some(100), Some(8)));
        let later = at(2000, 600);
        assert_eq!((later.bytes_per_s, later.left_s), (Some(250), Some(2)));
        assert_eq!(later.percent(), 60);
        // Long after: what was before does not count any more.
        assert_eq!(at(60_000, 700).bytes_per_s, None);
        assert_eq!(at(61_000, 700).left_s, None, "it stands still");
        assert_eq!(at(62_000, 5).bytes_per_s, None, "it began anew");
        paces.forget(&subject());
        assert_eq!(at(63_000, 900).bytes_per_s, None);
    }

    #[test]
    fn few_looks_are_kept_however_often_somebody_looks() {
        let (paces, start) = (Paces::default(), Instant::now());
        for ms in 0..30_000 {
            paces.see(("tank".to_owned(), None), ms, 30_000, start + Duration::from_millis(ms));
        }
        let paces = paces.0.lock().unwrap();
        assert!(paces.values().next().unwrap().len() <= SAMPLES + 1);
    }

    #[test]
    fn what_is_nearly_done_is_not_told_as_done() {
        let progress = |done_bytes, total_bytes| Progress { done_bytes, total_bytes, ..Progress::default() };
        assert_eq!(progress(999, 1000).percent(), 99);
        assert_eq!(progress(u64::MAX, u64::MAX).percent(), 100);
        assert_eq!(progress(0, 0).percent(), 100);
    }
}
