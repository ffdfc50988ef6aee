//! What a connection receives, by one operation that stands: nothing is handed to the kernel for the next bytes.

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll, ready};

use crate::chunk::Chunk;
use crate::op::Came;
use crate::ring::Op;
use crate::socket::Socket;

/// Receives that are made one by one when large pieces have been received directly, before one stands again: where one
/// such piece came, more come, and each would end it.
const ONE_BY_ONE: u32 = 16;

/// The receiving half of a connection, chunk after chunk. Nobody else receives from its socket meanwhile.
pub struct Inflow {
    socket: Socket,
    standing: Option<Op>,
    is_ending: bool,
    /// Receives to be made one by one before one stands.
    one_by_one: u32,
    /// The most bytes that the receive that stands has brought at once.
    most: usize,
}

impl Inflow {
    /// One that has a receive stand.
    pub fn new(socket: Socket) -> Inflow {
        Inflow { socket, standing: None, is_ending: false, one_by_one: 0, most: 0 }
    }

    /// One whose socket is to be handed on: what nobody has asked for stays in it.
    pub fn one_by_one(socket: Socket) -> Inflow {
        Inflow { one_by_one: u32::MAX, ..Inflow::new(socket) }
    }

    /// The connection, which may be received from when nothing stands.
    pub fn socket(&self) -> &Socket {
        &self.socket
    }

    /// The last bytes were several messages: this is nobody who asks one thing at a time, and waits for the answer.
    pub fn several(&self) {
        self.socket.several();
    }

    /// Whether a receive stands, or has left something to be taken.
    pub fn stands(&self) -> bool {
        self.standing.is_some()
    }

    /// The next bytes, as many as have come; empty at the end of the stream.
    pub async fn next(&mut self) -> io::Result<Chunk> {
        // One who is asked has nothing else to say before he has been answered.
        if self.stands() && self.socket.is_asked() {
            self.socket.ring().others_first().await;
        }
        loop {
            if let Some(chunk) = poll_fn(|context| self.poll_left(context)).await? {
                return Ok(chunk);
            }
            if self.one_by_one > 0 {
                self.one_by_one -= 1;
                return self.socket.receive().await;
            }
            self.standing = Some(self.socket.keep_receiving());
            (self.is_ending, self.most) = (false, 0);
        }
    }

    /// The receive that stands is ended: what it still brings, chunk after chunk, then none. From then on the socket may
    /// be received from directly, and the next receives are made one by one.
    pub async fn rest(&mut self) -> io::Result<Option<Chunk>> {
        if let Some(standing) = &self.standing
            && !std::mem::replace(&mut self.is_ending, true)
        {
            standing.cancel();
        }
        let chunk = poll_fn(|context| self.poll_left(context)).await?;
        if chunk.is_none() {
            self.one_by_one = self.one_by_one.max(ONE_BY_ONE);
        }
        Ok(chunk)
    }

    /// What the standing receive brings next; none once it has ended.
    fn poll_left(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Option<Chunk>>> {
        let Some(standing) = &mut self.standing else { return Poll::Ready(Ok(None)) };
        while let Some(came) = ready!(standing.poll_next(context)) {
            match came {
                Came::Moved(chunk) => return Poll::Ready(Ok(Some(chunk))),
                Came::Here { result, flags } if result >= 0 => {
                    self.most = self.most.max(result as usize);
                    return Poll::Ready(Ok(Some(self.socket.chunk(result, flags))));
                }
                Came::Here { result, .. } => match -result {
                    libc::ECANCELED => {}
                    libc::ENOBUFS => {
                        // It has filled those that go round, which have been taken by now: what comes in a stream waits in
                        // its socket, so that few buffers stay in the cache, and the peer has the answers to the first bytes
                        // before this core takes the next.
                        let is_stream = self.socket.fills_a_buffer(self.most);
                        // Where there is no room, one that waits for it is next.
                        self.one_by_one = u32::from(!is_stream && !self.socket.make_room());
                    }
                    code => return Poll::Ready(Err(io::Error::from_raw_os_error(code))),
                },
            }
        }
        self.standing = None;
        Poll::Ready(Ok(None))
    }

    /// The connection, to be handed on. Panics when a receive stands.
    pub fn into_socket(self) -> Socket {
        assert!(!self.stands(), "what a standing receive brings would be lost");
        self.socket
    }
}

#[cfg(test)]
mod tests;
