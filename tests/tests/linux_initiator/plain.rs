//! As `iscsiadm` does it when nothing else is said.

use beds::guest::VERDICT;
use beds::{Bed, Volume};

use crate::{DEADLINE, guest, script};

#[test]
fn the_kernel_makes_a_file_system_and_finds_it_whole_after_logging_in_again() {
    let node = Bed::with([Volume::file("demo", "128MiB")]).start();
    let console = guest().run(&script(&node, &[], "", ""), DEADLINE);
    assert!(console.stdout.contains(VERDICT), "{console}");
}
