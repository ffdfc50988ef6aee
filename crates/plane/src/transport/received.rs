//! What has been received of a frame, where it lies.

/// Pieces of a frame at most: of one that begins in a receive buffer and goes on in the next ones.
pub(super) const PIECES: usize = 3;

/// Bytes that lie in a few pieces, one behind the other.
#[derive(Clone, Copy)]
pub struct Received<'a> {
    pieces: [&'a [u8]; PIECES],
    count: usize,
    length: usize,
}

impl<'a> Received<'a> {
    /// The bytes of `chunks` from `skip` on, `length` of them; `None` where there are fewer, or in more pieces.
    pub(super) fn of(chunks: impl Iterator<Item = &'a [u8]>, mut skip: usize, length: usize) -> Option<Self> {
        let mut received = Received { pieces: [&[]; PIECES], count: 0, length };
        let mut missing = length;
        for chunk in chunks {
            if missing == 0 {
                break;
            }
            let (begin, end) = (skip.min(chunk.len()), (skip + missing).min(chunk.len()));
            skip -= begin;
            if begin < end {
                *received.pieces.get_mut(received.count)? = &chunk[begin..end];
                received.count += 1;
                missing -= end - begin;
            }
        }
        (missing == 0).then_some(received)
    }

    /// Bytes in all.
    pub fn len(&self) -> usize {
        self.length
    }

    /// No bytes.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The pieces in order, none of them empty.
    pub fn pieces(&self) -> &[&'a [u8]] {
        &self.pieces[..self.count]
    }
}

impl<'a> From<&'a [u8]> for Received<'a> {
    fn from(piece: &'a [u8]) -> Self {
        Received { pieces: [piece, &[], &[]], count: usize::from(!piece.is_empty()), length: piece.len() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(skip: usize, length: usize) -> Option<Vec<&'static [u8]>> {
        let chunks: [&[u8]; 5] = [b"abc", b"", b"de", b"f", b"gh"];
        let received = Received::of(chunks.into_iter(), skip, length)?;
        assert_eq!((received.len(), received.is_empty()), (length, length == 0));
        Some(received.pieces().to_vec())
    }

    #[test]
    fn bytes_are_found_in_the_pieces_in_which_they_lie() {
        assert_eq!(pieces(0, 3), Some(vec![&b"abc"[..]]));
        assert_eq!(pieces(1, 3), Some(vec![&b"bc"[..], b"d"]));
        assert_eq!(pieces(3, 2), Some(vec![&b"de"[..]]));
        assert_eq!(pieces(4, 4), Some(vec![&b"e"[..], b"f", b"gh"]));
        assert_eq!(pieces(2, 4), Some(vec![&b"c"[..], b"de", b"f"]));
        assert_eq!(pieces(8, 0), Some(vec![]));
        assert_eq!(pieces(9, 0), Some(vec![]));
        assert_eq!((pieces(4, 5), pieces(8, 1)), (None, None), "there are fewer");
        assert_eq!(pieces(2, 5), None, "in four pieces");
        assert_eq!(Received::from(&b"ab"[..]).pieces(), [b"ab"]);
        assert!(Received::from(&b""[..]).pieces().is_empty());
    }
}
