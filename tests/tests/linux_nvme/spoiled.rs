//! The bed itself is tried: what it compares must be able to differ.

use std::net::TcpListener;

use beds::{Bed, Volume, spoil};

use crate::reset::script;
use crate::{DEADLINE, guest};

#[test]
fn one_spoiled_byte_is_noticed() {
    let node = Bed::with([Volume::file("demo", "128MiB")]).nvme().start();
    let gate = TcpListener::bind("127.0.0.1:0").expect("a port for the gate");
    let port = gate.local_addr().expect("the gate's address").port();
    let file = node.data().join("demo.img");
    std::thread::spawn(move || {
        // The guest waits at the gate, disconnected, until its connection is closed.
        let guest = gate.accept();
        spoil(&file);
        drop(guest);
    });
    let wait = format!("nc 10.0.2.2 {port} < /dev/null || fail 'no gate'");
    let console = guest(&[]).run(&script(&node, "", &wait), DEADLINE);
    assert!(console.stdout.contains("BED: failed: checksums: ./large"), "{console}");
}
