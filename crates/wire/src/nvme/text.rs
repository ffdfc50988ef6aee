//! ASCII strings of a fixed length, left aligned and filled with spaces: Base 2.1 section 1.4.2.

use super::layout::Field;

/// `N` bytes of ASCII.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Text<const N: usize>(pub [u8; N]);

impl<const N: usize> Text<N> {
    /// What of `text` fits; a byte that is not printable ASCII becomes a question mark.
    pub fn new(text: &str) -> Self {
        let mut bytes = [b' '; N];
        for (slot, byte) in bytes.iter_mut().zip(text.bytes()) {
            *slot = if (0x20..=0x7e).contains(&byte) { byte } else { b'?' };
        }
        Self(bytes)
    }

    /// The text without what fills it; `None` if it is not ASCII.
    pub fn as_str(&self) -> Option<&str> {
        let text = str::from_utf8(&self.0).ok().filter(|text| text.is_ascii())?;
        Some(text.trim_end_matches([' ', '\0']))
    }
}

impl<const N: usize> Default for Text<N> {
    fn default() -> Self {
        Self([b' '; N])
    }
}

impl<const N: usize> std::fmt::Debug for Text<N> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "\"{}\"", self.0.trim_ascii_end().escape_ascii())
    }
}

impl<const N: usize> Field for Text<N> {
    #[inline]
    fn get(bytes: &[u8], offset: usize) -> Self {
        Self(Field::get(bytes, offset))
    }

    #[inline]
    fn put(self, bytes: &mut [u8], offset: usize) {
        self.0.put(bytes, offset);
    }
}
