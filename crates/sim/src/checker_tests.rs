//! Histories that are possible, and such as are not.

use super::*;

fn event(kind: Kind, begin: u64, end: u64) -> Event {
    Event { kind, begin, end, done: true, durable: false }
}

fn check(events: &[Event], flushes: &[(u64, u64)], left: Option<Value>) -> Result<(), Contradiction> {
    Sector { events, flushes, left }.check(0)
}

#[test]
fn an_acknowledged_write_is_seen() {
    let events = [event(Kind::Write(1), 1, 2), event(Kind::Is(0), 3, 4)];
    assert_eq!(check(&events, &[], None), Err(Contradiction::At(1)));
    let events = [event(Kind::Write(1), 1, 4), event(Kind::Is(0), 2, 3), event(Kind::Is(1), 5, 6)];
    assert!(check(&events, &[], None).is_ok());
}

#[test]
fn an_older_value_does_not_come_back() {
    let events = [event(Kind::Write(1), 1, 8), event(Kind::Is(1), 2, 3), event(Kind::Is(0), 4, 5)];
    assert_eq!(check(&events, &[], None), Err(Contradiction::At(2)));
    let overlapping = [event(Kind::Write(1), 1, 8), event(Kind::Is(1), 2, 5), event(Kind::Is(0), 3, 4)];
    assert!(check(&overlapping, &[], None).is_ok());
}

#[test]
fn writes_at_once_may_have_either_order() {
    for last in [1, 2] {
        let events = [event(Kind::Write(1), 1, 4), event(Kind::Write(2), 2, 3), event(Kind::Is(last), 5, 6)];
        assert!(check(&events, &[], None).is_ok());
    }
    let twice = [
        event(Kind::Write(1), 1, 4),
        event(Kind::Write(2), 2, 3),
        event(Kind::Is(1), 5, 6),
        event(Kind::Is(2), 7, 8),
    ];
    assert_eq!(check(&twice, &[], None), Err(Contradiction::At(3)));
}

#[test]
fn a_write_that_ended_without_an_answer_is_there_or_not_but_does_not_come_later() {
    let lost = Event { done: false, ..event(Kind::Write(1), 1, 4) };
    for seen in [0, 1] {
        assert!(check(&[lost, event(Kind::Is(seen), 5, 6)], &[], None).is_ok());
    }
    let late = [lost, event(Kind::Is(0), 5, 6), event(Kind::Is(1), 7, 8)];
    assert_eq!(check(&late, &[], None), Err(Contradiction::At(2)));
}

#[test]
fn a_flush_leaves_nothing_older_than_what_was_acknowledged_before_it() {
    let events = [event(Kind::Write(1), 1, 2), event(Kind::Write(2), 5, 6)];
    assert!(check(&events, &[], Some(0)).is_ok());
    let left = |value| check(&events, &[(3, 4)], Some(value));
    assert!(left(1).is_ok() && left(2).is_ok());
    assert_eq!(left(0), Err(Contradiction::Left));
    assert!(
        check(&events[..1], &[(0, 4)], Some(0)).is_ok(),
        "the flush began before the write was acknowledged"
    );
}

#[test]
fn a_durable_write_is_there() {
    let durable = Event { durable: true, ..event(Kind::Write(1), 1, 2) };
    assert_eq!(check(&[durable], &[], Some(0)), Err(Contradiction::Left));
    let refused = Event { done: false, ..durable };
    assert!(check(&[refused], &[], Some(0)).is_ok());
}

#[test]
fn nothing_comes_between_a_comparison_and_its_write() {
    let swap = |from, to, begin, end| event(Kind::Swap { from, to }, begin, end);
    assert!(check(&[swap(0, 1, 1, 2), swap(1, 2, 3, 4), event(Kind::Is(2), 5, 6)], &[], None).is_ok());
    let both = [swap(0, 1, 1, 4), swap(0, 2, 2, 3)];
    assert!(check(&both, &[], None).is_err(), "only one of them can have found it");
    let between =
        [swap(0, 1, 1, 6), event(Kind::Write(2), 2, 3), event(Kind::Is(2), 4, 5), event(Kind::Is(1), 7, 8)];
    assert_eq!(check(&between, &[], None), Err(Contradiction::At(3)), "the write came between");
}

#[test]
fn values_that_only_comparisons_met_find_their_place() {
    let swap = event(Kind::Swap { from: 0, to: 2 }, 2, 4);
    assert!(check(&[event(Kind::Write(1), 1, 3), swap], &[], None).is_ok(), "the comparison came first");
    let differs = [event(Kind::Write(1), 1, 4), event(Kind::Not(0), 2, 3)];
    assert!(check(&differs, &[], None).is_ok(), "the write came first");
}

#[test]
fn zeroes_that_begin_after_the_last_look_at_zeroes_are_no_tangle() {
    let mut events = vec![event(Kind::Is(0), 1, 2), event(Kind::Write(1), 3, 1000)];
    let zeroes = (0..20).map(|at| Event { done: false, ..event(Kind::Write(0), 10 + 4 * at, 12 + 4 * at) });
    events.extend(zeroes);
    assert_eq!(check(&events, &[], Some(1)), Ok(()));
}
