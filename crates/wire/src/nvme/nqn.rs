//! NVMe Qualified Names: Base 2.1 section 4.7.

use super::layout::Field;

/// The well-known name of every discovery subsystem, Base 2.1 section 4.7.
pub const DISCOVERY_NQN: &str = "nqn.2014-08.org.nvmexpress.discovery";
/// How a name begins that is made from a UUID.
pub const UUID_PREFIX: &str = "nqn.2014-08.org.nvmexpress:uuid:";
/// Most bytes of a name, without the terminating zero.
pub const MAX_LENGTH: usize = 223;
/// Bytes of a field that holds a name.
pub const NQN_FIELD_LENGTH: usize = 256;

/// Why something is not an NQN.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NqnError {
    /// No zero byte ends the field, or the text is not UTF-8.
    #[error("the name is not a text that ends with a zero byte")]
    NotText,
    /// Nothing, or more than 223 bytes.
    #[error("the name has {0} bytes; 1 to 223 are allowed")]
    Length(usize),
    /// Does not begin with `nqn.` and a date.
    #[error("the name does not begin with nqn.yyyy-mm. and a domain")]
    Form,
    /// A control character or a space.
    #[error("the name has a character that is not allowed")]
    Character,
}

/// Checks the form: `nqn.yyyy-mm.domain` with an optional `:` and what its owner likes, or the UUID form.
pub fn check(name: &str) -> Result<(), NqnError> {
    if name.is_empty() || name.len() > MAX_LENGTH {
        return Err(NqnError::Length(name.len()));
    }
    if name.chars().any(|character| character.is_control() || character.is_whitespace()) {
        return Err(NqnError::Character);
    }
    if let Some(uuid) = name.strip_prefix(UUID_PREFIX) {
        let dashes = [8, 13, 18, 23];
        let right = uuid.len() == 36
            && uuid
                .bytes()
                .enumerate()
                .all(|(at, byte)| if dashes.contains(&at) { byte == b'-' } else { byte.is_ascii_hexdigit() });
        return if right { Ok(()) } else { Err(NqnError::Form) };
    }
    let rest = name.strip_prefix("nqn.").ok_or(NqnError::Form)?;
    let (date, domain) = rest.split_once('.').ok_or(NqnError::Form)?;
    let [year @ .., b'-', tens, ones] = date.as_bytes() else { return Err(NqnError::Form) };
    let month = u32::from(tens.wrapping_sub(b'0')) * 10 + u32::from(ones.wrapping_sub(b'0'));
    let digits = year.len() == 4 && year.iter().chain([tens, ones]).all(u8::is_ascii_digit);
    let domain = domain.split(':').next().unwrap_or("");
    if digits && (1..=12).contains(&month) && !domain.is_empty() { Ok(()) } else { Err(NqnError::Form) }
}

/// A name in its 256 bytes: the text, a zero byte, and zeroes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct NqnField(pub [u8; NQN_FIELD_LENGTH]);

impl NqnField {
    /// The field of `name`; what is beyond 223 bytes is the caller's error and is cut.
    pub fn new(name: &str) -> Self {
        let mut bytes = [0; NQN_FIELD_LENGTH];
        for (slot, byte) in bytes.iter_mut().zip(name.bytes().take(MAX_LENGTH)) {
            *slot = byte;
        }
        Self(bytes)
    }

    /// The text before the zero byte; nothing is said about its form.
    pub fn text(&self) -> Result<&str, NqnError> {
        let end = self.0.iter().position(|byte| *byte == 0).ok_or(NqnError::NotText)?;
        let text = self.0.get(..end).and_then(|bytes| str::from_utf8(bytes).ok()).ok_or(NqnError::NotText)?;
        if text.is_empty() || text.len() > MAX_LENGTH { Err(NqnError::Length(text.len())) } else { Ok(text) }
    }

    /// The name, when it has the form of one.
    pub fn name(&self) -> Result<&str, NqnError> {
        let text = self.text()?;
        check(text).map(|()| text)
    }
}

impl Default for NqnField {
    fn default() -> Self {
        Self([0; NQN_FIELD_LENGTH])
    }
}

impl std::fmt::Debug for NqnField {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = self.0.split(|byte| *byte == 0).next().unwrap_or(&[]);
        write!(formatter, "\"{}\"", text.escape_ascii())
    }
}

impl Field for NqnField {
    #[inline]
    fn get(bytes: &[u8], offset: usize) -> Self {
        Self(Field::get(bytes, offset))
    }

    #[inline]
    fn put(self, bytes: &mut [u8], offset: usize) {
        self.0.put(bytes, offset);
    }
}
