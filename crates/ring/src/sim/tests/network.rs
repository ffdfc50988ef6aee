//! Connections: cut, delayed, stalled, reset.

use super::*;
use crate::Reactor;

/// Accepts one connection and sends back all that it receives.
fn serve_echo(ring: &Ring, address: std::net::SocketAddr) -> std::net::SocketAddr {
    let listener = Listener::bind(ring, address).unwrap();
    let bound = listener.address().unwrap();
    let spawner = ring.clone();
    ring.spawn_later(async move {
        while let Ok((socket, _)) = listener.accept().await {
            spawner.spawn_later(async move {
                while let Ok(chunk) = socket.receive().await
                    && !chunk.is_empty()
                    && socket.send(list(&chunk)).await.0.is_ok()
                {}
            });
        }
    });
    bound
}

async fn receive_all(socket: &Socket, length: usize) -> (Vec<u8>, usize) {
    let (mut bytes, mut pieces) = (Vec::new(), 0);
    let mut buffer = Buffer::new(length);
    while bytes.len() < length {
        let (count, back) = socket.receive_into(buffer, bytes.len()).await;
        let count = count.unwrap();
        assert!(count > 0, "the stream ended after {} bytes", bytes.len());
        bytes.extend_from_slice(&back[bytes.len()..bytes.len() + count]);
        buffer = back;
        pieces += 1;
    }
    (bytes, pieces)
}

#[test]
fn bytes_come_back_in_order_and_in_pieces() {
    let mut cut_most = 0;
    for seed in 0..50 {
        let world = World::new(seed);
        let (server, client) = (world.node("server"), world.node("client"));
        let (serving, asking) = (server.reactor(), client.reactor());
        let address = serve_echo(serving.ring(), "0.0.0.0:0".parse().unwrap());
        let (ring, to) = (asking.ring().clone(), server.at(address.port()));
        let pieces = world.block_on(&asking, async move {
            let socket = Socket::connect(&ring, to).await.unwrap();
            assert_eq!((socket.peer().unwrap(), socket.local().unwrap().ip()), (to, client.address()));
            let sent: Vec<u8> = (0..20_000u32).map(|at| (at % 251) as u8).collect();
            socket.send(list(&sent)).await.0.unwrap();
            let (got, pieces) = receive_all(&socket, sent.len()).await;
            assert!(got == sent);
            pieces
        });
        cut_most = cut_most.max(pieces.unwrap());
        drop((serving, asking));
        assert_eq!(in_use(), 0, "seed {seed}");
    }
    assert!(cut_most > 5);
}

#[test]
fn who_keeps_the_last_receive_buffer_keeps_others_from_receiving() {
    for seed in 0..10 {
        let settings = Settings { cut: 0.0, ..Settings::default() };
        let world = World::with_settings(seed, settings);
        let (server, client) = (world.node("server"), world.node("client"));
        let serving = server.reactor();
        let address = serve_echo(serving.ring(), "0.0.0.0:0".parse().unwrap());
        let asking = client.reactor_with(&Options { receive_buffers: 4, ..Options::default() });
        let (ring, to) = (asking.ring().clone(), server.at(address.port()));
        let done = world.block_on(&asking, async move {
            let mut kept = Vec::new();
            let mut sockets = Vec::new();
            for is_plenty in [true, false, false, false] {
                assert_eq!(ring.has_plenty_of_buffers(), is_plenty);
                let socket = Socket::connect(&ring, to).await.unwrap();
                socket.send(list(b"word")).await.0.unwrap();
                kept.push(socket.receive().await.unwrap());
                sockets.push(socket);
            }
            let socket = Socket::connect(&ring, to).await.unwrap();
            socket.send(list(b"last")).await.0.unwrap();
            let soon = Duration::from_secs(1);
            assert!(ring.timeout(soon, socket.receive()).await.is_none(), "there is no buffer for it");
            // Who says himself where it is to be needs none.
            sockets[0].send(list(b"more")).await.0.unwrap();
            assert_eq!(receive_all(&sockets[0], 4).await.0, b"more");
            kept.pop();
            let last = ring.timeout(soon, socket.receive()).await.expect("a buffer came back").unwrap();
            assert_eq!((&last[..], &kept[0][..]), (&b"last"[..], &b"word"[..]));
            drop((kept, last));
            assert!(ring.has_plenty_of_buffers());
        });
        done.unwrap();
        drop((serving, asking));
        assert_eq!(in_use(), 0, "seed {seed}");
    }
}

