//! Where an axis of time has its marks, and what stands at them.

/// How times are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// Seconds since 1970, shown as date and time of day in UTC.
    Utc,
    /// Seconds since something began, shown as hours, minutes and seconds.
    Elapsed,
}

/// A mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Seconds, by the clock.
    pub at_s: u64,
    /// What stands at it.
    pub label: String,
}

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
/// Months from the beginning of the year 0 to that of 1970.
const EPOCH_MONTHS: u64 = 1970 * 12;
/// The year 9999 ends: later times are shown as that.
const LAST_S: u64 = 253_402_300_799;

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
/// The first day of 1970 was a Thursday.
const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];

/// How far marks are from each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// So many seconds, which divide a day or are days.
    Seconds(u64),
    /// Every Monday.
    Week,
    /// So many months, which divide a year.
    Months(u64),
    /// So many years.
    Years(u64),
}

const STEPS: [Step; 27] = [
    Step::Seconds(1),
    Step::Seconds(2),
    Step::Seconds(5),
    Step::Seconds(10),
    Step::Seconds(15),
    Step::Seconds(30),
    Step::Seconds(MINUTE),
    Step::Seconds(2 * MINUTE),
    Step::Seconds(5 * MINUTE),
    Step::Seconds(10 * MINUTE),
    Step::Seconds(15 * MINUTE),
    Step::Seconds(30 * MINUTE),
    Step::Seconds(HOUR),
    Step::Seconds(2 * HOUR),
    Step::Seconds(3 * HOUR),
    Step::Seconds(6 * HOUR),
    Step::Seconds(12 * HOUR),
    Step::Seconds(DAY),
    Step::Seconds(2 * DAY),
    Step::Week,
    Step::Months(1),
    Step::Months(2),
    Step::Months(3),
    Step::Months(6),
    Step::Years(1),
    Step::Years(10),
    Step::Years(100),
];

impl Step {
    /// About how long it is.
    fn seconds(self) -> u64 {
        match self {
            Step::Seconds(seconds) => seconds,
            Step::Week => 7 * DAY,
            Step::Months(months) => months * 30 * DAY,
            Step::Years(years) => years * 365 * DAY,
        }
    }

    /// The first mark at or after a time.
    fn first(self, from_s: u64) -> u64 {
        match self {
            Step::Seconds(step) => from_s.div_ceil(step) * step,
            // Day 4 was a Monday.
            Step::Week => (from_s.saturating_sub(4 * DAY)).div_ceil(7 * DAY) * 7 * DAY + 4 * DAY,
            Step::Months(_) | Step::Years(_) => {
                let months = match self {
                    Step::Years(years) => years * 12,
                    Step::Months(months) => months,
                    Step::Seconds(_) | Step::Week => 1,
                };
                let (year, month, _) = date(from_s / DAY);
                let mut count = (year * 12 + month - 1) / months * months;
                while count < EPOCH_MONTHS || start_of_month(count) < from_s {
                    count += months;
                }
                start_of_month(count)
            }
        }
    }
}

/// Year, month and day of a day since 1970, in the Gregorian calendar. Years begin in March here, so that the leap day is the last one.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year + next, month, day)
}

/// When a month begins, counted from the year 0, which is after 1970.
fn start_of_month(count: u64) -> u64 {
    // From March on, so that the leap day is the last one.
    let (year, month) = ((count + 10) / 12 - 1, (count + 10) % 12);
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5;
    (days - 719_468) * DAY
}

fn time_of_day(at_s: u64, with_seconds: bool) -> String {
    let (hour, minute, second) = (at_s % DAY / HOUR, at_s % HOUR / MINUTE, at_s % MINUTE);
    if with_seconds { format!("{hour:02}:{minute:02}:{second:02}") } else { format!("{hour:02}:{minute:02}") }
}

impl Clock {
    /// Marks from one time to another, no more than `most`.
    pub fn marks(self, begin_s: u64, end_s: u64, most: u64) -> Vec<Mark> {
        let (begin_s, end_s) = (begin_s.min(LAST_S), end_s.min(LAST_S));
        let (length, most) = (end_s.saturating_sub(begin_s), most.max(1));
        let usable = |step: &&Step| match step {
            Step::Seconds(_) => true,
            _ => self == Clock::Utc,
        };
        let fits = |step: &&Step| length / step.seconds() <= most;
        let step = STEPS.iter().filter(usable).find(fits).copied();
        // Runs of weeks have no calendar: whole days.
        let step = step.unwrap_or(match self {
            Clock::Elapsed => Step::Seconds(length.div_ceil(most).div_ceil(DAY) * DAY),
            Clock::Utc => Step::Years(1000),
        });
        let mut marks = Vec::new();
        let mut at_s = step.first(begin_s);
        while at_s <= end_s && marks.len() <= most as usize {
            marks.push(Mark { at_s, label: self.label(at_s, step) });
            at_s = step.first(at_s + 1);
        }
        marks
    }

