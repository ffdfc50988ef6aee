#![expect(clippy::cast_precision_loss, reason = "small numbers")]

mod disk;

use super::format::*;
use super::*;
use disk::Disk;
use proptest::prelude::*;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Strips of all archives begin here.
const START: u64 = 432_000 * 4200;

fn readings(values: &[(&str, f64)]) -> Vec<Reading> {
    values.iter().map(|(series, value)| Reading { series: (*series).to_owned(), value: *value }).collect()
}

fn open(disk: &Disk) -> History {
    History::on(Box::new(disk.clone())).expect("a history")
}

/// What was recorded and is still true.
#[derive(Clone, Default)]
struct Truth {
    values: HashMap<String, BTreeMap<u64, f32>>,
    newest: Option<u64>,
    /// The row that was being written when power went away: it may be there.
    doubtful: Option<u64>,
}

impl Truth {
    fn record(&mut self, unix_s: u64, row: &[Reading]) {
        let slot = unix_s / 10;
        if let Some(newest) = self.newest.filter(|newest| slot < *newest) {
            if (newest - slot) * 10 < PATIENCE_S {
                return;
            }
            self.values.values_mut().for_each(|values| values.retain(|known, _| *known < slot));
        }
        self.values.values_mut().for_each(|values| _ = values.remove(&slot));
        for one in row.iter().filter(|one| (one.value as f32).is_finite()) {
            self.values.entry(one.series.clone()).or_default().insert(slot, one.value as f32);
        }
        self.newest = Some(slot);
    }

    fn slot(values: &BTreeMap<u64, f32>, layout: &Layout, slot: u64) -> Slot {
        if layout.number == 0 {
            return values.get(&slot).map_or(Slot::UNKNOWN, |value| Slot::of(*value));
        }
        let finer = &LAYOUTS[usize::from(layout.number) - 1];
        let ratio = layout.step_s / finer.step_s;
        Slot::fold((slot * ratio..(slot + 1) * ratio).map(|slot| Self::slot(values, finer, slot)))
    }

    /// Nothing is missing or wrong.
    fn check(&self, history: &History, series: &[&str]) {
        let first = self.values.values().filter_map(|values| values.keys().next()).min();
        let from_s = first.map_or(0, |slot| slot * 10 - 7200);
        for name in series {
            let values = self.values.get(*name).cloned().unwrap_or_default();
            for archive in Archive::ALL {
                let layout = archive.layout();
                let Some(points) = history.read(name, archive, from_s, u64::MAX).unwrap() else {
                    assert!(values.keys().all(|slot| Some(*slot) == self.doubtful), "{name} is gone");
                    continue;
                };
                for (slot, value) in (points.begin_s / layout.step_s..).zip(&points.slots) {
                    let truth = Self::slot(&values, layout, slot);
                    let doubtful = layout.number == 0 && self.doubtful == Some(slot) && !value.is_known();
                    assert!(
                        *value == truth || doubtful,
                        "{name} {} {slot}: {value:?}, not {truth:?}",
                        layout.file
                    );
                }
            }
        }
    }

    /// Something may be missing, but nothing is wrong: what is made of fewer values lies among all of them.
    fn check_what_is_known(&self, history: &History, series: &[&str]) {
        for name in series {
            let values = self.values.get(*name).cloned().unwrap_or_default();
            for archive in Archive::ALL {
                let layout = archive.layout();
                let Some(points) = history.read(name, archive, 0, u64::MAX).unwrap() else { continue };
                assert!(points.slots.len() as u64 <= layout.strips * layout.slots as u64);
                let slots = (points.begin_s / layout.step_s..).zip(&points.slots);
                for (slot, value) in slots.filter(|(_, value)| value.is_known()) {
                    let truth = Self::slot(&values, layout, slot);
                    let is_right = value.min >= truth.min
                        && value.max <= truth.max
                        && value.min <= value.mean
                        && value.mean <= value.max;
                    assert!(is_right, "{name} {} {slot}: {value:?}, not {truth:?}", layout.file);
                }
            }
        }
    }
}

