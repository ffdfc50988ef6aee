//! A text that is never shown.

use std::fmt;

/// A secret: `Debug` and `Display` print `***`, and it has no equality that could be used by accident.
#[derive(Clone)]
pub struct Secret(Box<str>);

impl Secret {
    /// Takes `text` as a secret.
    pub fn new(text: impl Into<Box<str>>) -> Self {
        Self(text.into())
    }

    /// The secret itself, for the one place that needs it.
    pub fn expose(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}
