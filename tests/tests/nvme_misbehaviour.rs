//! NVMe/TCP hosts that misbehave lose their connection: they are told why where the standard has words for it, and it
//! stands in the log, once. Nobody else notices.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use beds::companion::Companion;
use beds::nvme::{
    C2H_DATA, C2H_TERM_REQ, CAPSULE_CMD, CAPSULE_RESP, Connect, ENTRY, IC_REQ, IC_RESP, LAST_PDU, Pdu, Queue,
    R2T, h2c_data, ic_req, initialized, open, pdu, read_pdu,
};
use beds::peer::{UNDISTURBED, WRONG_ENDS_WITHIN, is_closed, send_garbage};
use beds::tool::lab;
use beds::{Bed, Node, Volume, wait_until};

/// A host that hangs is found out within this time.
const HANGING_ENDS_WITHIN: Duration = Duration::from_secs(60);
/// More than this nobody's misbehaviour may cost, in MiB.
const LITTLE: u64 = 64;
/// Data of a write in these beds.
const DATA: usize = 16 << 10;
/// Data that a capsule may bring: IOCCSZ.
const IN_CAPSULE: usize = 256 << 10;

// Fatal error statuses, section 3.6.2.4.
const INVALID_FIELD: u16 = 1;
const SEQUENCE: u16 = 2;
const OUT_OF_RANGE: u16 = 4;
const LIMIT: u16 = 5;
const UNSUPPORTED: u16 = 6;

/// A node, and a host that does everything right meanwhile.
struct Scene {
    node: Node,
    companion: Companion,
    address: SocketAddr,
    before_kib: u64,
}

impl Scene {
    fn new() -> Scene {
        let volumes = [
            Volume::memory("demo", "16MiB"),
            Volume::memory("other", "16MiB"),
            Volume::new("nothing", "1GiB", "{ null = true }"),
            Volume::file("disk", "256MiB"),
        ];
        let node = Bed::with(volumes).nvme().start();
        let address = SocketAddr::from(([127, 0, 0, 1], node.nvme_ports().0));
        // What comes with the first use of anything is nobody's misbehaviour.
        work(&node, "demo");
        let companion = Companion::start_nvme(address, "demo");
        let before_kib = node.resident_kib();
        Scene { node, companion, address, before_kib }
    }

    /// A controller and an I/O queue of it, on a volume that takes everything.
    fn queue(&self) -> (Queue, Queue) {
        let (admin, controller) = Queue::admin(self.address, "nothing").expect("a controller");
        let queue = Queue::io(self.address, "nothing", controller, 1, 64).expect("a queue");
        (admin, queue)
    }

    fn expect_growth_below(&self, limit_mib: u64) {
        let grown = self.node.resident_kib().saturating_sub(self.before_kib) / 1024;
        println!("resident memory grew by {grown} MiB");
        assert!(grown < limit_mib, "resident memory grew by {grown} MiB, more than {limit_mib} MiB");
    }

    /// The connection is closed, and one line of the log says why.
    fn expect_closed(&self, stream: &mut TcpStream, within: Duration, reason: &str) {
        assert!(is_closed(stream, within), "the connection stays, and should not: {reason}");
        let peer = stream.local_addr().expect("an address");
        let told = format!("{peer}: connection closed: ");
        let lines = || -> Vec<String> {
            self.node.log().lines().filter(|line| line.contains(&told)).map(str::to_owned).collect()
        };
        // The host sees the end before the node has said why.
        assert!(
            wait_until(WRONG_ENDS_WITHIN, || !lines().is_empty()),
            "the log does not say why {peer} was closed, which is {reason:?}"
        );
        let lines = lines();
        assert!(lines.len() == 1 && lines[0].contains(reason), "not once {reason:?} but {lines:?}");
        // Lines beyond twenty a second of a core are left out.
        std::thread::sleep(Duration::from_millis(60));
    }

