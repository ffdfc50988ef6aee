//! What a connection receives, cut as the frames want it.
//!
//! Small pieces come out of a receive buffer that the ring lends; while nothing comes, the connection holds none.
//! The large rest of a frame is received straight into the buffer that it is for.

use std::cell::Cell;
use std::io;
use std::rc::Rc;

use ring::{Buffer, Chunk, Inflow, Instant, Ring, Socket, Soon};

use super::lookout::Lookout;

/// From here on a piece is received straight into its buffer, in bytes. Below it a copy out of the cache costs less than
/// receives that take so little at a time: each tells the peer about room, and answers leave in smaller batches.
const DIRECT: usize = 256 << 10;

/// Why nothing more comes.
#[derive(Debug, thiserror::Error)]
pub enum Gone {
    /// The peer ended the stream between two frames.
    #[error("the peer closed the connection")]
    Closed,
    /// The peer ended the stream within a frame.
    #[error("the peer closed the connection in the middle of a message")]
    Torn,
    /// The connection broke.
    #[error("the connection broke: {0}")]
    Broken(#[from] io::Error),
}

/// The receiving half of a connection.
pub struct Reader {
    ring: Ring,
    inflow: Inflow,
    chunk: Option<Chunk>,
    position: usize,
    lookout: Lookout,
    /// Frames that have begun in this chunk.
    frames: u32,
    last: Rc<Cell<Instant>>,
}

impl Reader {
    /// Nothing received yet.
    pub fn new(ring: Ring, socket: Socket) -> Reader {
        Reader::of(ring, Inflow::new(socket))
    }

    /// One whose connection is to be handed on, see [`Reader::into_parts`].
    pub fn to_hand_on(ring: Ring, socket: Socket) -> Reader {
        Reader::of(ring, Inflow::one_by_one(socket))
    }

    fn of(ring: Ring, inflow: Inflow) -> Reader {
        let last = Rc::new(Cell::new(ring.now()));
        Reader { ring, inflow, chunk: None, position: 0, lookout: Lookout::default(), frames: 0, last }
    }

    /// When something last came; for those who watch the connection.
    pub fn last_received(&self) -> Rc<Cell<Instant>> {
        self.last.clone()
    }

    /// What has come and has not been taken.
    fn buffered(&self) -> &[u8] {
        self.chunk.as_ref().map_or(&[], |chunk| &chunk[self.position..])
    }

    /// Takes bytes that [`Reader::received`] has shown.
    #[inline]
    pub fn consume(&mut self, count: usize) {
        self.position += count;
        if self.buffered().is_empty() {
            self.chunk = None;
        }
    }

    /// While one frame is worked on, of which `rest` bytes have still to be taken, the memory for those behind it comes nearer.
    /// `expect` is shown the `N` bytes that such a frame begins with, and how soon its turn is. It gives the frame's length;
    /// none where nothing is to be looked for.
    #[inline]
    pub fn look_ahead<const N: usize>(
        &mut self,
        rest: usize,
        mut expect: impl FnMut(&[u8; N], Soon) -> Option<usize>,
    ) {
        let Some(chunk) = self.chunk.as_deref() else { return };
        self.lookout.look(self.position + rest, |place, soon| {
            chunk.get(place..)?.first_chunk().and_then(|begin| expect(begin, soon))
        });
    }

    /// The next `count` bytes, if they have come already. [`Reader::consume`] takes them.
    #[inline]
    pub fn received(&self, count: usize) -> Option<&[u8]> {
        self.buffered().get(..count)
    }

    /// The next `N` bytes, as [`Reader::received`].
    #[inline]
    pub fn begin<const N: usize>(&self) -> Option<&[u8; N]> {
        self.buffered().first_chunk()
    }

    async fn more(&mut self) -> Result<(), Gone> {
        self.chunk = None;
        let chunk = self.inflow.next().await?;
        self.take(chunk)
    }

