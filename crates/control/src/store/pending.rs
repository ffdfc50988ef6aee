//! `pending.toml`: bytes that a change is making, destroying or making longer, so that the next start completes or undoes it.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use plane::pool::Seen;
use serde::{Deserialize, Serialize};

use super::PENDING_FILE;
use super::files::{self, System};
use crate::config::{Backing, Config, Volume, lexical, read_bounded};
use crate::offline;

/// The only version so far.
const VERSION: i64 = 1;
const HEAD: &str = "# Fels is changing volumes; the next start completes or undoes it. Do not edit.\n";

/// Where bytes of a volume are that a node can make and destroy: not a device, not memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// A file, by its absolute path.
    File(PathBuf),
    /// The pool of this name.
    Pool(String),
}

impl Place {
    /// Of a volume; `None` where nothing of it lasts, or is the node's to destroy.
    pub fn of(volume: &Volume) -> Option<Place> {
        match &volume.backing {
            Backing::File(path) => Some(Place::File(absolute(path))),
            Backing::Pool(name) => Some(Place::Pool(name.clone())),
            Backing::Memory | Backing::Null | Backing::Device(_) => None,
        }
    }
}

/// Bytes that exist only if the configuration names their volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bytes {
    /// The name of the volume.
    pub volume: String,
    /// Where they are.
    #[serde(flatten)]
    pub place: Place,
}

/// A volume whose bytes become as many as the configuration says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grown {
    /// The name of the volume.
    pub volume: String,
    /// So many they are to be.
    pub to_bytes: u64,
}

/// A pool that is to be there only if the configuration names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opened {
    /// Its name.
    pub pool: String,
    /// The places of its members and spares, from the root on.
    pub members: Vec<PathBuf>,
}

/// A file or disk that a pool is given while it is used. From when it says itself that it is the pool's it is, whatever the
/// configuration names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Joining {
    /// The name of the pool.
    pub pool: String,
    /// Where it is, from the root on.
    pub place: PathBuf,
    /// The slot from which a member went out to make room for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instead_of: Option<usize>,
}

impl Joining {
    /// How many slots the pool has, as what is there says, if it says that it is the pool's.
    pub fn slots(&self) -> Option<usize> {
        let seen = offline::look(std::slice::from_ref(&self.place)).ok()?;
        seen.iter().find_map(|(_, seen)| match seen {
            Seen::Member(seen) if seen.label.name == self.pool => Some(seen.label.slots.len()),
            _ => None,
        })
    }
}

/// What a change is in the middle of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pending {
    /// Bytes that are made or destroyed.
    #[serde(default)]
    pub bytes: Vec<Bytes>,
    /// Bytes that are made longer.
    #[serde(default)]
    pub grown: Vec<Grown>,
    /// Pools that are opened, and perhaps made.
    #[serde(default)]
    pub opened: Vec<Opened>,
    /// What pools are given.
    #[serde(default)]
    pub joining: Vec<Joining>,
}

/// What was left by a node that died cannot be settled.
#[derive(Debug, thiserror::Error)]
pub enum PendingError {
    /// The file cannot be read or removed.
    #[error("{path} cannot be {what}: {source}; hint: it has to belong to the user that runs fels")]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
    /// It is not as the node writes it.
    #[error(
        "{path} is damaged: {why}; hint: it names volumes whose making or deleting was interrupted: complete that by hand, then remove it"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// Bytes of a volume cannot be settled.
    #[error(
        "{path}, of the volume {volume}, cannot be {what}: {source}; hint: do it by hand, then remove pending.toml from the data directory"
    )]
    Bytes {
        /// The file.
        path: PathBuf,
        /// The volume.
        volume: String,
        /// What was tried.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
}

#[derive(Serialize, Deserialize)]
struct Whole {
    version: i64,
    #[serde(flatten)]
    pending: Pending,
}

impl Pending {
    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.grown.is_empty() && self.opened.is_empty() && self.joining.is_empty()
    }

    /// What the directory says, if it says something.
    pub fn read(data: &Path) -> Result<Option<Pending>, PendingError> {
        let path = data.join(PENDING_FILE);
        let text = match read_bounded(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(PendingError::Io { path, what: "read", source }),
        };
        let damaged = |why: &str| PendingError::Damaged { path: path.clone(), why: why.to_owned() };
        let whole: Whole = toml::from_str(&text).map_err(|error| damaged(error.message()))?;
        match whole.version {
            VERSION => Ok(Some(whole.pending)),
            other => Err(damaged(&format!("it has version {other}, this Fels knows version {VERSION} only"))),
        }
    }

    /// Says it, on stable media.
    pub fn write(&self, data: &Path) -> io::Result<()> {
        let whole = Whole { version: VERSION, pending: self.clone() };
        let text = toml::to_string(&whole).map_err(io::Error::other)?;
        files::replace(&System, &data.join(PENDING_FILE), &format!("{HEAD}{text}"))
    }

    /// Says that nothing is pending any more.
    pub fn clear(data: &Path) -> io::Result<()> {
        files::remove(&System, &data.join(PENDING_FILE))
    }
}