    /// The host is told what is wrong, and `sent` is repeated to it; then as [`Scene::expect_closed`].
    fn expect_terminated(&self, stream: &mut TcpStream, sent: &[u8], (status, information): (u16, u32)) {
        let last = loop {
            match read_pdu(stream) {
                Ok(pdu) if pdu.kind() != C2H_TERM_REQ => {}
                other => break other,
            }
        };
        let last = last.unwrap_or_else(|error| panic!("no termination for {:02x?}: {error}", head(sent)));
        assert_eq!(last.fatal(), Some((status, information)), "{:02x?}", head(sent));
        let repeated = &last.bytes[24..];
        assert!(
            last.bytes[2] == 24 && repeated.len() >= 8 && sent.starts_with(repeated),
            "{repeated:02x?} is not the beginning of {:02x?}",
            head(sent)
        );
        let name = match status {
            INVALID_FIELD => "INVALID_PDU_HEADER_FIELD",
            SEQUENCE => "PDU_SEQUENCE_ERROR",
            OUT_OF_RANGE => "DATA_TRANSFER_OUT_OF_RANGE",
            LIMIT => "DATA_TRANSFER_LIMIT_EXCEEDED",
            _ => "UNSUPPORTED_PARAMETER",
        };
        let reason = format!("the host broke the rules of NVMe/TCP: {name} ({information:#x})");
        self.expect_closed(stream, WRONG_ENDS_WITHIN, &reason);
    }

    /// Everybody else has been served all the time, and still is.
    fn leave_well(mut self) {
        self.expect_growth_below(LITTLE);
        assert!(self.node.is_serving());
        self.companion.undisturbed(UNDISTURBED);
        work(&self.node, "demo");
    }
}

fn head(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.len().min(32)]
}

/// A host that shares nothing with these beds writes to a volume that nobody else writes to now, and reads it back.
fn work(node: &Node, volume: &str) {
    let load = ["--rw=randrw", "--bs=8k", "--depth=4", "--jobs=1", "--time=200ms", "--warmup=0", "--verify"];
    let _ = lab("run").arg("--target").arg(node.nvme_url(volume)).args(load).run().expect_success();
}

fn changed(mut bytes: Vec<u8>, change: impl FnOnce(&mut [u8])) -> Vec<u8> {
    change(&mut bytes);
    bytes
}

#[test]
fn garbage() {
    let scene = Scene::new();
    let _ = send_garbage(scene.address);
    // The log may have thinned out the lines of these.
    std::thread::sleep(Duration::from_millis(1100));
    let garbage = [b'X'; 64];
    let mut stream = open(scene.address).expect("a connection");
    stream.write_all(&garbage).expect("no PDU");
    scene.expect_terminated(&mut stream, &garbage, (INVALID_FIELD, 0));
    let mut stream = initialized(scene.address).expect("an ICResp");
    stream.write_all(&garbage).expect("no PDU");
    scene.expect_terminated(&mut stream, &garbage, (INVALID_FIELD, 0));
    let (_admin, mut queue) = scene.queue();
    queue.stream().write_all(&garbage).expect("no PDU");
    scene.expect_terminated(queue.stream(), &garbage, (INVALID_FIELD, 0));
    scene.leave_well();
}

#[test]
fn a_first_pdu_that_is_wrong() {
    let scene = Scene::new();
    let capsule = Connect::new("demo", 0xffff, 0, 32).capsule();
    for (bytes, told) in [
        (changed(ic_req(), |bytes| bytes[8] = 1), (UNSUPPORTED, 8)),
        (changed(ic_req(), |bytes| bytes[10] = 32), (INVALID_FIELD, 10)),
        (changed(ic_req(), |bytes| bytes[1] = 1), (INVALID_FIELD, 1)),
        (changed(ic_req(), |bytes| bytes[2] = 24), (INVALID_FIELD, 2)),
        (changed(ic_req(), |bytes| bytes[4..8].fill(0xff)), (INVALID_FIELD, 4)),
        (changed(ic_req(), |bytes| bytes[0] = IC_RESP), (INVALID_FIELD, 0)),
        // The data of a capsule has no room here at all.
        (capsule.clone(), (INVALID_FIELD, 4)),
        (pdu(CAPSULE_CMD, 0, &[0; ENTRY], &[]), (SEQUENCE, 0)),
    ] {
        let mut stream = open(scene.address).expect("a connection");
        stream.write_all(&bytes).expect("a first PDU");
        scene.expect_terminated(&mut stream, &bytes, told);
    }
    // And the second.
    for (bytes, told) in [
        (ic_req(), (SEQUENCE, 0)),
        (h2c_data(0, 0, 0, &[0; 512], LAST_PDU), (SEQUENCE, 0)),
        (changed(capsule.clone(), |bytes| bytes[1] = 1), (INVALID_FIELD, 1)),
        (changed(capsule, |bytes| bytes[4..8].fill(0xff)), (INVALID_FIELD, 4)),
    ] {
        let mut stream = initialized(scene.address).expect("an ICResp");
        stream.write_all(&bytes).expect("a second PDU");
        scene.expect_terminated(&mut stream, &bytes, told);
    }
    scene.leave_well();
}

