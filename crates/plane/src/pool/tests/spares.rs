//! Spares, scrubs that go on, members that are slow, and how far all of that is.

use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use super::bed::Bed;
use super::pattern;
use crate::limits::{POOL_MEMBER_STALL, POOL_SPARE_GRACE, POOL_WATCH};
use crate::pool::format::{BLOCK, Cause, End, Label};
use crate::pool::{Level, MemberState, Refusal};

const REDUNDANT: [(Level, usize); 4] =
    [(Level::Raid1, 2), (Level::Raid10, 4), (Level::Raid5, 4), (Level::Raid6, 5)];

/// A pool with something on it and a spare.
fn bed(seed: u64, level: Level, slots: usize) -> (Bed, Vec<u8>) {
    let mut bed = Bed::new(seed, level, slots, 16 << 10);
    let bytes = pattern(bed.volume as usize, seed as u8);
    bed.write(0, &bytes).unwrap();
    bed.settle();
    bed.add_spare("/s0");
    (bed, bytes)
}

fn place(bed: &Bed, slot: usize) -> Option<String> {
    bed.handle().status().members[slot].place.clone()
}

/// Everything is there, also without another member of the group, and without the one that was replaced.
fn is_whole(bed: &mut Bed, bytes: &[u8], without: usize) {
    bed.rebuild();
    assert_eq!(bed.read(0, bytes.len()).unwrap(), bytes);
    let report = bed.scrub();
    assert_eq!((report.bad, report.uneven), (0, 0));
    bed.kill();
    bed.machine.detach(&bed.path(without));
    bed.start().unwrap();
    assert_eq!(bed.read(0, bytes.len()).unwrap(), bytes);
}

#[test]
fn a_spare_takes_the_place_of_a_member_that_fails() {
    for (level, slots) in REDUNDANT {
        for stalls in [false, true] {
            let (mut bed, mut bytes) = bed(1, level, slots);
            assert_eq!(bed.handle().status().spares[0].place.as_deref(), Some("/s0"));
            if stalls {
                bed.machine.stall(&bed.path(1));
            } else {
                bed.machine.fail_writes(&bed.path(1), 0..u64::MAX);
            }
            bytes[..20_000].fill(0x33);
            bed.write(0, &bytes[..20_000]).unwrap();
            bed.world.run_until(|| bed.handle().status().spares.is_empty()).unwrap();
            assert_eq!(place(&bed, 1).as_deref(), Some("/s0"), "{level}");
            bed.rebuild();
            // The old one is foreign, and says so.
            bed.kill();
            bed.machine.repair(&bed.path(1));
            bed.machine.release(&bed.path(1));
            let refused = bed.start().unwrap_err().to_string();
            assert!(refused.contains("/m1 was a member once and was replaced; hint: "), "{refused}");
            bed.leave(1);
            bed.start().unwrap();
            is_whole(&mut bed, &bytes, 0);
        }
    }
}

#[test]
fn a_spare_waits_for_a_member_that_is_missing_at_the_start() {
    let (mut bed, bytes) = bed(2, Level::Raid5, 4);
    bed.kill();
    bed.machine.detach(&bed.path(2));
    bed.start().unwrap();
    assert_eq!(bed.handle().status().members[2].cause, Some(Cause::Missing));
    bed.world.run_for(POOL_SPARE_GRACE.saturating_sub(Duration::from_secs(1))).unwrap();
    assert_eq!(bed.handle().status().members[2].state, MemberState::Out, "not yet");
    // It comes up late: it gets what it missed.
    bed.machine.attach(&bed.path(2));
    let (member, _lock) = bed.member(bed.path(2));
    bed.handle().online(2, member).unwrap();
    bed.rebuild();
    bed.world.run_for(POOL_SPARE_GRACE).unwrap();
    assert_eq!(bed.handle().status().spares.len(), 1, "the spare was not taken");
    bed.kill();
    bed.machine.detach(&bed.path(2));
    bed.start().unwrap();
    bed.world.run_for(POOL_SPARE_GRACE + 2 * POOL_WATCH).unwrap();
    assert_eq!(place(&bed, 2).as_deref(), Some("/s0"));
    is_whole(&mut bed, &bytes, 0);
}

