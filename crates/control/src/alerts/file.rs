//! The file `alerts.json`, as `docs/formats/alerts.md` draws it: replaced as a whole.

use std::collections::BTreeMap;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use monitor::limit::baseline::Baseline;
use serde::{Deserialize, Serialize};

use super::board::{Entry, Queue};
use crate::whole::replace;

/// What alerts are kept in.
pub const ALERTS_FILE: &str = "alerts.json";
/// Its next version, until it is whole and renamed.
pub const NEW_ALERTS_FILE: &str = "alerts.json.new";
const FORMAT: &str = "fels alerts";
const VERSION: u32 = 1;
/// Bytes of the file at most: ten thousand alerts, five hundred messages and as many means take less.
const MAX_FILE_BYTES: u64 = 32 << 20;

/// What is kept of alerts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Kept {
    /// How things are, by id.
    pub alerts: BTreeMap<String, Entry>,
    /// Messages that wait, the oldest first.
    pub queue: Queue,
    /// The id of the newest message.
    pub next_message: u64,
    /// The day since 1970 of the last digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest_day: Option<u64>,
    /// What is usual, by series: the mean, and of how many figures it is.
    baselines: BTreeMap<String, (f64, u32)>,
}

impl Kept {
    pub(super) fn baselines(&self) -> BTreeMap<String, Baseline> {
        let of = |(series, (mean, count)): (&String, &(f64, u32))| {
            (series.clone(), Baseline { mean: *mean, count: *count })
        };
        self.baselines.iter().map(of).collect()
    }

    pub(super) fn set_baselines(&mut self, baselines: &BTreeMap<String, Baseline>) {
        let of = |(series, usual): (&String, &Baseline)| (series.clone(), (usual.mean, usual.count));
        self.baselines = baselines.iter().map(of).collect();
    }
}

/// The file as a whole.
#[derive(Serialize, Deserialize)]
struct Whole<T> {
    format: String,
    version: u32,
    state: T,
}

/// What of the file says what it is.
#[derive(Deserialize)]
struct Head {
    format: String,
    version: u32,
}

/// Why it is not known how things were.
#[derive(Debug, thiserror::Error)]
pub enum AlertsError {
    /// It cannot be read.
    #[error("reading {path} failed: {source}; hint: it has to belong to the user who runs the node")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is of another version.
    #[error(
        "{path} has version {version}, this Fels knows version {VERSION} only; hint: run the Fels that wrote it, or a newer one"
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u32,
    },
    /// It is something else.
    #[error(
        "{path} is damaged: {why}; hint: move it away: acknowledgements and messages that wait are forgotten then, and all limits are looked at anew"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
}

/// What is kept in a data directory; nothing if there is no file. Blocks.
pub fn read(directory: &Path) -> Result<Kept, AlertsError> {
    let path = directory.join(ALERTS_FILE);
    let failed = |source| AlertsError::Io { path: path.clone(), source };
    let mut bytes = Vec::new();
    match std::fs::File::open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Kept::default()),
        file => file.and_then(|file| file.take(MAX_FILE_BYTES).read_to_end(&mut bytes)).map_err(failed)?,
    };
    let damaged =
        |error: serde_json::Error| AlertsError::Damaged { path: path.clone(), why: error.to_string() };
    let head: Head = serde_json::from_slice(&bytes).map_err(damaged)?;
    if head.format != FORMAT {
        return Err(AlertsError::Damaged { path, why: format!("it is no {FORMAT}") });
    }
    if head.version != VERSION {
        return Err(AlertsError::Version { path, version: head.version });
    }
    let whole: Whole<Kept> = serde_json::from_slice(&bytes).map_err(damaged)?;
    Ok(whole.state)
}

/// Keeps it: when this returns it is durable, and whenever the node ends, the old state is there or this one. Blocks.
pub fn write(directory: &Path, kept: &Kept) -> io::Result<()> {
    let whole = Whole { format: FORMAT.to_owned(), version: VERSION, state: kept };
    let bytes = serde_json::to_vec(&whole)?;
    replace(directory, ALERTS_FILE, NEW_ALERTS_FILE, &bytes, &mut |_| Ok(()))
}

/// A level as its word.
pub(super) mod level {
    use monitor::limit::Level;
    use serde::{Deserialize, Deserializer, Serializer, de};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
    pub fn serialize<S: Serializer>(level: &Level, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(level.name())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Level, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}
