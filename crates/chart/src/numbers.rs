//! Values with their units, and where a scale of them has its marks.

/// In what a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Things, or states that have a number.
    Count,
    /// Things in a second.
    PerSecond,
    /// Operations in a second.
    Iops,
    /// Bytes, in powers of 1024.
    Bytes,
    /// Bytes in a second, in powers of 1024.
    BytesPerSecond,
    /// Seconds, from nanoseconds to days.
    Seconds,
    /// A part of 1, in percent.
    Share,
    /// Degrees Celsius.
    Celsius,
}

/// Marks of a scale, about.
const MARKS: f64 = 4.0;
const SIZES: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
const PREFIXES: [&str; 7] = ["", " k", " M", " G", " T", " P", " E"];
/// Parts of a second, then what people count in.
const SPANS: [(f64, &str); 7] =
    [(1e-9, "ns"), (1e-6, "us"), (1e-3, "ms"), (1.0, "s"), (60.0, "min"), (3600.0, "h"), (86_400.0, "d")];
/// Steps of a scale of minutes and more.
const SPAN_STEPS: [f64; 14] = [
    60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0, 7200.0, 10_800.0, 21_600.0, 43_200.0, 86_400.0,
    172_800.0, 432_000.0,
];
/// What is nearer to zero is zero; what is farther is at this distance.
const LEAST: f64 = 1e-30;
const MOST: f64 = 1e30;

/// A value as it is drawn; none of what is no number.
pub fn known(value: f64) -> Option<f64> {
    let value = (!value.is_nan()).then(|| value.clamp(-MOST, MOST))?;
    Some(if value.abs() < LEAST { 0.0 } else { value })
}

