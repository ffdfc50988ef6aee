//! What the real clients do not ask for: each rule of the protocol by its bytes.

use std::io::Read;

use beds::nbd::{
    BLOCK_STATUS, CACHE, Client, DF, DISC, FAST_ZERO, FLUSH, FUA, NO_HOLE, NONE, OFFSET_DATA, OFFSET_HOLE,
    READ, REQ_ONE, SIMPLE_MAGIC, TRIM, WRITE, WRITE_ZEROES,
};
use beds::{Bed, Node, Volume};

const EINVAL: u32 = 22;
const ENOSPC: u32 = 28;
const EOVERFLOW: u32 = 75;
const ENOTSUP: u32 = 95;

const MIB: u64 = 1 << 20;
const SIZE: u64 = 64 * MIB;
const PAYLOAD: u32 = 32 << 20;

fn node() -> Node {
    Bed::with([Volume::memory("demo", "64MiB"), Volume::file("file", "64MiB")]).nbd().start()
}

fn client(node: &Node, volume: &str) -> Client {
    Client::enter(node.nbd_address(), volume, true).expect("an export")
}

#[test]
fn a_request_that_breaks_the_rules_gets_its_error_and_the_connection_lives() {
    let node = node();
    for structured in [false, true] {
        let mut client = Client::enter(node.nbd_address(), "demo", structured).expect("an export");
        assert_eq!(client.size, SIZE);
        let block = [7; 512];
        assert_eq!(client.error(0, READ, SIZE, 512, &[]), EINVAL);
        assert_eq!(client.error(0, READ, u64::MAX - 511, 512, &[]), EINVAL);
        assert_eq!(client.error(0, WRITE, SIZE, 512, &block), ENOSPC);
        assert_eq!(client.error(0, WRITE_ZEROES, SIZE - 512, 1024, &[]), ENOSPC);
        assert_eq!(client.error(0, TRIM, SIZE - 512, 1024, &[]), EINVAL);
        assert_eq!(client.error(0, READ, 100, 512, &[]), EINVAL);
        assert_eq!(client.error(0, WRITE, 0, 100, &block[..100]), EINVAL);
        assert_eq!(client.error(0, 77, 0, 512, &[]), EINVAL);
        assert_eq!(client.error(NO_HOLE, READ, 0, 512, &[]), EINVAL);
        assert_eq!(client.error(0, FLUSH, 0, 512, &[]), EINVAL);
        assert_eq!(client.error(0, READ, 0, PAYLOAD + 512, &[]), EINVAL);
        assert_eq!(
            client.error(DF, READ, 0, PAYLOAD + 512, &[]),
            if structured { EOVERFLOW } else { EINVAL }
        );
        // The payload of a write that is refused is taken, or what follows would be read as a request.
        assert_eq!(client.error(0, WRITE, 0, PAYLOAD + 512, &vec![1; PAYLOAD as usize + 512]), EINVAL);
        assert_eq!(client.error(0, WRITE, 0, 512, &block), 0);
        assert_eq!(client.ask(0, READ, 0, 512, &[]).expect("an answer")[0].data, block);
    }
}

#[test]
fn what_is_no_read_is_answered_in_one_piece_and_a_read_of_nothing_in_chunks() {
    let node = node();
    for volume in ["demo", "file"] {
        let mut client = client(&node, volume);
        for (command, length) in [(WRITE, 512), (WRITE, 0), (FLUSH, 0), (TRIM, 512), (WRITE_ZEROES, 512)] {
            let data = vec![3; if command == WRITE { length } else { 0 }];
            let cookie = client.send(0, command, 0, length as u32, &data).expect("a request");
            let mut reply = [0; 16];
            client.stream().read_exact(&mut reply).expect("a simple reply");
            let expected = [&SIMPLE_MAGIC[..], &[0; 4], &cookie.to_be_bytes()].concat();
            assert_eq!(reply[..], expected, "{volume}, command {command}");
        }
        let nothing = client.ask(0, READ, 0, 0, &[]).expect("an answer");
        assert_eq!((nothing.len(), nothing[0].kind, nothing[0].error), (1, NONE, 0), "{volume}");
    }
}

#[test]
fn the_longest_payload_goes_both_ways() {
    let node = node();
    let mut random = vec![0; PAYLOAD as usize];
    fastrand::Rng::with_seed(3).fill(&mut random);
    for volume in ["demo", "file"] {
        for structured in [false, true] {
            let mut client = Client::enter(node.nbd_address(), volume, structured).expect("an export");
            assert_eq!(client.error(FUA, WRITE, MIB, PAYLOAD, &random), 0);
            let replies = client.ask(0, READ, MIB, PAYLOAD, &[]).expect("an answer");
            let read: Vec<u8> = replies.into_iter().flat_map(|reply| reply.data).collect();
            assert!(read == random, "{volume}: what was read differs");
        }
    }
}

#[test]
fn a_long_read_tells_its_holes_and_df_forbids_it() {
    let node = node();
    for volume in ["demo", "file"] {
        let mut client = client(&node, volume);
        let data = vec![9; 64 << 10];
        assert_eq!(client.error(0, WRITE, MIB, 64 << 10, &data), 0);
        let replies = client.ask(0, READ, MIB - 4096, 256 << 10, &[]).expect("an answer");
        let chunks: Vec<_> =
            replies.iter().map(|reply| (reply.kind, reply.offset, reply.data.len())).collect();
        let expected = [
            (OFFSET_HOLE, MIB - 4096, 4096),
            (OFFSET_DATA, MIB, 64 << 10),
            (OFFSET_HOLE, MIB + (64 << 10), (192 << 10) - 4096),
        ];
        assert_eq!(chunks, expected, "{volume}");
        assert!(replies[1].data == data);
        let whole = client.ask(DF, READ, MIB - 4096, 256 << 10, &[]).expect("an answer");
        assert_eq!((whole.len(), whole[0].kind, whole[0].data.len()), (1, OFFSET_DATA, 256 << 10));
        let mut expected = vec![0; 256 << 10];
        expected[4096..][..64 << 10].fill(9);
        assert!(whole[0].data == expected);
    }
}

