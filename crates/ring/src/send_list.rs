//! What one gathered send carries: small pieces copied in, large ones shared.

use std::cell::{Cell, RefCell};
use std::ptr;

use crate::KEEPS;
use crate::buffer::Shared;
use crate::memory::ahead;

/// Most pieces in one send (the kernel's `IOV_MAX`).
pub const MAX_SEGMENTS: usize = 1024;

/// Memory that the lists take which a core keeps for later, in bytes.
const SPARE_BYTES: usize = 16 << 20;

/// Lists that were given back, the last one used last: it is in the cache.
#[derive(Default)]
struct Spares {
    #[expect(clippy::vec_box, reason = "a send takes the box and gives it back")]
    lists: RefCell<Vec<Box<SendList>>>,
    bytes: Cell<usize>,
}

thread_local! {
    static SPARES: Spares = const { Spares { lists: RefCell::new(Vec::new()), bytes: Cell::new(0) } };
}

enum Segment {
    /// A range of `inline`.
    Inline {
        start: usize,
        length: usize,
    },
    Shared(Shared),
}

/// Bytes to send in order. Its memory goes from one sender of a core to the next: who has nothing to send has no list.
pub struct SendList {
    inline: Vec<u8>,
    segments: Vec<Segment>,
    length: usize,
    /// Bytes that are with the kernel already.
    gone: usize,
    iovecs: Vec<libc::iovec>,
    message: libc::msghdr,
}

impl Spares {
    fn pop(&self) -> Option<Box<SendList>> {
        let list = self.lists.borrow_mut().pop()?;
        self.bytes.set(self.bytes.get() - list.capacity());
        Some(list)
    }

    fn push(&self, list: Box<SendList>) {
        let bytes = self.bytes.get() + list.capacity();
        if KEEPS && bytes <= SPARE_BYTES {
            self.bytes.set(bytes);
            self.lists.borrow_mut().push(list);
        }
    }
}

impl SendList {
    /// An empty list, if possible one that was [given back](Self::give_back).
    pub fn new() -> Box<SendList> {
        SPARES.with(Spares::pop).unwrap_or_else(SendList::fresh)
    }

    fn fresh() -> Box<SendList> {
        // SAFETY: all zeroes is a valid `msghdr`: no name, no pieces, no control data.
        let message = unsafe { std::mem::zeroed() };
        Box::new(SendList {
            inline: Vec::new(),
            segments: Vec::new(),
            length: 0,
            gone: 0,
            iovecs: Vec::new(),
            message,
        })
    }

    /// Appends a copy of `bytes`, such as padding. What is made to be sent is better [made there](Self::push_header).
    pub fn push_bytes(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        ahead::step();
        self.note_inline(bytes.len());
        self.inline.extend_from_slice(bytes);
    }

    /// Appends a header, zeroes that `write` changes where they lie, and gives it. Who stores it somewhere else in parts and
    /// copies it then, waits until all that was stored before has reached its place.
    #[inline]
    pub fn push_header<const N: usize>(&mut self, write: impl FnOnce(&mut [u8; N])) -> &[u8; N] {
        ahead::step();
        self.note_inline(N);
        self.inline.extend_from_slice(&[0; N]);
        let header = self.inline.last_chunk_mut().expect("as many bytes as were appended");
        write(header);
        header
    }

    /// So many bytes will be copied in.
    #[inline]
    fn note_inline(&mut self, bytes: usize) {
        self.length += bytes;
        match self.segments.last_mut() {
            Some(Segment::Inline { length, .. }) => *length += bytes,
            _ => self.segments.push(Segment::Inline { start: self.inline.len(), length: bytes }),
        }
    }

    /// Appends a part of a buffer without a copy.
    pub fn push(&mut self, part: Shared) {
        ahead::step();
        if !part.is_empty() {
            self.length += part.len();
            self.segments.push(Segment::Shared(part));
        }
    }

    /// Bytes in all.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Pieces in all; a send takes at most [`MAX_SEGMENTS`].
    pub fn segments(&self) -> usize {
        self.segments.len()
    }

    /// Forgets what is in it, and keeps its memory for the next one who wants to send on this core.
    pub fn give_back(mut self: Box<Self>) {
        self.clear();
        SPARES.with(|spares| spares.push(self));
    }

    /// Forgets everything but the memory.
    pub fn clear(&mut self) {
        self.inline.clear();
        self.segments.clear();
        self.iovecs.clear();
        (self.length, self.gone) = (0, 0);
    }

