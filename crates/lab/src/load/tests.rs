//! Loads on the null target and on files.

use std::cell::RefCell;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use ring::{Options, Reactor};

use super::*;
use crate::initiator::{OpenOptions, Session};
use crate::journal::{self, Journal};
use crate::target::Target;

const RUN: u64 = 42;

struct Outcome {
    samples: Vec<Sample>,
    ended: Ended,
}

fn run(target: &Target, load: Load, journal: Option<&Path>, meanwhile: impl FnMut() + 'static) -> Outcome {
    let reactor = Reactor::new(&Options::default()).unwrap();
    let ring = reactor.ring().clone();
    let (target, journal) = (target.clone(), journal.map(Path::to_owned));
    reactor.block_on(async move {
        let mut sessions = Vec::new();
        for index in 0..load.jobs {
            sessions.push((index, Session::open(&ring, &target, &OpenOptions::default()).await.unwrap()));
        }
        let geometry = sessions[0].1.geometry();
        load.fits(&geometry).unwrap();
        let head = journal::Head {
            run: RUN,
            block_size: geometry.block_size,
            slot_size: load.block_size,
            offset: load.offset,
            slots: geometry.size / u64::from(load.block_size),
        };
        let journal = match journal {
            Some(path) => Some(Journal::create(&ring, &path, &head).await.unwrap()),
            None => None,
        };
        let plan = Plan { start: ring.now(), stop: Arc::new(AtomicBool::new(false)), run: RUN };
        let mut samples = Vec::new();
        let (given, mut meanwhile) = (&mut samples, meanwhile);
        let ended = drive(ring, load, sessions, plan, journal, |sample| {
            given.push(sample);
            meanwhile();
        });
        let ended = ended.await.unwrap();
        Outcome { samples, ended }
    })
}

fn file(directory: &Path, size: u64) -> (std::fs::File, Target) {
    let path = directory.join("volume");
    let file = std::fs::File::options().create_new(true).read(true).write(true).open(&path).unwrap();
    file.set_len(size).unwrap();
    (file, Target::File(path))
}

fn short(mut load: Load) -> Load {
    load.time = Duration::from_millis(300);
    load.warm_up = Duration::ZERO;
    load
}

#[test]
fn a_closed_loop_keeps_its_depth_busy() {
    let load = short(Load { read_percent: 50, depth: 8, jobs: 2, ..Load::default() });
    let Outcome { samples, ended } = run(&Target::Null, load, None, || ());
    let operations: u64 = samples.iter().map(|sample| sample.tallies.operations()).sum();
    let writes: u64 = samples.iter().map(|sample| sample.tallies.writes.operations).sum();
    assert!(operations > 10_000, "{operations}");
    assert!((40..=60).contains(&(writes * 100 / operations)), "{writes} of {operations}");
    assert_eq!((ended.errors, ended.late.operations() <= 16), (0, true));
}

/// What these tests expect of a short load must not depend on a disk that others keep busy.
fn directory_in_memory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap()
}

#[test]
fn an_open_loop_keeps_its_rate() {
    let rate = Rate { per_second: 2000.0, arrivals: Arrivals::Constant };
    let load = Load { time: Duration::from_secs(1), ..short(Load { rate: Some(rate), ..Load::default() }) };
    let Outcome { samples, ended } = run(&Target::Null, load, None, || ());
    let operations: u64 = samples.iter().map(|sample| sample.tallies.operations()).sum();
    assert!((1800..=2001).contains(&operations), "{operations}");
    assert_eq!(ended.dropped, 0);
}

#[test]
fn what_is_written_is_found_again() {
    let directory = directory_in_memory();
    let (_, target) = file(directory.path(), 4 << 20);
    let load = Load { read_percent: 30, depth: 4, jobs: 2, verify: true, flush_every: 50, ..Load::default() };
    let journal = directory.path().join("journal");
    let Outcome { ended, .. } = run(&target, short(load), Some(&journal), || ());
    assert_eq!((ended.errors, ended.findings.count), (0, 0), "{:?} {:?}", ended.told, ended.findings.first);
    assert!(ended.proven_bytes > 1 << 20, "{}", ended.proven_bytes);
    let reactor = Reactor::new(&Options::default()).unwrap();
    let ring = reactor.ring().clone();
    let record = reactor.block_on(async move { journal::read(&ring, &journal).await.unwrap() });
    assert_eq!(record.head.run, RUN);
    assert!(record.durable.len() as u64 * 4096 > ended.proven_bytes / 2, "{}", record.durable.len());
}

fn byte_at(file: &std::fs::File, place: u64) -> u8 {
    let mut byte = [0];
    file.read_exact_at(&mut byte, place).unwrap();
    byte[0]
}