#[test]
fn block_status_tells_runs_and_one_if_one_is_asked_for() {
    let node = node();
    for volume in ["demo", "file"] {
        let mut client = client(&node, volume);
        assert_eq!(client.status(0, 0, SIZE as u32), [(SIZE as u32, 3)]);
        assert_eq!(client.error(0, WRITE, MIB, 4096, &[1; 4096]), 0);
        let rest = (SIZE - MIB - 4096) as u32;
        assert_eq!(client.status(0, 0, SIZE as u32), [(MIB as u32, 3), (4096, 0), (rest, 3)], "{volume}");
        assert_eq!(client.status(REQ_ONE, 0, SIZE as u32), [(MIB as u32, 3)]);
        assert_eq!(client.status(REQ_ONE, MIB + 512, 8192)[0].1, 0);
        assert_eq!(client.error(0, TRIM, MIB, 4096, &[]), 0);
        assert_eq!(
            client.status(0, 0, SIZE as u32),
            [(SIZE as u32, 3)],
            "{volume}: trim gives no space back"
        );
    }
    let mut plain = Client::enter(node.nbd_address(), "demo", false).expect("an export");
    assert_eq!(plain.error(0, BLOCK_STATUS, 0, 512, &[]), EINVAL, "no context was chosen");
}

#[test]
fn zeroes_keep_their_space_when_asked_to() {
    let node = node();
    let mut client = client(&node, "demo");
    assert_eq!(client.error(0, WRITE, 0, 8192, &[1; 8192]), 0);
    assert_eq!(client.error(NO_HOLE, WRITE_ZEROES, 0, MIB as u32, &[]), 0);
    assert_eq!(client.status(0, 0, MIB as u32), [(MIB as u32, 0)], "a hole, though none was wanted");
    assert!(client.ask(0, READ, 0, 8192, &[]).expect("an answer")[0].data.iter().all(|byte| *byte == 0));
    assert_eq!(client.error(0, WRITE_ZEROES, 0, MIB as u32, &[]), 0);
    assert_eq!(client.status(0, 0, MIB as u32), [(MIB as u32, 3)]);
    assert_eq!(client.error(FUA, CACHE, 0, MIB as u32, &[]), 0);
}

/// tmpfs punches holes and cannot make zeroes that keep their space, other than by writing them.
#[test]
fn zeroes_that_would_be_slow_are_refused_when_they_have_to_be_fast() {
    let node = Bed::with([Volume::file("demo", "64MiB")]).small_disk("size=32m").nbd().start();
    let mut client = client(&node, "demo");
    assert_eq!(client.error(0, WRITE, 0, 8192, &[1; 8192]), 0);
    assert_eq!(client.error(FAST_ZERO | NO_HOLE, WRITE_ZEROES, 0, 4096, &[]), ENOTSUP);
    let untouched = client.ask(0, READ, 0, 4096, &[]).expect("an answer");
    assert!(untouched[0].data.iter().all(|byte| *byte == 1), "refused and yet begun");
    assert_eq!(client.error(FAST_ZERO, WRITE_ZEROES, 0, 4096, &[]), 0);
    assert_eq!(client.error(NO_HOLE, WRITE_ZEROES, 4096, 4096, &[]), 0);
    let zeroed = client.ask(0, READ, 0, 8192, &[]).expect("an answer");
    assert!(zeroed.iter().flat_map(|reply| &reply.data).all(|byte| *byte == 0));
}

#[test]
fn a_full_disk_is_told_as_such() {
    let node = Bed::with([Volume::file("demo", "64MiB")]).small_disk("size=16m").nbd().start();
    let mut client = client(&node, "demo");
    let data = vec![3; 1 << 20];
    let errors: Vec<u32> = (0..32).map(|at| client.error(0, WRITE, at * MIB, MIB as u32, &data)).collect();
    assert!(errors.starts_with(&[0; 8]) && errors.ends_with(&[ENOSPC; 8]), "{errors:?}");
}

#[test]
fn what_was_asked_for_before_the_farewell_is_carried_out() {
    let node = node();
    let mut leaver = client(&node, "file");
    for at in 0..64 {
        leaver.send(0, WRITE, at * MIB, 64 << 10, &vec![at as u8 + 1; 64 << 10]).expect("a request");
    }
    leaver.send(0, DISC, 0, 0, &[]).expect("a farewell");
    // The end of the stream comes behind the last of the answers, or in their place.
    while leaver.receive().is_ok() {}
    let mut client = client(&node, "file");
    for at in 0..64 {
        let read = client.ask(0, READ, at * MIB, 4096, &[]).expect("an answer");
        assert!(read[0].data.iter().all(|byte| *byte == at as u8 + 1), "write {at}");
    }
    node.wait_for_log("disconnected");
}

#[test]
fn a_thousand_requests_in_flight_are_all_answered() {
    let node = node();
    for volume in ["demo", "file"] {
        let mut client = client(&node, volume);
        let mut open: std::collections::BTreeSet<u64> = (0..3000)
            .map(|at| client.send(0, READ, at % 1000 * 4096, 4096, &[]).expect("a request"))
            .collect();
        while !open.is_empty() {
            let reply = client.receive().expect("an answer");
            assert!(reply.error == 0 && open.remove(&reply.cookie), "{reply:?}");
        }
    }
}
