//! What people are told about a limit: what is the matter, and what to do.

use super::rules::Rule;
use super::{Level, Side};
use crate::metric::{Family, Unit};

/// Of a figure; what is smaller still is nothing.
const MAX_DECIMALS: usize = 12;

/// What something is called: the values of its labels, `pool tank`, `member 1 of pool tank`.
pub fn subject(labels: &[(&'static str, String)]) -> String {
    let value = |name: &str| labels.iter().find(|(label, _)| *label == name).map(|(_, value)| value.as_str());
    match (value("pool"), value("slot"), value("volume"), value("protocol")) {
        (Some(pool), Some(slot), ..) => format!("member {slot} of pool {pool}"),
        (Some(pool), ..) => format!("pool {pool}"),
        (_, _, Some(volume), _) => match value("verb") {
            Some(verb) => format!("volume {volume} ({verb})"),
            None => format!("volume {volume}"),
        },
        (.., Some(protocol)) => format!("the portals of {protocol}"),
        _ if labels.is_empty() => "the node".to_owned(),
        _ => labels.iter().map(|(_, value)| value.as_str()).collect::<Vec<_>>().join(" "),
    }
}

/// What is the matter, a sentence without a full stop; and what can be done.
pub fn say(
    rule: &Rule,
    labels: &[(&'static str, String)],
    level: Level,
    value: Option<f64>,
) -> (String, String) {
    let subject = subject(labels);
    let Some(value) = value.filter(|_| level != Level::Unknown) else {
        let sentence = format!("nobody knows about {} of {subject}: there is no figure", rule.name);
        return (sentence, "see the log of the node".to_owned());
    };
    let pool = labels.iter().find(|(label, _)| *label == "pool").map_or("", |(_, value)| value.as_str());
    let slot = labels.iter().find(|(label, _)| *label == "slot").map_or("", |(_, value)| value.as_str());
    let bad = level.is_bad();
    match rule.name.as_str() {
        "pool-degraded" => (
            match level {
                Level::Critical => format!("{subject} is degraded, and can lose no more: the next member that fails takes data with it"),
                Level::Warning => format!("{subject} is degraded: a member is out or is being rebuilt, and another one may still fail"),
                Level::Ok | Level::Unknown => format!("{subject} is whole: all members are in sync"),
            },
            format!("fels pool status {pool}   says which member; bring it back (fels pool online {pool} SLOT), or put another one in its place (fels pool replace {pool} SLOT PLACE)"),
        ),
        "block-unrepairable" if bad => (
            format!("{subject} has lost blocks: nothing could rebuild them"),
            "the log of the node names them; write them again, as from a backup, and run: fels pool scrub".to_owned(),
        ),
        "block-unrepairable" => (format!("{subject} has lost no block for a day"), String::new()),
        "pool-full" => (
            format!("volumes have {:.1} % of {subject}", value * 100.0),
            format!("nothing is lost; new volumes find no room: delete some, or give the pool larger or further members (fels pool grow {pool}, fels pool add {pool})"),
        ),
        "member-temperature" => (
            format!("{subject} has {value:.0} \u{b0}C"),
            "look at the fans and the air around it; disks age fast above 60 \u{b0}C".to_owned(),
        ),
        "member-smart" => (
            match level {
                Level::Critical => format!("{subject} expects to fail: its disk says so"),
                Level::Warning => format!("{subject} has reported trouble"),
                Level::Ok | Level::Unknown => format!("{subject} says that it is well"),
            },
            format!("smartctl -a on its disk says what; replace it: fels pool replace {pool} {slot} PLACE"),
        ),
        "volume-latency" => (
            if bad {
                format!("requests to {subject} take {value:.1} times as long as they usually do")
            } else {
                format!("requests to {subject} take about as long as they usually do")
            },
            "fels top   shows where the time goes; a slow member, a rebuild, a scrub or a new load are what it often is".to_owned(),
        ),
        "portals-uneven" => (
            if bad {
                format!("{subject} are used unevenly: the idlest one moves {:.0} % of what the busiest does", value * 100.0)
            } else {
                format!("{subject} are used evenly")
            },
            "fels initiator list   shows who comes by which portal; see multipathing on the initiators, and their links".to_owned(),
        ),
        "write-cache-unsafe" => (
            if bad {
                format!("what {subject} acknowledges may be lost in a power cut")
            } else {
                format!("what {subject} acknowledges survives a power cut")
            },
            "switch the write cache of its disks off, or put disks there that keep it".to_owned(),
        ),
        _ => own(rule, &subject, level, value),
    }
}

/// What is said about a limit of one's own.
fn own(rule: &Rule, subject: &str, level: Level, value: f64) -> (String, String) {
    let family = rule.source.family();
    let bound = match level {
        Level::Critical => rule.limit.critical,
        _ => rule.limit.warning.or(rule.limit.critical),
    };
    let side = match (rule.limit.side, level.is_bad()) {
        (Side::Above, true) | (Side::Below, false) => "above",
        _ => "below",
    };
    let bound = bound.map(|bound| format!(", {side} {}", figure(family, bound))).unwrap_or_default();
    let sentence = format!("{} of {subject}: {}{bound}", family.title, figure(family, value));
    (sentence, format!("it is the limit {} of the configuration", rule.name))
}

/// A figure with its unit.
pub fn figure(family: &Family, value: f64) -> String {
    let number =
        if value == 0.0 || value.abs() >= 100.0 { format!("{value:.0}") } else { digits(value, 3, 3) };
    match (family.unit, family.axis()) {
        (Unit::Ratio, _) => format!("{} %", digits(value * 100.0, 1, 2)),
        (_, "") => number,
        (_, axis) => format!("{number} {axis}"),
    }
}

/// With so many decimals, and with more where those would tell fewer digits of it than `least`: half a thousandth is not nothing.
fn digits(value: f64, mut decimals: usize, least: i32) -> String {
    let first = value.abs().log10().floor();
    while value != 0.0 && first + f64::from(decimals as u32) < f64::from(least - 1) && decimals < MAX_DECIMALS
    {
        decimals += 1;
    }
    format!("{value:.decimals$}")
}
