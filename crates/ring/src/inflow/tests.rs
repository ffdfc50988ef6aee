//! On the kernel and in the simulated world.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use super::*;
use crate::sim::World;
use crate::{Buffer, Listener, Options, Reactor, Ring, SendList};

const PIECES: usize = 400;

fn list(bytes: &[u8]) -> Box<SendList> {
    let mut list = SendList::new();
    list.push(Buffer::copy_of(bytes).share());
    list
}

async fn pair(ring: &Ring) -> (Socket, Socket) {
    let listener = Listener::bind(ring, "127.0.0.1:0".parse().unwrap()).unwrap();
    let ours = Socket::connect(ring, listener.address().unwrap()).await.unwrap();
    (ours, listener.accept().await.unwrap().0)
}

fn reactor_of(receive_buffers: u16) -> Reactor {
    Reactor::new(&Options { receive_buffers, receive_buffer_bytes: 4096, ..Options::default() }).unwrap()
}

/// Pieces of any size, all of which say where they are.
fn send_all(ring: &Ring, socket: Socket, mut random: fastrand::Rng) -> Rc<Cell<usize>> {
    let sent = Rc::new(Cell::new(0));
    let (so_far, clock) = (sent.clone(), ring.clone());
    ring.spawn_later(async move {
        for _ in 0..PIECES {
            let length = 1 << random.u32(0..17);
            let bytes: Vec<u8> = (so_far.get()..so_far.get() + length).map(byte_at).collect();
            so_far.set(so_far.get() + length);
            socket.send(list(&bytes)).await.0.unwrap();
            if random.u8(..4) == 0 {
                clock.sleep(Duration::from_micros(random.u64(..200))).await;
            }
        }
        socket.shutdown();
    });
    sent
}

fn byte_at(position: usize) -> u8 {
    (position % 251) as u8
}

/// Takes all that comes, now and then directly; how many bytes, and how many of them directly.
async fn take_all(socket: Socket, mut random: fastrand::Rng) -> (usize, usize) {
    let mut inflow = Inflow::new(socket);
    let (mut got, mut directly) = (0, 0);
    loop {
        let chunk =
            if random.u8(..24) > 0 { Some(inflow.next().await) } else { inflow.rest().await.transpose() };
        let is_direct = chunk.is_none();
        let bytes = if let Some(chunk) = chunk {
            Buffer::copy_of(&chunk.unwrap())
        } else {
            let buffer = Buffer::new(random.usize(1..100_000));
            let (count, mut buffer) = inflow.socket().receive_into(buffer, 0).await;
            buffer.set_len(count.unwrap());
            buffer
        };
        if bytes.is_empty() {
            return (got, directly);
        }
        assert!(bytes.iter().enumerate().all(|(at, byte)| *byte == byte_at(got + at)), "after {got} bytes");
        got += bytes.len();
        directly += if is_direct { bytes.len() } else { 0 };
    }
}

async fn in_order(ring: Ring, seed: u64) {
    let (ours, theirs) = pair(&ring).await;
    let sent = send_all(&ring, theirs, fastrand::Rng::with_seed(seed));
    let (got, directly) = take_all(ours, fastrand::Rng::with_seed(seed + 100)).await;
    assert_eq!(got, sent.get(), "seed {seed}");
    assert!(directly > 0 && directly < got, "{directly} of {got}, seed {seed}");
}

#[test]
fn bytes_come_in_order_whether_a_receive_stands_or_not() {
    for seed in 0..10 {
        let reactor = reactor_of(16);
        reactor.block_on(in_order(reactor.ring().clone(), seed));
    }
    for seed in 0..30 {
        let world = World::new(seed);
        let reactor = world.node("node").reactor();
        world.block_on(&reactor, in_order(reactor.ring().clone(), seed)).unwrap();
    }
}

