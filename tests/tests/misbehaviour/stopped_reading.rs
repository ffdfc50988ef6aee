//! Peers that ask for much and take nothing.

use std::time::Duration;

use beds::initiator::Initiator;
use beds::peer::UNDISTURBED;

use crate::{DEAD_WITHIN, expect_growth_below, expect_reason, node};

const HOGS: u64 = 8;
const MEBIBYTE_BLOCKS: u16 = 2048;
/// What a node may keep for each: its limit of buffers for a connection, and a bit for everything else.
const ALLOWED_MIB: u64 = HOGS * 32 + 64;

#[test]
fn peers_that_stop_reading() {
    let (mut node, companion) = node();
    let before = node.resident_kib();
    let mut asked_mib = 0;
    let mut hogs: Vec<Initiator> = Vec::new();
    for _ in 0..HOGS {
        let mut hog = Initiator::login(node.address(), "nothing").expect("a login");
        for number in 0..hog.window().min(256) {
            hog.send_read(number * u32::from(MEBIBYTE_BLOCKS), MEBIBYTE_BLOCKS).expect("a read is taken");
            asked_mib += 1;
        }
        hogs.push(hog);
    }
    println!("{asked_mib} MiB asked for");
    assert!(asked_mib > ALLOWED_MIB, "{asked_mib} MiB asked for: the window is too small to try this");
    for _ in 0..10 {
        std::thread::sleep(Duration::from_secs(1));
        expect_growth_below(&node, before, ALLOWED_MIB);
    }
    expect_reason(&node, hogs[0].stream(), DEAD_WITHIN);
    drop(hogs);
    assert!(node.is_serving());
    companion.undisturbed(UNDISTURBED);
}
