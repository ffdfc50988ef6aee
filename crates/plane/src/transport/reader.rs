//! What a connection receives, cut as the frames want it.
//!
//! Small pieces come out of a receive buffer that the ring lends; while nothing comes, the connection holds none.
//! The large rest of a frame is received straight into the buffer that it is for.

use std::cell::Cell;
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;

use ring::{Buffer, Chunk, Inflow, Instant, Ring, Socket, Soon};

use super::lookout::Lookout;
use super::received::{PIECES, Received};
use crate::memory_gate::has_memory;

/// From here on a piece is received straight into its buffer, in bytes. Below it a copy out of the cache costs less than
/// receives that take so little at a time: each tells the peer about room, and answers leave in smaller batches.
const DIRECT: usize = 256 << 10;
/// Bytes of a frame that is [gathered](Reader::gather) at most: what is received directly is none, but for its header.
const GATHERED: usize = DIRECT + 256;

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
    /// The next frame that begins here or behind is waited for: 0 when there is no chunk, the half of one of which the second
    /// half is left for the next turn, and beyond its end when nothing is.
    pause: usize,
    /// What has come after `chunk`, which has not been taken wholly.
    behind: VecDeque<Chunk>,
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
        let behind = VecDeque::new();
        Reader {
            ring,
            inflow,
            chunk: None,
            position: 0,
            pause: 0,
            behind,
            lookout: Lookout::default(),
            frames: 0,
            last,
        }
    }

    /// When something last came; for those who watch the connection.
    pub fn last_received(&self) -> Rc<Cell<Instant>> {
        self.last.clone()
    }

    /// What has come and has not been taken, as far as it lies in one piece.
    fn buffered(&self) -> &[u8] {
        self.chunk.as_ref().map_or(&[], |chunk| &chunk[self.position..])
    }

    /// Takes bytes that [`Reader::received`] or [`Reader::gathered`] has shown.
    #[inline]
    pub fn consume(&mut self, count: usize) {
        let here = self.buffered().len();
        if count > here {
            return self.consume_pieces(count - here);
        }
        self.position += count;
        if count == here {
            self.end_chunk();
        }
    }

    /// Takes all of the chunk and `count` bytes of those behind it.
    fn consume_pieces(&mut self, mut count: usize) {
        self.end_chunk();
        while count > 0 {
            let chunk = self.behind.pop_front().expect("bytes that were shown");
            if count < chunk.len() {
                return self.begin_chunk(chunk, count);
            }
            count -= chunk.len();
        }
    }

    /// Whether the next frame is the first of its chunk: nobody has looked ahead to it.
    #[inline]
    pub fn is_unforeseen(&self) -> bool {
        self.lookout.has_seen_nothing()
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

    /// The next `count` bytes from `skip` on, if they have come already, in the pieces in which they lie.
    #[inline]
    pub fn gathered(&self, skip: usize, count: usize) -> Option<Received<'_>> {
        if let Some(piece) = self.buffered().get(skip..skip + count) {
            return Some(piece.into());
        }
        let behind = self.behind.iter().map(|chunk| &chunk[..]);
        Received::of(std::iter::once(self.buffered()).chain(behind), skip, count)
    }

    /// Waits for the next `count` bytes, of which some have come, and keeps them in the pieces in which they come. False where
    /// that is not to be: they come in too many pieces, or too many receive buffers are held already. Then they are to be
    /// taken part by part.
    pub async fn gather(&mut self, count: usize) -> Result<bool, Gone> {
        if count > GATHERED {
            return Ok(false);
        }
        let mut come = self.buffered().len() + self.behind.iter().map(|chunk| chunk.len()).sum::<usize>();
        while come < count {
            if self.behind.len() + 1 >= PIECES || !self.ring.has_plenty_of_buffers() {
                return Ok(false);
            }
            self.receive().await?;
            come += self.behind.back().map_or(0, |chunk| chunk.len());
        }
        Ok(true)
    }

    /// What is waited for now is not the peer's next bytes, and may take as long as he likes: what has come of him gives the
    /// receive buffers back that others need, unless few are held.
    #[cold]
    #[inline(never)]
    pub fn put_aside(&mut self) {
        if self.ring.has_plenty_of_buffers() {
            return;
        }
        let is_to_go = |rest: &[u8], chunk: &Chunk| chunk.is_in_a_receive_buffer() && has_memory(rest.len());
        if let Some(chunk) = &self.chunk
            && let rest = &chunk[self.position..]
            && is_to_go(rest, chunk)
        {
            let rest = Chunk::owned(Buffer::copy_of(rest));
            self.begin_chunk(rest, 0);
        }
        for chunk in &mut self.behind {
            if is_to_go(chunk, chunk) {
                *chunk = Chunk::owned(Buffer::copy_of(chunk));
            }
        }
    }

    /// The next `N` bytes, as [`Reader::received`].
    #[inline]
    pub fn begin<const N: usize>(&self) -> Option<&[u8; N]> {
        self.buffered().first_chunk()
    }

    /// What is left of the chunk is not needed; the next one takes its place.
    #[inline]
    async fn more(&mut self) -> Result<(), Gone> {
        self.end_chunk();
        match self.behind.pop_front() {
            Some(chunk) => self.begin_chunk(chunk, 0),
            None => self.receive().await?,
        }
        Ok(())
    }

    /// Receives a chunk, behind the one that is there.
    async fn receive(&mut self) -> Result<(), Gone> {
        let chunk = self.inflow.next().await?;
        self.take(chunk)
    }

    fn take(&mut self, chunk: Chunk) -> Result<(), Gone> {
        self.last.set(self.ring.recent_time());
        if std::mem::take(&mut self.frames) > 1 {
            self.inflow.several();
        }
        if chunk.is_empty() {
            return Err(Gone::Torn);
        }
        if self.chunk.is_some() {
            self.behind.push_back(chunk);
        } else {
            self.begin_chunk(chunk, 0);
        }
        Ok(())
    }

    fn begin_chunk(&mut self, chunk: Chunk, position: usize) {
        (self.position, self.lookout) = (position, Lookout::default());
        self.pause = if self.ring.is_in_lockstep() { chunk.len().div_ceil(2) } else { usize::MAX };
        self.chunk = Some(chunk);
    }

    fn end_chunk(&mut self) {
        (self.chunk, self.pause) = (None, 0);
    }

    /// Waits for the first byte of a frame: here the peer may end the stream. When this core and the peer work in turn, the
    /// second half of a chunk waits until the answers to the first are on their way, so that both work at once.
    #[inline]
    pub async fn ready(&mut self) -> Result<(), Gone> {
        if self.position >= self.pause {
            self.wait_for_frame().await?;
        }
        self.frames += 1;
        Ok(())
    }

    async fn wait_for_frame(&mut self) -> Result<(), Gone> {
        if self.chunk.is_some() {
            self.pause = usize::MAX;
            self.ring.break_step().await;
            return Ok(());
        }
        self.more().await.map_err(|gone| if matches!(gone, Gone::Torn) { Gone::Closed } else { gone })
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
            if !self.behind.is_empty() {
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
        let mut rest = self.buffered().to_vec();
        self.behind.iter().for_each(|chunk| rest.extend_from_slice(chunk));
        (self.inflow.into_socket(), rest)
    }

    /// A reader that goes on where another one ended.
    pub fn resume(ring: Ring, socket: Socket, rest: &[u8]) -> Reader {
        let mut reader = Reader::new(ring, socket);
        if !rest.is_empty() {
            reader.begin_chunk(Chunk::owned(Buffer::copy_of(rest)), 0);
        }
        reader
    }
}

#[cfg(test)]
mod tests;
