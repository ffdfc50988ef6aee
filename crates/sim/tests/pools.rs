//! Pools over many seeds. `FELS_SEEDS=N` runs more of them, `FELS_SEED=n` one again. What they notice when the product is
//! broken is in docs/concepts/simulation.md.

use sim::pool;
use sim::seeds::{run, run_beside_others, run_twice};

#[test]
fn pools_within_redundancy() {
    run("pools_within_redundancy", pool::within_redundancy, 8000);
}

#[test]
fn pools_beyond_redundancy() {
    run("pools_beyond_redundancy", pool::beyond_redundancy, 2000);
}

/// What it met there is in docs/concepts/simulation.md, "What still fails"; it could not be read as a whole.
#[test]
fn an_update_that_was_made_in_part_ends_a_history_that_reads_block_by_block() {
    pool::beyond_redundancy(7_302_289).unwrap();
}

/// A checkpoint had taken in that a member was out, and ended without labels, as another one did not take its flush: whoever waited
/// for the labels went on as if they said it, and the member that lacked what was acknowledged was in sync later.
#[test]
fn nothing_is_acknowledged_by_labels_that_were_not_written() {
    pool::beyond_redundancy(11_400_176).unwrap();
}

/// A member failed while the journal was made: the labels of the opening had it in sync all the same, though it lacked what was in
/// the places of others.
#[test]
fn a_member_that_fails_while_the_pool_is_opened_is_out_in_its_labels() {
    pool::beyond_redundancy(11_404_406).unwrap();
}

/// The power went while the tails of labels were written, and once more while the next opening wrote the heads: members had no label
/// any more that was whole.
#[test]
fn a_label_is_whole_though_the_opening_after_a_torn_tail_is_cut_too() {
    pool::within_redundancy(7_301_414).unwrap();
}

/// A member did not take its tail, and the pool failed by that: when it was closed its head was written, too.
#[test]
fn the_head_of_a_label_is_not_written_while_its_tail_is_on_its_way() {
    pool::beyond_redundancy(11_404_493).unwrap();
}

#[test]
fn pools_on_cores_that_starve() {
    run("pools_on_cores_that_starve", pool::on_cores_that_starve, 1000);
}

#[test]
fn pools_with_full_journals() {
    run("pools_with_full_journals", pool::with_full_journals, 200);
}

#[test]
fn pools_that_are_extended() {
    run("pools_that_are_extended", pool::that_are_extended, 1000);
}

#[test]
fn the_same_seed_gives_the_same_pool() {
    run_twice("pools_within_redundancy", pool::within_redundancy, 20);
    run_twice("pools_beyond_redundancy", pool::beyond_redundancy, 5);
    run_beside_others("pools_within_redundancy", pool::within_redundancy, 2, 8);
}
