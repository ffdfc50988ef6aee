//! `people.json`, as `docs/formats/people.md` draws it.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::token::Digest;
use super::{People, Refusal};
use crate::whole::{Step, replace};

/// The file of users and tokens in the data directory.
pub const PEOPLE_FILE: &str = "people.json";
/// Its next version, until it is whole and renamed.
pub(crate) const NEW_PEOPLE_FILE: &str = "people.json.new";
/// What the file says that it is.
const FORMAT: &str = "fels people";
/// The only version so far.
const VERSION: u64 = 1;
/// More than all users and tokens take; a larger file is damaged.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Why it is not known who may administer the node.
#[derive(Debug, thiserror::Error)]
pub enum PeopleError {
    /// It cannot be read.
    #[error("reading {} failed: {source}; hint: it has to belong to the user that runs fels", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Others may read it, or write it.
    #[error("{} may be read or written by others than its owner; hint: chmod 600 {0}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
    },
    /// It is not as it has to be.
    #[error(
        "{} is damaged: {reason}; hint: restore it from a backup, or move it away: then there are no users, and `fels user add` makes new ones",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// It was written by another version of Fels.
    #[error(
        "{} has version {version}, this Fels knows version {VERSION} only; hint: run the Fels that wrote it, or a newer one",
        path.display()
    )]
    UnknownVersion {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u64,
    },
}

/// What every version has.
#[derive(Deserialize)]
struct Head {
    format: String,
    version: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Whole<P> {
    format: String,
    version: u64,
    generation: u64,
    sha256: Digest,
    people: P,
}

/// What the file says, and how often it was replaced; nobody and 0 if there is none.
pub(super) fn read(directory: &Path) -> Result<(People, u64), PeopleError> {
    let path = directory.join(PEOPLE_FILE);
    let mut bytes = Vec::new();
    let read = File::open(&path).and_then(|file| {
        let mode = file.metadata()?.mode();
        file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
        Ok(mode)
    });
    match read {
        Ok(mode) if mode & 0o077 != 0 => Err(PeopleError::Open { path }),
        Ok(_) => parse(&bytes).map_err(|wrong| wrong.of(path)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok((People::default(), 0)),
        Err(source) => Err(PeopleError::Io { path, source }),
    }
}

/// What is wrong with what was read.
#[derive(Debug)]
pub(super) enum Wrong {
    Damaged(String),
    Version(u64),
}

impl Wrong {
    fn of(self, path: PathBuf) -> PeopleError {
        match self {
            Self::Damaged(reason) => PeopleError::Damaged { path, reason },
            Self::Version(version) => PeopleError::UnknownVersion { path, version },
        }
    }
}

fn damaged(reason: impl Into<String>) -> Wrong {
    Wrong::Damaged(reason.into())
}

pub(super) fn parse(bytes: &[u8]) -> Result<(People, u64), Wrong> {
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(damaged("it is larger than 1 MiB"));
    }
    // The version comes first: what else a later version has in it is not ours to judge.
    let head: Head =
        serde_json::from_slice(bytes).map_err(|_| damaged("it is not JSON with a format and a version"))?;
    if head.format != FORMAT {
        return Err(damaged(format!("its format is not `{FORMAT}`")));
    }
    if head.version != VERSION {
        return Err(Wrong::Version(head.version));
    }
    let whole: Whole<People> = serde_json::from_slice(bytes).map_err(|error| damaged(error.to_string()))?;
    if !sum(&whole.people)?.is(&whole.sha256) {
        return Err(damaged("its SHA-256 does not fit"));
    }
    whole.people.check().map_err(|refusal: Refusal| {
        let said = refusal.to_string();
        damaged(said.split("; hint: ").next().unwrap_or_default())
    })?;
    Ok((whole.people, whole.generation))
}

fn sum(people: &People) -> Result<Digest, Wrong> {
    let content = serde_json::to_vec(people).map_err(|error| damaged(error.to_string()))?;
    Ok(Digest::of(&content))
}

pub(super) fn text(people: &People, generation: u64) -> io::Result<Vec<u8>> {
    let sha256 = Digest::of(&serde_json::to_vec(people)?);
    let mut bytes = serde_json::to_vec(&Whole {
        format: FORMAT.to_owned(),
        version: VERSION,
        generation,
        sha256,
        people,
    })?;
    bytes.push(b'\n');
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(bytes)
}

/// Replaces the file. `before` is asked before each step.
pub(super) fn write(
    directory: &Path,
    people: &People,
    generation: u64,
    before: &mut dyn FnMut(Step) -> io::Result<()>,
) -> io::Result<()> {
    replace(directory, PEOPLE_FILE, NEW_PEOPLE_FILE, &text(people, generation)?, before)
}
