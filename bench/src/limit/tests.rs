use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use super::client::Arrivals;
use super::memory::{Memory, Owed};
use super::server::{Asked, Bytes};
use super::*;

const REQUESTS: [Head; 3] = [
    Head { follows: 0, answer: 4144, place: 1 },
    Head { follows: 100, answer: 48, place: 7 << 40 | 5 },
    Head { follows: 0, answer: 7, place: 0 },
];

fn stream() -> Vec<u8> {
    let mut stream = Vec::new();
    for head in REQUESTS {
        stream.extend(head.write());
        stream.extend(vec![1; head.follows as usize]);
    }
    stream
}

#[test]
fn heads_and_data_may_arrive_in_any_pieces() {
    let stream = stream();
    for piece in 1..stream.len() {
        let (mut asked, mut owed) = (Asked::new(), Bytes::default());
        for part in stream.chunks(piece) {
            asked.take(part, &mut owed).unwrap();
        }
        assert_eq!(owed.0, 4144 + 48 + 7, "pieces of {piece}");
    }
}

#[test]
fn memory_keeps_what_is_written_at_its_place_and_sends_it_from_there() {
    let (listener, size) = (TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap(), 1000_u32);
    let pieces = [1, 7, 47, 48, 49, 1000, 4000];
    let ways: [fn(&ring::Ways, usize) -> bool; 2] = [|_, _| false, |_, bytes| bytes == 1000];
    for (piece, is_copied) in pieces.iter().flat_map(|&piece| ways.map(|way| (piece, way))) {
        let mut memory = Memory::copying(0, is_copied).unwrap();
        let mut stream = Vec::new();
        for place in 0..4_u64 {
            stream.extend(Head { follows: size, answer: 48, place }.write());
            stream.extend(vec![piece as u8 ^ place as u8; size as usize]);
        }
        // Memory that has fewer places begins again.
        let far = u64::from(MOST / size) * 3 + 2;
        stream.extend(Head { follows: 0, answer: 48 + size, place: far }.write());
        stream.extend(Head { follows: 0, answer: 7, place: 3 }.write());
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let (mut asked, mut owed) = (Asked::new(), Owed::default());
        for part in stream.chunks(piece) {
            asked.take(part, &mut owed.with(&mut memory)).unwrap();
            owed.send(&mut server, &memory).unwrap();
        }
        drop(server);
        let mut answers = Vec::new();
        client.read_to_end(&mut answers).unwrap();
        assert_eq!(answers.len(), 5 * HEAD + size as usize + 7, "pieces of {piece}");
        let data = &answers[5 * HEAD..][..size as usize];
        assert!(data.iter().all(|&byte| byte == piece as u8 ^ 2), "pieces of {piece}");
    }
}

#[test]
fn a_head_that_asks_for_too_much_is_refused() {
    let refused = |follows, answer| {
        let head = Head { follows, answer, place: 0 };
        Asked::new().take(&head.write(), &mut Bytes::default()).is_err()
    };
    assert!(refused(MOST + 1, 48) && refused(0, MOST + 1) && !refused(MOST, MOST));
}

#[test]
fn both_ways_move_every_kind_of_load() {
    for (spin, memory) in [(true, None), (true, Some(64 << 20)), (false, None)] {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        std::thread::spawn(move || serve(port, spin, memory));
        let address = format!("127.0.0.1:{port}");
        let until = Instant::now() + Duration::from_secs(30);
        while TcpStream::connect(&address).is_err() {
            assert!(Instant::now() < until, "nobody listens");
            std::thread::sleep(Duration::from_millis(5));
        }
        for (read_percent, random, request_bytes, depth, sessions) in
            [(100, true, 4096, 32, 1), (0, false, 131_072, 32, 1), (70, true, 8192, 16, 4)]
        {
            let shape = Shape { read_percent, random, request_bytes, depth, sessions };
            let short = Duration::from_millis(60);
            let reached = drive(&address, shape, Pace::Closed { spin }, short, short).unwrap();
            assert!(reached.operations > 0 && reached.seconds >= 0.06, "{shape:?}: {reached:?}");
            assert_eq!(reached.latency, None);
        }
        let shape = Shape { read_percent: 100, random: true, request_bytes: 4096, depth: 32, sessions: 2 };
        let span = Duration::from_millis(400);
        let reached = drive(&address, shape, Pace::Open { rate: 2000.0 }, span / 8, span).unwrap();
        // 800 on average, as independent users come; fewer where others keep both sides from their cores.
        assert!((100..1100).contains(&reached.operations), "{reached:?}");
        let latency = reached.latency.unwrap();
        assert!(latency.mean_us > 0.0 && latency.p50_us <= latency.p99_us, "{reached:?}");
    }
}

