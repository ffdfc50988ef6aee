//! Checksums of blocks: CRC32C (Castagnoli, RFC 3720 appendix B.4), alone or in the pass that copies.

/// Vectors take bytes by this much; everything else is left to `crc-fast`.
#[cfg(target_arch = "x86_64")]
const STEP: usize = crate::x86::CRC_STEP;

/// CRC32C of `bytes`. Those of a multiple of 512 bytes are the fastest.
#[inline]
pub fn crc32c(bytes: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if fits(bytes) {
        // SAFETY: the processor has the instructions, and the length is a multiple of the step, more than none.
        return unsafe { crate::x86::crc32c(bytes) };
    }
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

/// Copies `from` to `to`, which is as long, and gives its CRC32C. With vectors that takes hardly longer than the CRC alone: the
/// copy waits for memory, the CRC for the multiplier.
#[inline]
pub fn copy_crc32c(from: &[u8], to: &mut [u8]) -> u32 {
    assert!(from.len() == to.len(), "{} bytes to copy to {}", from.len(), to.len());
    #[cfg(target_arch = "x86_64")]
    if fits(from) {
        // SAFETY: as above, and `to` is as long.
        return unsafe { crate::x86::copy_crc32c(from, to) };
    }
    to.copy_from_slice(from);
    crc32c(to)
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn fits(bytes: &[u8]) -> bool {
    use std::sync::OnceLock;
    static VECTORS: OnceLock<bool> = OnceLock::new();
    let has_vectors = || {
        is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("vpclmulqdq")
            && is_x86_feature_detected!("sse4.2")
    };
    !bytes.is_empty() && bytes.len().is_multiple_of(STEP) && *VECTORS.get_or_init(has_vectors)
}