fn row(series: &[&str], slot: u64) -> Vec<Reading> {
    let value = |index: usize, name: &str| {
        let value = (slot % 1000) as f64 + index as f64 * 1e4;
        Reading {
            series: name.to_owned(),
            value: if (slot + index as u64).is_multiple_of(11) { f64::NAN } else { value },
        }
    };
    series.iter().enumerate().map(|(index, name)| value(index, name)).collect()
}

#[test]
fn an_archive_holds_what_its_name_says() {
    assert_eq!(Archive::Day.span_s(), 86_400);
    assert_eq!(Archive::Week.span_s(), 7 * 86_400);
    assert_eq!(Archive::Month.span_s(), 31 * 86_400);
    assert!(Archive::Years.span_s() >= 731 * 86_400);
    let blocks: u64 = LAYOUTS.iter().map(|layout| layout.file_bytes(1) / GROUP as u64).sum();
    assert_eq!(blocks, 517_632, "bytes of a series, as the format's page says");
}

#[test]
fn minima_means_and_maxima_are_of_what_is_known() {
    let mut history = open(&Disk::new(1));
    for (second, value) in [(0, 1.0), (10, f64::NAN), (20, 5.0), (50, f64::INFINITY), (60, 2.0)] {
        history.record(START + second, &readings(&[("a", value)])).unwrap();
    }
    let day = history.read("a", Archive::Day, START, START + 70).unwrap().unwrap();
    let known: Vec<bool> = day.slots.iter().map(Slot::is_known).collect();
    assert_eq!(known, [true, false, true, false, false, false, true]);
    let week = history.read("a", Archive::Week, START, START + 3600).unwrap().unwrap();
    assert_eq!((week.begin_s, week.step_s), (START, 60));
    assert_eq!(week.slots, [Slot { min: 1.0, mean: 3.0, max: 5.0 }], "the next minute is not over yet");
    assert_eq!(history.read("b", Archive::Day, 0, u64::MAX).unwrap(), None);
}

#[test]
fn a_week_of_rows_is_there_in_every_archive_as_far_as_it_reaches() {
    let disk = Disk::new(2);
    let mut history = open(&disk);
    let mut truth = Truth::default();
    let series = ["a"];
    // Two minutes of ten are measured, to be quick: rings turn nevertheless.
    for slot in (0..8 * 8640).filter(|slot| slot % 60 < 12) {
        let row = row(&series, slot);
        history.record(START + slot * 10, &row).unwrap();
        truth.record(START + slot * 10, &row);
    }
    truth.check(&history, &series);
    drop(history);
    disk.restart(true);
    truth.check(&open(&disk), &series);
}

#[test]
fn power_may_go_away_at_any_write() {
    let series = ["a", "b"];
    // All strips end in the middle of it.
    let first = START / 10 - 40;
    let slots: Vec<u64> = (first..first + 60).filter(|slot| slot % 7 != 3).collect();
    let run = |disk: &Disk, truth: &mut Truth, slots: &[u64]| {
        let mut history = open(disk);
        for slot in slots {
            // The second series comes later: names change on the way.
            let row = row(&series[..if *slot < first + 30 { 1 } else { 2 }], *slot);
            if history.record(slot * 10, &row).is_err() {
                let mut after = truth.clone();
                after.record(slot * 10, &row);
                *truth = Truth { doubtful: Some(*slot), ..after };
                return *slot;
            }
            truth.record(slot * 10, &row);
            truth.doubtful = None;
        }
        u64::MAX
    };
    let whole = Disk::new(3);
    run(&whole, &mut Truth::default(), &slots);
    for cut in 0..whole.done() {
        for seed in 0..4 {
            let (disk, mut truth) = (Disk::new(seed << 32 | cut as u64), Truth::default());
            disk.cut_after(cut);
            let ended = run(&disk, &mut truth, &slots);
            disk.restart(seed > 0);
            truth.check(&open(&disk), &series);
            // It goes on, and what comes is kept as well: with the row that was lost unknown or not.
            let left: Vec<u64> = slots.iter().copied().filter(|slot| *slot > ended).collect();
            let lost = truth.doubtful.take();
            let mut history = open(&disk);
            for name in series {
                let there = history.read(name, Archive::Day, 0, u64::MAX).unwrap();
                let last = |points: &Points| points.slots.last().is_some_and(Slot::is_known);
                if history.newest != lost || !there.as_ref().is_some_and(last) {
                    let values = truth.values.entry(name.to_owned()).or_default();
                    values.retain(|slot, _| Some(*slot) != lost);
                }
            }
            for slot in &left {
                let row = row(&series, *slot);
                history.record(slot * 10, &row).unwrap();
                truth.record(slot * 10, &row);
            }
            truth.check(&history, &series);
        }
    }
}

