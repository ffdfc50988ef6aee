//! Text keys and values: RFC 7143 sections 6.1 and 6.2.
//!
//! The text of a PDU is a row of `key=value` pairs, each ended by a NUL byte. A value may span
//! PDUs; who gathers them hands over the whole.

use std::fmt::Write as _;

/// The most bytes of a key.
pub const MAX_KEY_LENGTH: usize = 63;
/// The most bytes of a value, in whatever encoding: twice the largest binary item (section 6.1) and
/// its prefix would be more, but no key we know comes near.
pub const MAX_VALUE_LENGTH: usize = 8192;

/// Why bytes are no text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    /// The last pair has no NUL byte.
    #[error("the last key=value pair is not ended by a NUL byte")]
    Unterminated,
    /// No `=`.
    #[error("a key without '='")]
    MissingEquals,
    /// The key is empty or longer than 63 bytes.
    #[error("a key of {0} bytes (1 to {MAX_KEY_LENGTH} are allowed)")]
    KeyLength(usize),
    /// The key has a byte that section 6.1 does not allow.
    #[error("byte {0:#04x} in a key")]
    KeyCharacter(u8),
    /// The value is longer than 8192 bytes.
    #[error("a value of {0} bytes (at most {MAX_VALUE_LENGTH} are allowed)")]
    ValueLength(usize),
    /// The value is not UTF-8 or has control characters.
    #[error("a value that is not UTF-8 text")]
    ValueCharacter,
}

/// Walks over the pairs of a text; ends after the first error.
#[derive(Debug, Clone)]
pub struct TextPairs<'a> {
    rest: &'a [u8],
}

impl<'a> TextPairs<'a> {
    /// `bytes`: the data segments of a request put together, without padding.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    fn take_one(&mut self) -> Result<(&'a str, &'a str), TextError> {
        let end = self.rest.iter().position(|&byte| byte == 0).ok_or(TextError::Unterminated)?;
        let (pair, rest) = self.rest.split_at(end);
        self.rest = &rest[1..];
        let equals = pair.iter().position(|&byte| byte == b'=').ok_or(TextError::MissingEquals)?;
        let (key, value) = (&pair[..equals], &pair[equals + 1..]);
        if key.is_empty() || key.len() > MAX_KEY_LENGTH {
            return Err(TextError::KeyLength(key.len()));
        }
        if let Some(&bad) = key.iter().find(|&&byte| !is_key_byte(byte)) {
            return Err(TextError::KeyCharacter(bad));
        }
        if value.len() > MAX_VALUE_LENGTH {
            return Err(TextError::ValueLength(value.len()));
        }
        let key = str::from_utf8(key).map_err(|_| TextError::KeyCharacter(0))?;
        let value = str::from_utf8(value).map_err(|_| TextError::ValueCharacter)?;
        // Spaces are not of the standard's set, but aliases of real initiators have them.
        if value.chars().any(char::is_control) {
            return Err(TextError::ValueCharacter);
        }
        Ok((key, value))
    }
}

/// Key-name of section 6.1: letters, digits, dot, minus, plus, commercial at and underscore; and the number sign, which keys like
/// `X#NodeArchitecture` (section 13.26) have all the same.
const fn is_key_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'+' | b'@' | b'_' | b'#')
}

impl<'a> Iterator for TextPairs<'a> {
    type Item = Result<(&'a str, &'a str), TextError>;

    fn next(&mut self) -> Option<Self::Item> {
        // Some initiators count the padding as text: empty pairs are passed over.
        while let [0, rest @ ..] = self.rest {
            self.rest = rest;
        }
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

/// There is no room for a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the text does not fit into {limit} bytes")]
pub struct TextFull {
    /// The writer's bound.
    pub limit: usize,
}

/// Builds a text of at most so many bytes.
#[derive(Debug, Clone)]
pub struct TextWriter {
    bytes: Vec<u8>,
    limit: usize,
}

impl TextWriter {
    /// An empty text of at most `limit` bytes.
    pub const fn new(limit: usize) -> Self {
        Self { bytes: Vec::new(), limit }
    }

    /// Adds `key=value` and its NUL byte, or nothing if it does not fit. A NUL byte within a value
    /// would forge another pair and is left out.
    pub fn push(&mut self, key: &str, value: &str) -> Result<(), TextFull> {
        let needed = key.len() + value.len() + 2;
        if needed > self.limit - self.bytes.len() {
            return Err(TextFull { limit: self.limit });
        }
        self.bytes.extend_from_slice(key.as_bytes());
        self.bytes.push(b'=');
        self.bytes.extend(value.bytes().filter(|&byte| byte != 0));
        self.bytes.push(0);
        Ok(())
    }

    /// What was written.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// What was written.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

/// A numerical value of section 6.1: decimal, or hex after `0x`. `None` if it is none or above 2^64-1.
pub fn parse_number(value: &str) -> Option<u64> {
    let (digits, radix) = match value.strip_prefix("0x").or_else(|| value.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None => (value, 10),
    };
    // `from_str_radix` would take a sign.
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    u64::from_str_radix(digits, radix).ok()
}

/// A binary value of section 6.1: hex after `0x`, base64 after `0b`. `None` if it is none, or more
/// than `limit` bytes.
pub fn parse_binary(value: &str, limit: usize) -> Option<Vec<u8>> {
    let (prefix, body) = value.split_at_checked(2)?;
    match prefix {
        "0x" | "0X" => parse_hex(body.as_bytes(), limit),
        "0b" | "0B" => parse_base64(body.as_bytes(), limit),
        _ => None,
    }
}

fn parse_hex(body: &[u8], limit: usize) -> Option<Vec<u8>> {
    if body.is_empty() || body.len().div_ceil(2) > limit {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let mut bytes = Vec::with_capacity(body.len().div_ceil(2));
    // An odd count means that the leading zero was left out.
    let (first, pairs) = body.split_at(body.len() % 2);
    for &byte in first {
        bytes.push(digit(byte)?);
    }
    for pair in pairs.chunks_exact(2) {
        bytes.push(digit(pair[0])? << 4 | digit(pair[1])?);
    }
    Some(bytes)
}

fn parse_base64(body: &[u8], limit: usize) -> Option<Vec<u8>> {
    let unpadded = body.iter().rposition(|&byte| byte != b'=').map_or(0, |last| last + 1);
    let padding = body.len() - unpadded;
    if unpadded == 0 || !body.len().is_multiple_of(4) || padding > 2 || unpadded * 3 / 4 > limit {
        return None;
    }
    let mut bytes = Vec::with_capacity(unpadded * 3 / 4);
    let (mut bits, mut held) = (0u32, 0u32);
    for &byte in &body[..unpadded] {
        let sextet = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(sextet);
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held) as u8);
        }
    }
    Some(bytes)
}

/// `bytes` in hex after `0x`, as a binary value is best sent.
pub fn to_hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 + 2 * bytes.len());
    text.push_str("0x");
    for byte in bytes {
        // Writing into a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests;