/// Three digits that say something, without zeroes at the end.
fn digits(value: f64) -> String {
    let decimals = match value.abs() {
        size if size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        size if size >= 0.9995 || size == 0.0 => 2,
        // 0.0123: as many more as there are zeroes before.
        size => (2 - size.log10().floor() as i32).clamp(2, 6) as usize,
    };
    let text = format!("{value:.decimals$}");
    let text = if decimals > 0 { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// The largest of the units that has one of them at least, counting what is rounded to it.
fn scaled(value: f64, base: f64, names: &[&str]) -> String {
    let mut value = value;
    let mut at = 0;
    while at + 1 < names.len() && value.abs() >= base - 0.5 {
        value /= base;
        at += 1;
    }
    if value.abs() >= 1e6 { format!("{value:.2e}{}", names[at]) } else { digits(value) + names[at] }
}

impl Unit {
    /// A value as people read it: `1.25 k IO/s`, `64 MiB/s`, `250 us`, `12 %`.
    pub fn show(self, value: f64) -> String {
        let Some(value) = known(value) else { return "unknown".to_owned() };
        let binary = |of: &str| {
            let text = scaled(value, 1024.0, &SIZES);
            let at = text.find(|c: char| c.is_ascii_uppercase()).unwrap_or(text.len());
            let (number, size) = text.split_at(at);
            format!("{number} {size}{of}")
        };
        match self {
            Unit::Count => scaled(value, 1000.0, &PREFIXES),
            Unit::PerSecond => scaled(value, 1000.0, &PREFIXES) + "/s",
            Unit::Iops => scaled(value, 1000.0, &PREFIXES) + " IO/s",
            Unit::Bytes => binary("B"),
            Unit::BytesPerSecond => binary("B/s"),
            Unit::Seconds => span(value),
            Unit::Share => scaled(value * 100.0, 1e6, &[""]) + " %",
            Unit::Celsius => scaled(value, 1e6, &[""]) + " \u{b0}C",
        }
    }

    /// Whether a scale without zero says more.
    fn is_free(self) -> bool {
        self == Unit::Celsius
    }

    /// The next larger round step.
    fn step(self, rough: f64) -> f64 {
        match self {
            Unit::Bytes | Unit::BytesPerSecond => rough.max(1.0).log2().ceil().exp2(),
            Unit::Seconds if rough > 30.0 => {
                let step = SPAN_STEPS.iter().copied().find(|step| *step >= rough);
                step.unwrap_or_else(|| 86_400.0 * decimal(rough / 86_400.0))
            }
            _ => decimal(rough),
        }
    }

    /// The marks of a scale on which all values from `least` to `most` are, from the bottom of the scale to its top.
    pub fn marks(self, least: f64, most: f64) -> Vec<f64> {
        let least = known(least).unwrap_or(0.0);
        let most = known(most).unwrap_or(0.0).max(least);
        let (least, most) = if self.is_free() { (least, most) } else { (least.min(0.0), most.max(0.0)) };
        // Nothing but zeroes, or but one value: there is still a scale.
        let room = (most - least).max(most.abs().max(least.abs()) * 1e-3);
        let smallest = match self {
            Unit::Share => 0.01,
            Unit::Seconds => 1e-6,
            _ => 1.0,
        };
        let room = if room > 0.0 { room } else { smallest };
        let step = self.step(room / MARKS);
        let (from, to) = ((least / step).floor(), (most / step).ceil());
        let to = if to > from { to } else { from + 1.0 };
        (0..=(to - from) as u32).map(|mark| (from + f64::from(mark)) * step).collect()
    }
}

/// 1, 2 or 5 times a power of ten.
fn decimal(rough: f64) -> f64 {
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0].into_iter().map(|part| part * power).find(|step| *step >= rough * 0.999_999);
    step.unwrap_or(10.0 * power)
}

/// A time as people say it.
fn span(value: f64) -> String {
    if value == 0.0 {
        return "0 s".to_owned();
    }
    let fits = |(unit, name): &&(f64, &str)| {
        // 119 s say more than 1.98 min.
        let least = if *name == "min" { 2.0 } else { 0.9995 };
        value.abs() >= unit * least
    };
    let (unit, name) = SPANS.iter().rev().find(fits).unwrap_or(&SPANS[0]);
    let scaled = value / unit;
    if scaled.abs() >= 1e6 { format!("{scaled:.2e} {name}") } else { format!("{} {name}", digits(scaled)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn values_are_told_as_people_read_them() {
        for (unit, value, text) in [
            (Unit::Count, 0.0, "0"),
            (Unit::Count, 12.0, "12"),
            (Unit::Count, 999.6, "1 k"),
            (Unit::Iops, 1254.0, "1.25 k IO/s"),
            (Unit::PerSecond, 0.0123, "0.0123/s"),
            (Unit::Bytes, 512.0, "512 B"),
            (Unit::BytesPerSecond, 1023.7, "1 KiB/s"),
            (Unit::BytesPerSecond, 64.0 * 1024.0 * 1024.0, "64 MiB/s"),
            (Unit::Bytes, 1.5 * 1024f64.powi(4), "1.5 TiB"),
            (Unit::Seconds, 0.00025, "250 us"),
            (Unit::Seconds, 0.000_000_9, "900 ns"),
            (Unit::Seconds, 1.5, "1.5 s"),
            (Unit::Seconds, 90.0, "90 s"),
            (Unit::Seconds, 7200.0, "2 h"),
            (Unit::Seconds, 259_200.0, "3 d"),
            (Unit::Share, 0.125, "12.5 %"),
            (Unit::Share, 1.0, "100 %"),
            (Unit::Celsius, 41.0, "41 \u{b0}C"),
            (Unit::Count, -5.0, "-5"),
            (Unit::Count, f64::NAN, "unknown"),
            (Unit::Count, f64::INFINITY, "1.00e12 E"),
        ] {
            assert_eq!(unit.show(value), text, "{unit:?} {value}");
        }
    }

    #[test]
    fn marks_are_round_in_their_unit() {
        let shown = |unit: Unit, most| {
            unit.marks(0.0, most).into_iter().map(|mark| unit.show(mark)).collect::<Vec<_>>()
        };
        assert_eq!(shown(Unit::Iops, 870.0), ["0 IO/s", "500 IO/s", "1 k IO/s"]);
        assert_eq!(shown(Unit::Iops, 1900.0), ["0 IO/s", "500 IO/s", "1 k IO/s", "1.5 k IO/s", "2 k IO/s"]);
        let mebibytes = 100.0 * 1024.0 * 1024.0;
        assert_eq!(
            shown(Unit::BytesPerSecond, mebibytes),
            ["0 B/s", "32 MiB/s", "64 MiB/s", "96 MiB/s", "128 MiB/s"]
        );
        assert_eq!(shown(Unit::Seconds, 0.0007), ["0 s", "200 us", "400 us", "600 us", "800 us"]);
        assert_eq!(shown(Unit::Seconds, 600_000.0), ["0 s", "2 d", "4 d", "6 d", "8 d"]);
        assert_eq!(shown(Unit::Share, 1.0), ["0 %", "50 %", "100 %"]);
        assert_eq!(shown(Unit::Count, 0.0), ["0", "0.5"]);
    }

    #[test]
    fn a_temperature_has_a_scale_of_its_own() {
        assert_eq!(Unit::Celsius.marks(38.0, 42.0), [38.0, 39.0, 40.0, 41.0, 42.0]);
    }

    fn any_unit() -> impl Strategy<Value = Unit> {
        proptest::sample::select(vec![
            Unit::Count,
            Unit::PerSecond,
            Unit::Iops,
            Unit::Bytes,
            Unit::BytesPerSecond,
            Unit::Seconds,
            Unit::Share,
            Unit::Celsius,
        ])
    }

    proptest! {
        #[test]
        fn any_values_have_a_scale_with_room_for_them(unit in any_unit(), one in any::<f64>(), other in any::<f64>()) {
            let (least, most) = (known(one).unwrap_or(0.0), known(other).unwrap_or(0.0));
            let (least, most) = (least.min(most), least.max(most));
            let marks = unit.marks(least, most);
            prop_assert!((2..=12).contains(&marks.len()), "{marks:?}");
            prop_assert!(marks.iter().all(|mark| mark.is_finite()));
            prop_assert!(marks.windows(2).all(|pair| pair[0] < pair[1]), "{marks:?}");
            let slack = (most - least).abs().max(most.abs()).max(least.abs()) * 1e-9;
            prop_assert!(marks[0] <= least + slack && most <= marks[marks.len() - 1] + slack, "{marks:?}");
        }

        #[test]
        fn any_value_is_told_in_few_characters(unit in any_unit(), value in any::<f64>()) {
            let shown = unit.show(value);
            prop_assert!(shown.chars().count() <= 16 && !shown.contains("inf"), "{shown}");
        }
    }
}
