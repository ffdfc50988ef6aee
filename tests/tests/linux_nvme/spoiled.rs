//! The bed itself is tried: what it compares must be able to differ.

use beds::{Bed, Volume, spoil_at_gate};

use crate::reset::script;
use crate::{DEADLINE, guest};

#[test]
fn one_spoiled_byte_is_noticed() {
    let node = Bed::with([Volume::file("demo", "128MiB")]).nvme().start();
    let wait = spoil_at_gate(node.data().join("demo.img"));
    let console = guest(&[]).run(&script(&node, "", &wait), DEADLINE);
    assert!(console.stdout.contains("BED: failed: checksums: ./large"), "{console}");
}
