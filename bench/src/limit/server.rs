//! The side that answers.

use std::io::{self, ErrorKind, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use super::memory::{Memory, Owed};
use super::{HEAD, Head, MOST, RECEIVE, make_ready, receive, waits};
use crate::error::Error;

/// Bytes that are sent at once.
const SEND: usize = 1 << 20;
/// How often a spinning server looks for new connections while it has some.
const ACCEPT_EVERY: Duration = Duration::from_millis(5);

/// Where requests go.
pub(super) trait Sink {
    /// The head of a request has come.
    fn asked(&mut self, head: Head);
    /// The next request, of which the head has come as well. Nobody has looked yet whether it asks for too much.
    fn expects(&mut self, head: Head);
    /// Bytes that follow it have come, the first of them `at` bytes after the head.
    fn follows(&mut self, head: Head, at: usize, data: &[u8]);
}

/// What a server knows of a connection: where in a request it is.
#[derive(Debug)]
pub(super) struct Asked {
    bytes: [u8; HEAD],
    filled: usize,
    head: Head,
    /// Bytes that are still to come after the last head.
    rest: usize,
}

impl Asked {
    pub(super) fn new() -> Self {
        Self { bytes: [0; HEAD], filled: 0, head: Head::default(), rest: 0 }
    }

    /// Takes what was received.
    pub(super) fn take(&mut self, mut data: &[u8], sink: &mut impl Sink) -> io::Result<()> {
        while !data.is_empty() {
            if self.rest > 0 {
                let part = self.rest.min(data.len());
                if let Some(next) = data[part..].first_chunk().filter(|_| part == self.rest) {
                    sink.expects(Head::read(next));
                }
                sink.follows(self.head, self.head.follows as usize - self.rest, &data[..part]);
                (self.rest, data) = (self.rest - part, &data[part..]);
                continue;
            }
            let part = (HEAD - self.filled).min(data.len());
            self.bytes[self.filled..self.filled + part].copy_from_slice(&data[..part]);
            (self.filled, data) = (self.filled + part, &data[part..]);
            if self.filled == HEAD {
                self.filled = 0;
                self.head = Head::read(&self.bytes);
                if self.head.follows > MOST || self.head.answer > MOST {
                    return Err(ErrorKind::InvalidData.into());
                }
                self.rest = self.head.follows as usize;
                sink.asked(self.head);
            }
        }
        Ok(())
    }
}

/// Bytes of answers that are not sent yet; what follows requests is thrown away.
#[derive(Debug, Default)]
pub(super) struct Bytes(pub(super) usize);

impl Sink for Bytes {
    fn asked(&mut self, head: Head) {
        self.0 += head.answer as usize;
    }

    fn expects(&mut self, _head: Head) {}

    fn follows(&mut self, _head: Head, _at: usize, _data: &[u8]) {}
}

impl Bytes {
    fn send(&mut self, stream: &mut TcpStream, answers: &[u8]) -> io::Result<()> {
        while self.0 > 0 {
            match stream.write(&answers[..self.0.min(answers.len())]) {
                Ok(sent) => self.0 -= sent,
                Err(error) if waits(&error) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// What a server answers from.
enum Store {
    /// One buffer, which stays in the cache.
    Buffer(Vec<u8>),
    Memory(Memory),
}

struct Served {
    stream: TcpStream,
    asked: Asked,
    bytes: Bytes,
    owed: Owed,
}

impl Served {
    fn new(stream: TcpStream) -> Self {
        Self { stream, asked: Asked::new(), bytes: Bytes::default(), owed: Owed::default() }
    }

    fn turn(&mut self, buffer: &mut [u8], store: &mut Store) -> io::Result<()> {
        let Self { stream, asked, bytes, owed } = self;
        let received = receive(stream, buffer)?.unwrap_or(0);
        match store {
            Store::Buffer(answers) => {
                asked.take(&buffer[..received], bytes)?;
                bytes.send(stream, answers)
            }
            Store::Memory(memory) => {
                asked.take(&buffer[..received], &mut owed.with(memory))?;
                owed.send(stream, memory)
            }
        }
    }
}

/// Serves until it is killed. Spinning, one thread looks at all connections in turn; otherwise each has a thread that
/// sleeps. `memory`: spinning, answers from so many bytes of memory, and keeps there what is written.
pub fn serve(port: u16, spin: bool, memory: Option<usize>) -> Result<(), Error> {
    let failed = |what: &str| Error::io(format!("the limit's server cannot {what}"));
    let buffer = || Store::Buffer(vec![0x5a; SEND]);
    let store = match memory {
        Some(bytes) => Store::Memory(Memory::new(bytes).map_err(failed("have its memory"))?),
        None => buffer(),
    };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(failed("listen"))?;
    println!("listening on 127.0.0.1:{port}");
    if spin {
        return serve_in_turn(&listener, store);
    }
    for stream in listener.incoming() {
        let stream = stream.and_then(|stream| make_ready(&stream, false).map(|()| stream));
        let mut served = Served::new(stream.map_err(failed("accept"))?);
        let mut store = buffer();
        std::thread::spawn(move || {
            let mut buffer = vec![0; RECEIVE];
            while served.turn(&mut buffer, &mut store).is_ok() {}
        });
    }
    Ok(())
}

fn serve_in_turn(listener: &TcpListener, mut store: Store) -> Result<(), Error> {
    let failed = |what: &str| Error::io(format!("the limit's server cannot {what}"));
    let mut buffer = vec![0; RECEIVE];
    let mut connections: Vec<Served> = Vec::new();
    let mut looked = Instant::now();
    loop {
        connections.retain_mut(|served| served.turn(&mut buffer, &mut store).is_ok());
        // Without connections nobody is measured: sleep until there is one, and leave the core to other servers.
        let idle = connections.is_empty();
        if !idle && looked.elapsed() < ACCEPT_EVERY {
            continue;
        }
        looked = Instant::now();
        listener.set_nonblocking(!idle).map_err(failed("listen"))?;
        match listener.accept() {
            Ok((stream, _)) => {
                make_ready(&stream, true).map_err(failed("accept"))?;
                connections.push(Served::new(stream));
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(failed("accept")(error)),
        }
    }
}
