//! A spinning disk against times computed by hand. Its revolution takes 10 ms, a track has 250 blocks, so a block passes in 40 us.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use ring::sim::World;
use ring::{Buffer, Memory, Ring};

use super::arm::{Arm, Motion, Progress, Ticket};
use super::*;
use crate::disk::MemoryDisk;
use crate::layers::Stack;
use crate::request::{Flags, Request};

const BLOCK: u64 = 4096;
const TRACK: u64 = 250 * BLOCK;
/// A thousand and one tracks.
const SIZE: u64 = 1001 * TRACK;
const PASSING: u64 = 40_000;
const REVOLUTION: u64 = 10_000_000;
const MILLISECOND: u64 = 1_000_000;

fn disk() -> SpinningDisk {
    SpinningDisk {
        rpm: 6000,
        track_to_track_seek: Duration::from_millis(1),
        average_seek: Duration::from_millis(8),
        full_stroke_seek: Duration::from_millis(16),
        transfer_bytes_per_s: 102_400_000,
        ..SpinningDisk::default()
    }
}

fn arm(disk: SpinningDisk) -> Arm {
    Arm::new(disk).unwrap()
}

/// The end of a request that comes when the arm has nothing else to do.
fn end(arm: &mut Arm, now: u64, motion: Motion, offset: u64, length: u64) -> u64 {
    match arm.enter(now, motion, offset, length, SIZE) {
        (_, Progress::Done(at)) => at,
        (ticket, Progress::Ask(at)) => panic!("{ticket:?} waits until {at}"),
    }
}

fn read(arm: &mut Arm, now: u64, offset: u64) -> u64 {
    end(arm, now, Motion::Read, offset, BLOCK)
}

/// The end of a request that waits.
fn ends(arm: &mut Arm, ticket: Ticket, mut now: u64) -> u64 {
    loop {
        match arm.ask(ticket, now) {
            Progress::Done(at) => return at,
            Progress::Ask(at) => now = at,
        }
    }
}

#[test]
fn a_request_takes_a_seek_the_rest_of_a_revolution_and_its_own_passing() {
    // The platter turns while the arm moves: after the seek the 100th block of the track, at 4 ms, is waited for.
    let place = |track: u64| track * TRACK + 100 * BLOCK;
    assert_eq!(read(&mut arm(disk()), 0, 100 * BLOCK), 4 * MILLISECOND + PASSING, "no seek");
    assert_eq!(read(&mut arm(disk()), 0, place(1)), 4 * MILLISECOND + PASSING, "one of 1 ms");
    assert_eq!(read(&mut arm(disk()), 0, place(1000)), 24 * MILLISECOND + PASSING, "one of 16 ms");
    assert_eq!(
        end(&mut arm(disk()), 0, Motion::Write, place(1000), 10 * BLOCK),
        24 * MILLISECOND + 10 * PASSING
    );
    // At 5 ms it has just gone by.
    assert_eq!(read(&mut arm(disk()), 5 * MILLISECOND, 100 * BLOCK), 14 * MILLISECOND + PASSING);
    let other = read(&mut arm(SpinningDisk { seed: 1, ..disk() }), 0, 100 * BLOCK);
    assert_ne!(other, 4 * MILLISECOND + PASSING, "another disk stands elsewhere");
    assert_eq!(other, read(&mut arm(SpinningDisk { seed: 1, ..disk() }), 0, 100 * BLOCK));
}

