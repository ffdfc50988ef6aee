//! The simulated world.

mod accidents;
mod disk;
mod lies;
mod network;
mod power;
mod shards;

use std::cell::RefCell;
use std::ops::Range;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use super::*;
use crate::{Buffer, File, FileOptions, Listener, Options, Ring, SendList, Socket, in_use};

const PATH: &str = "/data/volume.img";

fn create() -> FileOptions {
    FileOptions { create: true, ..FileOptions::default() }
}

fn open(ring: &Ring) -> File {
    File::open(ring, Path::new(PATH), create()).unwrap()
}

fn list(bytes: &[u8]) -> Box<SendList> {
    let mut list = SendList::new();
    list.push_bytes(bytes);
    list
}

async fn write(file: &File, offset: u64, bytes: &[u8]) -> std::io::Result<usize> {
    file.write_at(Buffer::copy_of(bytes), offset, false).await.0
}

async fn read(file: &File, offset: u64, length: usize) -> std::io::Result<Vec<u8>> {
    let (count, buffer) = file.read_at(Buffer::new(length), offset).await;
    count.map(|count| buffer[..count].to_vec())
}

/// Start and end of each range.
fn pairs(ranges: &[Range<u64>]) -> Vec<(u64, u64)> {
    ranges.iter().map(|range| (range.start, range.end)).collect()
}

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// Runs `test` on a node of a fresh world.
fn run<T: 'static, F: Future<Output = T> + 'static>(
    seed: u64,
    test: impl FnOnce(World, Node, Ring) -> F,
) -> T {
    let world = World::new(seed);
    let node = world.node("node");
    let reactor = node.reactor();
    let future = test(world.clone(), node, reactor.ring().clone());
    world.block_on(&reactor, future).unwrap()
}

#[test]
fn time_moves_by_events_only() {
    let before = std::time::Instant::now();
    run(1, |world, _, ring| async move {
        ring.sleep(Duration::from_secs(3600)).await;
        assert_eq!(world.now().as_nanos(), 3600 * 1_000_000_000);
        assert_eq!(ring.now(), world.now());
        let never = std::future::pending::<()>();
        assert!(ring.timeout(ms(5), never).await.is_none());
        assert_eq!(world.now().as_nanos(), 3_600_005_000_000);
    });
    assert!(before.elapsed() < Duration::from_secs(5));
}

#[test]
fn a_hang_is_told_with_what_is_pending() {
    let world = World::new(7);
    let reactor = world.node("lonely").reactor();
    let ring = reactor.ring().clone();
    let stall = world
        .block_on(&reactor, async move {
            let listener = Listener::bind(&ring, "0.0.0.0:3260".parse().unwrap()).unwrap();
            listener.accept().await.map(|_| ()).unwrap();
        })
        .unwrap_err();
    assert_eq!((stall.kind, stall.seed), (StallKind::NothingCanGoOn, 7));
    let text = stall.to_string();
    assert!(text.contains("seed 7: nothing can go on"), "{text}");
    assert!(text.contains("lonely shard 0: Accept on descriptor"), "{text}");
}

#[test]
fn a_run_is_bounded_in_steps_and_time() {
    let world = World::new(1);
    world.configure(|settings| settings.steps = 1000);
    let reactor = world.node("node").reactor();
    let ring = reactor.ring().clone();
    let stall = world.block_on(&reactor, async move {
        loop {
            ring.yield_now().await;
        }
    });
    assert_eq!(stall.map(|(): ()| ()).unwrap_err().kind, StallKind::TooManySteps);
    let world = World::new(1);
    world.configure(|settings| settings.span = Duration::from_secs(1));
    let reactor = world.node("node").reactor();
    let ring = reactor.ring().clone();
    let stall = world.block_on(&reactor, async move { ring.sleep(Duration::from_secs(2)).await });
    assert_eq!(stall.unwrap_err().kind, StallKind::TooLong);
}

#[test]
fn a_core_that_naps_goes_on_later_and_others_do_not_wait_for_it() {
    let settings = Settings { nap_chance: 1.0, nap: ms(5)..ms(6), ..Settings::default() };
    let world = World::with_settings(1, settings);
    let reactor = world.node("one").reactor();
    let ring = reactor.ring().clone();
    let turns = world.block_on(&reactor, async move {
        for _ in 0..10 {
            ring.yield_now().await;
        }
        ring.turns()
    });
    let took = world.now().since(crate::Instant::ZERO);
    assert!(turns.unwrap() > 1 && took >= ms(5) && took < ms(100), "{took:?}");
}

#[test]
fn a_busy_task_does_not_stop_the_clock() {
    run(3, |_, _, ring| async move {
        let clock = ring.clone();
        ring.spawn(async move { clock.sleep(ms(2)).await });
        while ring.now() < crate::Instant::ZERO + ms(2) {
            ring.yield_now().await;
        }
    });
}

/// Two nodes that talk while a third writes and syncs; then a power cut.
fn busy(seed: u64) -> (u64, Vec<u8>) {
    let world = World::new(seed);
    let (server, client) = (world.node("server"), world.node("client"));
    let (one, two, three) = (server.reactor(), server.reactor(), client.reactor());
    let listener = Listener::bind(one.ring(), server.at(3260)).unwrap();
    let ring = one.ring().clone();
    one.ring().spawn_later(async move {
        let (socket, _) = listener.accept().await.unwrap();
        let file = open(&ring);
        let mut offset = 0;
        while let Ok(chunk) = socket.receive().await {
            if chunk.is_empty() {
                break;
            }
            let (written, _) = file.write_at(Buffer::copy_of(&chunk), offset, false).await;
            offset += written.unwrap() as u64;
        }
        socket.shutdown();
    });
    let ring = two.ring().clone();
    two.ring().spawn_later(async move {
        let file = File::open(&ring, Path::new("/data/log"), create()).unwrap();
        for round in 0..20u8 {
            file.write_at(Buffer::copy_of(&[round; 3000]), u64::from(round) * 3000, false).await.0.unwrap();
            file.sync().await.unwrap();
        }
    });
    let (ring, to) = (three.ring().clone(), server.at(3260));
    world
        .block_on(&three, async move {
            let socket = Socket::connect(&ring, to).await.unwrap();
            for round in 0..20 {
                socket.send(list(&vec![round; 5000])).await.0.unwrap();
            }
        })
        .unwrap();
    server.power_cut();
    drop((one, two, three));
    let left = server.file_bytes(Path::new(PATH), 0, 100_000).unwrap_or_default();
    (world.trace(), left)
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let runs: Vec<_> = (0..20).map(busy).collect();
    for (seed, run) in runs.iter().enumerate() {
        assert!(*run == busy(seed as u64), "seed {seed}");
        assert!(runs[..seed].iter().all(|other| other.0 != run.0), "seed {seed}");
    }
}

#[test]
fn random_sources_do_not_shift_each_other() {
    let (one, other) = (World::new(5), World::new(5));
    other.random("something else").u64(..);
    assert_eq!(one.random("load").u64(..), other.random("load").u64(..));
    assert_ne!(one.random("load").u64(..), one.random("check").u64(..));
}
