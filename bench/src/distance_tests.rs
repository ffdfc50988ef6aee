use std::cell::Cell;

use super::*;

fn distance() -> Distance {
    Distance::new("0", "1", Duration::ZERO)
}

/// Measures with looks that say these in turn, and the last one from then on. Returns how often it was measured.
fn measured(distance: &Distance, round_trips: &[f64]) -> u32 {
    let (looks, windows) = (Cell::new(0), Cell::new(0));
    let look = || {
        let at = looks.replace(looks.get() + 1);
        Ok(round_trips[at.min(round_trips.len() - 1)])
    };
    let measure = || {
        windows.set(windows.get() + 1);
        Ok(())
    };
    distance.near_by(&Interrupt::default(), look, measure).unwrap();
    windows.get()
}

#[test]
fn a_window_in_which_the_cores_go_apart_is_measured_again() {
    let distance = distance();
    assert_eq!(measured(&distance, &[60.0, 70.0]), 1);
    assert_eq!(measured(&distance, &[65.0, 310.0, 60.0]), 2);
    let apart = distance.apart().unwrap();
    assert_eq!((apart.repeated, apart.round_trip_ns.max), (1, 70.0));
    assert!(apart.sentence().contains("at the end: 1 windows;"), "{}", apart.sentence());
    assert_eq!(apart.far, 0);
}

#[test]
fn a_window_begins_when_the_cores_have_come_together() {
    let distance = Distance { patience: Duration::from_secs(60), ..distance() };
    measured(&distance, &[60.0]);
    assert_eq!(measured(&distance, &[310.0, 310.0, 60.0]), 1);
    let apart = distance.apart().unwrap();
    assert_eq!(apart.repeated, 0);
    assert!((apart.waited_s - 2.0 * PAUSE.as_secs_f64()).abs() < 1e-9, "{apart:?}");
}

#[test]
fn cores_that_stay_apart_are_taken_as_they_are() {
    let distance = distance();
    measured(&distance, &[60.0]);
    assert_eq!(measured(&distance, &[310.0]), 1);
    assert_eq!(measured(&distance, &[320.0]), 1);
    let apart = distance.apart().unwrap();
    assert_eq!((apart.repeated, apart.far), (0, 2));
}

#[test]
fn a_run_that_begins_with_cores_apart_says_so() {
    let distance = distance();
    for round_trips in [&[310.0], &[f64::INFINITY], &[60.0]] {
        measured(&distance, round_trips);
    }
    let apart = distance.apart().unwrap();
    assert_eq!((apart.far, apart.round_trip_ns.max), (2, 310.0));
    assert!(apart.sentence().contains("counted all the same: 2;"), "{}", apart.sentence());
}

#[test]
fn cores_that_never_keep_still_end_all_the_same() {
    let distance = distance();
    let mut looks = 0;
    let look = || {
        looks += 1;
        Ok(if looks % 2 == 1 { 60.0 } else { 310.0 })
    };
    let mut windows = 0;
    let measure = || {
        windows += 1;
        Ok(())
    };
    distance.near_by(&Interrupt::default(), look, measure).unwrap();
    assert_eq!(windows, TRIES);
    let apart = distance.apart().unwrap();
    assert_eq!((apart.repeated, apart.far), (TRIES - 1, 0));
}

#[test]
fn waiting_for_cores_can_be_interrupted() {
    let distance = Distance { patience: Duration::from_secs(60), ..distance() };
    measured(&distance, &[60.0]);
    let interrupt = Interrupt::default();
    interrupt.raise();
    let result = distance.near_by(&interrupt, || Ok(310.0), || Ok(()));
    assert!(matches!(result, Err(Error::Interrupted)));
}

#[test]
fn a_line_goes_to_another_core_and_back() {
    let round_trip = round_trip([0, 1]).unwrap();
    assert!(round_trip > 1.0, "{round_trip}");
    assert!(super::round_trip([0, 1000]).is_err());
    assert!(super::round_trip([1000, 0]).is_err());
}

#[test]
fn one_core_is_at_no_distance_from_itself() {
    let distance = Distance::new("0,1", "0", Duration::ZERO);
    assert_eq!(distance.near(&Interrupt::default(), || Ok(7)).unwrap(), 7);
    assert_eq!(distance.apart(), None);
}
