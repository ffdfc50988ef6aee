//! Several reactors of one node.

use super::*;
use crate::mailbox;

#[test]
fn messages_pass_between_reactors() {
    let world = World::new(1);
    let node = world.node("node");
    let (one, two) = (node.reactor(), node.reactor());
    let (there, mut at_two) = mailbox::<u32>();
    let (back, mut at_one) = mailbox::<u32>();
    let ring = two.ring().clone();
    two.ring().spawn_later(async move {
        while let Some(value) = at_two.receive().await {
            ring.sleep(Duration::from_micros(u64::from(value % 7))).await;
            back.send(value * 2).unwrap();
        }
    });
    let sum = world.block_on(&one, async move {
        let mut sum = 0;
        for value in 0..100 {
            there.send(value).unwrap();
            sum += at_one.receive().await.unwrap();
        }
        drop(there);
        assert_eq!(at_one.receive().await, None);
        sum
    });
    assert_eq!(sum.unwrap(), 9900);
}

#[test]
fn a_connection_moves_between_reactors() {
    let world = World::new(2);
    let node = world.node("node");
    let (one, two) = (node.reactor(), node.reactor());
    let listener = Listener::bind(one.ring(), node.at(0)).unwrap();
    let address = listener.address().unwrap();
    let (send, mut moved) = mailbox();
    one.ring().spawn_later(async move {
        let (socket, _) = listener.accept().await.unwrap();
        assert!(send.send(socket.detach().unwrap()).is_ok());
        // The second one is never attached.
        let (socket, _) = listener.accept().await.unwrap();
        drop(socket.detach().unwrap());
    });
    let ring = two.ring().clone();
    world
        .block_on(&two, async move {
            let client = Socket::connect(&ring, address).await.unwrap();
            client.send(list(b"moved")).await.0.unwrap();
            let socket = Socket::attach(&ring, moved.receive().await.unwrap());
            let mut got = Vec::new();
            while got.len() < 5 {
                got.extend_from_slice(&socket.receive().await.unwrap());
            }
            assert_eq!(got, b"moved");
            let dropped = Socket::connect(&ring, address).await.unwrap();
            assert!(dropped.receive().await.unwrap().is_empty(), "closed with its detached end");
        })
        .unwrap();
    drop((one, two));
    assert!(world.is_empty(), "descriptors are left");
}

#[test]
#[should_panic(expected = "cannot go on in another")]
fn a_connection_stays_in_its_world() {
    let (here, elsewhere) = (World::new(1), World::new(1));
    let reactor = here.node("node").reactor();
    let other = elsewhere.node("node").reactor();
    let ring = reactor.ring().clone();
    let detached = here.block_on(&reactor, async move {
        let listener = Listener::bind(&ring, "127.0.0.1:0".parse().unwrap()).unwrap();
        Socket::connect(&ring, listener.address().unwrap()).await.unwrap().detach().unwrap()
    });
    Socket::attach(other.ring(), detached.unwrap());
}

#[test]
fn block_on_of_a_simulated_reactor_runs_its_whole_world() {
    let world = World::new(3);
    let node = world.node("node");
    let (one, two) = (node.reactor(), node.reactor());
    let (send, mut receive) = mailbox::<u8>();
    let ring = two.ring().clone();
    two.ring().spawn_later(async move {
        ring.sleep(ms(1)).await;
        send.send(5).unwrap();
    });
    assert_eq!(one.block_on(async move { receive.receive().await }), Some(5));
    assert_eq!(world.now().as_nanos(), 1_000_000);
}
