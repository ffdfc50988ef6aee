//! Header and data digests: CRC32C, RFC 7143 section 13.1.
//!
//! A digest is sent with its least significant byte first. `crc-fast` was measured against `crc32c`: 4 ns
//! for 48 bytes against 7, 66 ns for 4 KiB against 150 (AVX-512 machine).

use crc_fast::{CrcAlgorithm, Digest};

use super::frame::{DIGEST_LENGTH, padding};

/// A CRC32C over bytes that come in pieces.
#[derive(Clone, Copy, Debug)]
pub struct Crc32c(Digest);

impl Default for Crc32c {
    fn default() -> Self {
        Self::new()
    }
}

impl Crc32c {
    /// Over nothing yet.
    #[inline]
    pub fn new() -> Self {
        Self(Digest::new(CrcAlgorithm::Crc32Iscsi))
    }

    /// Takes in more bytes.
    #[inline]
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Takes in the zero bytes that fill `length` bytes of data up to a word.
    #[inline]
    pub fn pad(&mut self, length: usize) {
        self.update(&[0; 3][..padding(length)]);
    }

    /// The CRC as a number.
    #[inline]
    pub fn value(&self) -> u32 {
        self.0.finalize() as u32
    }

    /// The CRC as it is sent.
    #[inline]
    pub fn wire(&self) -> [u8; DIGEST_LENGTH] {
        self.value().to_le_bytes()
    }
}

/// CRC32C of bytes that lie in one piece.
#[inline]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

/// The digest of a header (BHS and AHS in one piece), as it is sent.
#[inline]
pub fn header_digest(header: &[u8]) -> [u8; DIGEST_LENGTH] {
    crc32c(header).to_le_bytes()
}

/// The digest of a data segment, as it is sent: zero padding is added, `data` has none.
#[inline]
pub fn data_digest(data: &[u8]) -> [u8; DIGEST_LENGTH] {
    if padding(data.len()) == 0 {
        return crc32c(data).to_le_bytes();
    }
    let mut crc = Crc32c::new();
    crc.update(data);
    crc.pad(data.len());
    crc.wire()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// RFC 7143 appendix A.4 (RFC 3720 appendix B.4), bytes as they are sent.
    #[test]
    fn vectors_of_the_standard() {
        let incrementing: Vec<u8> = (0..32).collect();
        let decrementing: Vec<u8> = (0..32).rev().collect();
        let mut read10 = [0u8; 48];
        read10[0] = 0x01;
        read10[1] = 0xc0;
        read10[16] = 0x14;
        read10[22] = 0x04;
        read10[27] = 0x14;
        read10[31] = 0x18;
        read10[32] = 0x28;
        read10[40] = 0x02;
        for (bytes, digest) in [
            (&[0u8; 32][..], [0xaa, 0x36, 0x91, 0x8a]),
            (&[0xff; 32], [0x43, 0xab, 0xa8, 0x62]),
            (&incrementing, [0x4e, 0x79, 0xdd, 0x46]),
            (&decrementing, [0x5c, 0xdb, 0x3f, 0x11]),
            (&read10, [0x56, 0x3a, 0x96, 0xd9]),
        ] {
            assert_eq!(header_digest(bytes), digest);
            assert_eq!(data_digest(bytes), digest);
        }
    }

    #[test]
    fn padding_is_covered() {
        assert_eq!(data_digest(b"abcde"), header_digest(b"abcde\0\0\0"));
        assert_ne!(data_digest(b"abcde"), header_digest(b"abcde"));
    }

    proptest! {
        #[test]
        fn pieces_give_the_same_as_the_whole(
            bytes in prop::collection::vec(any::<u8>(), 0..300), cut in 0usize..300,
        ) {
            let cut = cut.min(bytes.len());
            let mut crc = Crc32c::new();
            crc.update(&bytes[..cut]);
            crc.update(&bytes[cut..]);
            prop_assert_eq!(crc.value(), crc32c(&bytes));
        }
    }
}
