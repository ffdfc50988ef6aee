use std::cell::RefCell;
use std::time::Duration;

use ring::sim::{Settings, World};
use ring::{Listener, Options, Reactor, SendList};

use super::*;

const CHUNK: usize = 4096;
const CHUNKS: u16 = 16;

/// Runs `test` on a core whose receive buffers are few and small.
fn run<F: Future<Output = ()> + 'static>(test: impl FnOnce(Ring) -> F) {
    let options = Options { receive_buffers: CHUNKS, receive_buffer_bytes: CHUNK, ..Options::default() };
    let reactor = Reactor::new(&options).unwrap();
    let ring = reactor.ring().clone();
    reactor.block_on(test(ring));
}

fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|at| (at / 7) as u8).collect()
}

/// A reader of a connection, and the other end.
async fn pair(ring: &Ring) -> (Reader, Socket) {
    let listener = Listener::bind(ring, "127.0.0.1:0".parse().unwrap()).unwrap();
    let ours = Socket::connect(ring, listener.address().unwrap()).await.unwrap();
    let (theirs, _) = listener.accept().await.unwrap();
    (Reader::new(ring.clone(), ours), theirs)
}

/// Sends it and waits until it has come.
async fn send(ring: &Ring, socket: &Socket, bytes: &[u8]) {
    let mut list = SendList::new();
    list.push_bytes(bytes);
    socket.send(list).await.0.unwrap();
    ring.sleep(Duration::from_millis(20)).await;
}

#[test]
fn a_frame_is_shown_in_the_chunks_in_which_it_came_and_taken() {
    run(|ring| async move {
        let (mut reader, socket) = pair(&ring).await;
        let sent = bytes(3 * CHUNK);
        send(&ring, &socket, &sent).await;
        let (first, second) = (2 * CHUNK + 100, CHUNK - 300);
        reader.ready().await.unwrap();
        assert!(reader.gathered(0, first).is_none() && reader.gather(first).await.unwrap());
        assert!(reader.received(first).is_none(), "it does not lie in one piece");
        let shown = reader.gathered(5, first - 5).unwrap();
        assert_eq!((shown.pieces().len(), shown.len()), (3, first - 5));
        assert_eq!(shown.pieces().concat(), sent[5..first]);
        assert_eq!(reader.gathered(CHUNK + 1, 9).unwrap().pieces(), [&sent[CHUNK + 1..CHUNK + 10]]);
        reader.consume(first);
        reader.ready().await.unwrap();
        assert!(reader.gather(second).await.unwrap());
        assert_eq!(reader.received(second).unwrap(), &sent[first..first + second]);
        reader.consume(second);
        let mut rest = [0; 200];
        reader.exact(&mut rest).await.unwrap();
        assert_eq!(rest[..], sent[first + second..]);
        assert!(reader.chunk.is_none() && reader.behind.is_empty());
    });
}

#[test]
fn a_frame_that_ends_with_a_chunk_leaves_the_next_one_for_what_follows() {
    run(|ring| async move {
        let (mut reader, socket) = pair(&ring).await;
        let sent = bytes(3 * CHUNK);
        send(&ring, &socket, &sent).await;
        reader.ready().await.unwrap();
        assert!(reader.gather(3 * CHUNK).await.unwrap());
        reader.consume(CHUNK);
        reader.ready().await.unwrap();
        assert_eq!(reader.gathered(0, 2 * CHUNK).unwrap().pieces().concat(), sent[CHUNK..]);
        reader.consume(CHUNK + 7);
        let mut rest = vec![0; CHUNK - 7];
        reader.exact(&mut rest).await.unwrap();
        assert_eq!(rest, sent[2 * CHUNK + 7..]);
    });
}

#[test]
fn the_first_frame_of_a_chunk_is_unforeseen_and_no_other() {
    run(|ring| async move {
        let (mut reader, socket) = pair(&ring).await;
        let mut unforeseen = Vec::new();
        for frames in [3, 1] {
            send(&ring, &socket, &bytes(frames * 48)).await;
            for _ in 0..frames {
                reader.ready().await.unwrap();
                unforeseen.push(reader.is_unforeseen());
                reader.look_ahead::<48>(48, |_, _| Some(48));
                reader.consume(48);
            }
        }
        assert_eq!(unforeseen, [true, false, false, true]);
    });
}

#[test]
fn what_comes_in_too_many_chunks_or_is_too_long_is_taken_part_by_part() {
    run(|ring| async move {
        let (mut reader, socket) = pair(&ring).await;
        let sent = bytes(5 * CHUNK);
        send(&ring, &socket, &sent).await;
        reader.ready().await.unwrap();
        assert!(!reader.gather(GATHERED + 1).await.unwrap() && reader.behind.is_empty());
        assert!(!reader.gather(4 * CHUNK).await.unwrap());
        assert_eq!(reader.behind.len(), PIECES - 1);
        let mut begin = [0; 10];
        reader.exact(&mut begin).await.unwrap();
        reader.skip(CHUNK).await.unwrap();
        let filled = reader.fill(Buffer::new(4 * CHUNK), 0, 4 * CHUNK - 10).await.unwrap();
        assert_eq!(filled[..4 * CHUNK - 10], sent[CHUNK + 10..]);
        assert_eq!(begin, sent[..10]);
    });
}

