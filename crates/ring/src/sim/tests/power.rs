//! What a power cut and a kill leave.

use super::*;

const SECTOR: usize = 512;

/// Runs `write` on a fresh node, ends the node's process, and gives what a restarted one reads.
fn left_after<F: Future<Output = ()> + 'static>(
    world: &World,
    end: impl FnOnce(&Node),
    write: impl FnOnce(Ring, File) -> F,
) -> Vec<u8> {
    let node = world.node("node");
    let reactor = node.reactor();
    let ring = reactor.ring().clone();
    let file = open(&ring);
    world.block_on(&reactor, write(ring, file)).unwrap();
    end(&node);
    drop(reactor);
    let reactor = node.reactor();
    let file = open(reactor.ring());
    let read = world.block_on(&reactor, async move {
        assert!(file.try_lock().unwrap(), "the lock went with its process");
        let (count, buffer) = file.read_at(Buffer::new(1 << 20), 0).await;
        buffer[..count.unwrap()].to_vec()
    });
    read.unwrap()
}

/// Which sectors hold `new`, the others holding `old`.
fn sectors(bytes: &[u8], old: u8, new: u8) -> Vec<bool> {
    let whole = |sector: &[u8]| {
        assert!(sector.iter().all(|&byte| byte == sector[0]), "torn within a sector");
        assert!(sector[0] == old || sector[0] == new, "neither old nor new: {}", sector[0]);
        sector[0] == new
    };
    bytes.chunks(SECTOR).map(whole).collect()
}

#[test]
fn what_was_flushed_is_never_lost() {
    for seed in 0..2000 {
        let world = World::new(seed);
        let left = left_after(&world, Node::power_cut, |ring, file| async move {
            assert!(file.try_lock().unwrap());
            for (round, durable) in [(1, false), (2, false), (3, true)] {
                let offset = 10_000 * (u64::from(round) - 1);
                file.write_at(Buffer::copy_of(&[round; 10_000]), offset, durable).await.0.unwrap();
                if round == 2 {
                    file.sync().await.unwrap();
                }
            }
            file.punch(0, 4096).await.unwrap();
            file.sync().await.unwrap();
            // Neither a later unflushed write beside it nor one in flight takes anything away.
            file.write_at(Buffer::copy_of(&[4; 5000]), 30_208, false).await.0.unwrap();
            ring.spawn(async move {
                file.write_at(Buffer::copy_of(&[5; 5000]), 40_448, true).await.0.unwrap();
            });
        });
        assert!(left.len() >= 30_000, "seed {seed}: the length was flushed");
        assert!(left[..4096].iter().all(|&byte| byte == 0), "seed {seed}: the punch was flushed");
        let expected = [vec![1; 10_000 - 4096], vec![2; 10_000], vec![3; 10_000]].concat();
        assert!(left[4096..30_000] == expected, "seed {seed}");
    }
}

#[test]
fn what_was_not_flushed_is_kept_lost_torn_and_reordered() {
    let (mut kept, mut lost, mut torn, mut reordered, mut short) = (0, 0, 0, 0, 0);
    for seed in 0..500 {
        let world = World::new(seed);
        let left = left_after(&world, Node::power_cut, |_, file| async move {
            file.write_at(Buffer::copy_of(&[1; 16384]), 0, true).await.0.unwrap();
            file.write_at(Buffer::copy_of(&[2; 8192]), 0, false).await.0.unwrap();
            file.write_at(Buffer::copy_of(&[2; 8192]), 8192, false).await.0.unwrap();
            file.write_at(Buffer::copy_of(&[2; 8192]), 16384, false).await.0.unwrap();
        });
        let first = sectors(&left[..8192], 1, 2);
        let second = sectors(&left[8192..16384], 1, 2);
        kept += usize::from(first.iter().all(|new| *new));
        lost += usize::from(!first.contains(&true));
        torn += usize::from(first.contains(&true) && first.contains(&false));
        reordered += usize::from(!first.contains(&true) && second.iter().all(|new| *new));
        short += usize::from(left.len() == 16384);
    }
    assert!(kept > 20 && lost > 20 && torn > 20 && reordered > 5, "{kept} {lost} {torn} {reordered}");
    assert!(short > 20 && short < 480, "{short}");
}

#[test]
fn a_write_in_flight_is_kept_lost_or_torn_even_a_durable_one() {
    let (mut kept, mut lost, mut torn) = (0, 0, 0);
    for seed in 0..500 {
        let world = World::new(seed);
        let left = left_after(&world, Node::power_cut, |ring, file| async move {
            file.write_at(Buffer::copy_of(&[1; 8192]), 0, true).await.0.unwrap();
            ring.spawn(async move {
                file.write_at(Buffer::copy_of(&[2; 8192]), 0, true).await.0.unwrap();
            });
        });
        let new = sectors(&left, 1, 2);
        kept += usize::from(new.iter().all(|new| *new));
        lost += usize::from(!new.contains(&true));
        torn += usize::from(new.contains(&true) && new.contains(&false));
    }
    assert!(kept > 50 && lost > 50 && torn > 50, "{kept} {lost} {torn}");
}

