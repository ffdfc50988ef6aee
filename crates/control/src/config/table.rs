//! Typed access to the tables of a parsed document; whatever does not fit is reported and read as missing.

use super::error::Problems;
use super::key::Key;
use crate::size::{QuantityError, parse_bytes, parse_duration};
use std::ops::{Range, RangeInclusive};
use std::time::Duration;
use toml::Spanned;
use toml::de::{DeInteger, DeTable, DeValue};

/// A table whose keys are declared.
#[derive(Debug, Clone)]
pub(super) struct Table<'t> {
    title: String,
    keys: &'static [Key],
    entries: &'t DeTable<'t>,
    span: Range<usize>,
    /// Declared keys that an unknown key was probably meant to be.
    meant: Vec<&'static str>,
}

impl<'t> Table<'t> {
    /// Takes `entries` as the table that messages call `title`, and reports keys that are not in `keys`.
    pub fn new(
        problems: &mut Problems<'_>,
        title: impl Into<String>,
        keys: &'static [Key],
        entries: &'t DeTable<'t>,
        span: Range<usize>,
    ) -> Self {
        let mut table = Self { title: title.into(), keys, entries, span, meant: Vec::new() };
        for key in entries.keys() {
            if !keys.iter().any(|known| known.name == key.get_ref().as_ref()) {
                table.refuse(problems, key.get_ref(), key.span());
            }
        }
        table
    }

    fn refuse(&mut self, problems: &mut Problems<'_>, key: &str, span: Range<usize>) {
        let hint = if let Some(near) = nearest(key, self.keys) {
            self.meant.push(near);
            format!("did you mean `{near}`?")
        } else {
            let names: Vec<_> = self.keys.iter().map(|key| format!("`{}`", key.name)).collect();
            format!("the keys here are {}", names.join(", "))
        };
        let key: String = key.chars().take(64).flat_map(char::escape_debug).collect();
        problems.add_hint(span, format!("unknown key `{key}` {}", self.title), hint);
    }

    /// What messages call this table, with its preposition: `in [iscsi]`.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// Where the table stands.
    pub fn span(&self) -> Range<usize> {
        self.span.clone()
    }

    /// Whether `key` is neither there nor there under a misspelt name, which is reported already.
    pub fn lacks(&self, key: &'static str) -> bool {
        self.value(key).is_none() && !self.meant.contains(&key)
    }

