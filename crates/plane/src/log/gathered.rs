//! What the node says in its log.

use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Metadata, Subscriber};

/// The lines of one test.
#[derive(Clone, Default)]
pub struct Logs(Arc<Mutex<Vec<String>>>);

impl Logs {
    /// Gathers what this thread says until the result is dropped.
    pub fn gather(&self) -> DefaultGuard {
        tracing::subscriber::set_default(Gatherer(self.clone()))
    }

    /// Whether a line has these words.
    pub fn has(&self, words: &str) -> bool {
        self.0.lock().unwrap().iter().any(|line| line.contains(words))
    }

    /// Whether somebody was warned of something.
    pub fn warned(&self) -> bool {
        self.has("WARN ")
    }

    pub fn all(&self) -> String {
        self.0.lock().unwrap().join("\n")
    }
}

struct Gatherer(Logs);

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            write!(self.0, "{value:?}").unwrap();
        }
    }
}

impl Subscriber for Gatherer {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut line = Line(format!("{} ", event.metadata().level()));
        event.record(&mut line);
        self.0.0.lock().unwrap().push(line.0);
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}
