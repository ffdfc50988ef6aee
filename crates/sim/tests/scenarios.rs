//! Each scenario over many seeds. `FELS_SEEDS=N` runs more of them, `FELS_SEED=n` one again.

use sim::scenario;
use sim::seeds::{run, run_twice};

#[test]
fn power_cuts_and_kills() {
    run("power_cuts_and_kills", scenario::power, 1000);
}

#[test]
fn network_and_client_failures() {
    run("network_and_client_failures", scenario::network, 1000);
}

#[test]
fn one_volume_by_three_ways() {
    run("one_volume_by_three_ways", scenario::calm, 1000);
}

#[test]
fn three_ways_that_break() {
    run("three_ways_that_break", scenario::rough, 1000);
}

#[test]
fn unreadable_blocks() {
    run("unreadable_blocks", scenario::unreadable_blocks, 600);
}

#[test]
fn a_lost_flush() {
    run("a_lost_flush", scenario::lost_flush, 1200);
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
fn the_same_seed_gives_the_same_run() {
    run_twice("power", scenario::power, 5);
    run_twice("network", scenario::network, 5);
    run_twice("lost_flush", scenario::lost_flush, 3);
    run_twice("calm", scenario::calm, 20);
    run_twice("rough", scenario::rough, 20);
}
