//! NBD peers that misbehave lose their connection, for a reason that stands in the log. Nobody else notices.

use std::io::Write as _;
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use beds::companion::Companion;
use beds::nbd::{Client, READ, WRITE, connect, option, request};
use beds::peer::{UNDISTURBED, WRONG_ENDS_WITHIN, is_closed, send_garbage};
use beds::{Bed, Node, Volume};

/// A peer that hangs is found out within this time.
const HANGING_ENDS_WITHIN: Duration = Duration::from_secs(60);

fn node() -> (Node, Companion) {
    let volumes = [Volume::memory("demo", "16MiB"), Volume::new("nothing", "1GiB", "{ null = true }")];
    let node = Bed::with(volumes).nbd().start();
    let companion = Companion::start(node.address(), "demo");
    (node, companion)
}

fn expect_closed(node: &Node, stream: &mut TcpStream, within: Duration, reason: &str) {
    let peer = stream.local_addr().expect("an address").to_string();
    assert!(is_closed(stream, within), "the connection stays");
    // The client sees the end before the node has said why, and its log has other lines of this peer.
    let end = Instant::now() + Duration::from_secs(10);
    let line = loop {
        let log = node.log();
        let line = log.lines().find(|line| line.contains(&peer) && line.contains("closed"));
        match line {
            Some(line) => break line.to_owned(),
            None if Instant::now() > end => panic!("the log has no line that {peer} was closed: {log}"),
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    assert!(line.contains(reason), "the log has no line for {peer} with {reason:?} but {line:?}");
}

#[test]
fn garbage() {
    let (mut node, companion) = node();
    let before = node.resident_kib();
    send_garbage(node.nbd_address());
    let mut stream = connect(node.nbd_address()).expect("a greeting");
    stream.write_all(&[b'X'; 64]).expect("no option");
    // The log may have thinned out the lines of the others.
    std::thread::sleep(Duration::from_millis(1100));
    let mut stream = connect(node.nbd_address()).expect("a greeting");
    stream.write_all(&[b'X'; 64]).expect("no option");
    expect_closed(&node, &mut stream, WRONG_ENDS_WITHIN, "no NBD option");
    let mut client = Client::enter(node.nbd_address(), "demo", true).expect("an export");
    client.stream().write_all(&[b'X'; 28]).expect("no request");
    expect_closed(&node, client.stream(), WRONG_ENDS_WITHIN, "this is no request");
    let grown = node.resident_kib().saturating_sub(before) / 1024;
    assert!(grown < 64, "resident memory grew by {grown} MiB");
    assert!(node.is_serving());
    companion.undisturbed(UNDISTURBED);
}

#[test]
fn halves_of_options_and_requests() {
    let (mut node, companion) = node();
    let whole = option(7, b"\0\0\0\x04demo\0\0");
    for length in 0..whole.len() {
        let mut stream = connect(node.nbd_address()).expect("a greeting");
        stream
            .write_all(&whole[..length])
            .and_then(|()| stream.shutdown(Shutdown::Write))
            .expect("half an option");
        assert!(
            is_closed(&mut stream, WRONG_ENDS_WITHIN),
            "{length} bytes of an option keep their connection"
        );
    }
    let mut write = request(0, WRITE, 1, 0, 4096).to_vec();
    write.extend_from_slice(&[7; 4096]);
    for length in [1, 27, 28, 29, 28 + 4095] {
        std::thread::sleep(Duration::from_millis(100));
        let mut client = Client::enter(node.nbd_address(), "nothing", true).expect("an export");
        let stream = client.stream();
        stream
            .write_all(&write[..length])
            .and_then(|()| stream.shutdown(Shutdown::Write))
            .expect("half a request");
        expect_closed(&node, stream, WRONG_ENDS_WITHIN, "in the middle of a message");
    }
    assert!(node.is_serving());
    companion.undisturbed(UNDISTURBED);
}

#[test]
fn lengths_that_nobody_agreed_to() {
    let (mut node, companion) = node();
    let before = node.resident_kib();
    let mut stream = connect(node.nbd_address()).expect("a greeting");
    let mut huge = option(7, &[]);
    huge[12..].copy_from_slice(&u32::MAX.to_be_bytes());
    stream.write_all(&huge).expect("an option");
    expect_closed(&node, &mut stream, WRONG_ENDS_WITHIN, "an option with 4294967295 bytes");
    let mut client = Client::enter(node.nbd_address(), "nothing", true).expect("an export");
    client.send(0, WRITE, 0, u32::MAX, &[]).expect("a request");
    expect_closed(&node, client.stream(), WRONG_ENDS_WITHIN, "a write of 4294967295 bytes");
    let grown = node.resident_kib().saturating_sub(before) / 1024;
    assert!(grown < 64, "resident memory grew by {grown} MiB");
    assert!(node.is_serving());
    companion.undisturbed(UNDISTURBED);
}

/// All that only time shows, side by side: it takes half a minute.
#[test]
fn peers_that_hang() {
    const HOGS: usize = 8;
    let (mut node, companion) = node();
    let before = node.resident_kib();
    let mut dawdler = connect(node.nbd_address()).expect("a greeting");
    let mut half = Client::enter(node.nbd_address(), "nothing", true).expect("an export");
    half.send(0, WRITE, 0, 32 << 20, &[1; 1000]).expect("half a request");
    // A quarter of what is asked for would be far beyond what may be kept for each.
    let mut hogs: Vec<Client> =
        (0..HOGS).map(|_| Client::enter(node.nbd_address(), "nothing", false).expect("an export")).collect();
    for hog in &mut hogs {
        for at in 0..256 {
            hog.send(0, READ, at << 20, 1 << 20, &[]).expect("a request");
        }
    }
    std::thread::sleep(Duration::from_secs(5));
    // For each: what is in flight, what waits to be sent, and one answer more; and the half write.
    let allowed = HOGS * (32 + 8 + 2) + 32 + 64;
    let grown = node.resident_kib().saturating_sub(before) / 1024;
    assert!(grown < allowed as u64, "resident memory grew by {grown} MiB, more than {allowed} MiB");
    companion.undisturbed(UNDISTURBED);
    expect_closed(&node, &mut dawdler, HANGING_ENDS_WITHIN, "took longer than 15 seconds");
    expect_closed(&node, half.stream(), HANGING_ENDS_WITHIN, "half a request and nothing more");
    let peer = hogs[0].stream().local_addr().expect("an address").to_string();
    let found = beds::wait_until(HANGING_ENDS_WITHIN, || {
        node.log().lines().any(|line| line.contains(&peer) && line.contains("has not taken what is sent"))
    });
    assert!(found, "who stops reading stays");
    assert!(node.is_serving());
}