#[test]
fn who_is_on_no_reactor_is_served_and_hears_of_the_end() {
    for seed in 0..10 {
        let world = World::new(seed);
        let server = world.node("server");
        let serving = server.reactor();
        let address = serve_echo(serving.ring(), "0.0.0.0:0".parse().unwrap());
        let mut outsider = world.node("client").outsider(server.at(address.port())).unwrap();
        let sent: Vec<u8> = (0..20_000u32).map(|at| (at % 251) as u8).collect();
        outsider.send(&sent).unwrap();
        let (first, rest) = (outsider.receive(7).unwrap(), outsider.receive(sent.len() - 7).unwrap());
        assert!(first == sent[..7] && rest == sent[7..]);
        let nobody = world.node("client").outsider(server.at(address.port() + 1)).map(|_| ());
        assert_eq!(nobody.map_err(|error| error.kind()), Err(std::io::ErrorKind::ConnectionRefused));
        server.kill();
        assert_eq!(
            outsider.receive(1).map_err(|error| error.kind()),
            Err(std::io::ErrorKind::ConnectionReset)
        );
        drop((serving, outsider));
        assert!(world.is_empty() && in_use() == 0, "seed {seed}: something is left");
    }
}

#[test]
fn a_node_reaches_itself() {
    run(1, |_, node, ring| async move {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let to = serve_echo(&ring, address.parse().unwrap());
            let socket = Socket::connect(&ring, to).await.unwrap();
            socket.send(list(b"hello")).await.0.unwrap();
            assert_eq!(receive_all(&socket, 5).await.0, b"hello");
        }
        let taken = serve_echo(&ring, node.at(0));
        assert_eq!(Listener::bind(&ring, taken).err().unwrap().kind(), std::io::ErrorKind::AddrInUse);
    });
}

#[test]
fn nobody_listens_and_the_connection_is_refused() {
    run(1, |world, node, ring| async move {
        let refused = Socket::connect(&ring, node.at(1)).await.err().unwrap();
        assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
        let nowhere = Socket::connect(&ring, "10.9.9.9:1".parse().unwrap()).await.err().unwrap();
        assert_eq!(nowhere.raw_os_error(), Some(libc::EHOSTUNREACH));
        let other = world.node("other");
        assert!(Listener::bind(&ring, other.at(5)).is_err());
    });
}

#[test]
fn a_peer_that_does_not_read_stalls_the_sender() {
    run(2, |_, node, ring| async move {
        let listener = Listener::bind(&ring, node.at(0)).unwrap();
        let client = Socket::connect(&ring, listener.address().unwrap()).await.unwrap();
        let (server, _) = listener.accept().await.unwrap();
        let window = Settings::default().window;
        client.send(list(&vec![1; window])).await.0.unwrap();
        let done = Rc::new(RefCell::new(false));
        let (told, sender) = (done.clone(), client.clone());
        ring.spawn(async move {
            sender.send(list(&[2; 100])).await.0.unwrap();
            told.replace(true);
        });
        ring.sleep(Duration::from_secs(60)).await;
        assert!(!*done.borrow(), "the window is full");
        let (got, _) = receive_all(&server, window + 100).await;
        assert_eq!((got[window - 1], got[window]), (1, 2));
        assert!(*done.borrow());
    });
}

