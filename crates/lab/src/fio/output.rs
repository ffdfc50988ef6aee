//! The JSON of fio 3: one object after the other, and sentences between them.

use std::collections::HashMap;

use serde::Deserialize;

/// Bytes of one object: a thousand jobs with full histograms are less.
const MAX_DOCUMENT: usize = 256 << 20;

/// Everything that fio has measured up to a point in time.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Snapshot {
    #[serde(rename = "fio version")]
    pub(super) version: String,
    #[serde(default)]
    pub(super) timestamp_ms: u64,
    #[serde(rename = "global options", default)]
    pub(super) options: Options,
    #[serde(default)]
    pub(super) jobs: Vec<Job>,
}

/// What a job file sets. fio repeats a key that was set twice; the last one counts.
pub(super) type Options = HashMap<String, String>;

/// One job, or one of its clones.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Job {
    #[serde(rename = "jobname")]
    pub(super) name: String,
    #[serde(rename = "groupid", default)]
    pub(super) group: u64,
    /// As errno has it; fio writes -1 as 4294967295.
    #[serde(default)]
    pub(super) error: i64,
    /// There only if a job goes on after an error.
    #[serde(default)]
    pub(super) total_err: u64,
    /// Seconds; a huge number if fio does not know.
    #[serde(default)]
    pub(super) eta: u64,
    #[serde(default)]
    pub(super) elapsed: u64,
    #[serde(rename = "job options", default)]
    pub(super) options: Options,
    #[serde(default)]
    pub(super) read: Io,
    #[serde(default)]
    pub(super) write: Io,
    #[serde(default)]
    pub(super) trim: Io,
    #[serde(default)]
    pub(super) sync: Io,
    #[serde(default)]
    pub(super) usr_cpu: f64,
    #[serde(default)]
    pub(super) sys_cpu: f64,
}

/// Operations of one kind.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Io {
    pub(super) total_ios: u64,
    #[serde(rename = "io_bytes")]
    pub(super) bytes: u64,
    /// Milliseconds.
    pub(super) runtime: u64,
    pub(super) lat_ns: Latency,
}

/// From submission to completion. Queuing within fio is part of it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Latency {
    pub(super) min: u64,
    pub(super) max: u64,
    pub(super) mean: f64,
    /// Nanoseconds, and how many took so long.
    pub(super) bins: HashMap<u64, u64>,
}

/// Takes lines, gives what is in them.
#[derive(Debug, Default)]
pub(super) struct Splitter {
    document: String,
}

/// What a line brought.
#[derive(Debug)]
pub(super) enum Line {
    /// The last one of an object.
    Document(Result<Snapshot, serde_json::Error>),
    /// A sentence.
    Said(String),
    /// A part of an object, or nothing.
    Nothing,
}

impl Splitter {
    /// An object begins with `{` and ends with `}` at the beginning of a line; the lines within are indented.
    pub(super) fn line(&mut self, line: &str) -> Line {
        if self.document.is_empty() && line != "{" {
            let said = line.trim();
            return if said.is_empty() { Line::Nothing } else { Line::Said(said.to_owned()) };
        }
        if self.document.len() < MAX_DOCUMENT {
            self.document.push_str(line);
            self.document.push('\n');
        }
        if line != "}" {
            return Line::Nothing;
        }
        let parsed = serde_json::from_str(&self.document);
        self.document.clear();
        Line::Document(parsed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_between_objects_are_told_from_them() {
        let text = "\nfio: a word before\n{\n  \"fio version\" : \"fio-3.33\",\n  \"new\" : {\n  }\n}\n\n\
                    fio: terminating on signal 2\n{\n  \"fio version\" : 3\n}\n";
        let mut splitter = Splitter::default();
        let (mut said, mut documents) = (Vec::new(), Vec::new());
        for line in text.lines() {
            match splitter.line(line) {
                Line::Document(document) => documents.push(document.map(|snapshot| snapshot.version)),
                Line::Said(sentence) => said.push(sentence),
                Line::Nothing => {}
            }
        }
        assert_eq!(said, ["fio: a word before", "fio: terminating on signal 2"]);
        assert_eq!(documents.len(), 2);
        assert_eq!(documents[0].as_ref().unwrap(), "fio-3.33");
        assert!(documents[1].is_err(), "a version that is no text");
    }

    #[test]
    fn a_key_that_was_set_twice_counts_once() {
        let text = "{\"fio version\":\"fio-3.33\",\"global options\":{\"bs\":\"4k\",\"bs\":\"8k\"}}";
        let snapshot: Snapshot = serde_json::from_str(text).unwrap();
        assert_eq!(snapshot.options["bs"], "8k");
    }

    #[test]
    fn an_error_of_minus_one_is_read_as_fio_writes_it() {
        // What the NBD engine gives when its server went away.
        let text = "{\"fio version\":\"fio-3.33\",\"jobs\":[{\"jobname\":\"a\",\"error\":4294967295}]}";
        let snapshot: Snapshot = serde_json::from_str(text).unwrap();
        assert_eq!(snapshot.jobs[0].error, 0xffff_ffff);
    }
}
