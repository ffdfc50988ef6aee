//! PDUs that announce more than anybody may send.

use std::io::Write as _;

use beds::initiator::{HEADER, Initiator, login_request};
use beds::peer::{UNDISTURBED, WRONG_ENDS_WITHIN, is_closed};

use crate::{connect, expect_growth_below, expect_reason, node};

#[test]
fn lengths_beyond_every_limit() {
    let (mut node, companion) = node();
    let before = node.resident_kib();
    let mut enormous = login_request("enormous", &[]);
    enormous[4..8].copy_from_slice(&[0xff; 4]);
    let mut held = Vec::new();
    for number in 0..64 {
        let mut session = Initiator::login(node.address(), "nothing").expect("a login");
        let mut command = [0; HEADER];
        command[..8].copy_from_slice(&[0x01, 0xa1, 0, 0, 0, 0xff, 0xff, 0xf0]);
        let mut stream = connect(&node);
        for (stream, header) in [(&mut stream, &enormous[..HEADER]), (session.stream(), &command[..])] {
            // As before: the node need not read any of it.
            let _ = stream.write_all(header).and_then(|()| stream.write_all(&vec![0x55; 1 << 20]));
            assert!(is_closed(stream, WRONG_ENDS_WITHIN), "number {number}: 16 MiB announced, not closed");
            if number == 0 {
                expect_reason(&node, stream, WRONG_ENDS_WITHIN);
            }
        }
        held.push((stream, session));
    }
    expect_growth_below(&node, before, 64);
    assert!(node.is_serving());
    companion.undisturbed(UNDISTURBED);
}