#[test]
fn pdus_that_break_the_rules_of_a_queue() {
    let scene = Scene::new();
    let flush = pdu(CAPSULE_CMD, 0, &[0; ENTRY], &[]);
    let with_data = pdu(CAPSULE_CMD, 0, &[0; ENTRY], &[1; 512]);
    let answer = |kind| pdu(kind, 0, &[0; 16], &[]);
    let cases = [
        (ic_req(), (SEQUENCE, 0)),
        (changed(ic_req(), |bytes| bytes[0] = IC_RESP), (INVALID_FIELD, 0)),
        (answer(C2H_TERM_REQ), (INVALID_FIELD, 0)),
        (answer(CAPSULE_RESP), (INVALID_FIELD, 0)),
        (answer(C2H_DATA), (INVALID_FIELD, 0)),
        (answer(0x08), (INVALID_FIELD, 0)),
        (answer(R2T), (INVALID_FIELD, 0)),
        (changed(flush.clone(), |bytes| bytes[1] = 1), (INVALID_FIELD, 1)),
        (changed(with_data.clone(), |bytes| bytes[1] = 2), (INVALID_FIELD, 1)),
        (changed(flush.clone(), |bytes| bytes[2] = 71), (INVALID_FIELD, 2)),
        (changed(flush.clone(), |bytes| bytes[2] = 255), (INVALID_FIELD, 2)),
        (changed(with_data.clone(), |bytes| bytes[3] = 71), (INVALID_FIELD, 3)),
        (changed(with_data.clone(), |bytes| bytes[3] = 73), (INVALID_FIELD, 3)),
        (changed(flush.clone(), |bytes| bytes[4] = 71), (INVALID_FIELD, 4)),
        (changed(flush, |bytes| bytes[4..8].fill(0)), (INVALID_FIELD, 4)),
        (changed(with_data.clone(), |bytes| bytes[4..8].fill(0xff)), (INVALID_FIELD, 4)),
        (pdu(CAPSULE_CMD, 0, &[0; ENTRY], &vec![1; IN_CAPSULE + 4]), (INVALID_FIELD, 4)),
        (changed(with_data, |bytes| bytes[0] = IC_REQ), (INVALID_FIELD, 2)),
    ];
    for (bytes, told) in cases {
        let (_admin, mut queue) = scene.queue();
        queue.stream().write_all(&bytes).expect("a PDU");
        scene.expect_terminated(queue.stream(), &bytes, told);
    }
    scene.leave_well();
}

/// A write that has been asked for its data: its identifier and the tag.
fn asked(queue: &mut Queue, bytes: usize) -> (u16, u16) {
    let command = queue.send_write(0, bytes).expect("a write");
    let ready = queue.receive().expect("an R2T");
    assert_eq!(
        (ready.kind(), ready.half(8), ready.word(12), ready.word(16)),
        (R2T, command, 0, bytes as u32)
    );
    (command, ready.half(10))
}

