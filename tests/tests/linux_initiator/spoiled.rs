//! The bed itself is tried: what it compares must be able to differ.

use std::fs::OpenOptions;
use std::net::TcpListener;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use beds::{Bed, Volume};

use crate::{DEADLINE, guest, script};

/// Spoils one byte in the first block of the volume that holds random bytes: the contents of a large file.
fn spoil(file: &Path) {
    let file = OpenOptions::new().read(true).write(true).open(file).expect("the backing file");
    let mut block = [0; 4096];
    for offset in (0..).step_by(block.len()) {
        file.read_exact_at(&mut block, offset).expect("random bytes somewhere in the volume");
        let mut counts = [0; 256];
        for byte in block {
            counts[usize::from(byte)] += 1;
        }
        // Each value is expected 16 times; metadata has far more of its zeroes.
        if counts.iter().all(|count| *count < 48) {
            file.write_all_at(&[!block[100]], offset + 100)
                .and_then(|()| file.sync_all())
                .expect("a spoiled byte");
            return;
        }
    }
}

#[test]
fn one_spoiled_byte_is_noticed() {
    let node = Bed::with([Volume::file("demo", "128MiB")]).start();
    let gate = TcpListener::bind("127.0.0.1:0").expect("a port for the gate");
    let port = gate.local_addr().expect("the gate's address").port();
    let file = node.data().join("demo.img");
    std::thread::spawn(move || {
        // The guest waits at the gate, logged out, until its connection is closed.
        let guest = gate.accept();
        spoil(&file);
        drop(guest);
    });
    let wait = format!("nc 10.0.2.2 {port} < /dev/null || fail 'no gate'");
    let console = guest().run(&script(&node, &[], "", &wait), DEADLINE);
    assert!(console.stdout.contains("BED: failed: checksums: ./large"), "{console}");
}
