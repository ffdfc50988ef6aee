//! Peers that never finish their login.

use std::io::Write as _;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use beds::initiator::{HEADER, login_request};
use beds::peer::{UNDISTURBED, WRONG_ENDS_WITHIN, is_closed};

use crate::{LOGIN_ENDS_WITHIN, connect, expect_reason_for_one, node};

#[test]
fn a_login_that_never_ends() {
    let (mut node, companion) = node();
    let whole = login_request("slow", &[("SessionType", "Normal")]);
    let mut silent: Vec<TcpStream> = (0..100).map(|_| connect(&node)).collect();
    for (number, stream) in silent.iter_mut().enumerate() {
        stream.write_all(&whole[..number % HEADER]).expect("the beginning of a login");
    }
    // One byte after the other: each is progress, but never a login.
    let mut slow = connect(&node);
    let end = Instant::now() + LOGIN_ENDS_WITHIN;
    let mut bytes = whole.iter().cycle();
    while let Some(byte) = bytes.next()
        && slow.write_all(&[*byte]).is_ok()
        && !is_closed(&mut slow, Duration::from_millis(700))
    {
        assert!(Instant::now() < end, "a login of one byte at a time goes on for ever");
    }
    for (number, stream) in silent.iter_mut().enumerate() {
        assert!(
            is_closed(stream, Duration::from_secs(5)),
            "silent connection number {number} is still there"
        );
    }
    expect_reason_for_one(&node, &silent, WRONG_ENDS_WITHIN);
    assert!(node.is_serving());
    companion.undisturbed(UNDISTURBED);
}