#[test]
fn a_clock_that_is_a_little_back_is_waited_for() {
    let mut history = open(&Disk::new(4));
    history.record(START + 100, &readings(&[("a", 1.0)])).unwrap();
    assert!(history.record(START + 50, &readings(&[("a", 2.0)])).unwrap().waits);
    assert_eq!(history.newest_s(), Some(START + 100));
    assert!(
        !history.record(START + 40, &readings(&[("a", 2.0)])).unwrap().waits,
        "a minute back is a new era"
    );
    assert_eq!(history.newest_s(), Some(START + 40));
}

#[test]
fn what_was_measured_in_a_wrong_future_does_not_come_back_when_that_time_comes() {
    let disk = Disk::new(5);
    let mut history = open(&disk);
    history.record(START, &readings(&[("a", 1.0)])).unwrap();
    // Not a whole number of days: a strip of the wrong future takes the place of one that is older.
    let ahead = 30 * 86_400 + 25_200;
    for slot in 0..1000 {
        history.record(START + ahead + slot * 10, &readings(&[("a", 666.0)])).unwrap();
    }
    history.record(START + 10, &readings(&[("a", 2.0)])).unwrap();
    drop(history);
    let mut history = open(&disk);
    // The node is off until that time is over.
    history.record(START + ahead + 20_000, &readings(&[("a", 3.0)])).unwrap();
    for archive in Archive::ALL {
        let points = history.read("a", archive, 0, u64::MAX).unwrap().unwrap();
        assert!(points.slots.iter().all(|slot| !slot.is_known() || slot.max < 600.0), "{archive:?}");
    }
    let years = history.read("a", Archive::Years, START, START + 3600).unwrap().unwrap();
    assert_eq!(years.slots, [Slot { min: 1.0, mean: 1.5, max: 2.0 }]);
}

#[test]
fn eras_without_end_take_no_more_room_and_never_say_too_much() {
    let mut directory = Directory::default();
    let mut all = Vec::new();
    for number in 0..100u64 {
        let begun_s = START + (number * 7919) % 1000;
        directory.begin_era(begun_s);
        all.push(begun_s);
    }
    let names = directory.names();
    assert_eq!(names.eras.len(), MAX_ERAS);
    for era in 0..=100u32 {
        let real = all[era as usize..].iter().min().copied().unwrap_or(u64::MAX);
        assert!(directory.limit_s(era) <= real, "era {era}");
    }
    assert_eq!((directory.limit_s(100), directory.limit_s(101)), (u64::MAX, 0));
}

#[test]
fn series_beyond_the_bound_are_refused_with_a_sentence_until_one_is_forgotten() {
    let mut history = open(&Disk::new(6));
    let many: Vec<Reading> =
        (0..MAX_SERIES + 3).map(|n| Reading { series: format!("s{n}"), value: 1.0 }).collect();
    let recorded = history.record(START, &many).unwrap();
    assert_eq!((recorded.stored, recorded.refused), (MAX_SERIES, 3));
    let refusal = recorded.refusal.unwrap();
    assert!(refusal.contains("s10240") && refusal.contains("hint: "), "{refusal}");
    assert_eq!(
        history.record(START + 10, &many[..5]).unwrap(),
        Recorded { stored: 5, ..Recorded::default() }
    );
    // Two years and more later the others are forgotten: a new one takes the column of one of them, and none of its values.
    let later = START + Archive::Years.span_s() + 20;
    let recorded = history.record(later, &readings(&[("new", 7.0), ("s1", 8.0)])).unwrap();
    assert_eq!((recorded.stored, recorded.refused, recorded.refusal), (2, 0, None));
    assert_eq!(history.series().collect::<HashSet<_>>().len(), MAX_SERIES);
    let gone: Vec<&str> = many[..MAX_SERIES].iter().map(|one| one.series.as_str()).collect();
    assert_eq!(gone.iter().filter(|name| history.directory.column(name).is_none()).count(), 1);
    for archive in Archive::ALL {
        let points = history.read("new", archive, 0, u64::MAX).unwrap().unwrap();
        assert!(points.slots.iter().all(|slot| !slot.is_known() || (slot.mean - 7.0).abs() < 0.1));
    }
}

