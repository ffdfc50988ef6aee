//! Where the segments of a PDU lie: RFC 7143 sections 11.1 and 11.2.2.
//!
//! ```text
//! | BHS 48 | AHS 0..=1020 | header digest 0/4 | data | pad 0..=3 | data digest 0/4 |
//! ```
//! The data digest is there only when there is data.

/// Bytes of a basic header segment.
pub const BHS_LENGTH: usize = 48;
/// Bytes of a digest.
pub const DIGEST_LENGTH: usize = 4;
/// The most bytes that additional header segments may take: `TotalAHSLength` is one byte of words.
pub const MAX_AHS_LENGTH: usize = 255 * 4;
/// The most bytes before the data segment.
pub const MAX_HEADER_LENGTH: usize = BHS_LENGTH + MAX_AHS_LENGTH + DIGEST_LENGTH;

/// A basic header segment as it is on the wire.
pub type Bhs = [u8; BHS_LENGTH];

/// Bytes of all additional header segments: `TotalAHSLength`, in bytes.
#[inline]
pub const fn ahs_length(bhs: &Bhs) -> usize {
    bhs[4] as usize * 4
}

/// `DataSegmentLength`: bytes of data without padding.
#[inline]
pub const fn data_segment_length(bhs: &Bhs) -> usize {
    u32::from_be_bytes([0, bhs[5], bhs[6], bhs[7]]) as usize
}

/// Sets `TotalAHSLength`. `length` is in bytes, padded; what does not fit is the caller's error and
/// is cut to the largest length there is.
pub const fn set_ahs_length(bhs: &mut Bhs, length: usize) {
    let words = length.div_ceil(4);
    bhs[4] = if words > 255 { 255 } else { words as u8 };
}

/// How many zero bytes fill `length` up to a word.
#[inline]
pub const fn padding(length: usize) -> usize {
    length.wrapping_neg() & 3
}

/// `length` filled up to a word.
#[inline]
pub const fn padded(length: usize) -> usize {
    length + padding(length)
}

/// Which digests a connection uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Framing {
    /// `HeaderDigest=CRC32C` was agreed.
    pub header_digest: bool,
    /// `DataDigest=CRC32C` was agreed.
    pub data_digest: bool,
}

impl Framing {
    /// Bytes of the header digest.
    #[inline]
    pub const fn header_digest_length(self) -> usize {
        if self.header_digest { DIGEST_LENGTH } else { 0 }
    }

    /// Bytes of the data digest after `data_segment_length` bytes of data; no data, no digest.
    #[inline]
    pub const fn data_digest_length(self, data_segment_length: usize) -> usize {
        if self.data_digest && data_segment_length > 0 { DIGEST_LENGTH } else { 0 }
    }

    /// Bytes before the data segment: BHS, AHS and header digest. At most [`MAX_HEADER_LENGTH`].
    #[inline]
    pub const fn header_length(self, bhs: &Bhs) -> usize {
        BHS_LENGTH + ahs_length(bhs) + self.header_digest_length()
    }

    /// Bytes after the header: data, padding and data digest.
    #[inline]
    pub const fn data_length(self, bhs: &Bhs) -> usize {
        let length = data_segment_length(bhs);
        padded(length) + self.data_digest_length(length)
    }

    /// Bytes of the whole PDU.
    #[inline]
    pub const fn total_length(self, bhs: &Bhs) -> usize {
        self.header_length(bhs) + self.data_length(bhs)
    }
}

/// One additional header segment, section 11.2.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdditionalHeader<'a> {
    /// Type 1: what of the CDB follows its first 16 bytes, section 11.2.2.3.
    ExtendedCdb(&'a [u8]),
    /// Type 2: bytes a bidirectional command expects to read, section 11.2.2.4.
    BidirectionalReadLength(u32),
    /// Any other type; it may be skipped.
    Unknown {
        /// `AHSType`.
        kind: u8,
        /// AHS-Specific, without padding.
        specific: &'a [u8],
    },
}

/// The additional header segments do not fit together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AhsError {
    /// A segment says that it is longer than what is there.
    #[error("an additional header segment is longer than TotalAHSLength leaves room for")]
    Truncated,
    /// A segment has a length its type cannot have.
    #[error("additional header segment of type {kind} with AHSLength {length}")]
    BadLength {
        /// `AHSType`.
        kind: u8,
        /// `AHSLength`.
        length: u16,
    },
}

/// Walks over the additional header segments; ends after the first error.
#[derive(Debug, Clone)]
pub struct AdditionalHeaders<'a> {
    rest: &'a [u8],
}