#[test]
fn data_that_nobody_asked_for() {
    type Make = fn(u16, u16) -> Vec<u8>;
    let scene = Scene::new();
    let cases: [(Make, (u16, u32)); 10] = [
        (|command, tag| h2c_data(command, tag ^ 0x55, 0, &[1; DATA], LAST_PDU), (INVALID_FIELD, 10)),
        (|command, tag| h2c_data(command ^ 0x55, tag, 0, &[1; DATA], LAST_PDU), (INVALID_FIELD, 8)),
        (|command, tag| h2c_data(command, tag, 512, &[1; DATA - 512], LAST_PDU), (OUT_OF_RANGE, 12)),
        (|command, tag| h2c_data(command, tag, u32::MAX, &[1; 512], 0), (OUT_OF_RANGE, 12)),
        (|command, tag| h2c_data(command, tag, 0, &vec![1; DATA + 512], LAST_PDU), (OUT_OF_RANGE, 16)),
        (|command, tag| h2c_data(command, tag, 0, &[1; DATA], 0), (INVALID_FIELD, 1)),
        (|command, tag| h2c_data(command, tag, 0, &[1; 512], LAST_PDU), (INVALID_FIELD, 1)),
        (|command, tag| h2c_data(command, tag, 0, &[], LAST_PDU), (INVALID_FIELD, 4)),
        // DATAL does not agree with PLEN.
        (
            |command, tag| {
                changed(h2c_data(command, tag, 0, &[1; DATA], LAST_PDU), |bytes| bytes[16..20].fill(0xff))
            },
            (INVALID_FIELD, 16),
        ),
        // MAXH2CDATA is 1 MiB.
        (
            |command, tag| {
                changed(h2c_data(command, tag, 0, &[1; DATA], LAST_PDU), |bytes| bytes[4..8].fill(0xff))
            },
            (LIMIT, 0),
        ),
    ];
    for (make, told) in cases {
        let (_admin, mut queue) = scene.queue();
        let (command, tag) = asked(&mut queue, DATA);
        let bytes = make(command, tag);
        queue.stream().write_all(&bytes).expect("a PDU");
        scene.expect_terminated(queue.stream(), &bytes, told);
    }
    // No R2T at all, and the same data twice.
    let (_admin, mut queue) = scene.queue();
    let bytes = h2c_data(1, 0, 0, &[1; 512], LAST_PDU);
    queue.stream().write_all(&bytes).expect("a PDU");
    scene.expect_terminated(queue.stream(), &bytes, (INVALID_FIELD, 10));
    let (_admin, mut queue) = scene.queue();
    let (command, tag) = asked(&mut queue, DATA);
    let bytes = h2c_data(command, tag, 0, &[1; DATA], LAST_PDU);
    queue.stream().write_all(&bytes).expect("the data");
    let _ = queue.completion().expect("the end of the write");
    queue.stream().write_all(&bytes).expect("the data again");
    scene.expect_terminated(queue.stream(), &bytes, (INVALID_FIELD, 10));
    scene.leave_well();
}

#[test]
fn more_commands_than_a_queue_has_entries() {
    let scene = Scene::new();
    let (_admin, mut queue) = scene.queue();
    // Each waits for its data.
    for block in 0..64 {
        queue.send_write(block * 32, DATA).expect("a write");
    }
    let mut entry = [0; ENTRY];
    (entry[1], entry[2], entry[4]) = (0x40, 0xee, 1);
    let bytes = pdu(CAPSULE_CMD, 0, &entry, &[]);
    queue.stream().write_all(&bytes).expect("one more");
    scene.expect_terminated(queue.stream(), &bytes, (SEQUENCE, 0));
    scene.leave_well();
}

#[test]
fn halves_of_pdus() {
    let scene = Scene::new();
    let mut beginning = ic_req();
    beginning.extend(Connect::new("demo", 0xffff, 0, 32).capsule());
    // All but the end of the ICReq and of the Connect command's parts.
    for length in (1..beginning.len()).step_by(61).filter(|length| *length != 128) {
        let mut stream = open(scene.address).expect("a connection");
        stream.write_all(&beginning[..length]).expect("a part");
        stream.shutdown(Shutdown::Write).expect("an end");
        scene.expect_closed(&mut stream, WRONG_ENDS_WITHIN, "in the middle of a message");
    }
    let mut write = [0; ENTRY];
    (write[0], write[1], write[4], write[33], write[39], write[48]) = (1, 0x40, 1, 2, 1, 0);
    let whole = pdu(CAPSULE_CMD, 0, &write, &[1; 512]);
    for length in [1, 7, 8, 71, 72, 73, whole.len() - 1] {
        let (_admin, mut queue) = scene.queue();
        queue.stream().write_all(&whole[..length]).expect("a part");
        queue.stream().shutdown(Shutdown::Write).expect("an end");
        scene.expect_closed(queue.stream(), WRONG_ENDS_WITHIN, "in the middle of a message");
    }
    // In pieces it is as good as whole.
    let (_admin, mut queue) = scene.queue();
    for byte in whole {
        queue.stream().write_all(&[byte]).expect("a byte");
    }
    let _ = queue.completion().expect("the end of the write");
    scene.leave_well();
}

