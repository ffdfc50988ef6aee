//! One deterministic run, step by step: login, write, flush, power cut, restart, read.

use sim::{Client, Server, VolumePlan};

use ring::Buffer;
use ring::sim::World;

const BLOCK: usize = 512;

fn blocks(content: u8, count: usize) -> ring::Shared {
    Buffer::copy_of(&vec![content; count * BLOCK]).share()
}

/// One life of a node: two blocks flushed, one written with FUA, eight acknowledged and never flushed, then the power
/// goes. Gives what the restarted node has in those eleven blocks, and the world's trace.
fn write_and_cut(seed: u64) -> (Vec<u8>, u64) {
    let world = World::new(seed);
    let mut server = Server::new(&world, 2, vec![VolumePlan::new("demo", 1 << 20, 512)], &[3260]);
    server.start().unwrap();
    let client = Client::new(&world, 1);

    let login = client.connector(&server, 0, 0, 1);
    let written = world.block_on(client.reactor(), async move {
        let session = login.connect().await.unwrap();
        session.write(0, blocks(1, 2), false).await.unwrap();
        session.flush().await.unwrap();
        session.write(2 * BLOCK as u64, blocks(2, 1), true).await.unwrap();
        session.write(3 * BLOCK as u64, blocks(3, 8), false).await.unwrap();
        session
    });
    server.power_cut();
    drop(written.unwrap());

    server.start().unwrap();
    let login = client.connector(&server, 0, 0, 1);
    let read = world.block_on(client.reactor(), async move {
        let session = login.connect().await.unwrap();
        let (result, buffer) = session.read(0, Buffer::new(11 * BLOCK)).await;
        result.unwrap();
        session.logout().await;
        buffer.to_vec()
    });
    server.stop().unwrap();
    (read.unwrap(), world.trace())
}

#[test]
fn what_was_flushed_survives_a_power_cut() {
    let mut lost = 0;
    for seed in 0..50 {
        let (read, trace) = write_and_cut(seed);
        let block = |index: usize| &read[index * BLOCK..(index + 1) * BLOCK];
        assert!(block(0) == [1; BLOCK] && block(1) == [1; BLOCK], "seed {seed}: flushed blocks are lost");
        assert_eq!(block(2), [2; BLOCK], "seed {seed}: a block written with FUA is lost");
        for index in 3..11 {
            let content = block(index)[0];
            assert!(content == 3 || content == 0, "seed {seed}: block {index} begins with {content}");
            assert_eq!(block(index), [content; BLOCK], "seed {seed}: block {index} is torn");
            lost += usize::from(content == 0);
        }
        assert_eq!((read, trace), write_and_cut(seed), "seed {seed} gave two different runs");
    }
    assert!((1..400).contains(&lost), "{lost} of 400 unflushed blocks were lost: the power cut is none");
}

#[test]
fn nothing_is_left_when_a_node_has_ended() {
    write_and_cut(7);
    assert_eq!(ring::in_use(), 0);
}