#[test]
fn no_spare_is_taken_for_a_member_that_an_administrator_took_out() {
    let (mut bed, bytes) = bed(3, Level::Raid6, 5);
    bed.handle().offline(1).unwrap();
    bed.world.run_until(|| bed.handle().status().members[1].state == MemberState::Out).unwrap();
    bed.world.run_for(POOL_SPARE_GRACE * 2).unwrap();
    assert_eq!(bed.handle().status().members[1].cause, Some(Cause::Administrator));
    bed.kill();
    bed.start().unwrap();
    bed.world.run_for(POOL_SPARE_GRACE * 2).unwrap();
    assert_eq!(bed.handle().status().members[1].state, MemberState::Out, "nor after a restart");
    assert_eq!(bed.handle().status().spares.len(), 1);
    // Another one that fails gets it.
    bed.machine.fail_writes(&bed.path(3), 0..u64::MAX);
    bed.write(0, &bytes).unwrap();
    bed.world.run_until(|| place(&bed, 3).as_deref() == Some("/s0")).unwrap();
    bed.world.run_until(|| bed.handle().status().members[3].state == MemberState::InSync).unwrap();
    assert_eq!(bed.read(0, bytes.len()).unwrap(), bytes);
}

#[test]
fn a_spare_goes_on_being_rebuilt_after_a_cut_at_any_moment() {
    let mut seen = (0, 0);
    for seed in 0..60 {
        let (mut bed, bytes) = bed(100 + seed, Level::Raid5, 4);
        bed.machine.fail_writes(&bed.path(2), 0..u64::MAX);
        bed.write(0, &bytes[..bed.geometry().row_bytes() as usize]).unwrap();
        // From before it is taken until after it is rebuilt.
        bed.world.run_for(Duration::from_micros(150 * seed)).unwrap();
        let taken = bed.handle().status().spares.is_empty();
        if taken {
            seen.0 += 1;
        } else {
            seen.1 += 1;
        }
        bed.power_cut();
        bed.machine.repair(&bed.path(2));
        // The old member comes up again if the labels still know it.
        if let Err(error) = bed.start() {
            assert!(error.to_string().contains("/m2 was a member once and was replaced"), "{seed}: {error}");
            bed.leave(2);
            bed.start().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        }
        let status = bed.handle().status();
        assert_eq!(
            status.members[2].place.as_deref() == Some("/s0"),
            status.spares.is_empty(),
            "seed {seed}"
        );
        is_whole(&mut bed, &bytes, 0);
    }
    assert!(seen.0 > 5 && seen.1 > 5, "cuts before and after it was taken: {seen:?}");
}

#[test]
fn a_spare_that_fails_is_followed_by_the_next_one() {
    let (mut bed, bytes) = bed(4, Level::Raid1, 2);
    bed.add_spare("/s1");
    bed.machine.fail_writes(&bed.path(0), 0..u64::MAX);
    bed.write(0, &bytes[..4096]).unwrap();
    let rebuilds = || matches!(bed.handle().status().members[0].state, MemberState::Rebuilding { rows: 1.. });
    bed.world.run_until(rebuilds).unwrap();
    bed.machine.fail_writes("/s0".as_ref(), 0..u64::MAX);
    bed.world.run_until(|| place(&bed, 0).as_deref() == Some("/s1")).unwrap();
    bed.rebuild();
    bed.leave(0);
    bed.forget("/s0");
    is_whole(&mut bed, &bytes, 1);
}

#[test]
fn a_spare_that_has_lost_its_labels_is_passed_over() {
    let (mut bed, bytes) = bed(6, Level::Raid5, 4);
    bed.add_spare("/s1");
    // It is there a moment before its label is written.
    bed.world.run_for(POOL_WATCH).unwrap();
    let lost = End::BOTH.map(|end| bed.geometry().label_place(end));
    for place in lost {
        bed.machine.corrupt("/s0".as_ref(), place..place + BLOCK as u64);
    }
    bed.machine.fail_writes(&bed.path(1), 0..u64::MAX);
    bed.write(0, &bytes).unwrap();
    bed.world.run_until(|| place(&bed, 1).is_some_and(|place| place.starts_with("/s"))).unwrap();
    assert_eq!(place(&bed, 1).as_deref(), Some("/s1"));
    bed.leave(1);
    bed.forget("/s0");
    is_whole(&mut bed, &bytes, 0);
}

