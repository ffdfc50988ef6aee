//! Sizes and times as people write them: `1GiB`, `512MiB`, `10GB`, `15s`.

use std::time::Duration;

/// Units of size, the larger first, binary before decimal.
const UNITS: [(&str, u64); 11] = [
    ("PiB", 1 << 50),
    ("PB", 1_000_000_000_000_000),
    ("TiB", 1 << 40),
    ("TB", 1_000_000_000_000),
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("KiB", 1 << 10),
    ("KB", 1_000),
    ("B", 1),
];

/// Why a text is no size or no time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// The number is missing, has a fraction, a sign or an exponent.
    #[error("it does not begin with a whole number")]
    NoNumber,
    /// The unit is missing or not one of ours.
    #[error("its unit is not known")]
    UnknownUnit,
    /// The product does not fit 64 bits.
    #[error("it is too large")]
    TooLarge,
}

fn split(text: &str) -> Result<(u64, &str), QuantityError> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    if number.is_empty() || unit.starts_with('.') {
        return Err(QuantityError::NoNumber);
    }
    let number = number.parse().map_err(|_| QuantityError::TooLarge)?;
    Ok((number, unit.trim()))
}

/// Reads a size in bytes: a whole number, then nothing (bytes) or a unit of `B`, `KiB` to `PiB`
/// (powers of 1024) or `KB` to `PB` (powers of 1000). `K`, `M`, `G` alone are refused, because they
/// mean both.
pub fn parse_bytes(text: &str) -> Result<u64, QuantityError> {
    let (number, unit) = split(text)?;
    if unit.is_empty() {
        return Ok(number);
    }
    let (_, factor) =
        UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)).ok_or(QuantityError::UnknownUnit)?;
    number.checked_mul(*factor).ok_or(QuantityError::TooLarge)
}

/// Reads a time: a whole number, then `us`, `ms`, `s`, `m` or `h`; seconds when there is no unit.
pub fn parse_duration(text: &str) -> Result<Duration, QuantityError> {
    let (number, unit) = split(text)?;
    let microseconds: u64 = match unit {
        "us" => 1,
        "ms" => 1_000,
        "" | "s" => 1_000_000,
        "m" | "min" => 60_000_000,
        "h" => 3_600_000_000,
        _ => return Err(QuantityError::UnknownUnit),
    };
    number.checked_mul(microseconds).map(Duration::from_micros).ok_or(QuantityError::TooLarge)
}

/// Writes a size so that [`parse_bytes`] reads the same number of bytes again: the largest unit
/// that divides it, and bytes where none does.
pub fn display_bytes(bytes: u64) -> String {
    UNITS
        .iter()
        .find(|(_, factor)| bytes >= *factor && bytes.is_multiple_of(*factor))
        .map_or_else(|| "0B".to_owned(), |(name, factor)| format!("{}{name}", bytes / factor))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_are_read_in_binary_and_decimal_units() {
        for (text, bytes) in [
            ("0", 0),
            ("512", 512),
            ("512B", 512),
            ("1KiB", 1024),
            ("1 kib", 1024),
            ("10GB", 10_000_000_000),
            ("1GiB", 1 << 30),
            ("512MiB", 512 << 20),
            ("2TiB", 2 << 40),
            ("1PiB", 1 << 50),
        ] {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn sizes_that_are_none_are_refused_with_the_reason() {
        for (text, error) in [
            ("", QuantityError::NoNumber),
            ("GiB", QuantityError::NoNumber),
            ("-1GiB", QuantityError::NoNumber),
            ("1.5GiB", QuantityError::NoNumber),
            ("1G", QuantityError::UnknownUnit),
            ("1 GiB more", QuantityError::UnknownUnit),
            ("99999999999999999999", QuantityError::TooLarge),
            ("99999PiB", QuantityError::TooLarge),
        ] {
            assert_eq!(parse_bytes(text), Err(error), "{text}");
        }
    }

    #[test]
    fn times_are_read_in_every_unit() {
        assert_eq!(parse_duration("60us"), Ok(Duration::from_micros(60)));
        for (text, milliseconds) in
            [("15", 15_000), ("15s", 15_000), ("500ms", 500), ("2m", 120_000), ("1h", 3_600_000)]
        {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
        assert_eq!(parse_duration("15 days"), Err(QuantityError::UnknownUnit));
        assert_eq!(parse_duration("soon"), Err(QuantityError::NoNumber));
        assert_eq!(parse_duration("18446744073709551615h"), Err(QuantityError::TooLarge));
    }

    proptest! {
        #[test]
        fn what_is_displayed_is_read_again(bytes: u64) {
            prop_assert_eq!(parse_bytes(&display_bytes(bytes)), Ok(bytes));
        }

        #[test]
        fn no_text_makes_the_readers_panic(text in "\\PC*") {
            let _ = (parse_bytes(&text), parse_duration(&text));
        }
    }
}
