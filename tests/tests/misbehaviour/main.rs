//! Peers that misbehave lose their connection, for a reason that stands in the log. Nobody else notices.

mod endless_login;
mod flood;
mod garbage;
mod half_a_pdu;
mod lengths;
mod stopped_reading;

use std::net::TcpStream;
use std::time::Duration;

use beds::companion::Companion;
use beds::{Bed, Node, Volume, wait_until};

/// A login that is not finished may take this long before the node ends it, and a bit for a busy machine.
const LOGIN_ENDS_WITHIN: Duration = Duration::from_secs(60);
/// A peer that takes no data is found dead within this time.
const DEAD_WITHIN: Duration = Duration::from_secs(120);

fn node() -> (Node, Companion) {
    let node =
        Bed::with([Volume::memory("demo", "16MiB"), Volume::new("nothing", "1GiB", "{ null = true }")])
            .start();
    let companion = Companion::start(node.address(), "demo");
    (node, companion)
}

fn connect(node: &Node) -> TcpStream {
    let stream = TcpStream::connect(node.address()).expect("a connection");
    stream.set_read_timeout(Some(Duration::from_millis(200))).expect("a read timeout");
    stream
}

/// Waits until the log says why the connection that has this address at the peer's side is no more.
fn expect_reason(node: &Node, stream: &TcpStream, within: Duration) {
    expect_reason_for_one(node, std::slice::from_ref(stream), within);
}

/// As before for one of many that end at the same time: the node may thin out lines that tell all the same.
fn expect_reason_for_one(node: &Node, streams: &[TcpStream], within: Duration) {
    let peers: Vec<String> =
        streams.iter().map(|stream| stream.local_addr().expect("the peer's address").to_string()).collect();
    let words = ["clos", "refus", "reject", "drop", "end", "limit", "lost", "gone", "dead"];
    let said = wait_until(within, || {
        let log = node.log().to_lowercase();
        let mut lines = log.lines().filter(|line| peers.iter().any(|peer| line.contains(peer)));
        lines.any(|line| words.iter().any(|word| line.contains(word)))
    });
    assert!(said, "the log does not say why the connection of {} ended", peers[0]);
}

/// The node has taken no more than this since `before`.
fn expect_growth_below(node: &Node, before_kib: u64, limit_mib: u64) {
    let growth = node.resident_kib().saturating_sub(before_kib) / 1024;
    println!("resident memory grew by {growth} MiB");
    assert!(growth < limit_mib, "resident memory grew by {growth} MiB, more than {limit_mib} MiB");
}
