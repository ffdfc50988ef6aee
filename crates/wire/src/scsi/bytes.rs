//! Big-endian fields out of and into slices whose length is not trusted.

/// `N` bytes at `offset`, or zeros when the slice is too short: callers check the length first, and this keeps
/// a forgotten check from becoming a panic.
fn take<const N: usize>(bytes: &[u8], offset: usize) -> [u8; N] {
    let mut field = [0; N];
    if let Some(source) = offset.checked_add(N).and_then(|end| bytes.get(offset..end)) {
        field.copy_from_slice(source);
    }
    field
}

/// The byte at `offset`, 0 beyond the end.
pub(crate) fn u8_at(bytes: &[u8], offset: usize) -> u8 {
    bytes.get(offset).copied().unwrap_or(0)
}

/// Big-endian 16 bits at `offset`, 0 beyond the end.
pub(crate) fn u16_at(bytes: &[u8], offset: usize) -> u16 {
    u16::from_be_bytes(take(bytes, offset))
}

/// Big-endian 24 bits at `offset`, 0 beyond the end.
pub(crate) fn u24_at(bytes: &[u8], offset: usize) -> u32 {
    let [a, b, c] = take(bytes, offset);
    u32::from_be_bytes([0, a, b, c])
}

/// Big-endian 32 bits at `offset`, 0 beyond the end.
pub(crate) fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    u32::from_be_bytes(take(bytes, offset))
}

/// Big-endian 64 bits at `offset`, 0 beyond the end.
pub(crate) fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    u64::from_be_bytes(take(bytes, offset))
}

/// Copies `field` to `offset`; a field that does not fit is left out.
pub(crate) fn put(bytes: &mut [u8], offset: usize, field: &[u8]) {
    if let Some(target) = offset.checked_add(field.len()).and_then(|end| bytes.get_mut(offset..end)) {
        target.copy_from_slice(field);
    }
}

/// Copies `text` to `offset`, left aligned, filled with spaces up to `width` (SPC-5 section 4.3.1).
pub(crate) fn put_text(bytes: &mut [u8], offset: usize, width: usize, text: &str) {
    let Some(target) = offset.checked_add(width).and_then(|end| bytes.get_mut(offset..end)) else {
        return;
    };
    target.fill(b' ');
    for (slot, byte) in target.iter_mut().zip(text.bytes()) {
        *slot = if (0x20..=0x7e).contains(&byte) { byte } else { b'?' };
    }
}
