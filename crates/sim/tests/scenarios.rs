//! Each scenario over many seeds. `FELS_SEEDS=N` runs more of them, `FELS_SEED=n` one again.

use sim::scenario;
use sim::seeds::{Play, run, run_beside_others, run_twice};

/// Each scenario, and how many of its seeds are played again.
const SCENARIOS: [(&str, Play, u64); 10] = [
    ("power", scenario::power, 5),
    ("network", scenario::network, 5),
    ("calm", scenario::calm, 20),
    ("rough", scenario::rough, 20),
    ("few_receive_buffers", scenario::few_receive_buffers, 5),
    ("unreadable_blocks", scenario::unreadable_blocks, 3),
    ("lost_flush", scenario::lost_flush, 3),
    ("full_disk", scenario::full_disk, 3),
    ("stalled_disk", scenario::stalled_disk, 3),
    ("resets_on_stalled_disks", scenario::resets_on_stalled_disks, 3),
];

#[test]
fn power_cuts_and_kills() {
    run("power_cuts_and_kills", scenario::power, 900);
}

#[test]
fn network_and_client_failures() {
    run("network_and_client_failures", scenario::network, 700);
}

#[test]
fn one_volume_by_three_ways() {
    run("one_volume_by_three_ways", scenario::calm, 1000);
}

#[test]
fn three_ways_that_break() {
    run("three_ways_that_break", scenario::rough, 700);
}

#[test]
fn few_receive_buffers() {
    run("few_receive_buffers", scenario::few_receive_buffers, 300);
}

#[test]
fn unreadable_blocks() {
    run("unreadable_blocks", scenario::unreadable_blocks, 600);
}

#[test]
fn a_lost_flush() {
    run("a_lost_flush", scenario::lost_flush, 900);
}

#[test]
fn a_full_disk() {
    run("a_full_disk", scenario::full_disk, 800);
}

#[test]
fn a_stalled_disk() {
    run("a_stalled_disk", scenario::stalled_disk, 600);
}

#[test]
fn resets_on_stalled_disks() {
    run("resets_on_stalled_disks", scenario::resets_on_stalled_disks, 600);
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for (name, scenario, count) in SCENARIOS {
        run_twice(name, scenario, count);
    }
}

/// Whatever else the process does: nothing that runs share may get into them.
#[test]
fn the_same_seed_gives_the_same_run_beside_others() {
    for (name, scenario, _) in SCENARIOS {
        run_beside_others(name, scenario, 2, 8);
    }
}