#[test]
fn a_sequential_run_has_no_seeks() {
    let mut reads = arm(disk());
    let blocks = 1000;
    let mut now = 0;
    for block in 0..blocks {
        // Whoever asks needs a moment between two requests; the disk has read on meanwhile.
        now = read(&mut reads, now + 30_000, block * BLOCK);
    }
    // The first one has gone by when it is asked for.
    assert_eq!(now, REVOLUTION + blocks * PASSING);
    // Writes that wait for one another stream too, but one that comes only after the last was done has missed its place.
    let mut writes = arm(disk());
    let tickets: Vec<_> =
        (0..10).map(|block| writes.enter(0, Motion::Write, block * BLOCK, BLOCK, SIZE).0).collect();
    assert_eq!(ends(&mut writes, tickets[9], 0), 10 * PASSING);
    let mut writes = arm(disk());
    let first = end(&mut writes, 0, Motion::Write, 0, BLOCK);
    assert_eq!(end(&mut writes, first + 30_000, Motion::Write, BLOCK, BLOCK), PASSING + REVOLUTION + PASSING);
}

#[test]
fn what_was_read_on_is_there_at_once_and_has_an_end() {
    let buffer = 100;
    let mut arm = arm(SpinningDisk { read_ahead_bytes: buffer * BLOCK, ..disk() });
    assert_eq!(read(&mut arm, 0, 0), PASSING);
    let later = 50 * MILLISECOND;
    for block in 1..=buffer {
        assert_eq!(read(&mut arm, later, block * BLOCK), later, "block {block}");
    }
    // The head stood behind the buffer and has begun to move again.
    assert_eq!(read(&mut arm, later, (buffer + 1) * BLOCK), later + PASSING);
    // What lies a little further on passes below the head; what lies before it has to come round.
    let now = later + PASSING;
    assert_eq!(read(&mut arm, now, (buffer + 12) * BLOCK), now + 11 * PASSING);
    let now = now + 11 * PASSING;
    assert!(read(&mut arm, now, 0) > now + REVOLUTION / 3);
}

#[test]
fn random_reads_take_the_average_seek_and_half_a_revolution() {
    let mut arm = arm(disk());
    let mut random = fastrand::Rng::with_seed(3);
    let (count, mut now) = (20_000, 0);
    for _ in 0..count {
        now = read(&mut arm, now, random.u64(0..SIZE / BLOCK) * BLOCK);
    }
    let mean_us = now / count / 1000;
    assert!((12_900..13_200).contains(&mean_us), "8 ms + 5 ms + 40 us, measured {mean_us} us");
}

#[test]
fn two_streams_in_turn_cost_seeks() {
    let mut arm = arm(disk());
    let (far, mut now) = (1000 * TRACK, 0);
    let requests = 200;
    for request in 0..requests {
        now = read(&mut arm, now, request / 2 * BLOCK + request % 2 * far);
    }
    let mean_us = now / requests / 1000;
    assert!(mean_us > 16_000, "a full stroke each, measured {mean_us} us");
}

#[test]
fn an_elevator_is_faster_than_the_order_of_arrival_and_lets_nobody_wait_for_ever() {
    let run = |order| {
        let mut arm = arm(SpinningDisk { order, ..disk() });
        let mut random = fastrand::Rng::with_seed(5);
        let mut place = || random.u64(0..SIZE / BLOCK) * BLOCK;
        let mut waiting: Vec<_> =
            (0..32).map(|_| (arm.enter(0, Motion::Read, place(), BLOCK, SIZE), 0)).collect();
        let (mut now, mut longest) = (0, 0);
        let mut done = 0;
        while done < 5000 {
            let mut next = u64::MAX;
            for ((ticket, progress), begun) in &mut waiting {
                if let Progress::Ask(at) = *progress
                    && at <= now
                {
                    *progress = arm.ask(*ticket, now);
                }
                if let Progress::Done(at) = *progress
                    && at <= now
                {
                    done += 1;
                    longest = longest.max(at - *begun);
                    *begun = now;
                    (*ticket, *progress) = arm.enter(now, Motion::Read, place(), BLOCK, SIZE);
                }
                let (Progress::Done(at) | Progress::Ask(at)) = *progress;
                next = next.min(at.max(now + 1));
            }
            now = next;
        }
        (now, longest)
    };
    let (arrival, _) = run(Order::Arrival);
    let (elevator, longest) = run(Order::Elevator);
    assert!(
        elevator * 10 < arrival * 7,
        "{} ms against {} ms",
        elevator / MILLISECOND,
        arrival / MILLISECOND
    );
    // Two rounds of the elevator with 32 stops each.
    assert!(longest < 2 * 32 * 20 * MILLISECOND, "{} ms", longest / MILLISECOND);
}

