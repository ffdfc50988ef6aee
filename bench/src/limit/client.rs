//! The side that asks.

use std::collections::VecDeque;
use std::io::{self, IoSlice, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::{HEAD, Head, Latency, Pace, RECEIVE, Reached, SLICES, Shape, make_ready, receive, waits};
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
    /// In an open loop.
    arrivals: Option<Arrivals>,
}

/// When the requests of a connection are due.
pub(super) struct Arrivals {
    /// On average.
    pub(super) between: Duration,
    pub(super) next: Instant,
    /// Those of the requests that are asked and not answered.
    pub(super) asked: VecDeque<Instant>,
    /// How long answered ones took.
    pub(super) took: Vec<Duration>,
}

impl Arrivals {
    /// The next request, if it is due: the one after it comes as independent users do.
    pub(super) fn due(&mut self, now: Instant) -> bool {
        if self.next > now {
            return false;
        }
        self.asked.push_back(self.next);
        self.next += self.between.mul_f64(-(1.0 - fastrand::f64()).ln());
        true
    }

    /// The first of those asked is answered.
    pub(super) fn answered(&mut self, now: Instant) {
        let due = self.asked.pop_front();
        self.took.extend(due.map(|due| now.saturating_duration_since(due)));
    }
}

impl Session {
    fn connect(address: &str, shape: Shape, number: u32, pace: Pace) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        make_ready(&stream, pace != Pace::Closed { spin: false })?;
        let mut session = Self {
            stream,
            shape,
            // Other places in each window, as the lab has: of the same ones again, a cache would have few and lose many. Never zero.
            random: fastrand::u64(1..),
            // Sessions are as far apart as can be, so that none reads what another one has just fetched.
            next: u64::from(number) << 40,
            queue: VecDeque::new(),
            sent: 0,
            expected: VecDeque::new(),
            arrived: 0,
            data: vec![0xa5; shape.request_bytes as usize],
            buffer: vec![0; RECEIVE],
            arrivals: None,
        };
        if let Pace::Open { rate } = pace {
            let between = Duration::from_secs_f64(f64::from(shape.sessions) / rate);
            let (asked, took) = (VecDeque::new(), Vec::new());
            session.arrivals = Some(Arrivals { between, next: Instant::now(), asked, took });
        } else {
            (0..shape.depth).for_each(|_| session.ask());
        }
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

    /// In an open loop, as many as may be in flight: those beyond wait, and that counts.
    fn ask_what_is_due(&mut self) {
        let now = Instant::now();
        while self.expected.len() < self.shape.depth as usize
            && self.arrivals.as_mut().is_some_and(|arrivals| arrivals.due(now))
        {
            self.ask();
        }
    }

    /// Sends, receives, and asks again for what has arrived; gives the number of answers.
    fn turn(&mut self) -> io::Result<u64> {
        self.ask_what_is_due();
        self.send()?;
        let Some(received) = receive(&mut self.stream, &mut self.buffer)? else { return Ok(0) };
        let now = Instant::now();
        self.arrived += received;
        let mut answers = 0;
        while let Some(&length) = self.expected.front() {
            if self.arrived < length {
                break;
            }
            self.arrived -= length;
            self.expected.pop_front();
            answers += 1;
            match &mut self.arrivals {
                Some(arrivals) => arrivals.answered(now),
                None => self.ask(),
            }
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
            None if now >= warm => {
                begun = Some(now);
                sessions
                    .iter_mut()
                    .flat_map(|session| &mut session.arrivals)
                    .for_each(|all| all.took.clear());
            }
            None => {}
            Some(begin) => {
                operations += answers;
                let span = now.duration_since(begin);
                if span >= time {
                    let took = sessions.iter_mut().filter_map(|session| session.arrivals.take());
                    let latency = Latency::of(took.flat_map(|arrivals| arrivals.took).collect());
                    return Ok(Reached { operations, seconds: span.as_secs_f64(), latency });
                }
            }
        }
    }
}

/// Asks the server at `address`. Spinning, one thread looks at all connections; otherwise each has a thread that sleeps.
pub fn drive(
    address: &str,
    shape: Shape,
    pace: Pace,
    warm_up: Duration,
    time: Duration,
) -> Result<Reached, Error> {
    let failed = || Error::io(format!("the limit's client and {address}"));
    let connect = |number| Session::connect(address, shape, number, pace);
    let sessions: Result<Vec<Session>, _> = (0..shape.sessions).map(connect).collect();
    let mut sessions = sessions.map_err(failed())?;
    if pace != (Pace::Closed { spin: false }) {
        return drive_sessions(&mut sessions, warm_up, time).map_err(failed());
    }
    let threads: Vec<_> = sessions
        .into_iter()
        .map(|session| std::thread::spawn(move || drive_sessions(&mut [session], warm_up, time)))
        .collect();
    let mut reached = Reached { operations: 0, seconds: 0.0, latency: None };
    for thread in threads {
        let one =
            thread.join().map_err(|_| Error::Options("a thread of the limit's client died".to_owned()))?;
        let one = one.map_err(failed())?;
        reached.operations += one.operations;
        reached.seconds = reached.seconds.max(one.seconds);
    }
    Ok(reached)
}
