//! The reactor on the real kernel.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use super::*;

fn run<T: 'static, F: Future<Output = T> + 'static>(test: impl FnOnce(Ring) -> F) -> T {
    let reactor = Reactor::new(&Options::default()).unwrap();
    let ring = reactor.ring().clone();
    reactor.block_on(test(ring))
}

/// Both ends of a connection.
async fn connected(ring: &Ring) -> (Socket, Socket) {
    let listener = Listener::bind(ring, "127.0.0.1:0".parse().unwrap()).unwrap();
    let client = Socket::connect(ring, listener.address().unwrap()).await.unwrap();
    (client, listener.accept().await.unwrap().0)
}

#[test]
fn a_task_runs_at_once_up_to_its_first_wait() {
    run(|ring| async move {
        let seen = Rc::new(Cell::new(0));
        let (inner, clock) = (seen.clone(), ring.clone());
        ring.spawn(async move {
            inner.set(1);
            clock.sleep(Duration::from_millis(1)).await;
            inner.set(2);
        });
        assert_eq!(seen.get(), 1);
        ring.sleep(Duration::from_millis(20)).await;
        assert_eq!(seen.get(), 2);
    });
}

#[test]
fn what_was_submitted_is_with_the_kernel_in_the_next_turn() {
    use std::io::Read;
    run(|ring| async move {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = Socket::connect(&ring, listener.local_addr().unwrap()).await.unwrap();
        let mut peer = listener.accept().unwrap().0;
        peer.set_nonblocking(true).unwrap();
        let mut list = SendList::new();
        list.push_bytes(b"half");
        ring.spawn(async move { socket.send(list).await.0.unwrap() });
        let (mut bytes, turn) = ([0; 9], ring.turns());
        assert!(peer.read(&mut bytes).is_err(), "it waits for the end of the turn");
        ring.next_turn().await;
        assert_eq!((peer.read(&mut bytes).unwrap(), ring.turns() - turn), (4, 1));
    });
}

#[test]
fn who_lets_others_first_goes_on_behind_those_whom_they_wake_or_in_the_next_turn() {
    run(|ring| async move {
        let (order, told) = (Rc::new(RefCell::new(Vec::new())), Rc::new(Notify::new()));
        let note = |name| {
            let (order, clock) = (order.clone(), ring.clone());
            move || order.borrow_mut().push((name, clock.turns()))
        };
        let (first, woken, last) = (note("first"), note("woken"), note("last"));
        let (clock, waits, turn) = (ring.clone(), told.clone(), ring.turns());
        ring.spawn(async move {
            clock.others_first().await;
            last();
        });
        ring.spawn(async move {
            waits.wait().await;
            woken();
        });
        ring.spawn_later(async move {
            first();
            told.notify();
        });
        ring.sleep(Duration::from_millis(1)).await;
        assert_eq!(*order.borrow(), [("first", turn), ("woken", turn), ("last", turn)]);
        // Others may go on without end.
        let (seen, turn) = (Rc::new(Cell::new(None)), ring.turns());
        let (clock, told) = (ring.clone(), seen.clone());
        ring.spawn(async move {
            while told.get().is_none() && clock.turns() < turn + 9 {
                clock.yield_now().await;
            }
        });
        let (clock, told) = (ring.clone(), seen.clone());
        ring.spawn(async move {
            clock.others_first().await;
            told.set(Some(clock.turns() - turn));
        });
        ring.sleep(Duration::from_millis(1)).await;
        assert_eq!(seen.get(), Some(1));
    });
}