#[test]
fn a_cache_acknowledges_early_and_a_flush_waits_for_the_platter() {
    let mut arm = arm(SpinningDisk { write_cache_bytes: 4 * BLOCK, ..disk() });
    for index in 0..4 {
        assert_eq!(end(&mut arm, 0, Motion::CachedWrite, index * 100 * TRACK, BLOCK), 0);
    }
    let last = arm.last();
    // The cache is full: the fifth one waits for its place on the platter, and for those before it.
    let (fifth, progress) = arm.enter(0, Motion::CachedWrite, 900 * TRACK, BLOCK, SIZE);
    assert!(matches!(progress, Progress::Ask(_)));
    let Progress::Ask(mut now) = arm.ask_flushed(last, 0) else { panic!("nothing is on the platter yet") };
    let flushed = loop {
        match arm.ask_flushed(last, now) {
            Progress::Ask(at) => now = at,
            Progress::Done(at) => break at,
        }
    };
    assert!(flushed > 3 * MILLISECOND && flushed < ends(&mut arm, fifth, now));
    assert_eq!(arm.ask_flushed(last, u64::MAX / 2), Progress::Done(flushed), "nothing is left");
}

#[test]
fn who_is_given_up_takes_no_time_of_the_arm() {
    let mut arm = arm(disk());
    let first = read(&mut arm, 0, 0);
    let (second, _) = arm.enter(0, Motion::Read, 1000 * TRACK, BLOCK, SIZE);
    let (third, _) = arm.enter(0, Motion::Read, BLOCK, BLOCK, SIZE);
    arm.forget(second);
    assert_eq!(ends(&mut arm, third, 0), first + PASSING);
}

#[test]
fn figures_that_no_disk_has_are_refused() {
    let refused = |change: fn(&mut SpinningDisk)| {
        let mut wrong = disk();
        change(&mut wrong);
        wrong.check().unwrap_err().to_string()
    };
    for (text, part) in [
        (refused(|disk| disk.rpm = 0), "0 revolutions"),
        (refused(|disk| disk.transfer_bytes_per_s = 1), "bytes in a revolution"),
        (refused(|disk| disk.transfer_bytes_per_s = u64::MAX), "bytes in a revolution"),
        (refused(|disk| disk.average_seek = Duration::from_micros(1)), "the average lies"),
        (refused(|disk| disk.average_seek = Duration::from_millis(17)), "the average lies"),
        (refused(|disk| disk.full_stroke_seek = Duration::MAX), "a second at most"),
        (refused(|disk| disk.write_cache_bytes = 1 << 40), "a buffer of"),
    ] {
        assert!(text.contains(part) && text.contains("; hint: "), "{text}");
    }
    for rpm in [7200, 10_000, 15_000] {
        assert_eq!(SpinningDisk::of_rpm(rpm).map(|disk| (disk.rpm, disk.check())), Some((rpm, Ok(()))));
    }
    assert_eq!(SpinningDisk::of_rpm(5400), None);
}

/// Runs requests on the layer over memory, one after the other, and gives the time that they took.
fn on_layer(spindle: &Arc<Spindle>, requests: impl FnOnce() -> Vec<Request> + 'static) -> Duration {
    let world = World::new(1);
    let reactor = world.node("machine").reactor();
    let ring: Ring = reactor.ring().clone();
    let spindle = spindle.clone();
    let took = Rc::new(Cell::new(Duration::ZERO));
    let result = took.clone();
    world
        .block_on(&reactor, async move {
            let memory = Arc::new(Memory::new(SIZE).unwrap());
            let layer = Spinning { ring: ring.clone(), spindle };
            let disk = Box::new(MemoryDisk::new(&ring, memory, BLOCK as u32));
            let stack = Stack::new(ring.clone(), vec![Box::new(layer)], disk);
            let start = ring.now();
            for request in requests() {
                stack.submit(request).await.result.unwrap();
            }
            result.set(ring.now().since(start));
        })
        .unwrap();
    took.get()
}

