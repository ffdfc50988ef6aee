//! Where in the file something stands, and the line to quote: without the secrets on it.

use super::error::Location;
use std::collections::HashSet;
use std::ops::Range;
use toml::de::{DeTable, DeValue};

/// The text of the file and the ranges of it that are never shown.
#[derive(Debug)]
pub(super) struct Source<'t> {
    name: &'t str,
    text: &'t str,
    secrets: Vec<Range<usize>>,
}

/// What stands in a quoted line for a secret of any length.
const MASK: &str = "***";

/// Words that make a line of a file that cannot be parsed suspect of holding a secret.
const SUSPECT: [&str; 6] = ["secret", "chap", "pass", "user", "auth", "hook"];

impl<'t> Source<'t> {
    pub fn new(text: &'t str, name: &'t str, secrets: Vec<Range<usize>>) -> Self {
        Self { name, text, secrets }
    }

    /// The place of `span`, with its first line quoted.
    pub fn locate(&self, span: Range<usize>) -> Location {
        let start = floor_boundary(self.text, span.start);
        let before = self.text.get(..start).unwrap_or_default();
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let rest = self.text.get(line_start..).unwrap_or_default();
        let line_end = line_start + rest.find('\n').unwrap_or(rest.len());
        let end = floor_boundary(self.text, span.end).clamp(start, line_end.max(start));
        let (quote, mark) = self.quote(line_start..line_end, start..end);
        Location {
            file: self.name.to_owned(),
            line: before.matches('\n').count() + 1,
            column: before.get(line_start..).map_or(0, |text| text.chars().count()) + 1,
            quote,
            mark,
        }
    }

    /// The line as it may be shown, and the range of its characters that `span` covers.
    fn quote(&self, line: Range<usize>, span: Range<usize>) -> (String, Range<usize>) {
        let mut quote = String::new();
        let mut length = 0;
        let (mut from, mut to) = (None, 0);
        let mut masked = false;
        for (offset, character) in self.text.get(line.clone()).unwrap_or_default().char_indices() {
            let at = line.start + offset;
            if at >= span.start {
                from.get_or_insert(length);
            }
            if self.secrets.iter().any(|secret| secret.contains(&at)) {
                if !masked {
                    quote.push_str(MASK);
                    length += MASK.len();
                }
                masked = true;
            } else {
                masked = false;
                match character {
                    '\t' => quote.push(' '),
                    '\r' => continue,
                    _ if character.is_control() => quote.push(char::REPLACEMENT_CHARACTER),
                    _ => quote.push(character),
                }
                length += 1;
            }
            if at < span.end {
                to = length;
            }
        }
        let from = from.unwrap_or(length);
        (quote, from..to.max(from + 1))
    }
}

fn floor_boundary(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// The ranges of all values in a parsed document that may be secrets: strings under a key like `secret`, and
/// all strings but the users' names below a key like `chap`, so that a misspelt key shows nothing either, nor one that a
/// dot has cut in two.
pub(super) fn secrets_of(document: &DeTable<'_>) -> Vec<Range<usize>> {
    let mut secrets = Vec::new();
    collect_table(document, "", false, &mut secrets);
    secrets
}

/// `parent` is the key of the table, if it has one.
fn collect_table(table: &DeTable<'_>, parent: &str, hide: bool, secrets: &mut Vec<Range<usize>>) {
    for (key, value) in table {
        let key = key.get_ref().to_lowercase();
        let hide = match key.as_str() {
            "user" | "secret_file" | "password_file" | "socket" => false,
            _ => hide || is_suspect(&key) || is_suspect(&format!("{parent}{key}")),
        };
        collect(value.get_ref(), &key, value.span(), hide, secrets);
    }
}

fn is_suspect(key: &str) -> bool {
    key.contains("pass") || near(key, "secret") || key.contains("chap") || near(key, "webhook")
}

fn collect(value: &DeValue<'_>, key: &str, span: Range<usize>, hide: bool, secrets: &mut Vec<Range<usize>>) {
    match value {
        DeValue::Table(table) => collect_table(table, key, hide, secrets),
        DeValue::Array(values) => {
            for value in values {
                collect(value.get_ref(), key, value.span(), hide, secrets);
            }
        }
        _ if hide => secrets.push(span),
        _ => {}
    }
}

/// What comments may have of secrets: keys that were switched off with their values, and all that stands behind a secret. `values`
/// are the secrets outside of them.
fn secrets_of_comments(text: &str, values: &[Range<usize>]) -> Vec<Range<usize>> {
    let mut secrets = Vec::new();
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let end = start + line.trim_end().len();
        if let Some(comment) = comment_of(line).map(|at| start + at + 1) {
            let follows_secret = values.iter().any(|value| (start..end).contains(&value.end));
            let shown = text.get(comment..end).unwrap_or_default();
            let from = if follows_secret { Some(0) } else { secret_of_comment(shown) };
            secrets.extend(from.map(|from| comment + from..end).filter(|range| !range.is_empty()));
        }
        start += line.len();
    }
    secrets
}

/// Where a line has a `#` outside of quotes.
fn comment_of(line: &str) -> Option<usize> {
    let (mut quote, mut is_escaped) = (None, false);
    for (at, character) in line.char_indices() {
        match (quote, character) {
            (None, '#') => return Some(at),
            (None, '"' | '\'') => quote = Some(character),
            (Some('"'), '\\') if !is_escaped => {
                is_escaped = true;
                continue;
            }
            (Some(open), _) if character == open && !is_escaped => quote = None,
            _ => {}
        }
        is_escaped = false;
    }
    None
}

