//! Spoils one byte of a volume, for beds that have to notice it.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

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
