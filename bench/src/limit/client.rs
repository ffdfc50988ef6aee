//! The side that asks.

use std::collections::VecDeque;
use std::io::{self, IoSlice, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::{HEAD, Head, RECEIVE, Reached, SLICES, Shape, make_ready, receive, waits};
use crate::error::Error;

/// One connection of the client.
struct Session {
    stream: TcpStream,
    shape: Shape,
    random: u64,
    /// The place of the next request, where they come one after the other.
    next: u64,
    /// Requests that are not sent yet: their heads, and whether they read.
    queue: VecDeque<([u8; HEAD], bool)>,
    /// Bytes of the first of them that are sent.
    sent: usize,
    /// Bytes of each answer that is waited for.
    expected: VecDeque<usize>,
    /// Bytes that arrived of the first of them.
    arrived: usize,
    data: Vec<u8>,
    buffer: Vec<u8>,
}

impl Session {
    fn connect(address: &str, shape: Shape, number: u32, spin: bool) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        make_ready(&stream, spin)?;
        let mut session = Self {
            stream,
            shape,
            random: 0x9e37_79b9_7f4a_7c15 ^ (u64::from(number) << 32),
            // Sessions are as far apart as can be, so that none reads what another one has just fetched.
            next: u64::from(number) << 40,
            queue: VecDeque::new(),
            sent: 0,
            expected: VecDeque::new(),
            arrived: 0,
            data: vec![0xa5; shape.request_bytes as usize],
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
        let place = if self.shape.random { self.random >> 8 } else { self.next };
        self.next += 1;
        let (answer, bytes) = (HEAD as u32, self.shape.request_bytes);
        let (follows, answer) = if reads { (0, answer + bytes) } else { (bytes, answer) };
        self.queue.push_back((Head { follows, answer, place }.write(), reads));
        self.expected.push_back(HEAD + if reads { self.data.len() } else { 0 });
    }

    /// Sends what is in the queue, as far as it goes.
    fn send(&mut self) -> io::Result<()> {
        while !self.queue.is_empty() {
            let mut slices: Vec<IoSlice<'_>> = Vec::with_capacity(SLICES);
            let mut skip = self.sent;
            for (head, reads) in self.queue.iter().take(SLICES / 2) {
                let head = &head[skip.min(HEAD)..];
                let data = if *reads { &[][..] } else { &self.data[skip.saturating_sub(HEAD)..] };
                skip = 0;
                slices.extend([head, data].into_iter().filter(|part| !part.is_empty()).map(IoSlice::new));
            }
            match self.stream.write_vectored(&slices) {
                Ok(sent) => self.advance(sent),
                Err(error) if waits(&error) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn advance(&mut self, bytes: usize) {
        self.sent += bytes;
        while let Some(&(_, reads)) = self.queue.front() {
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
