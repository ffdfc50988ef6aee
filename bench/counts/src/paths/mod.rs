//! The hot paths.

mod codec;
mod executor;
mod iscsi;
mod lab;
mod layer;
mod nbd;
mod node;
mod nvme;

/// Requests that are counted, one after the other or a batch after the other.
const REQUESTS: u64 = 256;
/// Requests that a peer sends at once, in one piece.
const BATCH: u64 = 8;
/// Bytes of a read or write.
const BYTES: usize = 4096;
const BLOCK: usize = 512;

/// Walks all of them.
pub fn measure() {
    iscsi::measure();
    nvme::measure();
    nbd::measure();
    lab::measure();
    codec::measure();
    layer::measure();
    executor::measure();
}

/// Where the request with this number reads or writes: the same 64 places in turn, which lie in the volume.
fn offset(number: u64) -> u64 {
    number % 64 * BYTES as u64
}

/// Counts requests alone, and in batches. `ask` appends a request to what is sent; `check` looks at its
/// answer, of `answer` bytes.
fn measure_requests(
    name: &str,
    line: &mut ring::sim::Outsider,
    answer: usize,
    mut ask: impl FnMut(u64, &mut Vec<u8>),
    check: impl Fn(&[u8]),
) {
    let mut number = 0;
    for (batch, name) in [(1, name.to_owned()), (BATCH, format!("{name}-batch"))] {
        crate::meter::measure(&name, REQUESTS, |requests| {
            for _ in 0..requests / batch {
                let mut bytes = Vec::new();
                for _ in 0..batch {
                    ask(number, &mut bytes);
                    number += 1;
                }
                line.send(&bytes).expect("the node takes requests");
                for _ in 0..batch {
                    check(&line.receive(answer).expect("the node answers"));
                }
            }
        });
    }
}
