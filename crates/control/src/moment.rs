//! A second in UTC, as files and answers have it: RFC 3339, `2026-11-20T20:41:07Z`.

use std::fmt;
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The last second of the year 9999, after which a year has more digits than RFC 3339 writes.
const LAST_S: u64 = 253_402_300_799;
const DAY_S: u64 = 24 * 60 * 60;
/// Days of 400 years, after which the calendar repeats itself.
const ERA_DAYS: u64 = 146_097;
/// Days from 1 March of the year 0 to 1 January 1970.
const EPOCH_DAYS: u64 = 719_468;

/// A second, counted from 1970 without leap seconds, up to the year 9999.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(u64);

impl Moment {
    /// What the clock of this machine says.
    pub fn now() -> Moment {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Moment::from_unix(since.as_secs())
    }

    /// So many seconds after the beginning of 1970; what is after the year 9999 is its end.
    pub fn from_unix(seconds: u64) -> Moment {
        Moment(seconds.min(LAST_S))
    }

    /// Seconds since the beginning of 1970.
    pub fn unix(self) -> u64 {
        self.0
    }

    /// Year, month and day in UTC.
    pub fn date(self) -> (u64, u64, u64) {
        date(self.0 / DAY_S)
    }

    /// So many seconds later.
    pub fn after(self, seconds: u64) -> Moment {
        Moment::from_unix(self.0.saturating_add(seconds))
    }

    /// Seconds from an earlier one until this one; none from a later one.
    pub fn since(self, earlier: Moment) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// Year, month and day of a day since 1970. Years begin in March here, so that the leap day is the last one.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + EPOCH_DAYS;
    let (era, day) = (days / ERA_DAYS, days % ERA_DAYS);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year + next, month, day)
}

/// The day since 1970 of a date; none if there is no such day.
fn days(year: u64, month: u64, day: u64) -> Option<u64> {
    let year_from_march = if month <= 2 { year.checked_sub(1)? } else { year };
    let month_from_march = (month + 9) % 12;
    let (era, year_of_era) = (year_from_march / 400, year_from_march % 400);
    let day_of_year = (153 * month_from_march + 2) / 5 + day.checked_sub(1)?;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    let days = (era * ERA_DAYS + day_of_era).checked_sub(EPOCH_DAYS)?;
    // A 31 April would be told as 1 May.
    (date(days) == (year, month, day)).then_some(days)
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = self.date();
        let (hour, minute, second) = (self.0 % DAY_S / 3600, self.0 % 3600 / 60, self.0 % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
    }
}

/// The text is no second in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a time is written as 2026-11-20T20:41:07Z")]
pub struct NoMoment;

impl FromStr for Moment {
    type Err = NoMoment;

    fn from_str(text: &str) -> Result<Moment, NoMoment> {
        let number = |from: usize, to: usize| -> Option<u64> {
            let digits = text.get(from..to)?;
            if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
                return None;
            }
            digits.parse().ok()
        };
        let shape = text.len() == 20
            && [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':'), (19, b'Z')]
                .iter()
                .all(|&(at, byte)| text.as_bytes().get(at) == Some(&byte));
        let read = || {
            let days = days(number(0, 4)?, number(5, 7)?, number(8, 10)?)?;
            let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
            let fits = hour < 24 && minute < 60 && second < 60;
            fits.then(|| Moment(days * DAY_S + hour * 3600 + minute * 60 + second))
        };
        if shape { read().ok_or(NoMoment) } else { Err(NoMoment) }
    }
}

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Moment, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_moments_are_written_as_everybody_writes_them() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_795_207_267, "2026-11-20T20:41:07Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (LAST_S, "9999-12-31T23:59:59Z"),
        ] {
            assert_eq!(Moment(seconds).to_string(), text);
            assert_eq!(text.parse(), Ok(Moment(seconds)));
        }
    }

    #[test]
    fn what_is_no_second_is_refused() {
        for text in [
            "",
            "2026-11-20",
            "2026-11-20T20:41:07",
            "2026-11-20T20:41:07+",
            "2026-02-29T00:00:00Z",
            "2026-04-31T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-00-01T00:00:00Z",
            "2026-01-00T00:00:00Z",
            "1969-12-31T23:59:59Z",
            "2026-11-20T24:00:00Z",
            "2026-11-20T20:60:00Z",
            "2026-11-20T20:41:60Z",
            "+026-11-20T20:41:07Z",
            "2026-11-20t20:41:07Z",
            "2026-11-2\u{e9}T20:41:0Z",
        ] {
            assert_eq!(text.parse::<Moment>(), Err(NoMoment), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(seconds in 0..=LAST_S) {
            prop_assert_eq!(Moment(seconds).to_string().parse(), Ok(Moment(seconds)));
        }

        #[test]
        fn no_text_makes_it_fail(text in "[0-9TZ:+-]{0,22}|.{0,20}") {
            if let Ok(moment) = text.parse::<Moment>() {
                prop_assert_eq!(moment.to_string(), text);
            }
        }
    }
}