#[test]
fn latencies_count_from_when_a_request_was_due() {
    let thousand = Latency::of((1..=1000).rev().map(Duration::from_micros).collect()).unwrap();
    let told = [thousand.mean_us, thousand.p50_us, thousand.p99_us, thousand.p99_9_us];
    assert_eq!(told.map(|us| format!("{us:.1}")), ["500.5", "500.0", "990.0", "999.0"]);
    assert_eq!(Latency::of(Vec::new()), None);
    let begin = Instant::now();
    let (asked, took) = Default::default();
    let mut arrivals = Arrivals { between: Duration::from_micros(100), next: begin, asked, took };
    let later = begin + Duration::from_millis(100);
    let due = (0..10_000).take_while(|_| arrivals.due(later)).count();
    assert!((700..1300).contains(&due), "{due} of about 1000");
    assert!(!arrivals.due(later) && arrivals.next > later);
    (0..due).for_each(|_| arrivals.answered(later));
    // The first of them had waited all the time.
    assert_eq!((arrivals.took.len(), arrivals.took[0]), (due, Duration::from_millis(100)));
    assert!(arrivals.took.is_sorted_by(|one, next| one >= next));
}

#[test]
fn a_file_keeps_what_is_written_at_its_place_and_sends_it_from_there() {
    const PAGE: u32 = 4096;
    const PLACES: u64 = 8;
    // Beside this program: a directory for what is temporary may be one without direct I/O.
    let name = format!("fels-bench-limit-{}", std::process::id());
    let path = std::env::current_exe().unwrap().with_file_name(name);
    let filled: Vec<u8> = (0..PLACES).flat_map(|place| [place as u8; PAGE as usize]).collect();
    std::fs::write(&path, filled).unwrap();
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
    let served = path.clone();
    let server = std::thread::spawn(move || serve_file(port, &served));
    let until = Instant::now() + Duration::from_secs(30);
    let mut client = loop {
        if let Ok(client) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) {
            break client;
        }
        assert!(Instant::now() < until && !server.is_finished(), "nobody listens");
        std::thread::sleep(Duration::from_millis(5));
    };
    let mut answer = |request: &[u8], length: u32| {
        std::io::Write::write_all(&mut client, request).unwrap();
        let mut answer = vec![0; HEAD + length as usize];
        client.read_exact(&mut answer).unwrap();
        answer.split_off(HEAD)
    };
    // A file that has fewer places begins again.
    let write = Head { follows: PAGE, answer: HEAD as u32, place: PLACES + 3 };
    assert!(answer(&[&write.write()[..], &[0xee; PAGE as usize]].concat(), 0).is_empty());
    for place in 0..PLACES {
        let read = Head { follows: 0, answer: HEAD as u32 + PAGE, place };
        let expected = if place == 3 { 0xee } else { place as u8 };
        assert_eq!(answer(&read.write(), PAGE), [expected; PAGE as usize], "place {place}");
    }
    // A read that the file cannot answer ends the connection.
    let beyond = Head { follows: 0, answer: HEAD as u32 + 16 * PAGE, place: 0 };
    std::io::Write::write_all(&mut client, &beyond.write()).unwrap();
    assert!(client.read_exact(&mut [0]).is_err());
    let kept = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(kept[3 * PAGE as usize..][..PAGE as usize].iter().all(|&byte| byte == 0xee));
}