#[test]
fn a_byte_that_changes_is_found() {
    let directory = directory_in_memory();
    // So small that even a disk that others keep busy writes all of it in time.
    let (volume, target) = file(directory.path(), 64 << 10);
    let load = Load { read_percent: 0, random_percent: 0, depth: 1, verify: true, ..Load::default() };
    // After the only sample the load is over, and the final pass has not begun.
    let (file, spoilt) = (volume.try_clone().unwrap(), Rc::new(RefCell::new(Vec::new())));
    let noted = spoilt.clone();
    let spoil = move || {
        // A write that the kernel still has ends meanwhile.
        std::thread::sleep(Duration::from_millis(50));
        for place in [10_000, 42_768] {
            let byte = byte_at(&file, place) ^ 0x40;
            file.write_all_at(&[byte], place).unwrap();
            noted.borrow_mut().push((place, byte));
        }
    };
    let Outcome { ended, samples } = run(&target, short(load), None, spoil);
    assert_eq!(samples.len(), 1);
    assert!(samples[0].tallies.writes.operations > 16, "the whole volume was written");
    // The operation after the last answer may have begun before the load was over, and have written over one of them.
    let left = spoilt.take().into_iter().filter(|&(place, byte)| byte_at(&volume, place) == byte);
    let left: Vec<_> = left.map(|(place, _)| (place / 512, "1 flipped bits from byte 272")).collect();
    let found = ended.findings.first.iter().map(|found| (found.block, found.found.as_str()));
    assert_eq!(found.collect::<Vec<_>>(), left);
    assert!(!left.is_empty() && ended.findings.count == left.len() as u64);
}

#[test]
fn writes_as_long_as_the_pattern_differ_in_every_block() {
    let directory = directory_in_memory();
    for bytes in [8u32 << 20, 9 << 20] {
        let (volume, target) = file(directory.path(), 2 * u64::from(bytes));
        let (read_percent, random_percent) = (0, 0);
        let load = Load { read_percent, random_percent, block_size: bytes, depth: 1, ..Load::default() };
        let Outcome { ended, .. } = run(&target, short(load), None, || ());
        assert_eq!(ended.errors, 0, "{:?}", ended.told);
        let [mut one, mut other] = [0, 1].map(|_| vec![0; bytes as usize]);
        volume.read_exact_at(&mut one, 0).unwrap();
        volume.read_exact_at(&mut other, bytes.into()).unwrap();
        let same = one.chunks(512).zip(other.chunks(512)).filter(|(one, other)| one == other).count();
        assert_eq!(same, 0, "blocks of two writes of {bytes} bytes");
        std::fs::remove_file(directory.path().join("volume")).unwrap();
    }
}

#[test]
fn a_run_is_stopped_by_its_flag_and_keeps_what_it_measured() {
    let reactor = Reactor::new(&Options::default()).unwrap();
    let ring = reactor.ring().clone();
    reactor.block_on(async move {
        let session = Session::open(&ring, &Target::Null, &OpenOptions::default()).await.unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let flag = stop.clone();
        let clock = ring.clone();
        ring.spawn_later(async move {
            clock.sleep(Duration::from_millis(100)).await;
            flag.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        let plan = Plan { start: ring.now(), stop, run: RUN };
        let mut operations = 0;
        let load = Load { time: Duration::from_secs(600), ..Load::default() };
        let sessions = vec![(0, session)];
        drive(ring, load, sessions, plan, None, |sample| operations += sample.tallies.operations())
            .await
            .unwrap();
        assert!(operations > 1000);
    });
}

/// The trace of a world in which a verified load ran on a file, and what the load found.
fn simulated(seed: u64, spoil: bool) -> (u64, Ended) {
    let world = ring::sim::World::new(seed);
    let node = world.node("host");
    let path = Path::new("volume");
    node.put_file(path, &vec![0; 1 << 20]);
    let reactor = node.reactor();
    let ring = reactor.ring().clone();
    let load = Load { read_percent: 40, depth: 4, verify: true, flush_every: 20, seed, ..Load::default() };
    let load = short(load);
    let disk = node.clone();
    let ended = world.block_on(&reactor, async move {
        let session =
            Session::open(&ring, &Target::File(path.to_owned()), &OpenOptions::default()).await.unwrap();
        let plan = Plan { start: ring.now(), stop: Arc::new(AtomicBool::new(false)), run: RUN };
        let spoil = |_| {
            assert!(!spoil || disk.flip_bit(path, 70_000, 3));
        };
        drive(ring, load, vec![(0, session)], plan, None, spoil).await.unwrap()
    });
    (world.trace(), ended.unwrap())
}

#[test]
fn a_load_runs_in_the_simulated_world_and_repeats_itself() {
    let (trace, ended) = simulated(3, false);
    assert_eq!((ended.errors, ended.findings.count), (0, 0), "{:?}", ended.told);
    assert!(ended.proven_bytes > 1 << 18, "{}", ended.proven_bytes);
    assert_eq!(trace, simulated(3, false).0);
    assert_ne!(trace, simulated(4, false).0);
}

#[test]
fn a_bit_that_flips_on_a_simulated_disk_is_found() {
    let (_, ended) = simulated(3, true);
    assert_eq!(ended.findings.count, 1, "{:?}", ended.findings.first);
    assert_eq!(ended.findings.first[0].block, 70_000 / 512);
}