#[test]
fn a_new_series_in_an_old_column_has_nothing_of_the_old_one() {
    let disk = Disk::new(7);
    let mut history = open(&disk);
    for slot in 0..130 {
        history.record(START + slot * 10, &readings(&[("old", 1.0)])).unwrap();
    }
    history.directory.insert(0, "young", START + 1300);
    history.names_changed = true;
    for strip in &mut history.strips {
        strip.clear_column(0);
    }
    history.record(START + 1300, &readings(&[("young", 9.0)])).unwrap();
    let check = |history: &History| {
        let points = history.read("young", Archive::Day, 0, u64::MAX).unwrap().unwrap();
        let known: Vec<f32> =
            points.slots.iter().filter(|slot| slot.is_known()).map(|slot| slot.mean).collect();
        assert_eq!(known, [9.0]);
        assert_eq!(history.read("old", Archive::Day, 0, u64::MAX).unwrap(), None);
    };
    check(&history);
    drop(history);
    disk.restart(false);
    check(&open(&disk));
}

#[test]
fn names_that_are_too_long_and_a_full_disk_refuse_only_what_is_new() {
    let disk = Disk::new(8);
    let mut history = open(&disk);
    let long = "x".repeat(MAX_NAME_BYTES + 1);
    let recorded = history.record(START, &readings(&[(&long, 1.0), ("a", 1.0)])).unwrap();
    assert_eq!((recorded.stored, recorded.refused), (1, 1));
    assert!(recorded.refusal.unwrap().contains("hint: "));
    disk.reserve_at_most(LAYOUTS[3].file_bytes(1));
    let many: Vec<Reading> = (0..GROUP).map(|n| Reading { series: format!("s{n}"), value: 1.0 }).collect();
    let recorded = history.record(START + 10, &many).unwrap();
    assert_eq!((recorded.stored, recorded.refused), (GROUP - 1, 1));
    assert!(recorded.refusal.unwrap().contains("disk"));
}

#[test]
fn a_disk_with_hardly_any_room_is_left_to_others() {
    let disk = Disk::new(9);
    disk.reserve_at_most(0);
    assert!(matches!(History::on(Box::new(disk.clone())), Err(Error::Io { action: "begun", .. })));
    disk.reserve_at_most(u64::MAX);
    let mut history = open(&disk);
    assert_eq!(history.record(START, &readings(&[("a", 1.0)])).unwrap().stored, 1);
}

#[test]
fn a_bad_medium_makes_values_unknown_and_never_wrong() {
    let series = ["a", "b"];
    for seed in 0..20 {
        let (disk, mut truth) = (Disk::new(seed), Truth::default());
        let mut history = open(&disk);
        for slot in 0..400 {
            let row = row(&series, slot);
            history.record(START + slot * 10, &row).unwrap();
            truth.record(START + slot * 10, &row);
        }
        drop(history);
        disk.restart(false);
        disk.spoil(if seed % 2 == 0 { Part::Journal } else { Part::Archive(0) });
        truth.check_what_is_known(&open(&disk), &series);
    }
}

#[test]
fn damaged_names_are_refused_and_so_are_other_versions() {
    let names = Names {
        next_serial: 2,
        eras: Vec::new(),
        series: vec![Named { column: 0, serial: 1, known_s: 5, name: "a".to_owned() }],
    };
    let bytes = names.encode();
    assert_eq!(Names::decode(&bytes), Ok(names));
    for at in 0..bytes.len() {
        let mut spoiled = bytes.clone();
        spoiled[at] ^= 1;
        assert!(Names::decode(&spoiled).is_err(), "byte {at}");
        assert!(Names::decode(&bytes[..at]).is_err());
    }
    let mut other = bytes;
    other[8] = 2;
    let error = Error::from(Names::decode(&other).unwrap_err()).to_string();
    assert!(error.contains("version is 2") && error.contains("hint: "), "{error}");
}

