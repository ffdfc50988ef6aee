//! The checker against histories of a register that is real, against the same ones spoiled, and against a search of
//! all orders.

use super::*;

/// What was done to a register, in the order in which it came into effect, and how a power cut found it.
struct Generated {
    events: Vec<Event>,
    flushes: Vec<(u64, u64)>,
    left: Value,
}

/// Plays a real register: every operation has its effect at one moment between its begin and its end. `lanes` at most
/// are under way at once.
fn generate(random: &mut fastrand::Rng, count: usize, lanes: usize) -> Generated {
    let mut clock = 0;
    let mut tick = |random: &mut fastrand::Rng| {
        clock += random.u64(1..4);
        clock
    };
    // Begin, effect and end of each: drawn by going through time and moving on one of the lanes.
    let mut spans: Vec<[u64; 3]> = Vec::new();
    let mut open: Vec<(usize, usize)> = Vec::new();
    while spans.len() < count || !open.is_empty() {
        if spans.len() < count && open.len() < lanes && random.bool() {
            open.push((spans.len(), 1));
            spans.push([tick(random), 0, 0]);
        } else if !open.is_empty() {
            let lane = random.usize(0..open.len());
            let (number, stage) = open[lane];
            spans[number][stage] = tick(random);
            open[lane].1 += 1;
            if stage == 2 {
                open.swap_remove(lane);
            }
        }
    }
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by_key(|number| spans[*number][1]);
    // Effects in their order, each with when its operation ended, and whether it was acknowledged as durable.
    let mut effects = vec![(0, 0, true)];
    let mut events = vec![event(Kind::Is(0), 0, 0); count];
    let mut flushes = Vec::new();
    let mut flushed = vec![false; count];
    for number in order {
        let [begin, _, end] = spans[number];
        let current = effects[effects.len() - 1].0;
        let value = number as Value + 1;
        let (done, durable) = (random.u8(0..8) > 0, random.u8(0..4) == 0);
        // Without an answer it has come into effect or not.
        let acts = done || random.bool();
        let kind = match random.u8(0..20) {
            0..7 => Kind::Is(current),
            7..14 => Kind::Write(value),
            14 => Kind::Write(0),
            15 | 16 => Kind::Swap { from: current, to: value },
            17 => Kind::Not(current + 1),
            _ => {
                flushed[number] = true;
                flushes.push((begin, end));
                continue;
            }
        };
        match kind {
            Kind::Write(value) | Kind::Swap { to: value, .. } if acts => {
                effects.push((value, end, done && durable));
            }
            _ => {}
        }
        let reads = matches!(kind, Kind::Is(_) | Kind::Not(_));
        events[number] = Event { kind, begin, end, done: done || reads, durable: durable && !reads };
    }
    let mut flushed = flushed.into_iter();
    events.retain(|_| !flushed.next().unwrap_or(false));
    flushes.sort_by_key(|(_, end)| *end);
    let is_safe =
        |(_, end, durable): &(Value, u64, bool)| *durable || flushes.iter().any(|(begin, _)| end < begin);
    let safe = effects.iter().rposition(is_safe).expect("the first one is");
    let left = effects[random.usize(safe..effects.len())].0;
    Generated { events, flushes, left }
}

fn event(kind: Kind, begin: u64, end: u64) -> Event {
    Event { kind, begin, end, done: true, durable: false }
}

/// Whether the history is possible, and what the power cut left is too.
fn accepts(events: &[Event], flushes: &[(u64, u64)], left: Option<Value>) -> bool {
    match (Sector { events, flushes, left }).check(0) {
        Ok(()) => true,
        Err(Contradiction::At(_) | Contradiction::Left) => false,
        Err(Contradiction::Tangled) => panic!("a small history is too tangled"),
    }
}

const SEEDS: u64 = 3000;

fn histories(mut look: impl FnMut(u64, &mut fastrand::Rng, Generated)) {
    for seed in 0..SEEDS {
        let mut random = fastrand::Rng::with_seed(seed);
        let (count, lanes) = (random.usize(2..40), random.usize(1..6));
        let generated = generate(&mut random, count, lanes);
        look(seed, &mut random, generated);
    }
}