#[test]
fn the_end_of_a_stream_is_seen_after_its_bytes() {
    for seed in 0..30 {
        run(seed, |_, node, ring| async move {
            let listener = Listener::bind(&ring, node.at(0)).unwrap();
            let client = Socket::connect(&ring, listener.address().unwrap()).await.unwrap();
            let (server, _) = listener.accept().await.unwrap();
            client.send(list(b"bye")).await.0.unwrap();
            drop(client);
            assert_eq!(receive_all(&server, 3).await.0, b"bye");
            assert!(server.receive().await.unwrap().is_empty());
            // The peer is closed: what is sent now is answered by a reset, which the next send sees.
            server.send(list(b"too late")).await.0.unwrap();
            ring.sleep(ms(10)).await;
            assert!(server.send(list(b"too late")).await.0.is_err());
            assert!(server.peer().is_err());
        });
    }
}

#[test]
fn a_shutdown_ends_waits_of_both_sides() {
    run(4, |_, node, ring| async move {
        let listener = Listener::bind(&ring, node.at(0)).unwrap();
        let client = Socket::connect(&ring, listener.address().unwrap()).await.unwrap();
        let (server, _) = listener.accept().await.unwrap();
        let stopper = server.clone();
        let clock = ring.clone();
        ring.spawn(async move {
            clock.sleep(ms(1)).await;
            stopper.shutdown();
        });
        assert!(server.receive().await.unwrap().is_empty());
        assert!(client.receive().await.unwrap().is_empty());
        assert!(server.send(list(b"x")).await.0.is_err());
    });
}

#[test]
fn a_partition_holds_back_and_healing_lets_go_in_order() {
    let world = World::new(6);
    let (server, client) = (world.node("server"), world.node("client"));
    let (serving, asking) = (server.reactor(), client.reactor());
    let address = serve_echo(serving.ring(), server.at(0));
    let (ring, inner) = (asking.ring().clone(), world.clone());
    world
        .block_on(&asking, async move {
            let socket = Socket::connect(&ring, address).await.unwrap();
            inner.partition(&server, &client);
            socket.send(list(b"one ")).await.0.unwrap();
            assert!(ring.timeout(Duration::from_secs(100), socket.receive()).await.is_none());
            assert!(ring.timeout(ms(10), Socket::connect(&ring, address)).await.is_none());
            inner.heal(&server, &client);
            socket.send(list(b"two")).await.0.unwrap();
            assert_eq!(receive_all(&socket, 7).await.0, b"one two");
        })
        .unwrap();
}

#[test]
fn what_was_held_back_comes_before_what_arrives_when_it_is_let_go() {
    let bytes: Vec<u8> = (0..64).collect();
    for events in 1..100 {
        let world = World::new(6);
        world.configure(|settings| (settings.latency, settings.cut) = (ms(1)..ms(1), 1.0));
        let (server, client) = (world.node("server"), world.node("client"));
        let (serving, asking) = (server.reactor(), client.reactor());
        let address = serve_echo(serving.ring(), server.at(0));
        let ring = asking.ring().clone();
        let socket =
            world.block_on(&asking, async move { Socket::connect(&ring, address).await.unwrap() }).unwrap();
        world.partition(&server, &client);
        let (sender, sent) = (socket.clone(), list(&bytes));
        asking.ring().spawn_later(async move { sender.send(sent).await.0.unwrap() });
        // Its pieces arrive at one moment: it stops between any two of them, or when all have come.
        let mut left = events;
        let run = world.run_until(|| {
            left -= 1;
            left == 0
        });
        assert_eq!(run.is_ok(), left == 0);
        world.heal(&server, &client);
        let echoed = world.block_on(&asking, async move { receive_all(&socket, 64).await.0 });
        assert_eq!(echoed.unwrap(), bytes, "healed after {events} events");
    }
}