#[test]
fn connects_that_are_refused() {
    let scene = Scene::new();
    let (_admin, controller) = Queue::admin(scene.address, "nothing").expect("a controller");
    let refused = |connect: &Connect, status: u16, information: Option<u32>, reason: &str| {
        let mut stream = initialized(scene.address).expect("an ICResp");
        stream.write_all(&connect.capsule()).expect("a Connect command");
        let answer: Pdu = read_pdu(&mut stream).expect("an answer");
        assert_eq!(answer.status(), Some(status), "{reason}: {:02x?}", answer.bytes);
        if let Some(information) = information {
            assert_eq!(answer.word(8), information, "{reason}: the place of the wrong parameter");
        }
        scene.expect_closed(
            &mut stream,
            WRONG_ENDS_WITHIN,
            &format!("its Connect command was refused: {reason}"),
        );
    };
    let invalid = 0x182;
    let in_data = 1 << 16;
    let parameters =
        |connect: &Connect, at| refused(connect, invalid, Some(at), "CONNECT_INVALID_PARAMETERS");
    parameters(&Connect::new("nowhere", 0xffff, 0, 32), in_data | 256);
    parameters(&Connect::new("nothing", 0xffff, 0, 1), 44);
    parameters(&Connect::new("nothing", 0xffff, 0, 1025), 44);
    parameters(
        &Connect { entry: changed_entry(44, 0xff, 0xff), ..Connect::new("nothing", 0xffff, 0, 2) },
        44,
    );
    // I/O queues of no controller, of another subsystem, and beyond what there may be.
    parameters(&Connect::new("nothing", 0xffff, 1, 32), in_data | 16);
    parameters(&Connect::new("nothing", controller.wrapping_add(999), 1, 32), in_data | 16);
    parameters(&Connect::new("disk", controller, 1, 32), in_data | 256);
    parameters(&Connect::new("nothing", controller, 4711, 32), 42);
    let mut unnamed = Connect::new("nothing", 0xffff, 0, 32);
    unnamed.data[512..].fill(0xff);
    parameters(&unnamed, in_data | 512);
    unnamed.data[256..512].fill(b'x');
    unnamed.data[512..514].copy_from_slice(b"x\0");
    parameters(&unnamed, in_data | 512);

    let mut format = Connect::new("nothing", 0xffff, 0, 32);
    format.entry[40] = 1;
    refused(&format, 0x180, None, "CONNECT_INCOMPATIBLE_FORMAT");
    let mut length = Connect::new("nothing", 0xffff, 0, 32);
    length.entry[32..36].fill(0xff);
    refused(&length, 0x0f, None, "DATA_SGL_LENGTH_INVALID");
    let mut other = Connect::new("nothing", 0xffff, 0, 32);
    other.entry[4] = 0x04;
    refused(&other, 0x0c, None, "COMMAND_SEQUENCE_ERROR");
    scene.leave_well();
}

fn changed_entry(at: usize, one: u8, two: u8) -> [u8; ENTRY] {
    let mut entry = Connect::new("nothing", 0xffff, 0, 2).entry;
    (entry[at], entry[at + 1]) = (one, two);
    entry
}

/// All that only time shows, side by side: it takes most of a minute.
#[test]
fn hosts_that_hang() {
    const HALF: &str = "half a request and nothing more for 30 seconds";
    let scene = Scene::new();
    let started = Instant::now();
    let mut silent = open(scene.address).expect("a connection");
    let mut without_connect = initialized(scene.address).expect("an ICResp");
    // Each byte is progress, and never a Connect command.
    let mut slow = open(scene.address).expect("a connection");
    let slow = std::thread::spawn(move || {
        let bytes = ic_req();
        let mut rest = bytes.iter();
        while let Some(byte) = rest.next()
            && slow.write_all(&[*byte]).is_ok()
            && !is_closed(&mut slow, Duration::from_millis(700))
        {}
        slow
    });
    let (_first, mut half_a_header) = scene.queue();
    half_a_header.stream().write_all(&[CAPSULE_CMD, 0, 72]).expect("three bytes");
    let (_second, mut half_a_capsule) = scene.queue();
    half_a_capsule.stream().write_all(&pdu(CAPSULE_CMD, 0, &[0; ENTRY], &[1; 512])[..100]).expect("a part");
    let (_third, mut half_of_data) = scene.queue();
    let (command, tag) = asked(&mut half_of_data, DATA);
    half_of_data
        .stream()
        .write_all(&h2c_data(command, tag, 0, &[1; DATA], LAST_PDU)[..1000])
        .expect("a part");
    let (_fourth, mut no_data) = scene.queue();
    let _ = asked(&mut no_data, DATA);
    let (_fifth, mut idle) = scene.queue();

    for stream in [&mut silent, &mut without_connect, &mut slow.join().expect("its end")] {
        scene.expect_closed(stream, HANGING_ENDS_WITHIN, "no Connect within 15 seconds");
    }
    assert!(started.elapsed() < Duration::from_secs(30), "they were there for {:?}", started.elapsed());
    for queue in [&mut half_a_header, &mut half_a_capsule, &mut half_of_data] {
        scene.expect_closed(queue.stream(), HANGING_ENDS_WITHIN, HALF);
    }
    let reason = "has not sent the data it was asked for for 30 seconds";
    scene.expect_closed(no_data.stream(), HANGING_ENDS_WITHIN, reason);
    assert!(started.elapsed() < HANGING_ENDS_WITHIN, "they were there for {:?}", started.elapsed());
    // Who owes nothing may be silent for as long as it likes.
    idle.write(0, &[1; 512]).expect("a write");
    scene.leave_well();
}

