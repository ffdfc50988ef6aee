//! Answers from a file on a disk, around the page cache: what is left of the disk when requests come over a network. It has
//! Fels's ring, which takes two transfers to the disk at once and what answers a turn in one send, and looks for a while before
//! it sleeps; and nothing else of it.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::rc::Rc;

use ring::{Buffer, CongestionControl, File, FileOptions, Inflow, Listener, Notify, Options, Reactor, Ring};
use ring::{SendList, Shared, Socket};

use super::server::{Asked, Sink};
use super::{HEAD, Head, SLICES};
use crate::error::Error;

/// The head of every answer.
const ANSWER: [u8; HEAD] = [0; HEAD];

/// Serves the file at `path`, which is there and filled, until it is killed.
pub fn serve(port: u16, path: &Path) -> Result<(), Error> {
    let failed =
        |error: io::Error| Error::io(format!("the limit's server cannot serve {}", path.display()))(error);
    let reactor = Reactor::new(&Options::default()).map_err(|error| Error::Options(error.to_string()))?;
    let ring = reactor.ring().clone();
    let file = File::open(&ring, path, FileOptions { direct: true, ..FileOptions::default() });
    let file = file.map_err(failed)?;
    let bytes = file.length().map_err(failed)?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let listener = Listener::bind(&ring, address).map_err(failed)?;
    // As the other bare programs, where the kernel has it.
    let _not_there = listener.set_congestion_control(&CongestionControl::Named("cubic".to_owned()));
    println!("listening on {address}");
    reactor.block_on(serve_all(ring, listener, file, bytes)).map_err(failed)
}

/// Serves connections until no more can be had.
async fn serve_all(ring: Ring, listener: Listener, file: File, bytes: u64) -> io::Result<()> {
    loop {
        let (socket, _peer) = listener.accept().await?;
        let served = Rc::new(Served {
            ring: ring.clone(),
            file: file.clone(),
            bytes,
            socket: socket.clone(),
            answers: RefCell::default(),
            due: Notify::new(),
            is_gone: Cell::new(false),
        });
        ring.spawn(served.clone().answer());
        ring.spawn(served.ask(socket));
    }
}

/// One connection.
struct Served {
    ring: Ring,
    file: File,
    /// Bytes of the file.
    bytes: u64,
    socket: Socket,
    /// What is to be sent behind a head each: what was read, or nothing. In the order in which the disk was done, so that a
    /// load is of reads or of writes: the other side counts bytes.
    answers: RefCell<Vec<Shared>>,
    due: Notify,
    is_gone: Cell<bool>,
}

impl Served {
    /// Takes requests until the connection ends.
    async fn ask(self: Rc<Self>, socket: Socket) {
        let mut inflow = Inflow::new(socket);
        let (mut asked, mut requests) = (Asked::new(), Requests { served: self.clone(), data: None });
        while let Ok(chunk) = inflow.next().await {
            if chunk.is_empty() || asked.take(&chunk, &mut requests).is_err() {
                break;
            }
        }
        self.leave();
    }

    /// Sends what is there to be sent, until the connection ends.
    async fn answer(self: Rc<Self>) {
        let mut list = SendList::new();
        while !self.is_gone.get() {
            let is_due = || (self.is_gone.get() || !self.answers.borrow().is_empty()).then_some(());
            self.due.until(is_due).await;
            let count = self.answers.borrow().len().min(SLICES);
            for data in self.answers.borrow_mut().drain(..count) {
                list.push_bytes(&ANSWER);
                list.push(data);
            }
            let sent;
            (sent, list) = self.socket.send(list).await;
            if sent.is_err() {
                self.leave();
            }
            list.clear();
        }
    }

    /// Reads or writes `buffer` at the place of the request, then answers.
    async fn transfer(self: Rc<Self>, head: Head, buffer: Buffer) {
        let (length, reads) = (buffer.len(), head.follows == 0);
        let at = head.place % (self.bytes / length as u64).max(1) * length as u64;
        let (moved, buffer) = if reads {
            self.file.read_at(buffer, at).await
        } else {
            self.file.write_at(buffer, at, false).await
        };
        // Who gets no answer notices; who got half a one would not.
        if moved.is_ok_and(|moved| moved == length) {
            self.push(if reads { buffer.share() } else { Shared::empty() });
        } else {
            self.leave();
        }
    }

    fn push(&self, data: Shared) {
        self.answers.borrow_mut().push(data);
        self.due.notify();
    }

    fn leave(&self) {
        self.is_gone.set(true);
        self.socket.shutdown();
        self.due.notify();
    }
}

/// Where the requests of a connection go.
struct Requests {
    served: Rc<Served>,
    /// What has come of the data of the last one.
    data: Option<Buffer>,
}

impl Requests {
    fn start(&self, head: Head, buffer: Buffer) {
        self.served.ring.spawn(self.served.clone().transfer(head, buffer));
    }
}

impl Sink for Requests {
    fn asked(&mut self, head: Head) {
        match (head.follows as usize, (head.answer as usize).saturating_sub(HEAD)) {
            (0, 0) => self.served.push(Shared::empty()),
            (0, bytes) => self.start(head, Buffer::new(bytes)),
            (follows, _) => self.data = Some(Buffer::new(follows)),
        }
    }

    fn expects(&mut self, _head: Head) {}

    fn follows(&mut self, head: Head, at: usize, data: &[u8]) {
        let Some(mut buffer) = self.data.take() else { return };
        buffer[at..at + data.len()].copy_from_slice(data);
        if at + data.len() == buffer.len() {
            self.start(head, buffer);
        } else {
            self.data = Some(buffer);
        }
    }
}
