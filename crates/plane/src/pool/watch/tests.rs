use super::*;

fn at(milliseconds: u64) -> Instant {
    Instant::from_nanos(milliseconds * 1_000_000)
}

/// One window in which each slot answers 20 requests of a kind, each in so many microseconds.
fn window(slow: &mut SlowWatch, watch: &Watch, kind: usize, times: &[u64], out: Slots) -> Vec<(usize, Turn)> {
    for (slot, time) in times.iter().enumerate() {
        (0..20).for_each(|_| watch.latencies.note(slot % 2, slot, kind, Duration::from_micros(*time)));
    }
    slow.window(watch, out)
}

#[test]
fn a_slot_is_slow_after_some_windows_and_well_after_as_many() {
    for kind in 0..KINDS {
        let (watch, mut slow) = (Watch::new(2, 4), SlowWatch::new(4));
        let mut turns = |times: &[u64]| window(&mut slow, &watch, kind, times, 0);
        assert_eq!(turns(&[200, 210, 190, 2000]), []);
        assert_eq!(turns(&[200, 210, 190, 2000]), []);
        // A window in which it is not begins anew.
        assert_eq!(turns(&[200, 210, 190, 300]), []);
        assert_eq!(turns(&[200, 210, 190, 2000]), []);
        assert_eq!(turns(&[200, 210, 190, 2000]), []);
        assert_eq!(turns(&[200, 210, 190, 2000]), [(3, Turn::Slow(2000, 200))]);
        assert!(watch.is_slow(3) && !watch.is_slow(2));
        assert_eq!(watch.mean(3, kind), Some(Duration::from_millis(2)));
        assert_eq!(turns(&[200, 210, 190, 200]), []);
        assert_eq!(turns(&[200, 210, 190, 200]), []);
        assert_eq!(turns(&[200, 210, 190, 200]), [(3, Turn::Well)]);
        assert!(!watch.is_slow(3));
    }
}

#[test]
fn what_nobody_notices_is_not_slow() {
    let (watch, mut slow) = (Watch::new(2, 3), SlowWatch::new(3));
    for _ in 0..10 {
        assert_eq!(window(&mut slow, &watch, 0, &[20, 20, 400], 0), [], "20 times as long, and yet fast");
        assert_eq!(window(&mut slow, &watch, 0, &[2000, 2000, 7000], 0), [], "not that many times");
    }
}

#[test]
fn a_slot_that_goes_out_is_forgotten() {
    let (watch, mut slow) = (Watch::new(2, 2), SlowWatch::new(2));
    for _ in 0..3 {
        window(&mut slow, &watch, 1, &[100, 9000], 0);
    }
    assert!(watch.is_slow(1));
    assert_eq!(window(&mut slow, &watch, 1, &[100, 9000], 0b10), []);
    assert!(!watch.is_slow(1));
    assert_eq!(window(&mut slow, &watch, 1, &[100], 0), [], "with nobody to be held against");
}

#[test]
fn the_rate_is_that_of_the_last_seconds() {
    let (mut pace, rate) = (Pace::default(), Rate::default());
    assert_eq!(rate.progress(0, 100).left, None);
    // 10 rows a second for a minute, then 100.
    for row in 0..600 {
        pace.note(at(row * 100), row, 4096, &rate);
    }
    let progress = rate.progress(600, 1200);
    assert_eq!((progress.rows, progress.of), (600, 1200));
    assert_eq!((progress.bytes_per_second, progress.left), (40_960, Some(Duration::from_secs(60))));
    for row in 600..2000 {
        pace.note(at(60_000 + (row - 600) * 10), row, 4096, &rate);
    }
    let progress = rate.progress(2000, 2500);
    assert_eq!((progress.bytes_per_second, progress.left), (409_600, Some(Duration::from_secs(5))));
}