impl<'a> AdditionalHeaders<'a> {
    /// `bytes`: all additional header segments, without the header digest.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    fn take_one(&mut self) -> Result<AdditionalHeader<'a>, AhsError> {
        let [high, low, kind, ..] = *self.rest else { return Err(AhsError::Truncated) };
        let length = u16::from_be_bytes([high, low]);
        // AHSLength counts neither itself nor the type.
        let end = 3 + usize::from(length);
        let specific = self.rest.get(3..end).ok_or(AhsError::Truncated)?;
        self.rest = self.rest.get(padded(end)..).ok_or(AhsError::Truncated)?;
        match (kind & 0x3f, specific) {
            // One reserved byte stands before the bytes of the CDB.
            (1, [_, cdb @ ..]) if !cdb.is_empty() => Ok(AdditionalHeader::ExtendedCdb(cdb)),
            (2, [_, a, b, c, d]) => {
                Ok(AdditionalHeader::BidirectionalReadLength(u32::from_be_bytes([*a, *b, *c, *d])))
            }
            (1 | 2, _) => Err(AhsError::BadLength { kind, length }),
            _ => Ok(AdditionalHeader::Unknown { kind, specific }),
        }
    }
}

impl<'a> Iterator for AdditionalHeaders<'a> {
    type Item = Result<AdditionalHeader<'a>, AhsError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let item = self.take_one();
        if item.is_err() {
            self.rest = &[];
        }
        Some(item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn header(ahs_words: u8, data: u32) -> Bhs {
        let mut bhs = [0; BHS_LENGTH];
        bhs[4..8].copy_from_slice(&(u32::from(ahs_words) << 24 | data).to_be_bytes());
        bhs
    }

    #[test]
    fn lengths_of_every_combination_of_digests() {
        let both = Framing { header_digest: true, data_digest: true };
        let none = Framing::default();
        for (bhs, plain, digested) in [
            (header(0, 0), 48, 52),
            (header(0, 1), 52, 60),
            (header(0, 4), 52, 60),
            (header(2, 5), 64, 72),
            (header(255, 0x00ff_ffff), 48 + 1020 + 0x0100_0000, 48 + 1020 + 0x0100_0000 + 8),
        ] {
            assert_eq!(none.total_length(&bhs), plain);
            assert_eq!(both.total_length(&bhs), digested);
        }
        assert_eq!(both.header_length(&header(255, 0)), MAX_HEADER_LENGTH);
    }

    #[test]
    fn ahs_length_is_set_in_words_and_capped() {
        let mut bhs = header(0, 77);
        set_ahs_length(&mut bhs, 21);
        assert_eq!((ahs_length(&bhs), data_segment_length(&bhs)), (24, 77));
        set_ahs_length(&mut bhs, 5000);
        assert_eq!(ahs_length(&bhs), MAX_AHS_LENGTH);
    }

    #[test]
    fn extended_cdb_and_bidirectional_length() {
        // A 32-byte CDB: 16 more bytes and the reserved one make AHSLength 17.
        let mut bytes = vec![0, 17, 1, 0];
        bytes.extend(1..=16);
        bytes.extend([0, 5, 2, 0, 0, 1, 0, 0]);
        let found: Result<Vec<_>, _> = AdditionalHeaders::new(&bytes).collect();
        let cdb: Vec<u8> = (1..=16).collect();
        assert_eq!(
            found.unwrap(),
            [AdditionalHeader::ExtendedCdb(&cdb), AdditionalHeader::BidirectionalReadLength(0x1_0000)]
        );
    }

    #[test]
    fn bad_segments_are_errors_and_end_the_walk() {
        for (bytes, error) in [
            (&[0u8, 9][..], AhsError::Truncated),
            (&[0, 5, 2, 0, 0, 0, 0], AhsError::Truncated),
            (&[0, 4, 2, 0, 0, 0, 0, 0], AhsError::BadLength { kind: 2, length: 4 }),
            (&[0, 1, 1, 0], AhsError::BadLength { kind: 1, length: 1 }),
            (&[0xff, 0xff, 7, 0], AhsError::Truncated),
        ] {
            let found: Vec<_> = AdditionalHeaders::new(bytes).collect();
            assert_eq!(found, [Err(error)], "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn any_additional_headers_are_walked_to_an_end(bytes in prop::collection::vec(any::<u8>(), 0..1021)) {
            // Each step takes at least three bytes, so the walk is bounded.
            prop_assert!(AdditionalHeaders::new(&bytes).count() <= bytes.len() / 3 + 1);
        }

        #[test]
        fn padding_reaches_the_next_word(length in 0usize..1 << 24) {
            prop_assert_eq!(padded(length) % 4, 0);
            prop_assert!(padding(length) < 4);
        }
    }
}