#[test]
fn a_frame_that_is_torn_while_it_is_waited_for_says_so() {
    run(|ring| async move {
        let (mut reader, socket) = pair(&ring).await;
        send(&ring, &socket, &bytes(100)).await;
        socket.shutdown();
        reader.ready().await.unwrap();
        assert!(matches!(reader.gather(101).await, Err(Gone::Torn)));
    });
}

#[test]
fn few_keep_their_receive_buffers_while_they_wait() {
    run(|ring| async move {
        let told = Rc::new(RefCell::new(Vec::new()));
        let mut others = Vec::new();
        for number in 0..2 * CHUNKS {
            let (mut reader, socket) = pair(&ring).await;
            send(&ring, &socket, &bytes(100)).await;
            let told = told.clone();
            ring.spawn(async move {
                reader.ready().await.unwrap();
                if !reader.gather(101).await.unwrap() {
                    let mut taken = [0; 100];
                    reader.exact(&mut taken).await.unwrap();
                }
                told.borrow_mut().push(number);
            });
            others.push(socket);
        }
        ring.sleep(Duration::from_millis(50)).await;
        // A quarter of the buffers is kept, one by each of those who wait; everybody else has taken what came.
        let kept = usize::from(CHUNKS / 4 - 1);
        assert_eq!(told.borrow().len(), 2 * usize::from(CHUNKS) - kept);
        for socket in &others {
            send(&ring, socket, &[1]).await;
        }
        assert_eq!(told.borrow().len(), 2 * usize::from(CHUNKS), "those who waited have all of it");
    });
}

#[test]
fn half_of_what_came_waits_for_the_next_turn_while_the_peer_works_in_turn() {
    const FRAMES: usize = 5;
    let world = World::with_settings(1, Settings { cut: 0.0, ..Settings::default() });
    let (here, there) = (world.node("here"), world.node("there"));
    let (reactor, peer) = (here.reactor(), there.reactor());
    let listener = Listener::bind(reactor.ring(), here.at(0)).unwrap();
    let (address, clock) = (listener.address().unwrap(), peer.ring().clone());
    peer.ring().spawn_later(async move {
        let socket = Socket::connect(&clock, address).await.unwrap();
        for _ in 0..20 {
            send(&clock, &socket, &bytes(100 * FRAMES)).await;
        }
    });
    let ring = reactor.ring().clone();
    let splits = world.block_on(&reactor, async move {
        let mut reader = Reader::new(ring.clone(), listener.accept().await.unwrap().0);
        let mut splits = Vec::new();
        for _ in 0..20 {
            let mut turns = Vec::new();
            for _ in 0..FRAMES {
                reader.ready().await.unwrap();
                reader.exact(&mut [0; 100]).await.unwrap();
                turns.push(ring.turns());
            }
            splits.push(turns.iter().filter(|turn| **turn == turns[0]).count());
        }
        assert_eq!(ring.activity().steps_broken, splits.iter().filter(|first| **first == 3).count() as u64);
        splits
    });
    // Every second turn of a simulated world is one in which they do.
    let splits = splits.unwrap();
    assert!(splits.iter().all(|first| [3, FRAMES].contains(first)), "{splits:?}");
    assert!(splits.contains(&3) && splits.contains(&FRAMES), "{splits:?}");
}

#[test]
fn what_is_put_aside_leaves_the_receive_buffers_and_nothing_else_changes() {
    run(|ring| async move {
        let sent = bytes(3 * CHUNK);
        let (mut others, mut ends) = (Vec::new(), Vec::new());
        for _ in 0..2 {
            let (mut reader, socket) = pair(&ring).await;
            send(&ring, &socket, &sent).await;
            reader.ready().await.unwrap();
            reader.gather(3 * CHUNK).await.unwrap();
            others.push(reader);
            ends.push(socket);
        }
        let mut reader = others.remove(0);
        assert!(!ring.has_plenty_of_buffers(), "there is need for it");
        reader.consume(100);
        reader.put_aside();
        assert!(ring.has_plenty_of_buffers());
        assert_eq!(reader.gathered(0, 3 * CHUNK - 100).unwrap().pieces().concat(), sent[100..]);
        let mut rest = vec![0; 3 * CHUNK - 100];
        reader.exact(&mut rest).await.unwrap();
        assert!(rest == sent[100..]);
        send(&ring, &ends[0], b"more").await;
        reader.first(&mut rest[..4]).await.unwrap();
        assert_eq!(&rest[..4], b"more");
    });
}