    /// Memory that it has, in bytes.
    fn capacity(&self) -> usize {
        size_of::<SendList>()
            + self.inline.capacity()
            + self.segments.capacity() * size_of::<Segment>()
            + self.iovecs.capacity() * size_of::<libc::iovec>()
    }

    /// The pieces in order.
    pub fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        self.segments.iter().map(|segment| match segment {
            Segment::Inline { start, length } => &self.inline[*start..*start + *length],
            Segment::Shared(part) => &part[..],
        })
    }

    /// The first `count` bytes of what is left have gone.
    pub(crate) fn note_gone(&mut self, count: usize) {
        self.gone += count;
    }

    /// Bytes that have not gone yet.
    pub(crate) fn left(&self) -> usize {
        self.length - self.gone
    }

    /// What is left, when it lies in one piece: it needs no list of pieces.
    pub(crate) fn only_piece(&self) -> Option<&[u8]> {
        if self.segments.len() == 1 { self.pieces().next().map(|piece| &piece[self.gone..]) } else { None }
    }

    /// The message of what is left, for the kernel. Valid until the list is changed or moved out of its box.
    pub(crate) fn message(&mut self) -> *const libc::msghdr {
        let SendList { inline, segments, iovecs, message, gone, .. } = self;
        iovecs.clear();
        iovecs.extend(segments.iter().map(|segment| {
            let bytes = match segment {
                Segment::Inline { start, length } => &inline[*start..*start + *length],
                Segment::Shared(part) => &part[..],
            };
            libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() }
        }));
        if *gone > 0 {
            skip(iovecs, *gone);
        }
        message.msg_iov = iovecs.as_mut_ptr();
        message.msg_iovlen = iovecs.len();
        ptr::from_ref(message)
    }
}

/// Takes the first `count` bytes away.
fn skip(pieces: &mut Vec<libc::iovec>, mut count: usize) {
    pieces.retain_mut(|piece| {
        let gone = count.min(piece.iov_len);
        count -= gone;
        piece.iov_base = piece.iov_base.wrapping_byte_add(gone);
        piece.iov_len -= gone;
        piece.iov_len > 0
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::Buffer;

    #[test]
    fn small_pieces_join_and_large_ones_are_shared() {
        let mut list = SendList::new();
        let data = Buffer::copy_of(b"data").share();
        list.push_bytes(b"head");
        list.push_bytes(b"er ");
        list.push(data.clone());
        list.push_bytes(b" tail");
        let pieces: Vec<_> = list.pieces().collect();
        assert_eq!(pieces, [&b"header "[..], b"data", b" tail"]);
        assert_eq!((list.len(), list.segments()), (16, 3));
        // What is left when so much has gone.
        let mut left = |more| {
            list.note_gone(more);
            list.message();
            (list.left(), list.iovecs.iter().map(|piece| piece.iov_len).collect::<Vec<_>>())
        };
        assert_eq!(left(0), (16, vec![7, 4, 5]));
        assert_eq!(left(3), (13, vec![4, 4, 5]));
        assert_eq!(left(4), (9, vec![4, 5]));
        assert_eq!(left(5), (4, vec![4]));
        assert_eq!(left(4), (0, vec![]));
        list.clear();
        assert!(list.is_empty());
        list.push_bytes(b"alone");
        list.note_gone(2);
        assert_eq!(list.only_piece(), Some(&b"one"[..]));
    }

    #[test]
    #[cfg_attr(sanitized, ignore = "nothing is kept")]
    fn memory_goes_to_the_next_sender_and_not_more_of_it_than_is_kept() {
        let mut list = SendList::new();
        list.push_bytes(&[7; 300]);
        let place = ptr::from_ref(&*list);
        list.give_back();
        let again = SendList::new();
        assert!(ptr::eq(&raw const *again, place) && again.is_empty() && again.inline.capacity() >= 300);
        assert!(!ptr::eq(&raw const *SendList::new(), place), "it is lent once");
        let many: Vec<_> = (0..3)
            .map(|_| {
                let mut list = SendList::new();
                list.push_bytes(&vec![7; SPARE_BYTES / 2]);
                list
            })
            .collect();
        many.into_iter().for_each(SendList::give_back);
        again.give_back();
        SPARES.with(|spares| {
            let lists = spares.lists.borrow();
            let bytes = lists.iter().map(|list| list.capacity()).sum::<usize>();
            assert!(bytes == spares.bytes.get() && bytes <= SPARE_BYTES, "{bytes}");
            assert_eq!(lists.len(), 2, "one of the large ones and the small one");
        });
    }
}