#[test]
fn spares_are_found_again_and_can_be_removed() {
    let (mut bed, bytes) = bed(5, Level::Raid1, 2);
    bed.kill();
    bed.start().unwrap();
    let spare = bed.handle().status().spares[0].clone();
    assert_eq!(spare.place.as_deref(), Some("/s0"));
    // One that is missing is one still, and is taken in again.
    bed.kill();
    bed.machine.detach("/s0".as_ref());
    bed.start().unwrap();
    assert_eq!(bed.handle().status().spares[0].place, None);
    bed.machine.attach("/s0".as_ref());
    bed.add_spare("/s0");
    assert_eq!(bed.handle().status().spares, std::slice::from_ref(&spare));
    bed.handle().remove_spare(&spare.id).unwrap();
    bed.world.run_until(|| bed.handle().status().spares.is_empty()).unwrap();
    assert!(matches!(bed.handle().remove_spare(&spare.id), Err(Refusal::NoSpare { .. })));
    for end in End::BOTH {
        let label = bed.machine.file_bytes("/s0".as_ref(), bed.geometry().label_place(end), 4096).unwrap();
        assert!(label.iter().all(|byte| *byte == 0), "it is blank again");
    }
    bed.kill();
    bed.forget("/s0");
    bed.start().unwrap();
    assert_eq!(bed.read(0, bytes.len()).unwrap(), bytes);
    // And can be a spare of this or another pool.
    bed.add_spare("/s0");
}

#[test]
fn what_cannot_be_a_spare_is_not_touched() {
    let (bed, _) = bed(6, Level::Raid1, 2);
    let letter = vec![0x42; 5 << 20];
    bed.machine.put_file("/letter".as_ref(), &letter);
    bed.handle().add_spare(bed.member("/letter".into()).0).unwrap();
    bed.machine.put_file("/small".as_ref(), &vec![0; 3 << 20]);
    assert!(matches!(bed.handle().add_spare(bed.member("/small".into()).0), Err(Refusal::TooSmall { .. })));
    bed.world.run_for(Duration::from_secs(1)).unwrap();
    assert_eq!(bed.handle().status().spares.len(), 1);
    assert!(bed.machine.file_bytes("/letter".as_ref(), 0, letter.len()).unwrap() == letter);
    let alone = Bed::new(7, Level::Raid0, 2, 16 << 10);
    let refused = alone.handle().add_spare(alone.member("/s0".into()).0);
    assert!(matches!(refused, Err(Refusal::NoRedundancy { .. })));
}

/// The keeper waited for ever for a disk that it was to take in and that stalled while it was looked at, and nothing was written
/// any more.
#[test]
fn a_new_disk_that_stalls_does_not_stop_the_pool() {
    for moment in 0..30 {
        let mut bed = Bed::new(40 + moment, Level::Raid1, 2, 16 << 10);
        let (member, lock) = bed.member("/s0".into());
        bed.handle().add_spare(member).unwrap();
        bed.world.run_for(Duration::from_micros(50 * moment)).unwrap();
        bed.machine.stall("/s0".as_ref());
        bed.world.run_for(POOL_MEMBER_STALL * 8).unwrap();
        bed.handle().offline(1).unwrap();
        bed.world.run_for(Duration::from_secs(5)).unwrap();
        assert_eq!(bed.handle().status().members[1].cause, Some(Cause::Administrator), "moment {moment}");
        bed.machine.release("/s0".as_ref());
        drop(lock);
        bed.kill();
    }
}

