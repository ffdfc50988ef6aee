//! Any bytes as a master of Munin: no panic, every line answered by whole lines that a master reads.
#![no_main]

use std::sync::LazyLock;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use monitor::metric::{Histogram, Recent, Snapshot, View, table};
use monitor::munin::Session;

static VIEW: LazyLock<View> = LazyLock::new(|| {
    let mut snapshot = Snapshot::new(0, Duration::ZERO);
    for volume in ["demo", "a-b", "a_b", "\u{e9}\n"] {
        snapshot.push(&table::VOLUME_BYTES, &[volume, "read"], 7u64);
        snapshot.push(&table::VOLUME_LATENCY, &[volume, "read"], Histogram::default());
    }
    snapshot.push(&table::POOL_USAGE, &["tank"], 0.9);
    snapshot.push(&table::MEMBER_STATE, &["tank", "0"], 2u64);
    Recent::new().push(snapshot)
});

fuzz_target!(|bytes: &[u8]| {
    let mut session = Session::new("stone");
    for line in bytes.split_inclusive(|byte| *byte == b'\n').take(64) {
        let reply = session.line(&String::from_utf8_lossy(line), &VIEW);
        assert!(reply.text.is_empty() || reply.text.ends_with('\n'), "a line without its end");
        assert!(reply.text.len() < 1 << 16, "an answer of {} bytes", reply.text.len());
        assert!(reply.text.bytes().all(|byte| byte == b'\n' || !byte.is_ascii_control()));
        if reply.closes {
            return;
        }
    }
});