/// What follows the first `=` behind a key that is one of a secret.
fn secret_of_comment(comment: &str) -> Option<usize> {
    let is_key = |character: char| character.is_alphanumeric() || "-_.\"'".contains(character);
    let keyed = |at: &usize| {
        let before = comment[..*at].trim_end().to_lowercase();
        let key = before.rsplit(|character| !is_key(character)).next().unwrap_or_default();
        !matches!(key, "secret_file" | "password_file") && is_suspect(&key.replace(['.', '"', '\''], ""))
    };
    comment.match_indices('=').map(|(at, _)| at).find(keyed).map(|at| at + 1)
}

/// A configuration with every value that may be a secret replaced by what the reader refuses, also where it stands in a comment. A
/// text that is not TOML has been refused before.
pub fn without_secrets(text: &str) -> String {
    let (document, _) = DeTable::parse_recoverable(text);
    let mut secrets = secrets_of(document.get_ref());
    secrets.extend(secrets_of_comments(text, &secrets));
    secrets.sort_by_key(|span| span.start);
    let mut shown = String::with_capacity(text.len());
    let mut end = 0;
    for span in secrets {
        // What looks like a comment may be in the middle of a secret of several lines.
        if span.start < end {
            continue;
        }
        shown.push_str(text.get(end..span.start).unwrap_or_default());
        shown.push('"');
        shown.push_str(super::HIDDEN);
        shown.push('"');
        end = span.end;
    }
    shown.push_str(text.get(end..).unwrap_or_default());
    shown
}

/// The line (from 1) of a comment of a text whose secret was hidden when `before` was printed.
pub(crate) fn hidden_comment(text: &str, before: &str) -> Option<usize> {
    let printed = without_secrets(before);
    let (before, printed): (HashSet<_>, HashSet<_>) =
        (comments(before).collect(), comments(&printed).collect());
    let is_lost = |line: &str| {
        let comment = comments(line).next();
        comment.is_some_and(|comment| printed.contains(comment) && !before.contains(comment))
    };
    text.lines().position(is_lost).map(|at| at + 1)
}

/// What stands behind a `#`, line by line.
fn comments(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| line.get(comment_of(line)?..))
}

/// The path of keys to what stands at a place of a configuration, as `volume.demo.size`: tables in lists go by their name.
pub fn field_at(text: &str, place: &Location) -> Option<String> {
    let line = text.split_inclusive('\n').take(place.line - 1).map(str::len).sum::<usize>();
    let column = text.get(line..)?.char_indices().nth(place.column - 1).map_or(0, |(at, _)| at);
    let (document, _) = DeTable::parse_recoverable(text);
    let mut path = Vec::new();
    descend_table(document.get_ref(), line + column, &mut path);
    (!path.is_empty()).then(|| path.join("."))
}

fn descend_table(table: &DeTable<'_>, at: usize, path: &mut Vec<String>) {
    for (key, value) in table {
        let inside = descend(value.get_ref(), at, path);
        if inside || key.span().contains(&at) || value.span().contains(&at) {
            path.insert(0, key.get_ref().to_string());
            return;
        }
    }
}

/// Whether the place is in something inside of `value`, whose keys are then in `path`.
fn descend(value: &DeValue<'_>, at: usize, path: &mut Vec<String>) -> bool {
    match value {
        DeValue::Table(table) => descend_table(table, at, path),
        DeValue::Array(values) => {
            for (index, value) in values.iter().enumerate() {
                let found = descend(value.get_ref(), at, path) || value.span().contains(&at);
                if !found {
                    continue;
                }
                let name = value.get_ref().as_table().and_then(|table| table.get("name"));
                let name = name.and_then(|name| name.get_ref().as_str()).map(str::to_owned);
                path.insert(0, name.unwrap_or_else(|| index.to_string()));
                return true;
            }
        }
        _ => {}
    }
    !path.is_empty()
}

/// Whether `key` is a key of any section, and none that only stands inside of a table of users.
fn is_declared(key: &str) -> bool {
    let users = super::chap::KEYS;
    super::sections()
        .iter()
        .flat_map(|(_, keys)| keys.iter())
        .any(|known| known.name == key && !users.iter().any(|user| user.name == key))
}

fn near(key: &str, word: &str) -> bool {
    key.contains(word) || strsim::osa_distance(key, word) <= 2
}

/// The ranges to hide in a text that cannot be parsed: whatever follows the first `=` of a suspect line, and
/// whole suspect lines that have none.
pub(super) fn secrets_of_broken(text: &str) -> Vec<Range<usize>> {
    let mut secrets = Vec::new();
    let mut start = 0;
    let mut inside_suspect = false;
    for line in text.split_inclusive('\n') {
        let lower = line.to_lowercase();
        let header = line.split('#').next().unwrap_or_default().trim();
        let opens_section =
            header.starts_with('[') && header.ends_with(']') && !header.contains(['=', '"', '\'']);
        let suspect = SUSPECT.iter().any(|word| lower.contains(word));
        // A secret may stand on a later line than its key: what follows a suspect line is hidden up to the
        // next line that begins a section or has a key of ours, and no other, in front of its `=`.
        let begins_key = line.split_once('=').is_some_and(|(key, _)| is_declared(key.trim()));
        inside_suspect = suspect || (inside_suspect && !begins_key && !opens_section);
        let end = start + line.trim_end_matches('\n').len();
        if inside_suspect && !opens_section {
            let from = if begins_key { line.find('=').map_or(start, |at| start + at + 1) } else { start };
            secrets.push(from..end);
        }
        start += line.len();
    }
    secrets
}
