//! Pools in this process: comparisons of them, and that they are what they say.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ring::{Buffer, Reactor};

use super::bed::has_room;
use super::{PoolSpec, PoolTarget};
use crate::compare::{CompareOptions, CompareReport, NamedTarget, compare, table};
use crate::initiator::{OpenOptions, Session};
use crate::load::Load;
use crate::run::{Phase, Progress, RunOptions, Test};
use crate::target::Target;

fn pools(text: &str) -> Vec<NamedTarget> {
    let specs = PoolSpec::parse_all(text).unwrap();
    let names = PoolSpec::names(&specs).into_iter();
    let targets = specs.into_iter().map(|spec| Target::Pool(PoolTarget::new(spec)));
    names.zip(targets).map(|(name, target)| NamedTarget { name, target }).collect()
}

fn compared(targets: Vec<NamedTarget>, load: Load) -> CompareReport {
    let options = CompareOptions {
        targets,
        profile: None,
        tests: vec![Test { name: "test".to_owned(), load }],
        rounds: 2,
        open: OpenOptions::default(),
        threads: None,
        ceiling: false,
    };
    compare(&options, |_| (), &AtomicBool::new(false)).unwrap()
}

fn short() -> Load {
    let time = Duration::from_millis(100);
    Load { time, warm_up: Duration::ZERO, jobs: 2, depth: 4, ..Load::default() }
}

#[test]
fn levels_and_checksums_are_compared_and_every_factor_has_its_effect() {
    let targets = pools("raid10,raid6?members=4&integrity=off,on&size=4MiB&unit=16k");
    let load = Load { verify: true, read_percent: 50, random_percent: 100, ..short() };
    let report = compared(targets, load);
    assert!(!report.failed(), "{}", table(&report));
    assert!(report.samples.iter().all(|sample| sample.report.reads.operations > 0), "{}", table(&report));
    let factors: Vec<_> =
        report.effects.iter().map(|effect| (effect.factor.as_str(), effect.pairs)).collect();
    assert_eq!(factors, [("level", 2), ("level", 2), ("integrity", 2), ("integrity", 2)]);
    let text = table(&report);
    assert!(text.contains("effect of") && text.contains("integrity, test, writes | "), "{text}");
}

#[test]
fn disks_that_spin_are_as_slow_as_disks() {
    let targets = pools("raid10?members=4&spinning=no,15000&size=64MiB");
    let load = Load { read_percent: 100, random_percent: 100, jobs: 1, depth: 1, ..short() };
    let report = compared(targets, Load { time: Duration::from_millis(500), ..load });
    let reached = |index: usize| report.rows[0].cells[index].iops.unwrap().median;
    assert!(!report.failed());
    // 3.4 ms and half of the 4 ms of a revolution; four members spread the places, which makes no difference at depth 1.
    assert!((120.0..280.0).contains(&reached(1)), "{} IO/s", reached(1));
    assert!(reached(0) > 20.0 * reached(1), "memory reaches {} IO/s", reached(0));
}

#[test]
fn members_that_do_not_fit_into_the_memory_are_refused() {
    let target = Target::Pool(PoolTarget::new(PoolSpec::parse("raid1?members=4&size=1TiB").unwrap()));
    let reactor = Reactor::new(&ring::Options::default()).unwrap();
    let ring = reactor.ring().clone();
    reactor.block_on(async move {
        let refused = Session::open(&ring, &target, &OpenOptions::default()).await;
        let said = refused.err().unwrap().to_string();
        assert!(said.contains("MiB are free; hint: make the pool smaller"), "{said}");
    });
    assert!(has_room(5, Some(5)).is_ok() && has_room(5, None).is_ok() && has_room(6, Some(5)).is_err());
}

#[test]
fn members_in_files_are_removed_at_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let text = format!("raid1?members=2&on={}&size=4MiB", folder.path().display());
    let target = PoolTarget::new(PoolSpec::parse(&text).unwrap());
    let session_target = Target::Pool(target.clone());
    for round in 0..2 {
        let (target, folder) = (session_target.clone(), folder.path().to_owned());
        let reactor = Reactor::new(&ring::Options::default()).unwrap();
        let ring = reactor.ring().clone();
        reactor.block_on(async move {
            let session = Session::open(&ring, &target, &OpenOptions::default()).await.unwrap();
            let again = Session::open(&ring, &target, &OpenOptions::default()).await;
            assert!(again.err().unwrap().to_string().contains("open already; hint: "));
            let made = std::fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path();
            assert_eq!(std::fs::read_dir(made).unwrap().count(), 2);
            let (result, buffer) = session.read(8192, Buffer::new(4096)).await;
            result.unwrap();
            assert_eq!(buffer.iter().all(|&byte| byte == 7), round == 1, "what is written stays");
            assert!(buffer.iter().any(|&byte| byte != 0), "a new pool is filled");
            let mut data = Buffer::new(4096);
            data.fill(7);
            session.write(8192, data.share(), false).await.unwrap();
            session.close().await;
        });
    }
    drop((target, session_target));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_directory_that_is_not_there_is_named() {
    let target = PoolTarget::new(PoolSpec::parse("raid0?on=/nowhere/at/all&size=4MiB").unwrap());
    let reactor = Reactor::new(&ring::Options::default()).unwrap();
    let ring = reactor.ring().clone();
    let error = reactor.block_on(async move { target.bed().open(&ring).await.err().unwrap().to_string() });
    assert!(error.contains("/nowhere/at/all") && error.contains("; hint: "), "{error}");
}

#[test]
fn a_run_is_stopped_while_its_pool_is_filled_and_tells_how_far_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let text = format!("raid1?members=2&on={}&size=1GiB", folder.path().display());
    let pool = PoolTarget::new(PoolSpec::parse(&text).unwrap());
    let options = RunOptions {
        target: Target::Pool(pool.clone()),
        profile: None,
        tests: vec![Test { name: "reads".to_owned(), load: Load::default() }],
        open: OpenOptions::default(),
        threads: None,
        journal: None,
        ceiling: false,
    };
    let stop = AtomicBool::new(false);
    let mut seen = Vec::new();
    let see = |progress: &Progress<'_>| {
        seen.push(progress.phase);
        if matches!(progress.phase, Phase::Filling(1..)) {
            stop.store(true, Ordering::Relaxed);
        }
    };
    let report = crate::run(&options, see, &stop).unwrap();
    assert!(report.interrupted && report.tests.is_empty(), "{report:?}");
    assert!(
        crate::report::table(&report).ends_with("interrupted before anything was measured\n"),
        "{}",
        crate::report::table(&report)
    );
    let Some(Phase::Filling(last)) = seen.last() else { panic!("{seen:?}") };
    assert!(*last < 90, "{seen:?}");
    assert!(pool.bed().filled_percent() < 100, "it was filled to the end all the same");
    drop((options, pool));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "its members are removed");
}
