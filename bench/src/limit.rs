//! The limit: a bare request/response program. Nothing but `std`, nothing of Fels.
//!
//! A request is a head of 48 bytes, as an iSCSI command is, which says how many bytes follow it and how many its answer
//! has. The server throws away what follows and answers from one buffer; all answers to one receive are one send. What
//! this program cannot do on a machine, no server that moves the same bytes in messages of the same size can.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use crate::error::Error;

/// Bytes of a request's head, and of the head of an answer.
pub const HEAD: usize = 48;
/// Bytes that are received at once.
const RECEIVE: usize = 256 << 10;
/// Bytes that are sent at once.
const SEND: usize = 1 << 20;
/// Slices that are sent at once.
const SLICES: usize = 64;
/// How often a spinning server looks for new connections while it has some.
const ACCEPT_EVERY: Duration = Duration::from_millis(5);
/// Longest request and answer that are believed.
const MOST: u32 = 16 << 20;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Requests of 100 that are answered with data; the others bring data.
    pub read_percent: u8,
    /// Bytes of data.
    pub request_bytes: u32,
    /// Requests in flight of each connection.
    pub depth: u32,
    /// Connections.
    pub sessions: u32,
}

/// What was reached.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reached {
    /// Answers that arrived.
    pub operations: u64,
    /// In so many seconds.
    pub seconds: f64,
}

/// Receives; nothing when there is nothing to be had without waiting.
fn receive(stream: &mut TcpStream, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    match stream.read(buffer) {
        Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
        Ok(received) => Ok(Some(received)),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(None),
        Err(error) => Err(error),
    }
}

/// What a server knows of a connection.
#[derive(Debug)]
struct Asked {
    head: [u8; HEAD],
    filled: usize,
    /// Bytes of the last request that are still to come and to be thrown away.
    skip: usize,
    /// Bytes of answers that are not sent yet.
    owed: usize,
}

impl Asked {
    fn new() -> Self {
        Self { head: [0; HEAD], filled: 0, skip: 0, owed: 0 }
    }

    /// Takes what was received.
    fn take(&mut self, mut data: &[u8]) -> io::Result<()> {
        while !data.is_empty() {
            if self.skip > 0 {
                let part = self.skip.min(data.len());
                (self.skip, data) = (self.skip - part, &data[part..]);
                continue;
            }
            let part = (HEAD - self.filled).min(data.len());
            self.head[self.filled..self.filled + part].copy_from_slice(&data[..part]);
            (self.filled, data) = (self.filled + part, &data[part..]);
            if self.filled == HEAD {
                self.filled = 0;
                let (follows, answer) = read_head(&self.head);
                if follows > MOST || answer > MOST {
                    return Err(ErrorKind::InvalidData.into());
                }
                self.skip = follows as usize;
                self.owed += answer as usize;
            }
        }
        Ok(())
    }
}

fn head(follows: u32, answer: u32) -> [u8; HEAD] {
    let mut head = [0; HEAD];
    head[..4].copy_from_slice(&follows.to_le_bytes());
    head[4..8].copy_from_slice(&answer.to_le_bytes());
    head
}

fn read_head(head: &[u8; HEAD]) -> (u32, u32) {
    let number = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    (number(0), number(4))
}

struct Served {
    stream: TcpStream,
    asked: Asked,
}

