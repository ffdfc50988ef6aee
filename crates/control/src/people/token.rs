//! Tokens: 256 random bits, shown once, kept as their SHA-256.

use std::fmt::{self, Write as _};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq;

/// What a token begins with, so that who finds one knows what it is.
const PREFIX: &str = "fels_";
/// Random bytes of a token.
const BYTES: usize = 32;

/// A token as it is sent. It is never shown but once, by who made it.
#[derive(Clone)]
pub struct TokenSecret(Box<str>);

impl TokenSecret {
    /// A new one.
    pub fn random() -> Result<TokenSecret, getrandom::Error> {
        Ok(TokenSecret(format!("{PREFIX}{}", random_hex::<BYTES>()?).into()))
    }

    /// What somebody sent, if it can be one.
    pub fn read(text: &str) -> Option<TokenSecret> {
        let digits = text.strip_prefix(PREFIX)?;
        let fits = digits.len() == 2 * BYTES && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        fits.then(|| TokenSecret(text.into()))
    }

    /// The text, for who made it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// What is kept of it.
    pub fn digest(&self) -> Digest {
        Digest::of(self.0.as_bytes())
    }
}

impl fmt::Debug for TokenSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Random bytes as hexadecimal digits.
pub fn random_hex<const N: usize>() -> Result<String, getrandom::Error> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)?;
    Ok(hex(&bytes))
}

/// Bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        // Writing to a String does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A SHA-256, written as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Of these bytes.
    pub fn of(bytes: &[u8]) -> Digest {
        Digest(Sha256::digest(bytes).into())
    }

    /// Whether both are the same; takes the same time wherever they differ.
    pub fn is(&self, other: &Digest) -> bool {
        self.0.ct_eq(&other.0).into()
    }

    /// Reads 64 hexadecimal digits in lower case.
    pub fn read(text: &str) -> Option<Digest> {
        let mut bytes = [0; 32];
        if text.len() != 64 {
            return None;
        }
        for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            let digit = |digit: u8| match digit {
                b'0'..=b'9' => Some(digit - b'0'),
                b'a'..=b'f' => Some(digit - b'a' + 10),
                _ => None,
            };
            let [high, low] = digits else { return None };
            *byte = digit(*high)? << 4 | digit(*low)?;
        }
        Some(Digest(bytes))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Digest, D::Error> {
        let text = String::deserialize(deserializer)?;
        Digest::read(&text).ok_or_else(|| de::Error::custom("a SHA-256 is 64 hexadecimal digits"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_random_and_read_again_and_not_shown() {
        let token = TokenSecret::random().unwrap();
        assert_eq!(token.expose().len(), 5 + 64);
        assert_ne!(token.expose(), TokenSecret::random().unwrap().expose());
        assert_eq!(TokenSecret::read(token.expose()).unwrap().digest(), token.digest());
        assert_eq!(format!("{token:?}"), "***");
        for text in ["", "fels_", "FELS_", &token.expose()[1..], &format!("{}0", token.expose())] {
            assert!(TokenSecret::read(text).is_none(), "{text}");
        }
    }

    #[test]
    fn a_digest_is_that_of_everybody() {
        // FIPS 180-4, the example of "abc".
        let text = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let digest = Digest::of(b"abc");
        assert_eq!(digest.to_string(), text);
        assert_eq!(Digest::read(text), Some(digest));
        assert!(digest.is(&digest) && !digest.is(&Digest::of(b"abd")));
        for wrong in ["", &text[1..], &text.to_uppercase(), &text.replace('b', "g")] {
            assert_eq!(Digest::read(wrong), None, "{wrong}");
        }
    }
}