    fn take(&mut self, chunk: Chunk) -> Result<(), Gone> {
        self.last.set(self.ring.turn_time());
        if std::mem::take(&mut self.frames) > 1 {
            self.inflow.several();
        }
        if chunk.is_empty() {
            return Err(Gone::Torn);
        }
        (self.position, self.lookout) = (0, Lookout::default());
        self.chunk = Some(chunk);
        Ok(())
    }

    /// Waits for the first byte of a frame: here the peer may end the stream.
    #[inline]
    pub async fn ready(&mut self) -> Result<(), Gone> {
        if self.chunk.is_none()
            && let Err(gone) = self.more().await
        {
            return Err(if matches!(gone, Gone::Torn) { Gone::Closed } else { gone });
        }
        self.frames += 1;
        Ok(())
    }

    /// Fills `into`, the first bytes of a frame: before them the peer may end the stream.
    pub async fn first(&mut self, into: &mut [u8]) -> Result<(), Gone> {
        self.ready().await?;
        self.exact(into).await
    }

    /// Fills `into`. What has come already, as most has, is taken without a state machine.
    #[inline]
    pub async fn exact(&mut self, into: &mut [u8]) -> Result<(), Gone> {
        let Some(part) = self.received(into.len()) else { return self.exact_in_parts(into).await };
        into.copy_from_slice(part);
        self.consume(into.len());
        Ok(())
    }

    async fn exact_in_parts(&mut self, into: &mut [u8]) -> Result<(), Gone> {
        let mut done = 0;
        loop {
            let part = self.buffered();
            let count = part.len().min(into.len() - done);
            into[done..done + count].copy_from_slice(&part[..count]);
            self.consume(count);
            done += count;
            if done == into.len() {
                return Ok(());
            }
            self.more().await?;
        }
    }

    /// Fills the bytes `start..end` of `buffer`.
    pub async fn fill(&mut self, mut buffer: Buffer, start: usize, end: usize) -> Result<Buffer, Gone> {
        let mut at = start;
        loop {
            let part = self.buffered();
            let count = part.len().min(end - at);
            buffer[at..at + count].copy_from_slice(&part[..count]);
            self.consume(count);
            at += count;
            if at == end {
                return Ok(buffer);
            }
            if end - at < DIRECT {
                self.more().await?;
                continue;
            }
            if let Some(chunk) = self.inflow.rest().await? {
                self.take(chunk)?;
                continue;
            }
            let (count, back) = self.inflow.socket().receive_range(buffer, at..end).await;
            self.last.set(self.ring.turn_time());
            buffer = back;
            match count? {
                0 => return Err(Gone::Torn),
                count => at += count,
            }
        }
    }

    /// Takes `count` bytes and forgets them.
    #[inline]
    pub async fn skip(&mut self, count: usize) -> Result<(), Gone> {
        if count > 0 {
            match self.received(count) {
                Some(_) => self.consume(count),
                None => self.skip_in_parts(count).await?,
            }
        }
        Ok(())
    }

    async fn skip_in_parts(&mut self, mut count: usize) -> Result<(), Gone> {
        while count > 0 {
            if self.buffered().is_empty() {
                self.more().await?;
            }
            let part = self.buffered().len().min(count);
            self.consume(part);
            count -= part;
        }
        Ok(())
    }

    /// Ends a reader that was made to hand on its connection; gives that and what came and was not taken.
    pub fn into_parts(self) -> (Socket, Vec<u8>) {
        let rest = self.buffered().to_vec();
        (self.inflow.into_socket(), rest)
    }

    /// A reader that goes on where another one ended.
    pub fn resume(ring: Ring, socket: Socket, rest: &[u8]) -> Reader {
        let mut reader = Reader::new(ring, socket);
        if !rest.is_empty() {
            reader.chunk = Some(Chunk::owned(Buffer::copy_of(rest)));
        }
        reader
    }
}
