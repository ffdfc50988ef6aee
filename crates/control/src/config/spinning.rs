//! The tables `spinning`: members that are as slow as disks that turn, for measuring.

use super::error::Problems;
use super::key::Key;
use super::pool::add_text;
use super::table::Value;
use plane::layers::{Order, SpinningDisk};
use std::time::Duration;

pub(super) const KEYS: &[Key] = &[
    Key {
        name: "rpm",
        takes: "60 to 100000",
        default: "`7200`",
        says: "Revolutions a minute. With 10000 and 15000 the other defaults are those of such disks too.",
    },
    Key {
        name: "track_to_track_seek_us",
        takes: "microseconds",
        default: "`800`",
        says: "The arm's way to the next track.",
    },
    Key {
        name: "average_seek_us",
        takes: "microseconds",
        default: "`8500`",
        says: "Its mean way between two random places.",
    },
    Key {
        name: "full_stroke_seek_us",
        takes: "microseconds",
        default: "`18000`",
        says: "Its way over all tracks. Whatever size a member has, it fills all of them.",
    },
    Key {
        name: "transfer_per_s",
        takes: "`\"180MB\"` or bytes",
        default: "`\"180MB\"`",
        says: "What passes below the head in a second.",
    },
    Key {
        name: "read_ahead",
        takes: "`\"1MiB\"` or bytes, `0` for none",
        default: "`\"1MiB\"`",
        says: "What it reads on by itself behind a read.",
    },
    Key {
        name: "write_cache",
        takes: "`\"64MiB\"` or bytes, `0` for none",
        default: "`0`",
        says: "Writes that it acknowledges before they are on the platter; flushes and writes with FUA wait for it.",
    },
    Key {
        name: "order",
        takes: "`\"arrival\"` or `\"elevator\"`",
        default: "`\"arrival\"`",
        says: "Whom it serves next.",
    },
];

/// The disk that the table describes.
pub(super) fn read(problems: &mut Problems<'_>, value: Value<'_>) -> Option<SpinningDisk> {
    let table = value.table(problems, "{} or { rpm = 7200 }", "in `spinning`", KEYS)?;
    let mut number = |key, most| {
        let value = table.value(key)?;
        value.integer(problems, &format!("a whole number up to {most}"), 0..=most)
    };
    let rpm = number("rpm", 100_000);
    let mut disk = rpm.and_then(|rpm| SpinningDisk::of_rpm(rpm as u32)).unwrap_or_default();
    if let Some(rpm) = rpm {
        disk.rpm = rpm as u32;
    }
    for (key, seek) in [
        ("track_to_track_seek_us", &mut disk.track_to_track_seek),
        ("average_seek_us", &mut disk.average_seek),
        ("full_stroke_seek_us", &mut disk.full_stroke_seek),
    ] {
        if let Some(us) = number(key, 1_000_000) {
            *seek = Duration::from_micros(us);
        }
    }
    for (key, bytes) in [
        ("transfer_per_s", &mut disk.transfer_bytes_per_s),
        ("read_ahead", &mut disk.read_ahead_bytes),
        ("write_cache", &mut disk.write_cache_bytes),
    ] {
        if let Some(given) = table.value(key).and_then(|value| value.bytes(problems)) {
            *bytes = given;
        }
    }
    if let Some(order) = table.value("order") {
        disk.order = match order.string(problems, "\"arrival\" or \"elevator\"")? {
            "arrival" => Order::Arrival,
            "elevator" => Order::Elevator,
            other => {
                let hint = "write \"arrival\" or \"elevator\"";
                problems.add_hint(order.span(), format!("`{other}` is no order"), hint);
                return None;
            }
        };
    }
    match disk.check() {
        Ok(()) => Some(disk),
        Err(error) => {
            add_text(problems, value.span(), &error);
            None
        }
    }
}