impl Served {
    fn turn(&mut self, receive_buffer: &mut [u8], answers: &[u8]) -> io::Result<()> {
        if let Some(received) = receive(&mut self.stream, receive_buffer)? {
            self.asked.take(&receive_buffer[..received])?;
        }
        while self.asked.owed > 0 {
            match self.stream.write(&answers[..self.asked.owed.min(answers.len())]) {
                Ok(sent) => self.asked.owed -= sent,
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Serves until it is killed. Spinning, one thread looks at all connections in turn; otherwise each has a thread that sleeps.
pub fn serve(port: u16, spin: bool) -> Result<(), Error> {
    let failed = |what: &str| Error::io(format!("the limit's server cannot {what}"));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(failed("listen"))?;
    println!("listening on 127.0.0.1:{port}");
    let answers = vec![0x5a; SEND];
    if !spin {
        for stream in listener.incoming() {
            let stream = stream.and_then(|stream| stream.set_nodelay(true).map(|()| stream));
            let stream = stream.map_err(failed("accept"))?;
            let answers = answers.clone();
            std::thread::spawn(move || {
                let mut served = Served { stream, asked: Asked::new() };
                let mut buffer = vec![0; RECEIVE];
                while served.turn(&mut buffer, &answers).is_ok() {}
            });
        }
        return Ok(());
    }
    let mut buffer = vec![0; RECEIVE];
    let mut connections: Vec<Served> = Vec::new();
    let mut looked = Instant::now();
    loop {
        connections.retain_mut(|served| served.turn(&mut buffer, &answers).is_ok());
        // Without connections nobody is measured: sleep until there is one, and leave the core to other servers.
        let idle = connections.is_empty();
        if !idle && looked.elapsed() < ACCEPT_EVERY {
            continue;
        }
        looked = Instant::now();
        listener.set_nonblocking(!idle).map_err(failed("listen"))?;
        match listener.accept() {
            Ok((stream, _)) => {
                let ready = stream.set_nodelay(true).and_then(|()| stream.set_nonblocking(true));
                ready.map_err(failed("accept"))?;
                connections.push(Served { stream, asked: Asked::new() });
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(failed("accept")(error)),
        }
    }
}

/// One connection of the client.
struct Session {
    stream: TcpStream,
    shape: Shape,
    random: u64,
    /// Requests that are not sent yet: whether they read.
    queue: VecDeque<bool>,
    /// Bytes of the first of them that are sent.
    sent: usize,
    /// Bytes of each answer that is waited for.
    expected: VecDeque<usize>,
    /// Bytes that arrived of the first of them.
    arrived: usize,
    heads: [[u8; HEAD]; 2],
    data: Vec<u8>,
    buffer: Vec<u8>,
}

impl Session {
    fn connect(address: &str, shape: Shape, number: u32, spin: bool) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(spin)?;
        let answer = u32::try_from(HEAD).unwrap_or(0);
        let bytes = shape.request_bytes;
        let mut session = Self {
            stream,
            shape,
            random: 0x9e37_79b9_7f4a_7c15 ^ (u64::from(number) << 32),
            queue: VecDeque::new(),
            sent: 0,
            expected: VecDeque::new(),
            arrived: 0,
            heads: [head(bytes, answer), head(0, answer + bytes)],
            data: vec![0xa5; bytes as usize],
            buffer: vec![0; RECEIVE],
        };
        (0..shape.depth).for_each(|_| session.ask());
        Ok(session)
    }

    /// Puts one request into the queue.
    fn ask(&mut self) {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let reads = self.random % 100 < u64::from(self.shape.read_percent);
        self.queue.push_back(reads);
        self.expected.push_back(HEAD + if reads { self.data.len() } else { 0 });
    }

    /// Sends what is in the queue, as far as it goes.
    fn send(&mut self) -> io::Result<()> {
        while !self.queue.is_empty() {
            let mut slices: Vec<IoSlice<'_>> = Vec::with_capacity(SLICES);
            let mut skip = self.sent;
            for &reads in self.queue.iter().take(SLICES / 2) {
                let head = &self.heads[usize::from(reads)][skip.min(HEAD)..];
                let data = if reads { &[][..] } else { &self.data[skip.saturating_sub(HEAD)..] };
                skip = 0;
                slices.extend([head, data].into_iter().filter(|part| !part.is_empty()).map(IoSlice::new));
            }
            match self.stream.write_vectored(&slices) {
                Ok(sent) => self.advance(sent),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn advance(&mut self, bytes: usize) {
        self.sent += bytes;
        while let Some(&reads) = self.queue.front() {
            let length = HEAD + if reads { 0 } else { self.data.len() };
            if self.sent < length {
                return;
            }
            self.sent -= length;
            self.queue.pop_front();
        }
    }

    /// Sends, receives, and asks again for what has arrived; gives the number of answers.
    fn turn(&mut self) -> io::Result<u64> {
        self.send()?;
        let Some(received) = receive(&mut self.stream, &mut self.buffer)? else { return Ok(0) };
        self.arrived += received;
        let mut answers = 0;
        while let Some(&length) = self.expected.front() {
            if self.arrived < length {
                break;
            }
            self.arrived -= length;
            self.expected.pop_front();
            answers += 1;
            self.ask();
        }
        Ok(answers)
    }
}

/// Counts answers of one thread's sessions, without those of the warm-up.
fn drive_sessions(sessions: &mut [Session], warm_up: Duration, time: Duration) -> io::Result<Reached> {
    let warm = Instant::now() + warm_up;
    let mut begun: Option<Instant> = None;
    let mut operations = 0;
    loop {
        let mut answers = 0;
        for session in sessions.iter_mut() {
            answers += session.turn()?;
        }
        let now = Instant::now();
        match begun {
            None if now >= warm => begun = Some(now),
            None => {}
            Some(begin) => {
                operations += answers;
                let span = now.duration_since(begin);
                if span >= time {
                    return Ok(Reached { operations, seconds: span.as_secs_f64() });
                }
            }
        }
    }
}

/// Asks the server at `address`. Spinning, one thread looks at all connections; otherwise each has a thread that sleeps.
pub fn drive(
    address: &str,
    shape: Shape,
    spin: bool,
    warm_up: Duration,
    time: Duration,
) -> Result<Reached, Error> {
    let failed = || Error::io(format!("the limit's client and {address}"));
    let connect = |number| Session::connect(address, shape, number, spin);
    let sessions: Result<Vec<Session>, _> = (0..shape.sessions).map(connect).collect();
    let mut sessions = sessions.map_err(failed())?;
    if spin {
        return drive_sessions(&mut sessions, warm_up, time).map_err(failed());
    }
    let threads: Vec<_> = sessions
        .into_iter()
        .map(|session| std::thread::spawn(move || drive_sessions(&mut [session], warm_up, time)))
        .collect();
    let mut reached = Reached { operations: 0, seconds: 0.0 };
    for thread in threads {
        let one =
            thread.join().map_err(|_| Error::Options("a thread of the limit's client died".to_owned()))?;
        let one = one.map_err(failed())?;
        reached.operations += one.operations;
        reached.seconds = reached.seconds.max(one.seconds);
    }
    Ok(reached)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_and_data_may_arrive_in_any_pieces() {
        let mut stream = Vec::new();
        for (follows, answer) in [(0, 4144), (100, 48), (0, 7)] {
            stream.extend(head(follows, answer));
            stream.extend(vec![1; follows as usize]);
        }
        for piece in 1..stream.len() {
            let mut asked = Asked::new();
            for part in stream.chunks(piece) {
                asked.take(part).unwrap();
            }
            assert_eq!((asked.owed, asked.skip, asked.filled), (4144 + 48 + 7, 0, 0), "pieces of {piece}");
        }
    }

    #[test]
    fn a_head_that_asks_for_too_much_is_refused() {
        assert!(Asked::new().take(&head(MOST + 1, 48)).is_err());
        assert!(Asked::new().take(&head(0, MOST + 1)).is_err());
    }

    #[test]
    fn both_ways_move_every_kind_of_load() {
        for spin in [true, false] {
            let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
            std::thread::spawn(move || serve(port, spin));
            let address = format!("127.0.0.1:{port}");
            let until = Instant::now() + Duration::from_secs(30);
            while TcpStream::connect(&address).is_err() {
                assert!(Instant::now() < until, "nobody listens");
                std::thread::sleep(Duration::from_millis(5));
            }
            for (read_percent, request_bytes, depth, sessions) in
                [(100, 4096, 32, 1), (0, 131_072, 32, 1), (70, 8192, 16, 4)]
            {
                let shape = Shape { read_percent, request_bytes, depth, sessions };
                let short = Duration::from_millis(60);
                let reached = drive(&address, shape, spin, short, short).unwrap();
                assert!(reached.operations > 0 && reached.seconds >= 0.06, "{shape:?}: {reached:?}");
            }
        }
    }
}
