//! What the name of a series says.

use super::is_subject;
use crate::metric::{self, Family, Group, Kind};

/// A name, taken apart.
#[derive(Debug, PartialEq)]
pub struct Series<'a> {
    /// Of what.
    pub family: &'static Family,
    /// Of a histogram: `mean`, `p50` or `p99`.
    pub part: Option<&'a str>,
    /// Values of the family's labels, in their order.
    pub values: Vec<String>,
}

impl<'a> Series<'a> {
    /// Reads what [`metric::Sample::series`] writes; nothing of what it has not written, or what no build has any more.
    pub fn read(name: &'a str) -> Option<Self> {
        let (head, labels) = match name.split_once('{') {
            Some((head, labels)) => (head, labels.strip_suffix('}')?),
            None => (name, ""),
        };
        let (family, part) = match head.split_once(':') {
            Some((family, part)) => (family, Some(part)),
            None => (head, None),
        };
        let family = metric::find(family)?;
        let mut values = Vec::with_capacity(family.labels.len());
        let mut rest = labels;
        for label in family.labels {
            if !values.is_empty() {
                rest = rest.strip_prefix(',')?;
            }
            rest = rest.strip_prefix(label)?.strip_prefix("=\"")?;
            let (value, behind) = quoted(rest)?;
            values.push(value);
            rest = behind;
        }
        let is_part = part.is_some() == (family.kind == Kind::Histogram);
        (rest.is_empty() && is_part).then_some(Self { family, part, values })
    }

    /// Of whom it is, and which line of a graph.
    pub fn split(&self) -> (Vec<(&'static str, String)>, String) {
        let mut subject = Vec::new();
        let mut words = Vec::new();
        for (label, value) in self.family.labels.iter().copied().zip(&self.values) {
            if is_subject(self.family, label) {
                subject.push((label, value.clone()));
            } else if value.bytes().all(|byte| byte.is_ascii_digit()) {
                // A number alone says nothing.
                words.push(format!("{label} {value}"));
            } else {
                words.push(value.clone());
            }
        }
        words.extend(self.part.map(str::to_owned));
        let label = if words.is_empty() { "all".to_owned() } else { words.join(" ") };
        (subject, label)
    }

    /// Whether the sum over all subjects means something: what volumes and portals do. (What pools and members do is done for them.)
    pub fn adds_up(&self) -> bool {
        let is_outside = matches!(self.family.group, Group::Volume | Group::Portal);
        is_outside && self.family.kind == Kind::Counter && self.family.position("verb").is_some()
    }
}

/// A value up to its closing quote, and what is behind it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut signs = text.char_indices();
    while let Some((at, sign)) = signs.next() {
        match sign {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => value.push(match signs.next()?.1 {
                'n' => '\n',
                other => other,
            }),
            other => value.push(other),
        }
    }
    None
}
