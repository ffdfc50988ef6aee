//! The completion queue entry: Base 2.1 section 4.2.1.

use super::layout::{Field, structure};
use super::status::Status;

/// Bytes of a completion queue entry.
pub const COMPLETION_LENGTH: usize = Completion::LENGTH;

structure! {
    /// A completion queue entry, as it stands in a response capsule. The queue identifier and the phase tag are
    /// reserved over fabrics.
    pub struct Completion: 16 {
        /// Dwords 0 and 1: what the command gives back; most commands use the low 32 bits.
        result: u64 = 0,
        /// SQHD: the submission queue head pointer.
        sqhd: u16 = 8,
        /// CID of the command.
        cid: u16 = 12,
        /// Status without the phase tag.
        status: Status = 14,
    }
}

impl Field for Status {
    #[inline]
    fn get(bytes: &[u8], offset: usize) -> Self {
        Self::from_wire(Field::get(bytes, offset))
    }

    #[inline]
    fn put(self, bytes: &mut [u8], offset: usize) {
        self.to_wire().put(bytes, offset);
    }
}