#[test]
fn what_nobody_takes_makes_room_for_others() {
    let reactor = reactor_of(8);
    let ring = reactor.ring().clone();
    reactor.block_on(async move {
        let mut ends = Vec::new();
        for _ in 0..9 {
            let (ours, theirs) = pair(&ring).await;
            let mut inflow = Inflow::new(ours);
            assert!(ring.timeout(Duration::from_millis(1), inflow.next()).await.is_none());
            ends.push((inflow, theirs));
        }
        for (number, (_, theirs)) in ends.iter().enumerate() {
            theirs.send(list(&[number as u8])).await.0.unwrap();
        }
        ring.sleep(Duration::from_millis(20)).await;
        for (number, (inflow, _)) in ends.iter_mut().enumerate().rev() {
            let chunk = ring.timeout(Duration::from_secs(10), inflow.next()).await;
            assert_eq!(&*chunk.expect("the buffers of others are emptied").unwrap(), [number as u8]);
        }
    });
}

#[test]
fn what_waits_outside_of_the_buffers_is_bounded() {
    let reactor = reactor_of(8);
    let ring = reactor.ring().clone();
    reactor.block_on(async move {
        let mut ends = Vec::new();
        for _ in 0..2 {
            let (ours, theirs) = pair(&ring).await;
            let mut inflow = Inflow::new(ours);
            assert!(ring.timeout(Duration::from_millis(1), inflow.next()).await.is_none());
            theirs.send(list(b"waits")).await.0.unwrap();
            ends.push((inflow, theirs));
        }
        ring.sleep(Duration::from_millis(20)).await;
        assert!(ring.empty_buffers(8) && !ring.empty_buffers(8));
        let said = [ends[0].0.next().await, ends[1].0.next().await];
        let kept = said.iter().flatten().map(|chunk| chunk.len()).sum::<usize>();
        let lost = said.iter().filter_map(|said| said.as_ref().err()?.raw_os_error()).collect::<Vec<_>>();
        assert_eq!((kept, lost), (5, vec![libc::ENOMEM]));
    });
}

#[test]
fn of_who_takes_nothing_little_is_received() {
    let reactor = reactor_of(128);
    let ring = reactor.ring().clone();
    reactor.block_on(async move {
        let (ours, theirs) = pair(&ring).await;
        let mut held = Vec::new();
        for _ in 0..100 {
            theirs.send(list(&[7])).await.0.unwrap();
            held.push(ours.receive().await.unwrap());
        }
        // So many buffers go round from now on.
        drop(held);
        let mut inflow = Inflow::new(ours);
        assert!(ring.timeout(Duration::from_millis(1), inflow.next()).await.is_none());
        for _ in 0..60 {
            theirs.send(list(&[7])).await.0.unwrap();
            ring.sleep(Duration::from_micros(100)).await;
        }
        let mut pieces = 0;
        let left = Duration::from_secs(10);
        while let Some(chunk) = {
            let next = ring.timeout(left, poll_fn(|context| inflow.poll_left(context)));
            next.await.expect("it has ended").unwrap()
        } {
            assert_eq!(&*chunk, [7]);
            pieces += 1;
        }
        assert!((16..40).contains(&pieces), "{pieces} pieces of 60");
        // The others are not lost.
        let mut got = pieces;
        while got < 60 {
            got += inflow.next().await.unwrap().len();
        }
        assert_eq!(got, 60);
    });
}

#[test]
fn what_a_dropped_one_has_received_gives_its_buffers_back() {
    let reactor = reactor_of(8);
    let ring = reactor.ring().clone();
    reactor.block_on(async move {
        let (ours, theirs) = pair(&ring).await;
        for _ in 0..20 {
            let mut inflow = Inflow::new(ours.clone());
            assert!(ring.timeout(Duration::from_micros(1), inflow.next()).await.is_none());
            theirs.send(list(b"lost")).await.0.unwrap();
            ring.sleep(Duration::from_millis(1)).await;
            drop(inflow);
        }
        ring.sleep(Duration::from_millis(1)).await;
        theirs.send(list(b"kept")).await.0.unwrap();
        let chunk = ring.timeout(Duration::from_secs(10), ours.receive()).await;
        assert_eq!(&*chunk.expect("there is a buffer for it").unwrap(), b"kept");
    });
}
