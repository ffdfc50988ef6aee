//! Received bytes in a buffer that the driver chose.

use std::ops::Deref;
use std::rc::Rc;

use crate::buffer::Buffer;
use crate::provided::Provided;
use crate::sim::Hold;

enum Source {
    Provided { pool: Rc<Provided>, id: u16 },
    Simulated { bytes: Buffer, _hold: Hold },
    Owned(Buffer),
}

/// Received bytes. Drop it soon: until then the ring has one receive buffer less.
pub struct Chunk {
    source: Source,
    length: usize,
}

impl Chunk {
    pub(crate) fn provided(pool: Rc<Provided>, id: u16, length: usize) -> Chunk {
        pool.hold();
        Chunk { source: Source::Provided { pool, id }, length }
    }

    /// Bytes in a receive buffer of a simulated world.
    pub(crate) fn simulated(bytes: Buffer, hold: Hold) -> Chunk {
        Chunk { length: bytes.len(), source: Source::Simulated { bytes, _hold: hold } }
    }

    /// Bytes that came another way: with a connection from another core, or out of a receive buffer that others needed.
    pub fn owned(buffer: Buffer) -> Chunk {
        Chunk { length: buffer.len(), source: Source::Owned(buffer) }
    }

    /// Whether it keeps a receive buffer of the ring.
    pub fn is_in_a_receive_buffer(&self) -> bool {
        !matches!(self.source, Source::Owned(_))
    }
}

impl Deref for Chunk {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match &self.source {
            Source::Provided { pool, id } => pool.bytes(*id, self.length),
            Source::Simulated { bytes, .. } => bytes,
            Source::Owned(buffer) => buffer,
        }
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        if let Source::Provided { pool, id } = &self.source {
            pool.give(*id);
        }
    }
}
