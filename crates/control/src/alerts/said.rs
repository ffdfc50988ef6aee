//! What people are told, in words.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use monitor::limit::Level;

use super::board::Entry;
use crate::events::Record;
use crate::moment::Moment;

/// What is told to receivers after a look.
pub(super) struct Change {
    /// Of which limit.
    pub rule: String,
    pub level: Level,
    pub id: String,
    pub subject: String,
    pub text: String,
    pub body: serde_json::Value,
}

/// What is told of a change, or again of what has not changed.
pub(super) fn change(id: &str, entry: &Entry, is_reminder: bool, now: Moment, node: &str) -> Change {
    let Entry { level, sentence, hint, since, told, .. } = entry;
    let still = if is_reminder { "still " } else { "" };
    let subject = format!("[{node}] {still}{level}: {sentence}");
    // Writing to a String does not fail.
    let mut text = format!("{sentence}.\n\nalert:  {id}\nlevel:  {level}");
    if !is_reminder {
        let _ = write!(text, ", was {told}");
    }
    let _ = write!(text, "\nsince:  {since}\nnode:   {node}\n");
    if level.is_bad() && !hint.is_empty() {
        let _ = write!(text, "\nWhat to do:\n  {hint}\n");
    }
    if level.is_bad() {
        let _ = write!(
            text,
            "\nWhoever sees to it says so, and nobody is reminded any more:\n  fels alert ack {id}\n"
        );
    }
    let body = serde_json::json!({
        "kind": if is_reminder { "reminder" } else { "change" },
        "node": node,
        "alert": id,
        "level": level.name(),
        "was": told.name(),
        "since": since,
        "at": now,
        "sentence": sentence,
        "hint": hint,
        "value": entry.value,
    });
    Change { rule: entry.rule.clone(), level: *level, id: id.to_owned(), subject, text, body }
}

/// Lines of a kind in a digest, at most.
const MAX_LINES: usize = 50;

/// The summary of a day: its subject, its text, and the same for programs. `events` are those of the day, the newest first.
pub(super) fn digest(
    alerts: &BTreeMap<String, Entry>,
    events: &[Record],
    now: Moment,
    node: &str,
) -> (String, String, serde_json::Value) {
    let bad: Vec<_> = alerts.iter().filter(|(_, entry)| entry.level.is_bad()).collect();
    let head = match bad.len() {
        0 => "all is well".to_owned(),
        1 => "1 alert".to_owned(),
        count => format!("{count} alerts"),
    };
    // Writing to a String does not fail.
    let mut text = format!("The last day of {node}, until {now}: {head}.\n");
    for (id, entry) in bad.iter().take(MAX_LINES) {
        let state = match (&entry.acknowledged, &entry.muted) {
            (Some(seen), _) => format!(" ({} sees to it)", seen.who),
            (None, Some(muted)) => format!(" (muted until {})", muted.until),
            (None, None) => String::new(),
        };
        let _ = write!(text, "\n{}: {}{state}\n  {id}, since {}\n", entry.level, entry.sentence, entry.since);
    }
    if !events.is_empty() {
        text.push_str("\nWhat happened:\n");
    }
    for record in events.iter().take(MAX_LINES).rev() {
        let _ = writeln!(text, "  {}  {}", record.at, record.sentence);
    }
    if events.len() > MAX_LINES {
        text.push_str("and more: fels events --severity warning\n");
    }
    let ids: Vec<_> = bad.iter().map(|(id, _)| id.as_str()).collect();
    let body = serde_json::json!({ "kind": "digest", "node": node, "at": now, "alerts": ids });
    (format!("[{node}] the last day: {head}"), text, body)
}