#[test]
fn the_history_of_a_real_register_is_possible() {
    histories(|seed, _, Generated { events, flushes, left }| {
        assert!(accepts(&events, &flushes, None), "seed {seed}: {events:?}");
        assert!(
            accepts(&events, &flushes, Some(left)),
            "seed {seed}: {left} left by {events:?}, {flushes:?}"
        );
    });
}

fn written(event: &Event) -> Option<Value> {
    match event.kind {
        Kind::Write(value) | Kind::Swap { to: value, .. } => Some(value),
        Kind::Is(_) | Kind::Not(_) => None,
    }
}

/// A value that is certainly gone at `time`: its write had ended when another one began, which was acknowledged before.
fn gone(events: &[Event], time: u64, random: &mut fastrand::Rng) -> Option<Value> {
    let later = |old: &Event| {
        let covers =
            |new: &Event| written(new).is_some() && new.done && old.end < new.begin && new.end < time;
        events.iter().any(covers)
    };
    let old = events.iter().filter(|event| written(event).is_some_and(|value| value != 0) && later(event));
    random.choice(old.collect::<Vec<_>>()).and_then(written)
}

#[test]
fn a_stale_read_is_noticed() {
    let mut spoiled = 0;
    histories(|seed, random, Generated { mut events, flushes, .. }| {
        let reads: Vec<usize> =
            (0..events.len()).filter(|index| matches!(events[*index].kind, Kind::Is(_))).collect();
        let Some(read) = random.choice(reads) else { return };
        let Some(value) = gone(&events, events[read].begin, random) else { return };
        events[read].kind = Kind::Is(value);
        spoiled += 1;
        assert!(!accepts(&events, &flushes, None), "seed {seed}: event {read} of {events:?}");
    });
    assert!(spoiled > SEEDS / 3, "{spoiled} histories were spoiled");
}

#[test]
fn a_comparison_with_what_is_gone_does_not_succeed() {
    let mut spoiled = 0;
    histories(|seed, random, Generated { mut events, flushes, .. }| {
        let swap = |event: &Event| matches!(event.kind, Kind::Swap { .. }) && event.done;
        let Some(index) = events.iter().position(swap) else { return };
        let Some(value) = gone(&events, events[index].begin, random) else { return };
        if let Kind::Swap { from, .. } = &mut events[index].kind {
            *from = value;
        }
        spoiled += 1;
        assert!(!accepts(&events, &flushes, None), "seed {seed}: event {index} of {events:?}");
    });
    assert!(spoiled > SEEDS / 10, "{spoiled} histories were spoiled");
}

#[test]
fn a_lost_write_and_an_order_beyond_overlap_are_noticed() {
    let mut spoiled = [0; 2];
    histories(|seed, _, Generated { mut events, flushes, .. }| {
        // Everything is over at the end; nothing that was never answered may come then.
        let last = events.iter().map(|event| event.end).max().unwrap_or(0);
        let values = [last as Value + 1000, last as Value + 1001];
        events.push(event(Kind::Write(values[0]), last + 1, last + 2));
        events.push(event(Kind::Write(values[1]), last + 3, last + 4));
        events.push(event(Kind::Is(values[1]), last + 5, last + 6));
        assert!(accepts(&events, &flushes, None), "seed {seed}: {events:?}");
        let read = events.len() - 1;
        events[read].kind = Kind::Is(values[0]);
        assert!(!accepts(&events, &flushes, None), "seed {seed}, the other way round: {events:?}");
        spoiled[0] += 1;
        // What was written is not there, and what was there before is.
        events.remove(read - 1);
        events.remove(read - 2);
        events.push(event(Kind::Write(values[0]), last + 1, last + 2));
        events.sort_by_key(|event| event.begin);
        for value in events.iter().filter_map(written).chain([0]).collect::<Vec<_>>() {
            let index = events.len() - 1;
            events[index].kind = Kind::Is(value);
            assert_eq!(accepts(&events, &flushes, None), value == values[0], "seed {seed}: {events:?}");
        }
        spoiled[1] += 1;
    });
    assert_eq!(spoiled, [SEEDS; 2]);
}