#[test]
fn older_versions_can_come_back_unless_a_durable_write_went_over_them() {
    let mut seen = [false; 4];
    for seed in 0..300 {
        let world = World::new(seed);
        let left = left_after(&world, Node::power_cut, |_, file| async move {
            file.write_at(Buffer::copy_of(&[0; 1024]), 0, true).await.0.unwrap();
            for value in 1..=3 {
                file.write_at(Buffer::copy_of(&[value; 1024]), 0, false).await.0.unwrap();
            }
            file.write_at(Buffer::copy_of(&[9; 512]), 512, true).await.0.unwrap();
        });
        seen[left[0] as usize] = true;
        assert!(left[512..] == [9; 512], "seed {seed}");
    }
    assert_eq!(seen, [true; 4]);
}

#[test]
fn sectors_are_torn_only_when_asked_for() {
    let mut torn = 0;
    for seed in 0..300 {
        let world = World::with_settings(seed, Settings { torn_sectors: true, ..Settings::default() });
        let left = left_after(&world, Node::power_cut, |ring, file| async move {
            file.write_at(Buffer::copy_of(&[1; 4096]), 0, true).await.0.unwrap();
            ring.spawn(async move {
                file.write_at(Buffer::copy_of(&[2; 4096]), 0, false).await.0.unwrap();
            });
        });
        torn += usize::from(left.chunks(SECTOR).any(|sector| sector.windows(2).any(|two| two[0] != two[1])));
    }
    assert!(torn > 50, "{torn}");
}

#[test]
fn a_flush_covers_what_was_complete_when_it_began() {
    let mut lost = 0;
    for seed in 0..300 {
        let world = World::new(seed);
        let left = left_after(&world, Node::power_cut, |ring, file| async move {
            file.set_length(8192).unwrap();
            file.write_at(Buffer::copy_of(&[1; 4096]), 0, false).await.0.unwrap();
            let other = file.clone();
            ring.spawn(async move {
                other.write_at(Buffer::copy_of(&[2; 4096]), 4096, false).await.0.unwrap();
            });
            file.sync().await.unwrap();
            ring.sleep(ms(5)).await;
        });
        assert!(left[..4096] == [1; 4096], "seed {seed}");
        lost += usize::from(sectors(&left[4096..], 0, 2).contains(&false));
    }
    assert!(lost > 50, "{lost}");
}

#[test]
fn a_failed_flush_loses_though_later_ones_succeed() {
    let world = World::new(1);
    let node = world.node("node");
    let left = left_after(&world, Node::power_cut, move |_, file| async move {
        file.write_at(Buffer::copy_of(&[1; 4096]), 0, true).await.0.unwrap();
        file.write_at(Buffer::copy_of(&[2; 4096]), 0, false).await.0.unwrap();
        node.fail_flushes(Path::new(PATH));
        assert!(file.sync().await.is_err());
        node.repair(Path::new(PATH));
        file.sync().await.unwrap();
        assert_eq!(file.read_at(Buffer::new(1), 0).await.1[0], 2);
    });
    assert!(left == [1; 4096]);
}

#[test]
fn a_kill_loses_nothing_that_was_written() {
    let (mut there, mut missing) = (0, 0);
    for seed in 0..300 {
        let world = World::new(seed);
        let left = left_after(&world, Node::kill, |ring, file| async move {
            assert!(file.try_lock().unwrap());
            file.write_at(Buffer::copy_of(&[1; 8192]), 0, false).await.0.unwrap();
            ring.spawn(async move {
                file.write_at(Buffer::copy_of(&[2; 4096]), 4096, false).await.0.unwrap();
            });
        });
        assert!(left[..4096] == [1; 4096], "seed {seed}");
        let new = sectors(&left[4096..], 1, 2);
        there += usize::from(new.iter().all(|new| *new));
        missing += usize::from(!new.contains(&true));
    }
    assert!(there > 50 && missing > 50, "{there} {missing}");
}

#[test]
fn a_reactor_that_is_dropped_in_order_lets_its_writes_finish() {
    let world = World::new(1);
    let node = world.node("node");
    let reactor = node.reactor();
    let ring = reactor.ring().clone();
    let file = open(&ring);
    ring.spawn(async move {
        file.write_at(Buffer::copy_of(b"on its way"), 0, false).await.0.unwrap();
    });
    drop((ring, reactor));
    assert_eq!(in_use(), 0);
    world.run_for(Duration::from_secs(1)).unwrap();
    assert_eq!(node.file_bytes(Path::new(PATH), 0, 100).unwrap(), b"on its way");
}

#[test]
fn a_reactor_killed_between_a_completion_and_its_turn_ends() {
    let world = World::new(1);
    let node = world.node("node");
    let reactor = node.reactor();
    let file = open(reactor.ring());
    reactor.ring().spawn_later(async move {
        file.write_at(Buffer::copy_of(&[1; 512]), 0, false).await.0.unwrap();
    });
    let completed = || world.with(|state| state.reactors.iter().any(|one| !one.completions.is_empty()));
    world.run_until(completed).unwrap();
    node.kill();
    drop(reactor);
    assert_eq!(in_use(), 0);
}
