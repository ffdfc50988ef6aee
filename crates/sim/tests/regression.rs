//! What the seeded world found in the product: each test is named by its cause.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use lab::initiator::Session;
use plane::Request;
use plane::disk::{Disk, Make, PreparedFile};
use ring::Buffer;
use ring::sim::World;
use sim::{Client, Server, Transport, VolumePlan};

const PATH: &str = "/volume.img";

/// The kernel tells of a failed sync only once, so the one beside it must not be taken for a success.
#[test]
fn a_sync_beside_one_that_failed_is_no_success() {
    for seed in 0..200 {
        let world = World::new(seed);
        let node = world.node("server");
        let reactor = node.reactor();
        let ring = reactor.ring().clone();
        let disk = world.block_on(&reactor, async move {
            let (file, lock) =
                PreparedFile::new(&ring, Path::new(PATH), 1 << 20, 512, Make::Missing).await.unwrap();
            (Rc::new(file.open(&ring).unwrap()), lock)
        });
        let (disk, _lock) = disk.unwrap();
        node.fail_flushes(Path::new(PATH));
        let results = Rc::new(RefCell::new(Vec::new()));
        for _ in 0..2 {
            let (disk, results, node) = (disk.clone(), results.clone(), node.clone());
            reactor.ring().spawn_later(async move {
                let result = disk.submit(Request::flush()).await.result;
                node.repair(Path::new(PATH));
                results.borrow_mut().push(result.is_ok());
            });
        }
        world.run_until(|| results.borrow().len() == 2).unwrap();
        assert_eq!(*results.borrow(), [false, false], "seed {seed}");
    }
}

/// Which of several controllers a stopping node ends first must not be drawn by the standard library.
#[test]
fn a_stopping_node_ends_controllers_in_one_order() {
    let stop = || {
        let world = World::new(1);
        let mut server = Server::new(&world, 1, vec![VolumePlan::new("demo", 1 << 20, 512)]);
        server.start().unwrap();
        let client = Client::new(&world, 1);
        let open = (0..8).map(|session| {
            let connector = client.connector(&server, Transport::Nvme, 0, 0, session);
            let opened = world.block_on(client.reactor(), async move { connector.connect().await.unwrap() });
            opened.unwrap()
        });
        let sessions: Vec<_> = open.collect();
        server.stop().unwrap();
        drop(sessions);
        world.trace()
    };
    let first = stop();
    assert!((0..5).all(|_| stop() == first), "the same seed gave different runs");
}

/// A controller and its admin queue held each other, with what the queue had to send, when a shard ended beneath them.
#[test]
fn a_controller_that_ends_with_its_shard_keeps_nothing() {
    for seed in 0..100 {
        let world = World::new(seed);
        let mut server = Server::new(&world, 2, vec![VolumePlan::new("demo", 1 << 20, 512)]);
        server.start().unwrap();
        let client = Client::new(&world, 1);
        for session in 0..4 {
            let connector = client.connector(&server, Transport::Nvme, 0, 0, session);
            client.reactor().ring().spawn_later(async move { drop(connector.connect().await) });
        }
        // In the middle of their first commands, whose answers are of 4 KiB.
        world.run_for(Duration::from_micros(1000 + 30 * seed)).unwrap();
        server.kill();
        drop((server, client));
        assert_eq!(ring::in_use(), 0, "seed {seed}");
    }
}

/// The answer to the Property Set that disables a controller says only that it was told; the host took it for the end
/// of the reset. Until CSTS.RDY is 0, what the disk has may still come.
#[test]
fn a_reset_is_over_when_csts_says_so() {
    for seed in 0..50 {
        let world = World::new(seed);
        let plan = VolumePlan::new("demo", 1 << 20, 512);
        let path = plan.path();
        let mut server = Server::new(&world, 2, vec![plan]);
        server.start().unwrap();
        let client = Client::new(&world, 1);
        let open = || {
            let connector = client.connector(&server, Transport::Nvme, 0, 0, 1);
            let opened = world.block_on(client.reactor(), async move { connector.connect().await.unwrap() });
            let Session::Nvme(session) = opened.unwrap() else { panic!("another transport") };
            session
        };
        let session = open();
        server.machine().stall(&path);
        let write = session.begin_write(0, Buffer::copy_of(&[1; 4096]).share()).unwrap();
        world.run_for(Duration::from_millis(20)).unwrap();
        let ended = Rc::new(Cell::new(None));
        let (reset, told) = (session.clone(), ended.clone());
        client.reactor().ring().spawn_later(async move { told.set(Some(reset.reset().await.is_ok())) });
        world.run_for(Duration::from_secs(2)).unwrap();
        assert_eq!(ended.get(), None, "seed {seed}: over, with a write on its way to the disk");
        server.machine().release(&path);
        world.run_until(|| ended.get().is_some()).unwrap();
        assert_eq!(ended.get(), Some(true), "seed {seed}");
        let again = open();
        let reader = again.clone();
        let read = world.block_on(client.reactor(), async move { reader.read(0, Buffer::new(4096)).await });
        assert_eq!(read.unwrap().1[..], [1; 4096], "seed {seed}: it waited for the write, which is there");
        drop(write);
    }
}