#[test]
fn what_was_durable_is_not_older_after_a_power_cut() {
    let mut spoiled = 0;
    histories(|seed, _, Generated { mut events, mut flushes, .. }| {
        let last = events.iter().map(|event| event.end).max().unwrap_or(0);
        let before: Vec<Value> = events.iter().filter_map(written).chain([0]).collect();
        let value = last as Value + 1000;
        let durable = seed % 2 == 0;
        events.push(Event { durable, ..event(Kind::Write(value), last + 1, last + 2) });
        if !durable {
            flushes.push((last + 3, last + 4));
        }
        assert!(accepts(&events, &flushes, Some(value)), "seed {seed}");
        for old in before {
            assert!(!accepts(&events, &flushes, Some(old)), "seed {seed}: {old} left by {events:?}");
            spoiled += 1;
        }
    });
    assert!(spoiled > SEEDS);
}

/// Tries every order: what a power cut may leave in each, or nothing when none is possible.
fn search(
    events: &[Event],
    flushes: &[(u64, u64)],
    used: &mut Vec<usize>,
    left: &mut BTreeSet<Value>,
    any: &mut bool,
) {
    let state = |used: &[usize]| used.iter().rev().find_map(|index| written(&events[*index])).unwrap_or(0);
    if (0..events.len()).all(|index| used.contains(&index) || !events[index].done) {
        *any = true;
        let acts: Vec<&Event> =
            used.iter().map(|index| &events[*index]).filter(|e| written(e).is_some()).collect();
        let is_safe = |event: &&Event| {
            (event.done && event.durable) || flushes.iter().any(|(begin, _)| event.end < *begin)
        };
        let safe = acts.iter().rposition(is_safe);
        left.extend(acts[safe.unwrap_or(0)..].iter().filter_map(|event| written(event)));
        if safe.is_none() {
            left.insert(0);
        }
    }
    for next in 0..events.len() {
        let fits = match events[next].kind {
            Kind::Write(_) => true,
            Kind::Swap { from, .. } => state(used) == from,
            Kind::Is(value) => state(used) == value,
            Kind::Not(value) => state(used) != value,
        };
        // Nothing comes behind what began after its end.
        let in_time = used.iter().all(|before| events[next].end > events[*before].begin);
        let alone = (0..events.len()).all(|other| {
            used.contains(&other) || !events[other].done || events[other].end > events[next].begin
        });
        if !used.contains(&next) && fits && in_time && alone {
            used.push(next);
            search(events, flushes, used, left, any);
            used.pop();
        }
    }
}

#[test]
fn the_verdict_is_that_of_a_search_of_all_orders() {
    let (mut possible, mut impossible) = (0, 0);
    for seed in 0..20_000 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (count, lanes) = (random.usize(2..7), random.usize(1..5));
        let Generated { mut events, flushes, .. } = generate(&mut random, count, lanes);
        // Anything may have been seen.
        for event in &mut events {
            let value = random.u64(0..=count as u64);
            match &mut event.kind {
                Kind::Is(seen) | Kind::Not(seen) | Kind::Swap { from: seen, .. } if random.bool() => {
                    *seen = value;
                }
                _ => {}
            }
        }
        let (mut left, mut any) = (BTreeSet::new(), false);
        search(&events, &flushes, &mut Vec::new(), &mut left, &mut any);
        assert_eq!(accepts(&events, &flushes, None), any, "seed {seed}: {events:?}");
        if any {
            for value in 0..=count as u64 {
                let found = accepts(&events, &flushes, Some(value));
                assert_eq!(
                    found,
                    left.contains(&value),
                    "seed {seed}: {value} left by {events:?}, {flushes:?}"
                );
            }
            possible += 1;
        } else {
            impossible += 1;
        }
    }
    assert!(possible > 5000 && impossible > 2000, "{possible} were possible, {impossible} were not");
}
