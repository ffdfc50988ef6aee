//! Bytes that are no iSCSI at all.

use std::io::Write as _;
use std::net::Shutdown;

use crate::{UNDISTURBED, WRONG_ENDS_WITHIN, connect, expect_growth_below, expect_reason, is_closed, node};

#[test]
fn garbage() {
    let (mut node, companion) = node();
    let before = node.resident_kib();
    let mut random = fastrand::Rng::with_seed(1);
    for number in 0..200 {
        let mut bytes = vec![0; random.usize(1..16384)];
        random.fill(&mut bytes);
        let mut stream = connect(&node);
        // The node may hang up before it has read everything.
        let _ = stream.write_all(&bytes).and_then(|()| stream.shutdown(Shutdown::Write));
        assert!(is_closed(&mut stream, WRONG_ENDS_WITHIN), "garbage number {number} keeps its connection");
        if number == 0 {
            expect_reason(&node, &stream, WRONG_ENDS_WITHIN);
        }
    }
    expect_growth_below(&node, before, 64);
    assert!(node.is_serving());
    companion.undisturbed(UNDISTURBED);
}
