//! iSCSI names: RFC 7143 section 4.2.7.

use std::fmt;

/// The most bytes of a name.
pub const MAX_NAME_LENGTH: usize = 223;

/// An iSCSI name in lower case, as the standard compares names.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IscsiName(Box<str>);

/// Why a text is no iSCSI name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// No bytes, or more than 223.
    #[error("an iSCSI name has 1 to {MAX_NAME_LENGTH} bytes, not {0}")]
    Length(usize),
    /// A character that no name may have.
    #[error("{0:?} is not allowed in an iSCSI name")]
    Character(char),
    /// Not `iqn.`, `eui.` or `naa.`.
    #[error("an iSCSI name begins with iqn., eui. or naa.")]
    Type,
    /// An iqn. name without a year, month and naming authority.
    #[error("an iqn. name reads iqn.YYYY-MM.reversed.domain or iqn.YYYY-MM.reversed.domain:text")]
    QualifiedName,
    /// An eui. name without 16, or a naa. name without 16 or 32 hex digits.
    #[error("an eui. name has 16 hex digits, a naa. name 16 or 32")]
    HexDigits,
}

impl IscsiName {
    /// The strict check, for names we give ourselves.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        let name = Self::accept(text)?;
        name.0
            .chars()
            .find(|&letter| !(letter.is_alphanumeric() || matches!(letter, '-' | '.' | ':')))
            .map_or(Ok(()), |letter| Err(NameError::Character(letter)))?;
        let (kind, rest) = name.0.split_once('.').ok_or(NameError::Type)?;
        match kind {
            "iqn" => check_qualified(rest)?,
            "eui" => check_hex(rest, &[16])?,
            "naa" => check_hex(rest, &[16, 32])?,
            _ => return Err(NameError::Type),
        }
        Ok(name)
    }

    /// The liberal check, for the names of peers: administrators give initiators names that the
    /// standard forbids (underscores, no date), and a target that refused them would be of no use.
    /// What remains is what keeps a name safe to store and print: its length, no white space, no
    /// control characters and no comma (which separates names from portals).
    pub fn accept(text: &str) -> Result<Self, NameError> {
        if text.is_empty() || text.len() > MAX_NAME_LENGTH {
            return Err(NameError::Length(text.len()));
        }
        match text.chars().find(|&letter| letter.is_control() || letter.is_whitespace() || letter == ',') {
            Some(letter) => Err(NameError::Character(letter)),
            None => Ok(Self(text.to_ascii_lowercase().into())),
        }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn check_qualified(rest: &str) -> Result<(), NameError> {
    let authority_and_text = rest.split_once('.').and_then(|(date, after)| {
        let (year, month) = date.split_once('-')?;
        let digits = |text: &str, count| text.len() == count && text.bytes().all(|b| b.is_ascii_digit());
        let is_date = digits(year, 4) && digits(month, 2) && matches!(month.parse(), Ok(1..=12));
        is_date.then_some(after)
    });
    let authority = authority_and_text
        .map(|after| after.split_once(':').map_or(after, |(authority, _)| authority))
        .ok_or(NameError::QualifiedName)?;
    if authority.split('.').any(str::is_empty) { Err(NameError::QualifiedName) } else { Ok(()) }
}

fn check_hex(rest: &str, lengths: &[usize]) -> Result<(), NameError> {
    let is_hex = lengths.contains(&rest.len()) && rest.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_hex { Ok(()) } else { Err(NameError::HexDigits) }
}

impl fmt::Display for IscsiName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl fmt::Debug for IscsiName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl AsRef<str> for IscsiName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn good_names() {
        for name in [
            "iqn.2026-11.internal.fels:demo",
            "iqn.2001-04.com.example",
            "iqn.2001-04.com.example:storage:diskarrays-sn-a8675309",
            "eui.02004567a425678d",
            "naa.52004567ba64678d",
            "naa.62004567ba64678d0123456789abcdef",
        ] {
            assert_eq!(IscsiName::parse(name).unwrap().as_str(), name);
        }
        assert_eq!(
            IscsiName::parse("IQN.2001-04.COM.Example:X").unwrap().as_str(),
            "iqn.2001-04.com.example:x"
        );
    }

    #[test]
    fn bad_names_and_their_reasons() {
        for (name, error) in [
            ("", NameError::Length(0)),
            ("fels", NameError::Type),
            ("nqn.2001-04.com.example", NameError::Type),
            ("iqn.2001-13.com.example", NameError::QualifiedName),
            ("iqn.2001.com.example", NameError::QualifiedName),
            ("iqn.+001-04.com.example", NameError::Character('+')),
            ("iqn.2001-04", NameError::QualifiedName),
            ("iqn.2001-04.com..example", NameError::QualifiedName),
            ("iqn.2001-04.:x", NameError::QualifiedName),
            ("iqn.2001-04.com.example:a_b", NameError::Character('_')),
            ("iqn.2001-04.com.example:a b", NameError::Character(' ')),
            ("eui.0200", NameError::HexDigits),
            ("naa.52004567ba64678g", NameError::HexDigits),
        ] {
            assert_eq!(IscsiName::parse(name).unwrap_err(), error, "{name}");
        }
        let long = format!("iqn.2001-04.com.example:{}", "x".repeat(200));
        assert_eq!(IscsiName::parse(&long).unwrap_err(), NameError::Length(224));
    }

    #[test]
    fn peers_may_be_called_what_they_like_within_reason() {
        assert_eq!(IscsiName::accept("My_Host").unwrap().as_str(), "my_host");
        assert_eq!(IscsiName::accept("a,b").unwrap_err(), NameError::Character(','));
        assert_eq!(IscsiName::accept("a\nb").unwrap_err(), NameError::Character('\n'));
    }

    proptest! {
        #[test]
        fn any_text_is_judged_without_panic(text in any::<String>()) {
            if let Ok(name) = IscsiName::parse(&text) {
                prop_assert!(IscsiName::parse(name.as_str()) == Ok(name.clone()));
            }
        }
    }
}