#[test]
fn the_layer_takes_the_time_of_the_disk_and_none_when_it_is_skipped() {
    let spindle = Spindle::new(disk()).unwrap();
    let read = |block: u64| Request::read(block * BLOCK, Buffer::new(BLOCK as usize));
    let reads = move || (0..250).map(read).collect();
    let took = on_layer(&spindle, reads);
    let least = Duration::from_millis(10);
    assert!(took >= least && took < least * 2 + Duration::from_millis(1), "a track is read in {took:?}");
    spindle.skip(true);
    assert!(on_layer(&spindle, reads) < Duration::from_millis(1));
    spindle.skip(false);
    let scattered = move || (0..100).map(|index| read(index * 2497 % 250_000)).collect();
    assert!(on_layer(&spindle, scattered) > Duration::from_millis(400));
}

#[test]
fn a_write_cache_is_told_and_only_fua_and_flushes_wait() {
    let cached = || Spindle::new(SpinningDisk { write_cache_bytes: 1 << 20, ..disk() }).unwrap();
    let write = || Request::write(500 * TRACK, Buffer::new(BLOCK as usize));
    let fast = on_layer(&cached(), move || vec![write()]);
    let durable = on_layer(&cached(), move || vec![write().with(Flags::FUA)]);
    let flushed = on_layer(&cached(), move || vec![write(), Request::flush()]);
    let seek = Duration::from_millis(8);
    assert!(fast < Duration::from_millis(1) && durable > seek && flushed > seek);
    let uncached = on_layer(&Spindle::new(disk()).unwrap(), move || vec![write()]);
    assert!(uncached > seek, "without a cache a write is on the platter when it is done");

    let told = |spindle| {
        let world = World::new(1);
        let reactor = world.node("machine").reactor();
        let layer = Spinning { ring: reactor.ring().clone(), spindle };
        let memory = Arc::new(Memory::new(1 << 20).unwrap());
        let disk = Box::new(MemoryDisk::new(reactor.ring(), memory, BLOCK as u32));
        Stack::new(reactor.ring().clone(), vec![Box::new(layer)], disk).geometry().write_cache
    };
    assert!(told(cached()) && !told(Spindle::new(disk()).unwrap()));
}

proptest! {
    #[test]
    fn the_arm_does_one_thing_at_a_time_and_forgets_nobody(
        requests in prop::collection::vec((0u64..250_000, 1u64..64, 0u64..5, any::<bool>()), 1..60),
        elevator in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let order = if elevator { Order::Elevator } else { Order::Arrival };
        let mut arm = arm(SpinningDisk { order, seed, read_ahead_bytes: 0, ..disk() });
        let (mut now, mut waiting) = (0, Vec::new());
        for (block, blocks, wait_ms, is_read) in requests {
            now += wait_ms * MILLISECOND;
            let motion = if is_read { Motion::Read } else { Motion::Write };
            let (ticket, progress) = arm.enter(now, motion, block * BLOCK, blocks * BLOCK, SIZE);
            waiting.push((ticket, progress, now, blocks));
        }
        let mut spans = Vec::new();
        for (ticket, progress, begun, blocks) in waiting {
            let end = if let Progress::Done(at) = progress { at } else { ends(&mut arm, ticket, now) };
            prop_assert!(end >= begun + blocks * PASSING);
            spans.push((end - blocks * PASSING, end));
        }
        spans.sort_unstable();
        prop_assert!(spans.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{:?}", spans);
    }
}