/// Both halves of a mirror were used alone, and one of them took a spare for the other meanwhile. The half that was replaced was
/// resynchronized from the bitmap, which lacks what the other one was given without it.
#[test]
fn halves_of_which_one_took_a_spare_are_refused_together() {
    let (mut bed, bytes) = bed(8, Level::Raid1, 2);
    let path = |slot: usize| PathBuf::from(format!("/m{slot}"));
    bed.kill();
    bed.machine.detach(&path(1));
    bed.start().unwrap();
    bed.world.run_for(POOL_SPARE_GRACE + 2 * POOL_WATCH).unwrap();
    bed.rebuild();
    bed.write(0, &vec![1; bytes.len()]).unwrap();
    bed.kill();
    bed.machine.attach(&path(1));
    for away in [path(0), PathBuf::from("/s0")] {
        bed.machine.detach(&away);
    }
    // For longer, so that its labels are the newer ones.
    bed.start().unwrap();
    for _ in 0..40 {
        bed.write(0, &vec![2; bytes.len()]).unwrap();
        bed.world.run_for(Duration::from_secs(20)).unwrap();
    }
    bed.kill();
    for back in [path(0), PathBuf::from("/s0")] {
        bed.machine.attach(&back);
    }
    let refused = bed.start().unwrap_err().to_string();
    assert!(refused.contains("were each used without the other"), "{refused}");
}

fn label(bed: &Bed, slot: usize) -> Label {
    Label::decode(&bed.machine.file_bytes(&bed.path(slot), 0, 4096).unwrap()).unwrap()
}

#[test]
fn a_scrub_goes_on_after_a_restart() {
    for cut in [false, true] {
        let mut bed = Bed::new(9, Level::Raid5, 4, 16 << 10);
        let more = bed.geometry().row_bytes() * 150;
        bed.kill();
        bed.add_volume(more).unwrap();
        bed.start().unwrap();
        bed.write(0, &pattern(bed.volume as usize, 9)).unwrap();
        bed.write_to(1, 0, &pattern(more as usize, 9)).unwrap();
        bed.settle();
        // Disks so slow that it takes a while.
        (0..4).for_each(|slot| bed.machine.slow_down(&bed.path(slot), 400));
        bed.machine.flip_bit(&bed.path(0), bed.geometry().unit_place(0) + 5, 1);
        bed.handle().scrub();
        bed.world.run_until(|| label(&bed, 0).scrub.is_some_and(|scrub| scrub.row >= 2)).unwrap();
        let status = bed.handle().status().scrub;
        assert!(status.bytes_per_second > 0 && status.left.is_some(), "{status:?}");
        let mut row = label(&bed, 0).scrub.unwrap().row;
        if cut {
            bed.power_cut();
        } else {
            row = bed.handle().status().scrub.rows;
            bed.close();
            assert!(label(&bed, 0).scrub.unwrap().row >= row);
        }
        (0..4).for_each(|slot| bed.machine.slow_down(&bed.path(slot), 1));
        bed.start().unwrap();
        // The keeper begins it.
        bed.world.run_until(|| bed.handle().status().scrub.runs).unwrap();
        let scrub = bed.handle().status().scrub;
        assert!(scrub.rows >= row, "it began anew: {scrub:?}");
        assert_eq!((scrub.bad, scrub.repaired), (1, 1), "what it found before is in its report");
        bed.world.run_until(|| !bed.handle().status().scrub.runs).unwrap();
        assert_eq!(bed.handle().status().scrub.rows, bed.geometry().rows);
        bed.world.run_until(|| label(&bed, 0).scrub.is_none()).unwrap();
        bed.kill();
        bed.start().unwrap();
        assert!(!bed.handle().status().scrub.runs, "one that has ended does not begin again");
    }
}

#[test]
fn a_scrub_that_is_stopped_does_not_go_on() {
    let mut bed = Bed::new(10, Level::Raid1, 2, 16 << 10);
    bed.write(0, &pattern(bed.volume as usize, 9)).unwrap();
    // It waits for row 6 until it is stopped.
    let (core, held) = (bed.core().clone(), Rc::new(RefCell::new(None)));
    let hold = held.clone();
    bed.ring().spawn_later(async move { drop(hold.replace(Some(core.lock(6).await))) });
    bed.world.run_until(|| held.borrow().is_some()).unwrap();
    bed.handle().scrub();
    bed.world.run_until(|| bed.handle().status().scrub.rows >= 2 && label(&bed, 0).scrub.is_some()).unwrap();
    bed.handle().stop_scrub();
    held.take();
    bed.world.run_until(|| !bed.handle().status().scrub.runs).unwrap();
    assert!(bed.handle().status().scrub.rows < 12);
    bed.world.run_until(|| label(&bed, 0).scrub.is_none()).unwrap();
    bed.kill();
    bed.start().unwrap();
    assert!(!bed.handle().status().scrub.runs);
}

