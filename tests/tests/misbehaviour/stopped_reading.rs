//! Peers that ask for much and take nothing.

use std::time::Duration;

use beds::initiator::Initiator;

use crate::{DEAD_WITHIN, UNDISTURBED, expect_growth_below, expect_reason, node};

#[test]
fn peers_that_stop_reading() {
    const MEBIBYTE_BLOCKS: u16 = 2048;
    let (mut node, companion) = node();
    let before = node.resident_kib();
    let mut asked = 0;
    let mut hogs: Vec<Initiator> = Vec::new();
    for _ in 0..16 {
        let mut hog = Initiator::login(node.address(), "nothing").expect("a login");
        for number in 0..hog.window().min(64) {
            hog.send_read(number * u32::from(MEBIBYTE_BLOCKS), MEBIBYTE_BLOCKS).expect("a read is taken");
            asked += 1;
        }
        hogs.push(hog);
    }
    println!("{asked} MiB asked for");
    for _ in 0..10 {
        std::thread::sleep(Duration::from_secs(1));
        expect_growth_below(&node, before, 192);
    }
    assert!(asked > 192, "the window lets nobody ask for more than the memory that is allowed");
    expect_reason(&node, hogs[0].stream(), DEAD_WITHIN);
    drop(hogs);
    assert!(node.is_serving());
    companion.undisturbed(UNDISTURBED);
}
