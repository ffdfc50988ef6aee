//! `kill -9` of the node under a stamped writer: what was acknowledged by a flush or FUA is there afterwards.
//!
//! A killed process leaves the page cache behind, so this bed finds what the node keeps in its own memory
//! and what it tears; lost and reordered sectors of a real power cut are the simulated world's.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use beds::journal::Journal;
use beds::{Bed, Node, Volume, wait_until};

const ROUNDS: u32 = 50;
const WRITERS: u64 = 2;

/// Lets the writers write until some flushes have been acknowledged, and then `cut` the node off.
fn write_until(node: &mut Node, journals: &mut [Journal], version: &AtomicU64, cut: fn(&mut Node)) {
    let (address, flushes, is_cut) = (node.address(), AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for journal in journals {
            scope.spawn(|| {
                let Err(end) = journal.write(address, version, &flushes);
                assert!(is_cut.load(Ordering::SeqCst), "the node failed before it was cut off: {end}");
            });
        }
        wait_until(Duration::from_secs(20), || flushes.load(Ordering::Relaxed) >= 4);
        std::thread::sleep(Duration::from_millis(fastrand::u64(..120)));
        is_cut.store(true, Ordering::SeqCst);
        cut(node);
    });
    assert!(flushes.load(Ordering::Relaxed) >= 4, "hardly any flush was acknowledged");
}

fn expect_all_right(node: &Node, journals: &mut [Journal], round: u32) {
    let wrong: Vec<_> = journals.iter_mut().flat_map(|journal| journal.verify(node.address())).collect();
    let first = wrong.iter().take(10).cloned().collect::<Vec<_>>().join("\n");
    assert!(wrong.is_empty(), "round {round}: {} sectors are wrong, the first:\n{first}", wrong.len());
}

#[test]
fn nothing_flushed_is_lost_over_kill_9() {
    let mut node = Bed::with([Volume::file("demo", "64MiB")]).start();
    let mut journals: Vec<Journal> = (0..WRITERS).map(Journal::new).collect();
    let version = AtomicU64::new(1);
    for round in 1..=ROUNDS {
        write_until(&mut node, &mut journals, &version, Node::kill9);
        node.restart();
        expect_all_right(&node, &mut journals, round);
    }
    println!("{ROUNDS} rounds, {} writes", version.into_inner());
}

#[test]
fn nothing_acknowledged_is_lost_over_sigterm() {
    let mut node = Bed::with([Volume::file("demo", "64MiB")]).start();
    let mut journals: Vec<Journal> = (0..WRITERS).map(Journal::new).collect();
    let version = AtomicU64::new(1);
    for round in 1..=5 {
        write_until(&mut node, &mut journals, &version, Node::terminate);
        journals.iter_mut().for_each(Journal::expect_everything_acknowledged);
        node.restart();
        expect_all_right(&node, &mut journals, round);
    }
}
