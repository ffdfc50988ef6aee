//! Spoils one byte of a volume behind the back of a guest: a bed that compares has to notice it.

use std::fs::OpenOptions;
use std::net::TcpListener;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// Spoils one byte of the volume's file while the guest waits at a gate. Gives the command by which the guest, logged
/// out, comes to the gate; it is let through when the byte is spoiled.
pub fn spoil_at_gate(file: PathBuf) -> String {
    let gate = TcpListener::bind("127.0.0.1:0").expect("a port for the gate");
    let port = gate.local_addr().expect("the gate's address").port();
    std::thread::spawn(move || {
        // The guest waits until its connection is closed.
        let guest = gate.accept();
        spoil(&file);
        drop(guest);
    });
    format!("nc 10.0.2.2 {port} < /dev/null || fail 'no gate'")
}

/// Spoils one byte in the first block of the volume's file that holds random bytes: the contents of a large file.
pub fn spoil(file: &Path) {
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