#[test]
fn it_is_there_again_in_a_directory() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("history");
    let mut truth = Truth::default();
    let series = ["a"];
    let mut sizes = Vec::new();
    for part in 0..2 {
        let mut history = History::open(&path).unwrap();
        truth.check(&history, &series);
        for slot in part * 300..(part + 1) * 300 {
            let row = row(&series, slot);
            history.record(START + slot * 10, &row).unwrap();
            truth.record(START + slot * 10, &row);
        }
        truth.check(&history, &series);
        let size = |file: &str| std::fs::metadata(path.join(file)).unwrap().len();
        sizes.push(LAYOUTS.iter().map(|layout| size(layout.file)).sum::<u64>() + size("journal"));
    }
    assert_eq!(sizes, [33_128_448 + 5_406_720; 2], "the size is constant, and what the format's page says");
    std::fs::write(path.join("names"), b"FelsName").unwrap();
    assert!(matches!(History::open(&path), Err(Error::Names(NotNames::Damaged))));
}

/// What happens next.
#[derive(Clone, Debug)]
enum Step {
    Rows(u64),
    Jump(i64),
    NewSeries,
    Restart,
    PowerCut,
}

fn steps(jump_s: i64) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (1u64..200).prop_map(Step::Rows),
        3 => (-jump_s..jump_s).prop_map(Step::Jump),
        1 => Just(Step::NewSeries),
        2 => Just(Step::Restart),
        2 => Just(Step::PowerCut),
    ];
    prop::collection::vec(step, 1..20)
}

fn play(steps: &[Step], seed: u64, whole: bool) {
    let (disk, mut truth) = (Disk::new(seed), Truth::default());
    let mut history = open(&disk);
    let names = ["a", "b", "c", "d"];
    let (mut known, mut now_s) = (1, START + 400_000);
    for step in steps {
        match step {
            Step::Rows(count) => {
                for _ in 0..*count {
                    let row = row(&names[..known], now_s / 10);
                    history.record(now_s, &row).unwrap();
                    truth.record(now_s, &row);
                    now_s += 10;
                }
            }
            Step::Jump(seconds) => now_s = now_s.saturating_add_signed(*seconds),
            Step::NewSeries => known = (known + 1).min(names.len()),
            Step::Restart | Step::PowerCut => {
                drop(history);
                disk.restart(matches!(step, Step::PowerCut));
                history = open(&disk);
            }
        }
        if whole {
            truth.check(&history, &names);
        } else {
            truth.check_what_is_known(&history, &names);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn whatever_the_clock_does_within_hours_everything_is_there(steps in steps(7200), seed: u64) {
        play(&steps, seed, true);
    }

    #[test]
    fn whatever_the_clock_does_within_years_nothing_is_wrong(steps in steps(100_000_000), seed: u64) {
        play(&steps, seed, false);
    }

    #[test]
    fn blocks_and_rows_survive_their_bytes(era: u32, strip: u64, serial: u64, column: u32, archive in 0u8..4,
        values in prop::collection::vec(-1e30f32..1e30, 120)) {
        let layout = &LAYOUTS[usize::from(archive)];
        let values = values[..layout.slots * layout.width.min(1)].iter().copied().cycle()
            .take(layout.slots * layout.width).collect::<Vec<_>>();
        let block = Block { era, strip, serial, column, archive, values: values.clone() };
        let mut bytes = [0xFF; BLOCK];
        block.encode(&mut bytes);
        prop_assert_eq!(Block::decode(&bytes), Some(block));
        let row = Row { era, slot: strip, watermark: serial, values };
        let mut bytes = row.encode();
        prop_assert_eq!(Row::decode(&bytes), Some(row));
        let last = bytes.len() - 1;
        bytes[last] ^= 0x10;
        prop_assert_eq!(Row::decode(&bytes), None);
    }
}