#[test]
fn a_member_that_is_slower_than_the_others_is_told_of_until_it_recovers() {
    for (level, slots) in REDUNDANT {
        let bed = Bed::new(11, level, slots, 16 << 10);
        let bytes = pattern(bed.volume as usize, 1);
        let load = |windows: u32| {
            let end = bed.world.now() + POOL_WATCH * windows;
            while bed.world.now() < end {
                bed.write(0, &bytes).unwrap();
                bed.read(0, bytes.len()).unwrap();
                bed.world.run_for(Duration::from_millis(500)).unwrap();
            }
        };
        let slow = || bed.handle().status().members.iter().map(|member| member.slow).collect::<Vec<_>>();
        load(5);
        assert!(slow().iter().all(|slow| !slow), "{level}");
        bed.machine.slow_down(&bed.path(1), 30);
        load(6);
        let only = |slot: usize| (0..slots).map(|other| other == slot).collect::<Vec<_>>();
        assert_eq!(slow(), only(1), "{level}");
        let status = bed.handle().status();
        let writes = |slot: usize| status.members[slot].write_time.unwrap();
        assert!(writes(1) > writes(0) * 4, "{level}: {:?}", status.members);
        bed.machine.slow_down(&bed.path(1), 1);
        load(6);
        assert!(slow().iter().all(|slow| !slow), "{level}");
    }
}

#[test]
fn rebuilding_says_how_far_it_is() {
    let mut bed = Bed::new(12, Level::Raid5, 4, 16 << 10);
    bed.write(0, &pattern(bed.volume as usize, 1)).unwrap();
    bed.settle();
    (0..4).for_each(|slot| bed.machine.slow_down(&bed.path(slot), 2000));
    bed.machine.put_file("/s0".as_ref(), &[]);
    bed.add_spare("/s0");
    bed.machine.fail_writes(&bed.path(3), 0..u64::MAX);
    bed.write(0, &[1; 512]).unwrap();
    let progress = || bed.handle().status().members[3].progress;
    bed.world.run_until(|| progress().is_some_and(|progress| progress.rows >= 6)).unwrap();
    let progress = progress().unwrap();
    assert_eq!(progress.of, bed.geometry().rows);
    assert!(progress.bytes_per_second > 0, "{progress:?}");
    assert!(progress.left.is_some_and(|left| left > Duration::ZERO), "{progress:?}");
    bed.world.run_until(|| bed.handle().status().members[3].state == MemberState::InSync).unwrap();
    assert_eq!(bed.handle().status().members[3].progress, None);
}

/// A member stopped answering, and a spare took its place. What had been asked of the member since was given up only then, and the
/// spare was taken out for it.
#[test]
fn a_spare_is_not_taken_out_for_what_was_asked_of_the_one_before_it() {
    let (mut bed, mut bytes) = bed(40, Level::Raid1, 2);
    bed.world.run_for(Duration::from_secs(30)).unwrap();
    bed.machine.stall(&bed.path(1));
    bytes[..BLOCK].fill(0x44);
    bed.begin_write(0, &bytes[..BLOCK]);
    bed.world.run_for(Duration::from_secs(10)).unwrap();
    // Row 1 is read from member 1.
    let read = bed.begin_read(16 << 10, BLOCK);
    bed.world.run_for(Duration::from_secs(60)).unwrap();
    assert_eq!(read.take().as_deref(), Some(&bytes[16 << 10..][..BLOCK]));
    assert_eq!((place(&bed, 1).as_deref(), bed.state(1)), (Some("/s0"), MemberState::InSync));
    bed.kill();
    bed.machine.release(&bed.path(1));
    bed.leave(1);
    bed.start().unwrap();
    is_whole(&mut bed, &bytes, 0);
}