#[test]
fn a_cut_resets_both_ends_and_lets_new_ones_be_made() {
    let world = World::new(3);
    let nodes = ["server", "client", "other"].map(|name| world.node(name));
    let [serving, asking, beside] = [0, 1, 2].map(|index: usize| nodes[index].reactor());
    let address = serve_echo(serving.ring(), "0.0.0.0:0".parse().unwrap());
    let to = nodes[0].at(address.port());
    let connect = |reactor: &Reactor| {
        let ring = reactor.ring().clone();
        world.block_on(reactor, async move { Socket::connect(&ring, to).await.unwrap() }).unwrap()
    };
    let (cut, spared) = (connect(&asking), connect(&beside));
    world.cut(&nodes[1], &nodes[0]);
    let error = world.block_on(&asking, async move { cut.receive().await.map(|chunk| chunk.len()) });
    assert_eq!(error.unwrap().unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
    for (reactor, socket) in [(&beside, spared), (&asking, connect(&asking))] {
        let echoed = world.block_on(reactor, async move {
            socket.send(list(b"still here")).await.0.unwrap();
            receive_all(&socket, 10).await.0
        });
        assert_eq!(echoed.unwrap(), b"still here");
    }
}

#[test]
fn a_killed_node_resets_and_a_powerless_one_is_silent() {
    for power in [false, true] {
        let world = World::new(8);
        let (server, client) = (world.node("server"), world.node("client"));
        let (serving, asking) = (server.reactor(), client.reactor());
        let address = serve_echo(serving.ring(), server.at(3260));
        let ring = asking.ring().clone();
        let node = server.clone();
        let socket = world.block_on(&asking, async move {
            let socket = Socket::connect(&ring, address).await.unwrap();
            socket.send(list(b"x")).await.0.unwrap();
            receive_all(&socket, 1).await;
            (if power { Node::power_cut } else { Node::kill })(&node);
            let received = ring.timeout(Duration::from_secs(60), socket.receive()).await;
            if power {
                assert!(received.is_none());
                socket.send(list(b"anybody there?")).await.0.unwrap();
                assert!(ring.timeout(ms(1), Socket::connect(&ring, address)).await.is_none());
            } else {
                let error = received.unwrap().err().unwrap();
                assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
                let refused = Socket::connect(&ring, address).await.err().unwrap();
                assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
            }
            socket
        });
        let socket = socket.unwrap();
        drop(serving);
        let restarted = server.reactor();
        serve_echo(restarted.ring(), server.at(3260));
        let ring = asking.ring().clone();
        world
            .block_on(&asking, async move {
                if power {
                    let error = socket.receive().await.err().unwrap();
                    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
                }
                let socket = Socket::connect(&ring, address).await.unwrap();
                socket.send(list(b"again")).await.0.unwrap();
                assert_eq!(receive_all(&socket, 5).await.0, b"again");
            })
            .unwrap();
    }
}

#[test]
fn abandoned_operations_leak_nothing() {
    for seed in 0..100 {
        let world = World::new(seed);
        let (server, client) = (world.node("server"), world.node("client"));
        let (serving, asking) = (server.reactor(), client.reactor());
        let address = serve_echo(serving.ring(), server.at(0));
        let ring = asking.ring().clone();
        world
            .block_on(&asking, async move {
                let mut random = fastrand::Rng::with_seed(seed);
                let mut brief = || Duration::from_micros(random.u64(1..400));
                let file = open(&ring);
                for _ in 0..10 {
                    if let Some(Ok(socket)) = ring.timeout(brief(), Socket::connect(&ring, address)).await {
                        let big = || list(&vec![3; 1 << 20]);
                        ring.timeout(brief(), socket.send(big())).await;
                        ring.timeout(brief(), socket.receive()).await;
                        ring.timeout(brief(), socket.receive_into(Buffer::new(4096), 0)).await;
                    }
                    ring.timeout(brief(), file.write_at(Buffer::new(8192), 0, false)).await;
                    ring.timeout(brief(), file.read_at(Buffer::new(8192), 0)).await;
                    ring.timeout(brief(), file.sync()).await;
                }
            })
            .unwrap();
        drop((serving, asking));
        assert_eq!(in_use(), 0, "seed {seed}");
        assert!(world.is_empty(), "seed {seed}: descriptors are left");
    }
}
