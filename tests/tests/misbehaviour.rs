//! Peers that misbehave lose their connection, for a reason that stands in the log. Nobody else notices.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use beds::companion::Companion;
use beds::initiator::{HEADER, Initiator, login_request};
use beds::{Bed, Node, Volume, wait_until};

/// A login that is not finished may take this long before the node ends it, and a bit for a busy machine.
const LOGIN_ENDS_WITHIN: Duration = Duration::from_secs(60);
/// A peer that takes no data is found dead within this time.
const DEAD_WITHIN: Duration = Duration::from_secs(120);
/// What is plainly wrong ends the connection within this time.
const WRONG_ENDS_WITHIN: Duration = Duration::from_secs(15);
/// A write and its read of the well-behaved session take less, even while the machine is busy.
const UNDISTURBED: Duration = Duration::from_secs(5);

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

/// Reads and forgets until the node has closed the connection; tells whether it did in time.
fn is_closed(stream: &mut TcpStream, within: Duration) -> bool {
    let end = Instant::now() + within;
    let mut scratch = [0; 4096];
    stream.set_read_timeout(Some(Duration::from_millis(200))).expect("a read timeout");
    while Instant::now() < end {
        match stream.read(&mut scratch) {
            Ok(0) => return true,
            Err(error) if !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                return true;
            }
            _ => {}
        }
    }
    false
}

/// Waits until the log says why the connection that has this address at the peer's side is no more.
fn expect_reason(node: &Node, stream: &TcpStream, within: Duration) {
    let peer = stream.local_addr().expect("the peer's address").to_string();
    let words = ["clos", "refus", "reject", "drop", "end", "limit", "lost", "gone", "dead"];
    let said = wait_until(within, || {
        let log = node.log().to_lowercase();
        let mut lines = log.lines().filter(|line| line.contains(&peer));
        lines.any(|line| words.iter().any(|word| line.contains(word)))
    });
    assert!(said, "the log does not say why the connection of {peer} ended");
}

/// The node has taken no more than this since `before`.
fn expect_growth_below(node: &Node, before_kib: u64, limit_mib: u64) {
    let growth = node.resident_kib().saturating_sub(before_kib) / 1024;
    println!("resident memory grew by {growth} MiB");
    assert!(growth < limit_mib, "resident memory grew by {growth} MiB, more than {limit_mib} MiB");
}

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

#[test]
fn half_a_pdu() {
    let (mut node, companion) = node();
    let whole = login_request("half", &[("SessionType", "Normal")]);
    for length in (1..whole.len()).step_by(7) {
        let mut stream = connect(&node);
        stream
            .write_all(&whole[..length])
            .and_then(|()| stream.shutdown(Shutdown::Write))
            .expect("half a login");
        assert!(is_closed(&mut stream, WRONG_ENDS_WITHIN), "{length} bytes of a login keep their connection");
    }
    for length in [1, HEADER - 1] {
        let mut session = Initiator::login(node.address(), "nothing").expect("a login");
        let stream = session.stream();
        stream
            .write_all(&vec![0x01; length])
            .and_then(|()| stream.shutdown(Shutdown::Write))
            .expect("half a command");
        assert!(is_closed(stream, WRONG_ENDS_WITHIN), "{length} bytes of a command keep their connection");
        expect_reason(&node, session.stream(), WRONG_ENDS_WITHIN);
    }
    assert!(node.is_serving());
    companion.undisturbed(UNDISTURBED);
}

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
    expect_reason(&node, &silent[0], WRONG_ENDS_WITHIN);
    assert!(node.is_serving());
    companion.undisturbed(UNDISTURBED);
}

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

#[test]
fn ten_thousand_connections() {
    let limit = beds::node::raise_open_files();
    let wanted = limit.saturating_sub(500).min(10_000) as usize;
    assert!(wanted >= 1000, "only {limit} open files are allowed\nhint: ulimit -Hn 20000");
    let (mut node, companion) = node();
    let before = node.resident_kib();
    let address = node.address();
    let flood: Vec<TcpStream> = std::thread::scope(|scope| {
        let wave = || {
            let connect = |_| TcpStream::connect_timeout(&address, Duration::from_secs(5)).ok();
            (0..wanted / 4).filter_map(connect).collect::<Vec<_>>()
        };
        let waves: Vec<_> = (0..4).map(|_| scope.spawn(wave)).collect();
        waves.into_iter().flat_map(|wave| wave.join().expect("a wave ends")).collect()
    });
    println!("{} of {wanted} connections were taken", flood.len());
    assert!(flood.len() >= wanted / 2, "only {} connections were taken", flood.len());
    std::thread::sleep(Duration::from_secs(2));
    expect_growth_below(&node, before, 384);
    drop(flood);
    let back = wait_until(LOGIN_ENDS_WITHIN, || Initiator::login(address, "nothing").is_ok());
    assert!(back, "nobody can log in after the flood");
    let log = node.log().len() >> 20;
    assert!(log < 16, "the flood made {log} MiB of log");
    assert!(node.is_serving());
    companion.undisturbed(UNDISTURBED);
}
