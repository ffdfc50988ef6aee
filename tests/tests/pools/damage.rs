//! A block that cannot be rebuilt gives the error of each protocol, for that block and no other; where there is
//! redundancy nobody notices.

use beds::initiator::Initiator;
use beds::nbd::{self, Client};
use beds::nvme::{Pdu, Queue};
use beds::pool::{BLOCK, damage};
use beds::{Bed, Node, Pool, Volume};

use crate::qemu_io;

/// Where the damaged block lies on the volume.
const PLACE: u64 = 3 << 20;
/// Sectors of a block.
const SECTORS: u64 = BLOCK as u64 / 512;
const VALUE: u8 = 0xa7;

/// A pool on one member with a damaged block between good ones.
fn damaged(is_running: bool) -> Node {
    let mut node = bed("single", 1).start();
    write(&node);
    let member = node.data().join("m0.img");
    if is_running {
        // The block is in its place a moment after it was acknowledged; then the file has it twice.
        std::thread::sleep(std::time::Duration::from_secs(1));
        damage(&member, VALUE);
    } else {
        node.terminate();
        damage(&member, VALUE);
        node.restart();
    }
    node
}

fn bed(raid: &str, count: usize) -> Bed {
    Bed::with([Volume::on_pool("demo", "16MiB", "tank")]).pool(Pool::files("tank", raid, count)).nbd().nvme()
}

fn write(node: &Node) {
    let value = format!("write -P {VALUE:#x} 3M 4k");
    let commands = ["write -P 0x11 2M 1M", &value, "write -P 0x22 3076k 1M", "flush"];
    let _ = qemu_io(&node.nbd_url("demo"), &commands).run().expect_success();
}

#[test]
fn nbd_says_eio() {
    const EIO: u32 = 5;
    for is_running in [false, true] {
        let mut node = damaged(is_running);
        for structured in [false, true] {
            let mut client = Client::enter(node.nbd_address(), "demo", structured).expect("a connection");
            let mut error = |offset, length| client.error(0, nbd::READ, offset, length, &[]);
            for sector in 0..SECTORS {
                assert_eq!(error(PLACE + sector * 512, 512), EIO, "sector {sector}");
            }
            assert_eq!(error(PLACE - 512, 512), 0);
            assert_eq!(error(PLACE + BLOCK as u64, 512), 0);
            assert_eq!(error(PLACE - 65536, 1 << 20), EIO, "a read that has it in it");
        }
        node.wait_for_log("cannot be read or rebuilt");
        // Written as a whole it is good again.
        let _ = qemu_io(&node.nbd_url("demo"), &["write -P 0x33 3M 4k", "read -P 0x33 3M 4k"])
            .run()
            .expect_success();
        node.terminate();
        node.restart();
        let commands = ["read -P 0x11 2M 1M", "read -P 0x33 3M 4k", "read -P 0x22 3076k 1M"];
        let _ = qemu_io(&node.nbd_url("demo"), &commands).run().expect_success();
    }
}

#[test]
fn iscsi_says_medium_error() {
    for is_running in [false, true] {
        let node = damaged(is_running);
        let mut session = Initiator::login(node.address(), "demo").expect("a login");
        let mut read = |block: u64, blocks: u16| {
            session.send_read(block as u32, blocks).and_then(|_| session.answer()).expect("an answer")
        };
        let first = PLACE / 512;
        for block in first..first + SECTORS {
            let answer = read(block, 1);
            // CHECK CONDITION, MEDIUM ERROR, UNRECOVERED READ ERROR (SPC-5 section 4.5)
            assert_eq!((answer.status, answer.sense), (2, (0x03, 0x11, 0x00)), "block {block}");
        }
        assert_eq!((read(first - 1, 1).status, read(first + SECTORS, 1).status), (0, 0));
        assert_eq!(read(first - 8, 24).sense, (0x03, 0x11, 0x00));
    }
}

#[test]
fn nvme_says_unrecovered_read_error() {
    /// Status code type 2, status code 81h (NVM Express Base 2.1, figure 102).
    const UNRECOVERED_READ_ERROR: u16 = 0x281;
    for is_running in [false, true] {
        let node = damaged(is_running);
        let address = std::net::SocketAddr::from(([127, 0, 0, 1], node.nvme_ports().0));
        let (_admin, controller) = Queue::admin(address, "demo").expect("a controller");
        let mut queue = Queue::io(address, "demo", controller, 1, 16).expect("a queue");
        let mut status = |block: u64, blocks: usize| {
            queue.send_read(block, blocks * 512).expect("a command");
            loop {
                if let Some(status) = queue.receive().as_ref().expect("an answer").status_of_response() {
                    break status;
                }
            }
        };
        let first = PLACE / 512;
        for block in first..first + SECTORS {
            assert_eq!(status(block, 1), UNRECOVERED_READ_ERROR, "block {block}");
        }
        assert_eq!(status(first - 8, 24), UNRECOVERED_READ_ERROR);
        assert_eq!((status(first - 8, 8), status(first + SECTORS, 8)), (0, 0));
    }
}

trait Response {
    fn status_of_response(&self) -> Option<u16>;
}

impl Response for Pdu {
    /// A read's success may come with its data: then its last part says so.
    fn status_of_response(&self) -> Option<u16> {
        self.status().map(|status| status & 0x7ff).or_else(|| (self.bytes[1] & 0x08 != 0).then_some(0))
    }
}

#[test]
fn redundancy_repairs_what_is_read() {
    for (raid, count) in [("raid1", 2), ("raid10", 4), ("raid5", 3), ("raid6", 5)] {
        let mut node = bed(raid, count).start();
        write(&node);
        node.terminate();
        let member = (0..count).map(|index| node.data().join(format!("m{index}.img"))).find(|member| {
            let bytes = std::fs::read(member).expect("a member");
            bytes.chunks_exact(BLOCK).any(|block| block.iter().all(|byte| *byte == VALUE))
        });
        let member = member.expect("one has it");
        damage(&member, VALUE);
        node.restart();
        let value = format!("read -P {VALUE:#x} 3M 4k");
        // Twice: copies are read in turns.
        let commands = ["read -P 0x11 2M 1M", &value, &value, "read -P 0x22 3076k 1M"];
        let _ = qemu_io(&node.nbd_url("demo"), &commands).run().expect_success();
        node.terminate();
        node.restart();
        let _ = qemu_io(&node.nbd_url("demo"), &commands).run().expect_success();
    }
}