#[test]
fn hosts_that_stop_reading() {
    const HOGS: u64 = 8;
    const READS: u16 = 256;
    /// Buffers that two cores keep for later, in MiB.
    const KEPT: u64 = 2 * 64;
    let mut scene = Scene::new();
    let mut hogs: Vec<(Queue, Queue)> = Vec::new();
    for _ in 0..HOGS {
        let (admin, controller) = Queue::admin(scene.address, "disk").expect("a controller");
        let mut hog = Queue::io(scene.address, "disk", controller, 1, 512).expect("a queue");
        hog.send_reads(READS, 1 << 20).expect("the reads are taken");
        hogs.push((admin, hog));
    }
    // For each: what waits to be sent or is being read, and what the kernel holds.
    let allowed = HOGS * 32 + LITTLE;
    assert!(allowed * 2 < HOGS * u64::from(READS), "not enough is asked for");
    for _ in 0..10 {
        std::thread::sleep(Duration::from_secs(1));
        scene.expect_growth_below(allowed);
    }
    let reason = "it has not taken what is sent for 30 seconds";
    let peer = hogs[0].1.stream().local_addr().expect("an address");
    let told = format!("{peer}: connection closed: {reason}");
    let found = wait_until(HANGING_ENDS_WITHIN, || scene.node.log().contains(&told));
    assert!(found, "who stops reading stays");
    drop(hogs);
    let back = || scene.node.resident_kib() < scene.before_kib + ((KEPT + LITTLE) << 10);
    assert!(wait_until(HANGING_ENDS_WITHIN, back), "their memory is not given back");
    scene.before_kib += KEPT << 10;
    scene.leave_well();
}

#[test]
fn three_thousand_connections_that_say_nothing() {
    const CONNECTIONS: usize = 3000;
    /// Two cores.
    const LIMIT_OF_NODE: usize = 2 * 1024;
    let limit = beds::node::raise_open_files();
    assert!(limit > CONNECTIONS as u64 + 500, "only {limit} open files are allowed\nhint: ulimit -Hn 20000");
    let scene = Scene::new();
    let flood: Vec<TcpStream> =
        (0..CONNECTIONS).map(|_| TcpStream::connect(scene.address).expect("a connection")).collect();
    for stream in &flood {
        stream.set_nonblocking(true).expect("a socket that does not wait");
    }
    let open = || {
        let stays = |stream: &TcpStream| {
            let mut stream = stream;
            matches!(stream.read(&mut [0; 64]), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
        };
        flood.iter().filter(|stream| stays(stream)).count()
    };
    let bounded = wait_until(Duration::from_secs(5), || open() <= LIMIT_OF_NODE);
    let stay = open();
    println!("{stay} of {CONNECTIONS} stay");
    assert!(bounded && stay > 0, "{stay} of {CONNECTIONS} connections stay");
    // A newcomer is let in all the same.
    work(&scene.node, "other");
    scene.expect_growth_below(LITTLE);
    assert!(wait_until(HANGING_ENDS_WITHIN, || open() == 0), "{} say nothing and stay", open());
    let log = scene.node.log();
    for reason in ["too many connections are beginning", "no Connect within 15 seconds", "were left out"] {
        assert!(log.contains(reason), "the log has no line with {reason:?}");
    }
    let lines = log.lines().count();
    assert!(lines < CONNECTIONS / 2, "the flood made {lines} lines of log");
    scene.leave_well();
}

#[test]
fn a_host_that_is_terminated_by_its_own_words_is_not_answered() {
    let scene = Scene::new();
    let (_admin, mut queue) = scene.queue();
    let mut header = [0; 16];
    header[0] = 4;
    queue.stream().write_all(&pdu(0x02, 0, &header, &[])).expect("a termination");
    let mut rest = Vec::new();
    let _ = queue.stream().read_to_end(&mut rest);
    assert!(rest.is_empty(), "it is answered with {:02x?}", head(&rest));
    scene.expect_closed(
        queue.stream(),
        WRONG_ENDS_WITHIN,
        "the host ended the connection: DATA_TRANSFER_OUT",
    );
    scene.leave_well();
}
