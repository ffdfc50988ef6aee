//! Jobs begin, end, and are not forgotten at once.

use super::*;
use crate::api::model::{Blocks, Member, PoolState, PoolVolume, Progress, Scrub};

fn pool(scrub: Option<u64>, member: MemberState) -> Pool {
    let progress = Progress { done_bytes: scrub.unwrap_or(100), total_bytes: 100, ..Progress::default() };
    let of = |slot, state| Member {
        slot,
        set: 0,
        place: None,
        state,
        cause: (state == MemberState::Out).then(|| "it failed".to_owned()),
        progress: (state == MemberState::Rebuilding).then_some(Progress {
            done_bytes: 7,
            total_bytes: 10,
            ..Progress::default()
        }),
        slow: false,
        read_us: None,
        write_us: None,
        io: None,
    };
    Pool {
        name: "tank".to_owned(),
        id: String::new(),
        raid: "raid1".to_owned(),
        unit_bytes: 4096,
        integrity: true,
        size_bytes: 0,
        free_bytes: 0,
        member_bytes: 0,
        state: PoolState::Ok,
        sentence: String::new(),
        members: vec![of(0, MemberState::InSync), of(1, member)],
        spares: Vec::new(),
        blocks: Blocks::default(),
        scrub: Scrub {
            runs: scrub.is_some(),
            begun: u64::from(scrub.is_some()),
            progress,
            bad: 3,
            repaired: 3,
            ..Scrub::default()
        },
        volumes: Vec::new(),
        io: None,
    }
}

fn at(seconds: u64) -> Moment {
    Moment::from_unix(1_000_000 + seconds)
}

#[test]
fn a_scrub_is_a_job_until_it_has_ended_and_then_says_how() {
    let registry = Registry::default();
    let look = |scrub, seconds| registry.look(&[pool(scrub, MemberState::InSync)], at(seconds));
    let job = look(Some(10), 1).remove(0);
    assert_eq!(
        (job.id.as_str(), job.state, job.begun, job.can_be_ended),
        ("scrub:tank", JobState::Running, at(1), true)
    );
    assert_eq!(look(Some(60), 5)[0].begun, at(1), "it is still the same");
    let job = look(None, 9).remove(0);
    assert_eq!((job.state, job.ended, job.progress.percent()), (JobState::Done, Some(at(9)), 100));
    assert_eq!(job.sentence.as_deref(), Some("3 bad blocks, 3 repaired, 0 lost"));
    // The next one stands before it.
    let jobs = look(Some(0), 10);
    assert_eq!(jobs.iter().map(|job| job.state).collect::<Vec<_>>(), [JobState::Running, JobState::Done]);
}

#[test]
fn a_scrub_that_nobody_saw_is_remembered_once() {
    let registry = Registry::default();
    let mut over = pool(None, MemberState::InSync);
    over.scrub.begun = 0;
    assert_eq!(registry.look(&[over.clone()], at(0)), []);
    over.scrub.begun = 1;
    for _ in 0..2 {
        let jobs = registry.look(&[over.clone()], at(1));
        assert_eq!((jobs.len(), jobs[0].state), (1, JobState::Done));
    }
}

#[test]
fn a_scrub_that_was_stopped_is_not_done() {
    let registry = Registry::default();
    registry.look(&[pool(Some(10), MemberState::InSync)], at(0));
    let mut stopped = pool(Some(40), MemberState::InSync);
    stopped.scrub.runs = false;
    let job = registry.look(&[stopped], at(1)).remove(0);
    assert_eq!((job.state, job.progress.percent()), (JobState::Ended, 40));
}

#[test]
fn a_rebuild_is_done_when_its_member_is_whole_and_failed_when_it_is_out() {
    for (then, state, sentence) in [
        (MemberState::InSync, JobState::Done, None),
        (MemberState::Out, JobState::Failed, Some("the member went out: it failed")),
    ] {
        let registry = Registry::default();
        let job = registry.look(&[pool(None, MemberState::Rebuilding)], at(0)).remove(0);
        assert_eq!(
            (job.id.as_str(), job.progress.done_bytes, job.can_be_ended),
            ("rebuild:tank:1", 7, false)
        );
        let job = registry.look(&[pool(None, then)], at(1)).remove(0);
        assert_eq!((job.state, job.sentence.as_deref()), (state, sentence));
    }
}

#[test]
fn a_change_is_a_job_when_it_takes_a_while() {
    let registry = Registry::default();
    let change = registry.begin("PATCH /v1/volumes/demo".to_owned(), at(0));
    let quick = registry.begin("POST /v1/volumes".to_owned(), at(0));
    assert_eq!(registry.look(&[], at(1)), []);
    quick.end(None, at(1));
    let job = registry.look(&[], at(5)).remove(0);
    assert_eq!(
        (job.id.as_str(), job.title.as_str(), job.state),
        ("change:1", "PATCH /v1/volumes/demo", JobState::Running)
    );
    change.end(Some("there is no room".to_owned()), at(6));
    let jobs = registry.look(&[], at(7));
    assert_eq!(
        (jobs.len(), jobs[0].state, jobs[0].sentence.as_deref()),
        (1, JobState::Failed, Some("there is no room"))
    );
    // One that broke off has ended, too.
    drop(registry.begin("DELETE /v1/volumes/demo".to_owned(), Moment::from_unix(5)));
    assert_eq!(registry.look(&[], at(8))[0].state, JobState::Failed);
}

#[test]
fn only_so_many_ends_are_remembered() {
    let registry = Registry::default();
    for number in 0..200 {
        registry.begin(number.to_string(), at(0)).end(None, at(10));
    }
    let jobs = registry.look(&[], at(20));
    assert_eq!((jobs.len(), jobs[0].title.as_str()), (64, "199"));
}

#[test]
fn what_is_destroyed_is_a_job_until_the_volume_is_gone() {
    let registry = Registry::default();
    let with = |volumes: &[(&str, bool)]| {
        let volume = |(name, goes): &(&str, bool)| PoolVolume {
            name: (*name).to_owned(),
            size_bytes: 10,
            destroying: goes.then(|| Progress { done_bytes: 3, total_bytes: 10, ..Progress::default() }),
        };
        Pool { volumes: volumes.iter().map(volume).collect(), ..pool(None, MemberState::InSync) }
    };
    let look = |volumes: &[(&str, bool)], seconds| registry.look(&[with(volumes)], at(seconds));
    let job = look(&[("a", true), ("b", true), ("c", false)], 1).remove(0);
    assert_eq!(
        (job.id.as_str(), job.kind, job.state),
        ("destroy:tank:a", JobKind::Destroy, JobState::Running)
    );
    assert_eq!((job.progress.done_bytes, job.can_be_ended), (3, false));
    let jobs = look(&[("b", false), ("c", false)], 2);
    let ends: Vec<_> = jobs.iter().map(|job| (job.volume.as_str(), job.state)).collect();
    assert!(ends.contains(&("a", JobState::Done)) && ends.contains(&("b", JobState::Failed)), "{ends:?}");
}