/// Settles what can be settled before anything is opened: files are removed. Gives what is left: bytes on pools, volumes that
/// may be made longer when they are opened, and what pools were given.
pub fn settle_files(data: &Path, config: &Config) -> Result<Pending, PendingError> {
    let Some(pending) = Pending::read(data)? else { return Ok(Pending::default()) };
    let used = files_of(config);
    let mut left = Pending::default();
    for entry in pending.bytes {
        match &entry.place {
            Place::Pool(_) if is_named(config, &entry) => {}
            Place::Pool(_) => left.bytes.push(entry),
            Place::File(path) if used.contains(path) => {}
            Place::File(path) => {
                let failed = |source| bytes_error(path, &entry.volume, "removed", source);
                if remove_file(path).map_err(failed)? {
                    tracing::warn!(
                        volume = entry.volume,
                        "removed {}: the volume was being made or deleted when the node ended",
                        path.display()
                    );
                }
            }
        }
    }
    for opened in &pending.opened {
        if config.pools.iter().all(|pool| pool.name != opened.pool) {
            empty(opened);
        }
    }
    let is_wished = |grown: &Grown| {
        let is_it = |volume: &Volume| volume.name == grown.volume && volume.size_bytes == grown.to_bytes;
        config.volumes.iter().any(is_it)
    };
    left.grown = pending.grown.into_iter().filter(is_wished).collect();
    let is_there = |joining: &Joining| config.pools.iter().any(|pool| pool.name == joining.pool);
    left.joining = pending.joining.into_iter().filter(is_there).collect();
    if left.is_empty() {
        let failed = |source| PendingError::Io { path: data.join(PENDING_FILE), what: "removed", source };
        Pending::clear(data).map_err(failed)?;
    }
    Ok(left)
}

/// Makes members blank again of which a pool without volumes was made, in vain. What cannot be done is left: it holds nothing, and
/// is in nobody's way but in that of the same members.
fn empty(opened: &Opened) {
    let seen = offline::look(&opened.members).unwrap_or_default();
    for (path, seen) in seen {
        let Seen::Member(seen) = seen else { continue };
        if seen.label.name != opened.pool || seen.label.catalogue.volumes > 0 {
            continue;
        }
        let shown = path.display().to_string();
        match offline::destroy(&[path], seen.label.pool) {
            Ok(_) => tracing::warn!(
                pool = opened.pool,
                "{shown} is blank again: the pool was being made when the node ended"
            ),
            Err((_, error)) => tracing::warn!(pool = opened.pool, "{shown} is not blank: {error}"),
        }
    }
}

fn bytes_error(path: &Path, volume: &str, what: &'static str, source: io::Error) -> PendingError {
    PendingError::Bytes { path: path.to_owned(), volume: volume.to_owned(), what, source }
}

/// Whether a configuration has the volume of these bytes, in their place.
pub fn is_named(config: &Config, bytes: &Bytes) -> bool {
    let is_it =
        |volume: &Volume| volume.name == bytes.volume && Place::of(volume).as_ref() == Some(&bytes.place);
    config.volumes.iter().any(is_it)
}

/// Every file that a configuration names.
pub fn files_of(config: &Config) -> HashSet<PathBuf> {
    let volumes = config.volumes.iter().filter_map(|volume| match &volume.backing {
        Backing::File(path) | Backing::Device(path) => Some(absolute(path)),
        _ => None,
    });
    let members = config.pools.iter().flat_map(|pool| pool.members.iter().chain(&pool.spares));
    volumes.chain(members.filter_map(|member| member.path().map(absolute))).collect()
}

/// Removes a file for good. False if there is none, or something else than a regular file.
pub fn remove_file(path: &Path) -> io::Result<bool> {
    match std::fs::symlink_metadata(path) {
        Ok(there) if there.is_file() => files::remove(&System, path).map(|()| true),
        Ok(_) => Ok(false),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// A path from the root on, the same for each way to write it.
pub fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).map_or_else(|_| path.to_owned(), |path| lexical(&path))
}

#[cfg(test)]
mod tests;