    fn label(self, at_s: u64, step: Step) -> String {
        if self == Clock::Elapsed {
            return elapsed(at_s);
        }
        let (year, month, day) = date(at_s / DAY);
        let name = MONTHS[(month as usize + 11) % 12];
        match step {
            Step::Seconds(step) if step < DAY && !at_s.is_multiple_of(DAY) => {
                time_of_day(at_s, step < MINUTE)
            }
            Step::Seconds(step) if step <= DAY => format!("{} {day}", WEEKDAYS[(at_s / DAY % 7) as usize]),
            Step::Seconds(_) | Step::Week => format!("{day} {name}"),
            Step::Months(_) if month != 1 => name.to_owned(),
            Step::Months(_) | Step::Years(_) => format!("{year}"),
        }
    }

    /// A time in full, to the minute; what has elapsed to the second.
    pub fn show(self, at_s: u64) -> String {
        if self == Clock::Elapsed {
            return elapsed(at_s);
        }
        let at_s = at_s.min(LAST_S);
        let (year, month, day) = date(at_s / DAY);
        format!("{year:04}-{month:02}-{day:02} {}", time_of_day(at_s, false))
    }
}

/// Hours as far as there are some, minutes and seconds.
fn elapsed(at_s: u64) -> String {
    let (hours, minute, second) = (at_s / HOUR, at_s % HOUR / MINUTE, at_s % MINUTE);
    if hours > 0 { format!("{hours}:{minute:02}:{second:02}") } else { format!("{minute}:{second:02}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// 2026-11-22 02:47:30, a Sunday.
    const NOW: u64 = 1_795_315_650;

    fn labels(clock: Clock, length_s: u64, most: u64) -> Vec<String> {
        clock.marks(NOW - length_s, NOW, most).into_iter().map(|mark| mark.label).collect()
    }

    #[test]
    fn marks_are_where_people_look_for_them() {
        assert_eq!(Clock::Utc.show(NOW), "2026-11-22 02:47");
        let day = ["03:00", "06:00", "09:00", "12:00", "15:00", "18:00", "21:00", "Sun 22"];
        assert_eq!(labels(Clock::Utc, DAY, 9), day);
        let week = ["Mon 16", "Tue 17", "Wed 18", "Thu 19", "Fri 20", "Sat 21", "Sun 22"];
        assert_eq!(labels(Clock::Utc, 7 * DAY, 9), week);
        assert_eq!(labels(Clock::Utc, 31 * DAY, 9), ["26 Oct", "2 Nov", "9 Nov", "16 Nov"]);
        let year = ["Dec", "2026", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov"];
        assert_eq!(labels(Clock::Utc, 366 * DAY, 12), year);
        assert_eq!(
            labels(Clock::Utc, 60, 7),
            ["02:46:30", "02:46:40", "02:46:50", "02:47:00", "02:47:10", "02:47:20", "02:47:30"]
        );
    }

    #[test]
    fn what_has_elapsed_has_no_date() {
        let of = |length| {
            Clock::Elapsed.marks(0, length, 6).into_iter().map(|mark| mark.label).collect::<Vec<_>>()
        };
        assert_eq!(of(60), ["0:00", "0:10", "0:20", "0:30", "0:40", "0:50", "1:00"]);
        assert_eq!(of(4 * HOUR), ["0:00", "1:00:00", "2:00:00", "3:00:00", "4:00:00"]);
        assert_eq!(of(30 * DAY).len(), 7);
    }

    #[test]
    fn months_begin_on_their_first_day() {
        for (days, of) in [(0, (1970, 1, 1)), (11_016, (2000, 2, 29)), (20_453, (2025, 12, 31))] {
            assert_eq!(date(days), of);
        }
        for month in 1970 * 12..2400 * 12 {
            assert_eq!(date(start_of_month(month) / DAY), (month / 12, month % 12 + 1, 1));
        }
    }

    proptest! {
        #[test]
        fn any_time_has_few_marks_and_all_are_in_it(begin in any::<u64>(), length in any::<u64>(), most in 0u64..20,
            elapsed in any::<bool>()) {
            let clock = if elapsed { Clock::Elapsed } else { Clock::Utc };
            let end = begin.saturating_add(length);
            let marks = clock.marks(begin, end, most);
            prop_assert!(marks.len() <= most.max(1) as usize + 1);
            prop_assert!(marks.iter().all(|mark| (begin.min(LAST_S)..=end).contains(&mark.at_s)));
            prop_assert!(marks.windows(2).all(|pair| pair[0].at_s < pair[1].at_s));
        }
    }
}
