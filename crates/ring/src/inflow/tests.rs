//! On the kernel and in the simulated world.

use std::cell::Cell;
use std::io::{Read, Write};
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use super::*;
use crate::breaking::{Breaking, LONGEST_HOLD};
use crate::sim::World;
use crate::{Buffer, BusyPoll, Listener, Options, Reactor, Ring, SendList};

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

/// The end that has a receive stand, and the other one.
async fn standing(ring: &Ring) -> (Inflow, Socket) {
    let (ours, theirs) = pair(ring).await;
    let mut inflow = Inflow::new(ours);
    assert!(ring.timeout(Duration::from_millis(1), inflow.next()).await.is_none());
    (inflow, theirs)
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
            ends.push(standing(&ring).await);
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
            let (inflow, theirs) = standing(&ring).await;
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

/// Takes so many bytes; the most pieces that were there in one turn of the core.
async fn most_at_once(ring: &Ring, inflow: &mut Inflow, bytes: usize) -> usize {
    let (mut got, mut turn, mut here, mut most) = (0, 0, 0, 0);
    while got < bytes {
        let chunk = inflow.next().await.unwrap();
        assert!(chunk.iter().enumerate().all(|(at, byte)| *byte == byte_at(got + at)), "after {got} bytes");
        got += chunk.len();
        here = if ring.turns() == turn { here + 1 } else { 1 };
        (turn, most) = (ring.turns(), most.max(here));
    }
    most
}

#[test]
fn a_stream_fills_few_buffers_at_a_time() {
    const BYTES: usize = 1 << 20;
    let reactor = reactor_of(64);
    let ring = reactor.ring().clone();
    let most = reactor.block_on(async move {
        let (ours, theirs) = pair(&ring).await;
        ring.spawn_later(async move {
            let bytes: Vec<u8> = (0..BYTES).map(byte_at).collect();
            theirs.send(list(&bytes)).await.0.unwrap();
        });
        let mut inflow = Inflow::new(ours);
        most_at_once(&ring, &mut inflow, BYTES).await
    });
    assert_eq!(most, 8, "pieces of one turn");
}

#[test]
fn who_fills_no_buffer_finds_one_among_many_others() {
    let reactor = reactor_of(64);
    let ring = reactor.ring().clone();
    reactor.block_on(async move {
        let mut ends = Vec::new();
        for _ in 0..32 {
            ends.push(standing(&ring).await);
        }
        let mut held = Vec::new();
        for (inflow, theirs) in &mut ends {
            theirs.send(list(b"kept")).await.0.unwrap();
            let chunk = ring.timeout(Duration::from_secs(10), inflow.next()).await;
            held.push(chunk.expect("one more goes round").unwrap());
        }
        assert!(held.iter().all(|chunk| **chunk == *b"kept"));
    });
}

#[test]
fn a_stream_goes_on_when_others_hold_all_buffers_that_go_round() {
    const BYTES: usize = 1 << 20;
    let reactor = reactor_of(64);
    let ring = reactor.ring().clone();
    reactor.block_on(async move {
        let (ours, theirs) = pair(&ring).await;
        let bytes: Vec<u8> = (0..BYTES).map(byte_at).collect();
        ring.spawn_later(async move {
            theirs.send(list(&bytes)).await.0.unwrap();
        });
        let (mut inflow, mut held, mut got) = (Inflow::new(ours), Vec::new(), 0);
        while got < BYTES {
            let chunk = ring.timeout(Duration::from_secs(10), inflow.next()).await;
            let chunk = chunk.expect("one more goes round").unwrap();
            got += chunk.len();
            if held.len() < 40 {
                held.push(chunk);
            }
        }
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

/// Asks so often, one byte at a time, and takes the answers; the other end answers by what it gets.
async fn ping_pong(inflow: &mut Inflow, rounds: usize) {
    for round in 0..rounds {
        inflow.socket().send(list(&[round as u8])).await.0.unwrap();
        assert_eq!(&*inflow.next().await.unwrap(), [round as u8 ^ 0xff]);
    }
}

/// The same until the core asks without the ring; gives how many rounds that took. It may do other things for long.
async fn until_held(ring: &Ring, inflow: &mut Inflow) -> usize {
    let mut rounds = 0;
    while !ring.holds() {
        ping_pong(inflow, 1).await;
        rounds += 1;
        assert!(rounds < 100_000, "it is never alone");
    }
    rounds
}

/// What a peer does before it answers: where both ends share a core, an answer that is there as soon as the question is
/// sent is waited for by nobody.
fn let_it_be_waited_for() {
    std::thread::sleep(Duration::from_micros(1));
}

/// A peer on a thread of its own that answers each byte.
fn answerer() -> (std::net::SocketAddr, std::thread::JoinHandle<usize>) {
    answerer_that(let_it_be_waited_for)
}

/// The same of one that does something else before each answer.
fn answerer_that(first: fn()) -> (std::net::SocketAddr, std::thread::JoinHandle<usize>) {
    use std::io::{Read, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let answers = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_nodelay(true).unwrap();
        let (mut bytes, mut count) = ([0; 256], 0);
        while let Ok(got) = stream.read(&mut bytes)
            && got > 0
        {
            first();
            bytes[..got].iter_mut().for_each(|byte| *byte ^= 0xff);
            stream.write_all(&bytes[..got]).unwrap();
            count += got;
        }
        count
    });
    (address, answers)
}

/// A core that looks for long, whatever the machine does meanwhile.
fn patient() -> Reactor {
    Reactor::new(&Options { busy_poll: BusyPoll::Most(Duration::from_millis(50)), ..Options::default() })
        .unwrap()
}

#[test]
fn who_asks_one_thing_at_a_time_is_asked_without_the_ring() {
    const ROUNDS: usize = 400;
    let (address, answers) = answerer();
    let reactor = patient();
    let ring = reactor.ring().clone();
    let asked = reactor.block_on(async move {
        let mut inflow = Inflow::new(Socket::connect(&ring, address).await.unwrap());
        let mut asked = until_held(&ring, &mut inflow).await;
        let (mut fewest, begun) = (u64::MAX, ring.activity().direct);
        for _ in 0..20 {
            let before = ring.activity();
            ping_pong(&mut inflow, ROUNDS).await;
            asked += ROUNDS + until_held(&ring, &mut inflow).await;
            fewest = fewest.min(ring.activity().enters - before.enters);
        }
        assert!(fewest < ROUNDS as u64 / 4, "{fewest} calls of the ring for {ROUNDS} answers");
        assert!(ring.activity().direct - begun > ROUNDS as u64, "what passes the ring is counted");
        // It goes to the kernel before the core sleeps, and what comes then is not lost.
        ring.sleep(Duration::from_millis(120)).await;
        assert!(!ring.holds(), "who sleeps does not ask");
        asked += until_held(&ring, &mut inflow).await;
        assert_eq!(ring.activity().moved, 2 * asked as u64, "bytes count whichever way they come");
        // The end of the stream is told, however it comes.
        inflow.socket().shutdown();
        assert!(inflow.next().await.is_ok_and(|chunk| chunk.is_empty()));
        assert!(!ring.holds());
        asked
    });
    assert_eq!(answers.join().unwrap(), asked);
}

#[test]
fn who_cannot_be_asked_for_want_of_a_buffer_is_heard_at_once() {
    const LOOK: Duration = Duration::from_millis(300);
    let (address, answers) = answerer();
    // All of them go round.
    let reactor = reactor_of(8);
    let ring = reactor.ring().clone();
    ring.set_busy_poll(BusyPoll::Most(LOOK));
    let longest = reactor.block_on(async move {
        let mut inflow = Inflow::new(Socket::connect(&ring, address).await.unwrap());
        let mut longest = Duration::ZERO;
        for _ in 0..200 {
            let begin = ring.now();
            ping_pong(&mut inflow, 1).await;
            longest = longest.max(ring.now().since(begin));
        }
        longest
    });
    answers.join().unwrap();
    assert!(longest < LOOK, "{longest:?} for an answer");
}

#[test]
fn several_messages_together_are_asked_for_by_who_works_in_turn_and_by_nobody_else() {
    const ROUNDS: usize = 64;
    let (address, answers) = answerer();
    let reactor = patient();
    let ring = reactor.ring().clone();
    reactor.block_on(async move {
        let mut inflow = Inflow::new(Socket::connect(&ring, address).await.unwrap());
        let mut held = 0;
        for _ in 0..20 {
            until_held(&ring, &mut inflow).await;
            until_in_lockstep(&ring, &mut inflow).await;
            for _ in 0..ROUNDS {
                ping_pong(&mut inflow, 1).await;
                inflow.several();
            }
            held += usize::from(ring.holds());
            for _ in 0..ROUNDS {
                ring.interrupt_step(ring.now());
                ping_pong(&mut inflow, 1).await;
                inflow.several();
            }
            assert!(!ring.holds());
        }
        assert!(held > 10, "{held}");
    });
    answers.join().unwrap();
}

#[test]
fn a_core_that_holds_off_has_sent_what_it_had_and_takes_in_nothing() {
    const SPAN: Duration = Duration::from_millis(200);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let peer = std::thread::spawn(move || {
        let mut stream = listener.accept().unwrap().0;
        stream.read_exact(&mut [0; 6]).unwrap();
        stream.write_all(b"request").unwrap();
        std::time::Instant::now()
    });
    let reactor = patient();
    let ring = reactor.ring().clone();
    let end = reactor.block_on(async move {
        let socket = Socket::connect(&ring, address).await.unwrap();
        let mut inflow = Inflow::new(socket.clone());
        ring.spawn(async move { socket.send(list(b"answer")).await.0.unwrap() });
        let begin = std::time::Instant::now();
        let before = ring.activity().completions;
        ring.0.driver.hold(SPAN);
        let end = std::time::Instant::now();
        assert!(end - begin >= SPAN);
        assert_eq!(ring.activity().completions, before);
        assert_eq!(&inflow.next().await.unwrap()[..], b"request");
        end
    });
    assert!(peer.join().unwrap() < end, "the answer was on its way meanwhile");
}

#[test]
fn a_core_holds_off_before_each_pair_of_a_trial_that_nothing_came_between() {
    let reactor = patient();
    let ring = reactor.ring();
    let begin = ring.now();
    ring.0.breaking.replace(Breaking::joining(begin));
    ring.weigh_step(begin);
    assert!(ring.now().since(begin) >= LONGEST_HOLD);
    assert_eq!(ring.0.breaking.borrow_mut().hold(), None, "once");
    ring.0.breaking.replace(Breaking::joining(begin));
    ring.interrupt_step(begin);
    assert_eq!(ring.0.breaking.borrow_mut().hold(), None);
}

#[test]
fn who_is_asked_without_the_ring_is_asked_for_more_when_others_have_gone_on() {
    let (address, answers) = answerer();
    let reactor = patient();
    let ring = reactor.ring().clone();
    reactor.block_on(async move {
        let mut inflow = Inflow::new(Socket::connect(&ring, address).await.unwrap());
        until_held(&ring, &mut inflow).await;
        let waits_for_others = poll_fn(|context| {
            let is_pending = pin!(inflow.next()).poll(context).is_pending();
            Poll::Ready(is_pending && ring.0.executor.has_ready())
        });
        assert!(waits_for_others.await);
    });
    answers.join().unwrap();
}

#[test]
fn a_turn_has_the_clock_of_the_end_of_the_wait_before_it() {
    const PAUSE: Duration = Duration::from_micros(300);
    let (address, answers) = answerer_that(|| std::thread::sleep(PAUSE));
    let reactor = patient();
    let ring = reactor.ring().clone();
    reactor.block_on(async move {
        let mut inflow = Inflow::new(Socket::connect(&ring, address).await.unwrap());
        for _ in 0..20 {
            until_held(&ring, &mut inflow).await;
            let (begun, asked) = (ring.activity().direct, ring.now());
            ping_pong(&mut inflow, 1).await;
            let (before, came, now) = (ring.recent_time(), ring.turn_time(), ring.now());
            assert!(asked < before && before < came, "{:?} and {:?}", before - asked, came - asked);
            assert!(came.since(asked) >= PAUSE && came <= now, "{:?} of {:?}", came - asked, now - asked);
            assert!(ring.activity().direct > begun, "it was asked without the ring");
        }
    });
    answers.join().unwrap();
}

/// Asks one thing after the other until the core knows that it works in turn with who answers. It may do other things for
/// long, so that what it is to learn of a few waits is tried more than once.
async fn until_in_lockstep(ring: &Ring, inflow: &mut Inflow) {
    for _ in 0..100_000 {
        ping_pong(inflow, 1).await;
        if ring.is_in_lockstep() {
            return;
        }
    }
    panic!("it never works in turn");
}

/// Could do a part of what comes later, each time that the core works in turn, until it does.
async fn until_step_is_broken(ring: &Ring, inflow: &mut Inflow) {
    for _ in 0..10_000 {
        until_in_lockstep(ring, inflow).await;
        let (broken, turns) = (ring.activity().steps_broken, ring.turns());
        ring.break_step().await;
        let is_broken = ring.activity().steps_broken > broken;
        assert_eq!(ring.turns() > turns, is_broken, "the rest waits for the next turn then, and only then");
        if is_broken {
            return;
        }
    }
    panic!("it never tries");
}

#[test]
fn a_core_knows_whether_it_works_in_turn_with_one_other() {
    const TRIES: usize = 20;
    let (address, answers) = answerer();
    let reactor = patient();
    let ring = reactor.ring().clone();
    let other_answers = reactor.block_on(async move {
        let mut inflow = Inflow::new(Socket::connect(&ring, address).await.unwrap());
        until_in_lockstep(&ring, &mut inflow).await;
        ring.next_turn().await;
        assert!(!ring.is_in_lockstep(), "what was brought has been taken");
        until_in_lockstep(&ring, &mut inflow).await;
        // The second time, what was under way has come together before.
        until_step_is_broken(&ring, &mut inflow).await;
        until_step_is_broken(&ring, &mut inflow).await;
        ping_pong(&mut inflow, 1).await;
        assert!(!ring.is_in_lockstep(), "that is to be learnt anew");
        let ends = [pair(&ring).await, pair(&ring).await];
        let mut inflows = ends.each_ref().map(|(ours, _)| Inflow::new(ours.clone()));
        for both in [true, false] {
            let mut seen = 0;
            for _ in 0..TRIES {
                until_in_lockstep(&ring, &mut inflow).await;
                for (_, theirs) in &ends[..=usize::from(both)] {
                    let theirs = theirs.clone();
                    ring.spawn(async move { theirs.send(list(b"?")).await.0.unwrap() });
                }
                for inflow in &mut inflows[..=usize::from(both)] {
                    inflow.next().await.unwrap();
                }
                let brought = (ring.0.driver.brought().by_others, ring.is_in_lockstep());
                assert_ne!(brought, (true, true), "it is not one that works in turn");
                seen += usize::from(brought == (both, !both));
            }
            assert!(seen > TRIES / 2, "{seen}, of both {both}");
        }
        let (address, other_answers) = answerer();
        let other = Socket::connect(&ring, address).await.unwrap();
        let mut forgotten = 0;
        for _ in 0..TRIES {
            until_in_lockstep(&ring, &mut inflow).await;
            other.send(list(&[1])).await.0.unwrap();
            other.receive().await.unwrap();
            ping_pong(&mut inflow, 1).await;
            forgotten += usize::from(!ring.is_in_lockstep());
        }
        assert!(
            forgotten > TRIES / 2,
            "{forgotten}: it has waited for something else than a connection's next bytes"
        );
        until_in_lockstep(&ring, &mut inflow).await;
        ring.sleep(Duration::from_millis(120)).await;
        ping_pong(&mut inflow, 1).await;
        assert!(!ring.is_in_lockstep(), "it has slept");
        drop(other);
        other_answers
    });
    for answers in [answers, other_answers] {
        answers.join().unwrap();
    }
}

/// Works in turn with one peer, so many waits, and breaks step where it may: then it asks for `apart` bytes at a time for a
/// while, otherwise for `together`. Gives in how many of them it asked for the former.
async fn waits_apart(ring: &Ring, inflow: &mut Inflow, waits: u32, together: usize, apart: usize) -> u32 {
    const STAY_APART: u32 = 100;
    let (mut count, mut left) = (0, 0u32);
    for _ in 0..waits {
        let mut bytes = if left > 0 { apart } else { together };
        inflow.socket().send(list(&vec![0; bytes])).await.0.unwrap();
        while bytes > 0 {
            bytes -= inflow.next().await.unwrap().len();
        }
        (count, left) = (count + u32::from(left > 0), left.saturating_sub(1));
        if left == 0 && ring.is_in_lockstep() {
            let broken = ring.activity().steps_broken;
            ring.break_step().await;
            left = if ring.activity().steps_broken > broken { STAY_APART } else { 0 };
        }
    }
    count
}

#[test]
fn a_core_breaks_step_where_more_bytes_come_through_and_not_where_fewer_do() {
    const WAITS: u32 = 2_000;
    let (address, answers) = answerer();
    let reactor = patient();
    let ring = reactor.ring().clone();
    reactor.block_on(async move {
        let mut inflow = Inflow::new(Socket::connect(&ring, address).await.unwrap());
        for (together, apart) in [(1, 250), (250, 1)] {
            // What is known of another load goes first, and the machine may do other things for long.
            let mut tries = 0;
            loop {
                let count = waits_apart(&ring, &mut inflow, WAITS, together, apart).await;
                if if apart > together { count > WAITS / 4 * 3 } else { count < WAITS / 4 } {
                    break;
                }
                tries += 1;
                assert!(tries < 50, "{count} of {WAITS} apart, {together} bytes together, {apart} apart");
            }
        }
    });
    answers.join().unwrap();
}

#[test]
fn a_receive_that_is_held_can_be_ended() {
    let (address, answers) = answerer();
    let reactor = patient();
    let ring = reactor.ring().clone();
    let asked = reactor.block_on(async move {
        let mut inflow = Inflow::new(Socket::connect(&ring, address).await.unwrap());
        let mut asked = 0;
        for _ in 0..3 {
            asked += until_held(&ring, &mut inflow).await + 3;
            let rest = ring.timeout(Duration::from_secs(10), inflow.rest()).await;
            assert!(rest.expect("it ends").unwrap().is_none());
            inflow.socket().send(list(&[1, 2, 3])).await.0.unwrap();
            let (count, buffer) = inflow.socket().receive_into(Buffer::new(3), 0).await;
            assert_eq!((count.unwrap(), &buffer[..]), (3, &[254, 253, 252][..]));
        }
        asked += until_held(&ring, &mut inflow).await;
        // Nor does it outlive who is dropped.
        drop(inflow);
        assert!(!ring.holds());
        asked
    });
    assert_eq!(answers.join().unwrap(), asked);
}

/// Answers each byte that comes on the next connection, until one is an exclamation mark.
fn answer_until_told(listener: &std::net::TcpListener) -> std::net::TcpStream {
    use std::io::{Read, Write};
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_nodelay(true).unwrap();
    let mut byte = [0];
    loop {
        stream.read_exact(&mut byte).unwrap();
        if byte == *b"!" {
            return stream;
        }
        let_it_be_waited_for();
        stream.write_all(&[byte[0] ^ 0xff]).unwrap();
    }
}

#[test]
fn what_does_not_go_at_once_is_sent_by_the_ring() {
    use std::io::Read;
    const LARGE: usize = 32 << 20;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let peer = std::thread::spawn(move || {
        let mut stream = answer_until_told(&listener);
        // Nothing is read for a while: the send gets stuck in the middle.
        std::thread::sleep(Duration::from_millis(20));
        let mut all = vec![0; LARGE + 4];
        stream.read_exact(&mut all).unwrap();
        assert!(all[..LARGE].iter().enumerate().all(|(at, byte)| *byte == byte_at(at)));
        assert_eq!(all[LARGE..], *b"tail");
    });
    let reactor = patient();
    let ring = reactor.ring().clone();
    reactor.block_on(async move {
        let mut inflow = Inflow::new(Socket::connect(&ring, address).await.unwrap());
        let mut large = Buffer::new(LARGE);
        large.iter_mut().enumerate().for_each(|(at, byte)| *byte = byte_at(at));
        let mut all = SendList::new();
        all.push_bytes(b"!");
        all.push(large.share());
        all.push_bytes(b"tail");
        until_held(&ring, &mut inflow).await;
        inflow.socket().send(all).await.0.unwrap();
        peer.join().unwrap();
    });
}

#[test]
fn a_send_to_who_has_gone_says_what_its_socket_said_first() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let peer = std::thread::spawn(move || {
        // More has come, which is not read: the connection is reset.
        drop(answer_until_told(&listener));
    });
    let reactor = patient();
    let ring = reactor.ring().clone();
    reactor.block_on(async move {
        let mut inflow = Inflow::new(Socket::connect(&ring, address).await.unwrap());
        until_held(&ring, &mut inflow).await;
        inflow.socket().send(list(b"!?")).await.0.unwrap();
        peer.join().unwrap();
        let (sent, _) = inflow.socket().send(list(b"?")).await;
        assert_eq!(sent.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
    });
}

#[test]
fn others_are_heard_beside_who_is_held() {
    let (address, answers) = answerer();
    let reactor = patient();
    let ring = reactor.ring().clone();
    let asked = reactor.block_on(async move {
        let mut alone = Inflow::new(Socket::connect(&ring, address).await.unwrap());
        let (ours, theirs) = pair(&ring).await;
        let mut other = Inflow::new(ours);
        assert!(ring.timeout(Duration::from_millis(1), other.next()).await.is_none());
        let mut asked = until_held(&ring, &mut alone).await;
        for number in 0..100 {
            theirs.send(list(&[number])).await.0.unwrap();
            assert_eq!(&*other.next().await.unwrap(), [number]);
            ping_pong(&mut alone, 1).await;
        }
        asked += 100 + until_held(&ring, &mut alone).await;
        // A core that always has something to do asks nobody: then the kernel listens.
        alone.socket().send(list(&[9])).await.0.unwrap();
        for _ in 0..1_000_000 {
            ring.yield_now().await;
        }
        assert!(!ring.holds());
        assert_eq!(&*alone.next().await.unwrap(), [9 ^ 0xff]);
        asked + 1
    });
    assert_eq!(answers.join().unwrap(), asked);
}
