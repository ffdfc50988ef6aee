//! One deterministic run, step by step: login, write, flush, power cut, restart, read; each step over any of the
//! transports.

use sim::{Client, Connector, Server, Transport, VolumePlan};

use ring::Buffer;
use ring::sim::World;

const BLOCK: usize = 512;

fn blocks(content: u8, count: usize) -> ring::Shared {
    Buffer::copy_of(&vec![content; count * BLOCK]).share()
}

/// One life of a node: two blocks flushed, one written with FUA, eight acknowledged and never flushed, then the power
/// goes. One writes, another one flushes, a third one reads. Gives what the restarted node has in those eleven blocks,
/// and the world's trace.
fn write_and_cut(seed: u64, ways: [Transport; 3]) -> (Vec<u8>, u64) {
    let world = World::new(seed);
    let mut server = Server::new(&world, 2, vec![VolumePlan::new("demo", 1 << 20, 512)]);
    server.start().unwrap();
    let clients = [1, 2].map(|number| Client::new(&world, number));
    let way = |client: usize, way: Transport, server: &Server| -> Connector {
        clients[client].connector(server, way, 0, 0, 1)
    };

    let [writer, flusher] = [way(0, ways[0], &server), way(1, ways[1], &server)];
    let session = world.block_on(clients[0].reactor(), async move {
        let session = writer.connect().await.unwrap();
        session.write(0, blocks(1, 2), false).await.unwrap();
        session
    });
    let session = session.unwrap();
    let flushed = world.block_on(clients[1].reactor(), async move {
        let session = flusher.connect().await.unwrap();
        session.flush().await.unwrap();
    });
    flushed.unwrap();
    let written = world.block_on(clients[0].reactor(), async move {
        session.write(2 * BLOCK as u64, blocks(2, 1), true).await.unwrap();
        session.write(3 * BLOCK as u64, blocks(3, 8), false).await.unwrap();
        session
    });
    server.power_cut();
    drop(written.unwrap());

    server.start().unwrap();
    let reader = way(1, ways[2], &server);
    let read = world.block_on(clients[1].reactor(), async move {
        let session = reader.connect().await.unwrap();
        let (result, buffer) = session.read(0, Buffer::new(11 * BLOCK)).await;
        result.unwrap();
        session.close().await;
        buffer.to_vec()
    });
    server.stop().unwrap();
    (read.unwrap(), world.trace())
}

/// All 27 of them, in turn.
fn ways(seed: u64) -> [Transport; 3] {
    [1, 3, 9].map(|step| Transport::ALL[(seed / step % 3) as usize])
}

#[test]
fn what_one_writes_and_another_flushes_survives_a_power_cut() {
    let mut lost = 0;
    for seed in 0..108 {
        let ways = ways(seed);
        let (read, trace) = write_and_cut(seed, ways);
        let block = |index: usize| &read[index * BLOCK..(index + 1) * BLOCK];
        let flushed = block(0) == [1; BLOCK] && block(1) == [1; BLOCK];
        assert!(flushed, "seed {seed}, {ways:?}: flushed blocks are lost");
        assert_eq!(block(2), [2; BLOCK], "seed {seed}, {ways:?}: a block written with FUA is lost");
        for index in 3..11 {
            let content = block(index)[0];
            assert!(content == 3 || content == 0, "seed {seed}: block {index} begins with {content}");
            assert_eq!(block(index), [content; BLOCK], "seed {seed}: block {index} is torn");
            lost += usize::from(content == 0);
        }
        assert_eq!((read, trace), write_and_cut(seed, ways), "seed {seed}, {ways:?} gave two different runs");
    }
    assert!((1..864).contains(&lost), "{lost} of 864 unflushed blocks were lost: the power cut is none");
}

#[test]
fn nothing_is_left_when_a_node_has_ended() {
    for transport in Transport::ALL {
        write_and_cut(7, [transport; 3]);
        assert_eq!(ring::in_use(), 0, "{transport:?}");
    }
}
