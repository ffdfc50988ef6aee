//! An event as it is kept and told.

use std::io;

use monitor::event::{Event, Field, Severity};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::moment::Moment;

/// Characters of a sentence, and of a field.
const MAX_TEXT: usize = 512;

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Record {
    /// One more than that of the one before.
    pub id: u64,
    /// When, in UTC.
    #[schema(value_type = String, format = DateTime)]
    pub at: Moment,
    /// What, by a name that stays, such as `member-faulted`.
    pub event: String,
    /// How bad it is: `info`, `warning` or `critical`.
    pub severity: String,
    /// What, for people.
    pub sentence: String,
    /// To what: names and numbers.
    #[schema(value_type = Object)]
    pub fields: Map<String, Value>,
}

impl Record {
    /// Within bounds, whoever sent what is in it.
    pub fn new(id: u64, at: Moment, event: &Event) -> Record {
        let field = |(name, field): (&str, Field)| {
            let value = match field {
                Field::Text(text) => Value::from(cut(text)),
                Field::Number(number) => Value::from(number),
            };
            (name.to_owned(), value)
        };
        Record {
            id,
            at,
            event: event.name().to_owned(),
            severity: event.severity().name().to_owned(),
            sentence: cut(event.sentence()),
            fields: event.fields().into_iter().map(field).collect(),
        }
    }

    /// As it stands in the log.
    pub(super) fn line(&self) -> io::Result<Vec<u8>> {
        let mut line = serde_json::to_vec(self)?;
        line.push(b'\n');
        Ok(line)
    }

    /// How bad it is; what a later version calls otherwise is not less than a warning.
    pub fn severity(&self) -> Severity {
        self.severity.parse().unwrap_or(Severity::Warning)
    }
}

fn cut(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(MAX_TEXT) {
        text.truncate(end);
    }
    // Some of it is what others sent.
    text.retain(|character| !character.is_control());
    text
}
