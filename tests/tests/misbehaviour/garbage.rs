//! Bytes that are no iSCSI at all.

use beds::peer::{UNDISTURBED, WRONG_ENDS_WITHIN, send_garbage};

use crate::{expect_growth_below, expect_reason, node};

#[test]
fn garbage() {
    let (mut node, companion) = node();
    let before = node.resident_kib();
    let first = send_garbage(node.address());
    expect_reason(&node, &first, WRONG_ENDS_WITHIN);
    expect_growth_below(&node, before, 64);
    assert!(node.is_serving());
    companion.undisturbed(UNDISTURBED);
}