#[test]
fn as_many_receive_at_once_as_there_are_buffers_and_one_more_a_little_later() {
    let options = Options { receive_buffers: 32, ..Options::default() };
    let reactor = Reactor::new(&options).unwrap();
    let ring = reactor.ring().clone();
    reactor.block_on(async move {
        let listener = Listener::bind(&ring, "127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.address().unwrap();
        let mut ends = Vec::new();
        for number in 0..33u8 {
            let ours = Socket::connect(&ring, address).await.unwrap();
            let (theirs, _) = listener.accept().await.unwrap();
            let mut list = SendList::new();
            list.push_bytes(&[number]);
            theirs.send(list).await.0.unwrap();
            ends.push((ours, theirs));
        }
        let mut held = Vec::new();
        for (number, (ours, _)) in ends.iter().enumerate().take(32) {
            let chunk = ring.timeout(Duration::from_secs(10), ours.receive()).await;
            let chunk = chunk.expect("there is a buffer for it").unwrap();
            assert_eq!(&*chunk, [number as u8]);
            held.push(chunk);
        }
        let (seen, clock) = (Rc::new(Cell::new(false)), ring.clone());
        let told = seen.clone();
        ring.spawn(async move {
            clock.sleep(Duration::from_millis(20)).await;
            told.set(true);
            drop(held);
        });
        assert_eq!(&*ends[32].0.receive().await.unwrap(), [32]);
        assert!(seen.get(), "it came before there was a buffer for it");
    });
}

#[test]
fn bytes_travel_over_a_connection() {
    run(|ring| async move {
        let listener = Listener::bind(&ring, "127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.address().unwrap();
        let server = ring.clone();
        ring.spawn(async move {
            let (socket, _) = listener.accept().await.unwrap();
            let mut list = SendList::new();
            list.push_bytes(b"head");
            // More than one receive buffer holds.
            list.push(Buffer::copy_of(&vec![7; 300_000]).share());
            let (sent, _) = socket.send(list).await;
            sent.unwrap();
            assert_eq!(&*socket.receive().await.unwrap(), b"thanks");
            socket.shutdown();
            drop(server);
        });
        let socket = Socket::connect(&ring, address).await.unwrap();
        let chunk = socket.receive().await.unwrap();
        assert_eq!(&chunk[..4], b"head");
        let mut got = chunk.len();
        drop(chunk);
        let mut buffer = Buffer::new(300_004);
        while got < 300_004 {
            let (count, back) = socket.receive_into(buffer, got).await;
            buffer = back;
            got += count.unwrap();
        }
        assert_eq!(buffer[300_003], 7);
        let mut list = SendList::new();
        list.push_bytes(b"thanks");
        socket.send(list).await.0.unwrap();
        assert!(socket.receive().await.unwrap().is_empty(), "the end of the stream");
    });
}

#[test]
fn a_file_keeps_what_is_written() {
    let path = std::env::temp_dir().join(format!("fels-ring-{}", std::process::id()));
    let file_path = path.clone();
    run(|ring| async move {
        let options = FileOptions { create: true, ..FileOptions::default() };
        let file = File::open(&ring, &file_path, options).unwrap();
        file.set_length(1 << 20).unwrap();
        let (written, buffer) = file.write_at(Buffer::copy_of(&[5; 8192]), 4096, true).await;
        assert_eq!(written.unwrap(), 8192);
        file.sync().await.unwrap();
        let (read, buffer) = file.read_at(buffer, 8192).await;
        assert_eq!((read.unwrap(), buffer[0], buffer[4095], buffer[4096]), (8192, 5, 5, 0));
        file.punch(4096, 4096).await.unwrap();
        assert_eq!(file.data_after(0).unwrap().map(|run| run.start), Some(8192));
        assert!(file.try_lock().unwrap());
        let second = File::open(&ring, &file_path, FileOptions::default()).unwrap();
        assert!(!second.try_lock().unwrap(), "one owner at a time");
    });
    std::fs::remove_file(path).unwrap();
}

#[test]
fn an_abandoned_receive_gives_its_buffer_back() {
    run(|ring| async move {
        let (client, server) = connected(&ring).await;
        for _ in 0..500 {
            let receive = ring.timeout(Duration::from_micros(1), server.receive());
            assert!(receive.await.is_none());
        }
        let mut list = SendList::new();
        list.push_bytes(b"still there");
        client.send(list).await.0.unwrap();
        let chunk = ring.timeout(Duration::from_secs(5), server.receive()).await.unwrap().unwrap();
        assert_eq!(&*chunk, b"still there");
    });
}

#[test]
fn a_receive_that_was_given_up_before_it_was_handed_over_takes_nothing() {
    run(|ring| async move {
        let (client, server) = connected(&ring).await;
        for _ in 0..10 {
            let mut given_up = Box::pin(server.receive());
            let begun = poll_fn(|context| Poll::Ready(given_up.as_mut().poll(context))).await;
            assert!(begun.is_pending());
            drop(given_up);
            let mut list = SendList::new();
            list.push_bytes(b"for the next one");
            client.send(list).await.0.unwrap();
            let chunk = ring.timeout(Duration::from_secs(5), server.receive()).await;
            assert_eq!(&*chunk.expect("nobody has taken it").unwrap(), b"for the next one");
        }
    });
}

#[test]
fn a_reactor_goes_with_operations_in_flight() {
    let reactor = Reactor::new(&Options::default()).unwrap();
    let ring = reactor.ring().clone();
    let listener = Listener::bind(&ring, "127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.address().unwrap();
    ring.spawn_later(async move {
        let _never = listener.accept().await;
    });
    let clock = ring.clone();
    reactor.block_on(async move { clock.sleep(Duration::from_millis(5)).await });
    drop(ring);
    drop(reactor);
    assert!(std::net::TcpStream::connect(address).is_err(), "the listener is closed");
}

#[test]
fn messages_cross_threads_and_wake_a_sleeping_ring() {
    let (sender, mut receiver) = mailbox::<u32>();
    let thread = std::thread::spawn(move || {
        let reactor = Reactor::new(&Options::default()).unwrap();
        reactor.block_on(async move {
            let mut sum = 0;
            while let Some(value) = receiver.receive().await {
                sum += value;
            }
            sum
        })
    });
    for value in 0..1000 {
        sender.send(value).unwrap();
        if value % 100 == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    drop(sender);
    assert_eq!(thread.join().unwrap(), 499_500);
}

#[test]
fn an_idle_ring_sleeps() {
    let cpu = || {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: writable.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    };
    let before = cpu();
    run(|ring| async move { ring.sleep(Duration::from_millis(300)).await });
    assert!(cpu().saturating_sub(before) < Duration::from_millis(100));
}

#[test]
fn a_core_tells_how_it_waits_and_looks_no_longer_than_it_may() {
    let (short, long) = (Duration::from_micros(20), Duration::from_millis(50));
    let path = std::env::temp_dir().join(format!("fels-ring-activity-{}", std::process::id()));
    let file_path = path.clone();
    run(move |ring| async move {
        let quick = |ring: &Ring| {
            for _ in 0..100 {
                ring.0.patience.borrow_mut().learn(Duration::from_micros(1), true, true);
            }
        };
        // The first turn hands over what watches the bell.
        ring.sleep(short).await;
        quick(&ring);
        let before = ring.activity();
        // Several: somebody else may have the core while one of them comes to its end.
        for _ in 0..100 {
            ring.sleep(short).await;
        }
        let looked = ring.activity();
        assert!(looked.looked >= before.looked + short, "{looked:?}");
        assert_eq!((looked.sleeps, looked.enters), (before.sleeps, before.enters));
        ring.sleep(long).await;
        let slept = ring.activity();
        assert!(slept.sleeps > looked.sleeps && slept.enters > looked.enters, "{slept:?}");
        assert!(slept.looked_in_vain >= looked.looked_in_vain + ring.busy_poll(), "{slept:?}");

        ring.set_busy_poll(BusyPoll::Most(Duration::ZERO));
        quick(&ring);
        ring.sleep(long).await;
        let idle = ring.activity();
        assert_eq!((idle.looked, idle.looked_in_vain), (slept.looked, slept.looked_in_vain));
        let file =
            File::open(&ring, &file_path, FileOptions { create: true, ..FileOptions::default() }).unwrap();
        file.sync().await.unwrap();
        let synced = ring.activity();
        assert_eq!((synced.submissions - idle.submissions, synced.completions - idle.completions), (1, 1));
    });
    std::fs::remove_file(path).unwrap();
}

/// Lets `wait` happen until the core looks so long at most.
async fn until_it_looks(ring: &Ring, most: Duration, mut wait: impl AsyncFnMut()) {
    let begun = ring.now();
    while ring.busy_poll() != most {
        wait().await;
        assert!(ring.now().since(begun) < Duration::from_secs(30), "it never looks for {most:?}");
    }
}

#[test]
fn a_core_that_waits_for_deadlines_alone_ends_its_trial_of_longer_looks() {
    run(|ring| async move {
        let usual = ring.busy_poll();
        for most in [Duration::from_micros(500), usual] {
            until_it_looks(&ring, most, async || ring.sleep(Duration::from_micros(100)).await).await;
        }
    });
}

#[test]
fn a_core_that_waits_for_a_peer_tries_longer_looks() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let peer = std::thread::spawn(move || {
        let mut stream = listener.accept().unwrap().0;
        stream.set_nodelay(true).unwrap();
        // Not a sleep, which takes longer than a look.
        while std::io::Write::write_all(&mut stream, b"a").is_ok() {
            let begun = std::time::Instant::now();
            while begun.elapsed() < Duration::from_micros(150) {}
        }
    });
    run(move |ring| async move {
        let socket = Socket::connect(&ring, address).await.unwrap();
        let usual = ring.busy_poll();
        for most in [Duration::from_micros(500), usual] {
            until_it_looks(&ring, most, async || drop(socket.receive().await.unwrap())).await;
        }
    });
    peer.join().unwrap();
}

#[test]
fn bytes_are_counted_that_files_and_sockets_move() {
    let path = std::env::temp_dir().join(format!("fels-ring-moved-{}", std::process::id()));
    let file_path = path.clone();
    let peer = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = peer.local_addr().unwrap();
    run(move |ring| async move {
        let options = FileOptions { create: true, ..FileOptions::default() };
        let file = File::open(&ring, &file_path, options).unwrap();
        let socket = Socket::connect(&ring, address).await.unwrap();
        let mut peer = peer.accept().unwrap().0;
        let mut expected = ring.activity().moved;
        let mut check = |bytes: u64| {
            expected += bytes;
            assert_eq!(ring.activity().moved, expected);
        };
        file.write_at(Buffer::new(4096), 0, false).await.0.unwrap();
        check(4096);
        file.read_at(Buffer::new(4096), 1000).await.0.unwrap();
        check(3096);
        file.sync().await.unwrap();
        check(0);
        let mut list = SendList::new();
        list.push_bytes(b"sent");
        socket.send(list).await.0.unwrap();
        check(4);
        std::io::Write::write_all(&mut peer, b"received").unwrap();
        assert_eq!(socket.receive().await.unwrap().len(), 8);
        check(8);
    });
    std::fs::remove_file(path).unwrap();
}

#[test]
fn what_the_kernel_does_when_something_is_handed_over_is_not_counted_as_looking() {
    run(|ring| async move {
        let zeroes = File::open(&ring, "/dev/zero".as_ref(), FileOptions::default()).unwrap();
        for _ in 0..100 {
            ring.0.patience.borrow_mut().learn(Duration::from_micros(1), true, true);
        }
        let before = ring.activity();
        // Cleared by the kernel, in more than a millisecond, before it comes back from the call that hands this over.
        assert!(zeroes.read_at(Buffer::new(LARGEST), 0).await.0.unwrap() > 0);
        let after = ring.activity();
        assert!(after.looked < before.looked + Duration::from_micros(500), "{after:?}");
    });
}

#[test]
fn a_deadline_that_comes_before_a_completion_is_not_looked_for_in_vain() {
    let looks = |ring: &Ring| !ring.0.patience.borrow_mut().look().is_zero();
    run(move |ring| async move {
        for _ in 0..100 {
            ring.0.patience.borrow_mut().learn(Duration::from_micros(1), true, true);
        }
        assert!(looks(&ring));
        for _ in 0..100 {
            ring.sleep(Duration::from_micros(10)).await;
        }
        assert!(looks(&ring), "it sleeps at once, and is woken late");
    });
}

#[test]
fn a_connection_moves_to_another_ring() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let detached =
        run(|ring| async move { Socket::connect(&ring, address).await.unwrap().detach().unwrap() });
    let (mut peer, _) = listener.accept().unwrap();
    std::io::Write::write_all(&mut peer, b"moved").unwrap();
    run(|ring| async move {
        let socket = Socket::attach(&ring, detached);
        assert_eq!(&*socket.receive().await.unwrap(), b"moved");
    });
}

#[test]
fn a_task_in_the_place_of_one_that_woke_itself_at_its_end_is_woken() {
    run(|ring| async move {
        ring.spawn(std::future::poll_fn(|context| {
            context.waker().wake_by_ref();
            std::task::Poll::Ready(())
        }));
        // Takes the place of the first one, whose entry is still among those that can go on.
        let ((sender, mut receiver), done) = (mailbox(), Rc::new(Cell::new(false)));
        let told = done.clone();
        ring.spawn(async move {
            receiver.receive().await;
            told.set(true);
        });
        ring.yield_now().await;
        sender.send(()).unwrap();
        ring.sleep(Duration::from_millis(10)).await;
        assert!(done.get(), "its wake-up was lost");
    });
}

#[test]
fn a_sleep_wakes_the_task_that_waits_for_it_last() {
    run(|ring| async move {
        let mut sleep = Box::pin(ring.sleep(Duration::from_millis(2)));
        let first = std::future::poll_fn(|context| std::task::Poll::Ready(sleep.as_mut().poll(context)));
        assert!(first.await.is_pending());
        let done = Rc::new(Cell::new(false));
        let told = done.clone();
        ring.spawn(async move {
            sleep.await;
            told.set(true);
        });
        ring.sleep(Duration::from_millis(50)).await;
        assert!(done.get(), "the wake-up went to the task that polled it first");
    });
}

/// Rings in a circle, each on its thread, that mostly sleep: one lost wake-up and the tokens stop.
#[test]
fn no_wake_up_between_threads_is_lost() {
    const RINGS: usize = 3;
    const ROUNDS: u32 = 5_000;
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..RINGS).map(|_| mailbox::<u32>()).unzip();
    let threads = receivers.into_iter().enumerate().map(|(at, mut receiver)| {
        let next = senders[(at + 1) % RINGS].clone();
        std::thread::spawn(move || {
            run(|ring| async move {
                let mut passed = 0u32;
                while passed < ROUNDS {
                    let token = receiver.receive();
                    let token =
                        ring.timeout(Duration::from_secs(30), token).await.expect("a wake-up was lost");
                    next.send(token.expect("a sender is left") + 1).ok();
                    passed += 1;
                }
                passed
            })
        })
    });
    let threads: Vec<_> = threads.collect();
    for token in 0..2 {
        senders[0].send(token).unwrap();
    }
    for thread in threads {
        assert_eq!(thread.join().unwrap(), ROUNDS);
    }
}

#[test]
fn a_unix_socket_is_its_owners_replaces_a_dead_one_and_respects_a_living_one() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = std::env::temp_dir().join(format!("fels-ring-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("socket");
    // What a killed process leaves: a file that nobody listens on.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let reactor = Reactor::new(&Options::default()).unwrap();
    let ring = reactor.ring().clone();
    let there = path.clone();
    reactor.block_on(async move {
        let listener = Listener::bind_unix(&ring, &there).unwrap();
        assert_eq!(there.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let second = Listener::bind_unix(&ring, &there).err().unwrap();
        assert_eq!(second.kind(), std::io::ErrorKind::AddrInUse);
        let client = Socket::connect_unix(&ring, &there).await.unwrap();
        let (server, peer) = listener.accept().await.unwrap();
        // The attempt to take the path has left one connection behind, which is closed already.
        assert!(server.receive().await.unwrap().is_empty() && peer.address().is_none());
        let (server, peer) = listener.accept().await.unwrap();
        assert_eq!(peer, Peer::Unix { process: std::process::id() });
        let mut list = SendList::new();
        list.push_bytes(b"hello");
        server.send(list).await.0.unwrap();
        assert_eq!(&*client.receive().await.unwrap(), b"hello");
        drop(listener);
        assert!(!there.exists(), "the file goes with the listener");
        std::fs::write(&there, b"a file").unwrap();
        assert!(Listener::bind_unix(&ring, &there).is_err(), "what is no socket is not replaced");
    });
    assert_eq!(std::fs::read(&path).unwrap(), b"a file");
    std::fs::remove_dir_all(folder).unwrap();
}

/// The start of a node hung without a word where another program listened and did not accept.
#[test]
fn a_unix_socket_whose_owner_has_no_room_for_one_more_is_in_use() {
    let folder = std::env::temp_dir().join(format!("fels-ring-full-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("socket");
    let listener = crate::handle::own(crate::unix::listen(&path, 0).unwrap());
    let waits = std::os::unix::net::UnixStream::connect(&path).unwrap();
    let (tell, told) = std::sync::mpsc::channel();
    let there = path.clone();
    std::thread::spawn(move || tell.send(crate::unix::listen(&there, 1).map_err(|error| error.kind())));
    let second = told.recv_timeout(Duration::from_secs(20));
    assert_eq!(second, Ok(Err(std::io::ErrorKind::AddrInUse)));
    drop((waits, listener));
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn who_goes_before_he_is_accepted_keeps_nobody_waiting() {
    use std::os::fd::AsRawFd;
    run(|ring| async move {
        let listener = Listener::bind(&ring, "127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.address().unwrap();
        for _ in 0..3 {
            let looks_in = std::net::TcpStream::connect(address).unwrap();
            let resets = libc::linger { l_onoff: 1, l_linger: 0 };
            let size = size_of_val(&resets) as libc::socklen_t;
            // SAFETY: `resets` is readable for `size` bytes.
            let set = unsafe {
                let (level, option) = (libc::SOL_SOCKET, libc::SO_LINGER);
                libc::setsockopt(looks_in.as_raw_fd(), level, option, (&raw const resets).cast(), size)
            };
            assert_eq!(set, 0);
        }
        let client = Socket::connect(&ring, address).await.unwrap();
        let (_, peer) = listener.accept().await.unwrap();
        assert_eq!(peer.address(), Some(client.local().unwrap()));
    });
}

#[test]
fn connections_inherit_the_congestion_control_of_their_listener() {
    run(|ring| async move {
        let listener = Listener::bind(&ring, "127.0.0.1:0".parse().unwrap()).unwrap();
        let unknown = listener.set_congestion_control(&CongestionControl::Named("no-such".to_owned()));
        assert_eq!(unknown.unwrap_err().kind(), std::io::ErrorKind::NotFound);
        // Every Linux has it, and lets everybody use it.
        listener.set_congestion_control(&CongestionControl::Named("reno".to_owned())).unwrap();
        let client = Socket::connect(&ring, listener.address().unwrap()).await.unwrap();
        let (server, _) = listener.accept().await.unwrap();
        assert_eq!(server.congestion_control().unwrap(), "reno");
        let host = client.congestion_control().unwrap();
        client.set_congestion_control(&CongestionControl::Auto).unwrap();
        let chosen = client.congestion_control().unwrap();
        assert!(if host == "bbr" { ["cubic", "reno"].contains(&chosen.as_str()) } else { chosen == host });
    });
}

#[test]
fn what_is_the_hosts_again_is_so_whatever_it_was_before() {
    run(|ring| async move {
        let bind = || Listener::bind(&ring, "127.0.0.1:0".parse().unwrap()).unwrap();
        let (listener, fresh) = (bind(), bind());
        listener.set_congestion_control(&CongestionControl::Named("reno".to_owned())).unwrap();
        let mut chosen = Vec::new();
        for listener in [listener, fresh] {
            listener.set_congestion_control(&CongestionControl::Auto).unwrap();
            let _client = Socket::connect(&ring, listener.address().unwrap()).await.unwrap();
            chosen.push(listener.accept().await.unwrap().0.congestion_control().unwrap());
        }
        assert_eq!(chosen[0], chosen[1]);
    });
}