    /// The value of `key`, which has to be a declared one.
    pub fn value(&self, key: &'static str) -> Option<Value<'t>> {
        debug_assert!(self.keys.iter().any(|known| known.name == key), "{key} is not declared");
        self.entries.get(key).map(|node| Value { name: key, node })
    }
}

/// The declared key that `key` was probably meant to be.
fn nearest(key: &str, keys: &'static [Key]) -> Option<&'static str> {
    let plain = |name: &str| name.to_lowercase().replace(['-', '_'], "");
    let key = plain(key);
    keys.iter()
        .map(|known| (strsim::osa_distance(&key, &plain(known.name)), known.name))
        .filter(|(distance, name)| *distance <= 1 + name.len() / 4)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// A value and the key that it belongs to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Value<'t> {
    name: &'static str,
    node: &'t Spanned<DeValue<'t>>,
}

impl<'t> Value<'t> {
    /// Where the value stands.
    pub fn span(self) -> Range<usize> {
        self.node.span()
    }

    fn mismatch(self, problems: &mut Problems<'_>, takes: &str) {
        let article = match self.node.get_ref() {
            DeValue::Integer(_) | DeValue::Array(_) => "an",
            _ => "a",
        };
        let found = self.node.get_ref().type_str();
        problems.add(self.span(), format!("`{}` takes {takes}, this is {article} {found}", self.name));
    }

    /// A string that is not empty and has no control characters.
    pub fn string(self, problems: &mut Problems<'_>, takes: &str) -> Option<&'t str> {
        match self.node.get_ref() {
            DeValue::String(text) if text.is_empty() => {
                problems.add(self.span(), format!("`{}` takes {takes}, this is empty", self.name));
                None
            }
            DeValue::String(text) if text.chars().any(char::is_control) => {
                problems.add(self.span(), format!("`{}` has a control character in it", self.name));
                None
            }
            DeValue::String(text) => Some(text),
            _ => {
                self.mismatch(problems, takes);
                None
            }
        }
    }

    /// An integer within `range`.
    pub fn integer(
        self,
        problems: &mut Problems<'_>,
        takes: &str,
        range: RangeInclusive<u64>,
    ) -> Option<u64> {
        let DeValue::Integer(integer) = self.node.get_ref() else {
            self.mismatch(problems, takes);
            return None;
        };
        let number = unsigned(integer).filter(|number| range.contains(number));
        if number.is_none() {
            problems.add(self.span(), format!("`{}` takes {takes}", self.name));
        }
        number
    }

    /// A number, whole or not.
    pub fn number(self, problems: &mut Problems<'_>) -> Option<f64> {
        let number = match self.node.get_ref() {
            DeValue::Integer(integer) if integer.radix() == 10 => integer.as_str().parse().ok(),
            DeValue::Float(float) => float.as_str().parse().ok(),
            _ => {
                self.mismatch(problems, "a number");
                return None;
            }
        };
        let number = number.filter(|number: &f64| number.is_finite());
        if number.is_none() {
            problems.add(self.span(), format!("`{}` takes a number", self.name));
        }
        number
    }

    /// Whether it is this text.
    pub fn is_text(self, text: &str) -> bool {
        self.node.get_ref().as_str() == Some(text)
    }

    /// The texts of a table whose keys are among `names`.
    pub fn texts(self, problems: &mut Problems<'_>, names: &[&str]) -> Option<Vec<(String, String)>> {
        let DeValue::Table(entries) = self.node.get_ref() else {
            self.mismatch(problems, "a table such as { volume = \"db\" }");
            return None;
        };
        let mut texts = Vec::new();
        for (key, value) in entries {
            let known = names.contains(&key.get_ref().as_ref());
            let Some(text) = value.get_ref().as_str().filter(|_| known) else {
                let hint = format!("its labels are {}, and their values texts", names.join(", "));
                problems.add_hint(key.span(), format!("`{}` takes labels of its metric", self.name), hint);
                return None;
            };
            texts.push((key.get_ref().to_string(), text.to_owned()));
        }
        Some(texts)
    }

    /// `true` or `false`.
    pub fn boolean(self, problems: &mut Problems<'_>) -> Option<bool> {
        let value = self.node.get_ref().as_bool();
        if value.is_none() {
            self.mismatch(problems, "`true` or `false`");
        }
        value
    }

    /// The value `true`; `false` is refused, since there is nothing that it could mean.
    pub fn only_true(self, problems: &mut Problems<'_>) -> Option<()> {
        match self.node.get_ref() {
            DeValue::Boolean(true) => Some(()),
            DeValue::Boolean(false) => {
                problems.add_hint(
                    self.span(),
                    format!("`{} = false` means nothing", self.name),
                    "leave it out",
                );
                None
            }
            _ => {
                self.mismatch(problems, "`true`");
                None
            }
        }
    }

    /// A size in bytes: an integer, or a string such as `"1GiB"`.
    pub fn bytes(self, problems: &mut Problems<'_>) -> Option<u64> {
        let takes = "a size such as \"1GiB\"";
        let size = match self.node.get_ref() {
            DeValue::Integer(integer) => unsigned(integer).ok_or(QuantityError::NoNumber),
            DeValue::String(text) => parse_bytes(text),
            _ => {
                self.mismatch(problems, takes);
                return None;
            }
        };
        let hint = "write a whole number and B, KiB, MiB, GiB, TiB, PiB or KB, MB, GB, TB, PB";
        size.map_err(|why| {
            problems.add_hint(self.span(), format!("`{}` takes {takes}, but {why}", self.name), hint);
        })
        .ok()
    }

    /// A rate in bytes a second: an integer, or a string such as `"200MB/s"`; not zero.
    pub fn rate(self, problems: &mut Problems<'_>) -> Option<u64> {
        let takes = "a rate such as \"200MB/s\"";
        let rate = match self.node.get_ref() {
            DeValue::Integer(integer) => unsigned(integer).ok_or(QuantityError::NoNumber),
            DeValue::String(text) => parse_bytes(text.trim_end().strip_suffix("/s").unwrap_or(text)),
            _ => {
                self.mismatch(problems, takes);
                return None;
            }
        };
        let hint = "write a whole number and B/s, KiB/s, MiB/s, GiB/s or KB/s, MB/s, GB/s";
        match rate {
            Ok(0) => {
                let message = format!("`{}` is 0: nothing would get through", self.name);
                problems.add_hint(
                    self.span(),
                    message,
                    "leave it out for no limit; `enabled = false` switches a volume off",
                );
                None
            }
            Ok(rate) => Some(rate),
            Err(why) => {
                problems.add_hint(self.span(), format!("`{}` takes {takes}, but {why}", self.name), hint);
                None
            }
        }
    }

    /// Whether it is this word.
    pub fn is(&self, word: &str) -> bool {
        matches!(self.node.get_ref(), DeValue::String(text) if text == word)
    }

    /// A time: an integer of seconds, or a string such as `"15s"`; zero only where `range` has it.
    pub fn duration(
        self,
        problems: &mut Problems<'_>,
        takes: &str,
        range: RangeInclusive<Duration>,
    ) -> Option<Duration> {
        let hint = "write seconds, or a whole number and us, ms, s, m or h";
        let time = match self.node.get_ref() {
            DeValue::Integer(integer) => {
                unsigned(integer).map(Duration::from_secs).ok_or(QuantityError::NoNumber)
            }
            DeValue::String(text) => parse_duration(text),
            _ => {
                self.mismatch(problems, takes);
                return None;
            }
        };
        match time {
            Ok(time) if range.contains(&time) => Some(time),
            Ok(time) => {
                let refusal = format!("`{}` takes {takes}", self.name);
                match self.node.get_ref() {
                    DeValue::Integer(number) if time > *range.end() => {
                        let number = number.as_str();
                        let hint = format!(
                            "a number alone is of seconds; with a unit it is a text: \"{number}us\", \"{number}ms\""
                        );
                        problems.add_hint(self.span(), refusal, hint);
                    }
                    _ => problems.add(self.span(), refusal),
                }
                None
            }
            Err(why) => {
                problems.add_hint(self.span(), format!("`{}` takes {takes}, but {why}", self.name), hint);
                None
            }
        }
    }

    /// Whether it is a list with something in it.
    pub fn is_filled_list(self) -> bool {
        self.node.get_ref().as_array().is_some_and(|values| !values.is_empty())
    }

    /// Whether it is a table.
    pub fn is_table(self) -> bool {
        self.node.get_ref().is_table()
    }

    /// Whether it is a list.
    pub fn is_list(self) -> bool {
        self.node.get_ref().is_array()
    }

    /// The values of a list.
    pub fn list(self, problems: &mut Problems<'_>, takes: &str) -> Vec<Value<'t>> {
        let DeValue::Array(values) = self.node.get_ref() else {
            self.mismatch(problems, takes);
            return Vec::new();
        };
        values.iter().map(|node| Value { name: self.name, node }).collect()
    }

    /// A table with the given keys; messages place what is in it by `title`.
    pub fn table(
        self,
        problems: &mut Problems<'_>,
        takes: &str,
        title: impl Into<String>,
        keys: &'static [Key],
    ) -> Option<Table<'t>> {
        let DeValue::Table(entries) = self.node.get_ref() else {
            self.mismatch(problems, takes);
            return None;
        };
        Some(Table::new(problems, title, keys, entries, self.span()))
    }

    /// The string under `key`, if this is a table that has it: to name a table in messages before it is read.
    pub fn peek(self, key: &str) -> Option<&'t str> {
        self.node.get_ref().as_table()?.get(key)?.get_ref().as_str()
    }
}

fn unsigned(integer: &DeInteger<'_>) -> Option<u64> {
    u64::from_str_radix(integer.as_str().trim_start_matches('+'), integer.radix()).ok()
}
