//! The data directory: who this node is, and that no other node works in it.

#[cfg(test)]
mod tests;

use serde::Deserialize;
use sha2::{Digest, Sha256};
use std::fmt::{self, Write as _};
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write as _};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The file that says who this node is.
pub const NODE_FILE: &str = "node.toml";
/// Its next version, until it is whole and renamed.
pub(crate) const NEW_NODE_FILE: &str = "node.toml.new";
/// The file that is locked by the node that works in the directory, and holds its process id.
pub const LOCK_FILE: &str = "lock";
/// The only version of [`NODE_FILE`] so far.
const VERSION: u32 = 1;
/// More than any version of [`NODE_FILE`] or [`LOCK_FILE`] has; a larger one is damaged.
const MAX_FILE_BYTES: u64 = 64 << 10;

/// What makes this node differ from all others: 16 random bytes, made once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NodeId([u8; 16]);

/// What makes a volume differ from all others, on this node and elsewhere, as long as its name stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct VolumeId([u8; 16]);

impl NodeId {
    /// The bytes.
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    fn random() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes)?;
        Ok(Self(bytes))
    }

    /// Reads 32 hexadecimal digits.
    fn parse(text: &str) -> Option<Self> {
        if text.len() != 32 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        u128::from_str_radix(text, 16).ok().map(|number| Self(number.to_be_bytes()))
    }

    /// The identity of the volume `name` on this node: the first 16 bytes of the SHA-256 of the node's
    /// identity and the name, as a UUID of version 8 (RFC 9562 section 5.8).
    pub fn volume_id(&self, name: &str) -> VolumeId {
        let digest = Sha256::new().chain_update(self.0).chain_update(name.as_bytes()).finalize();
        let mut bytes = [0; 16];
        for (byte, digest) in bytes.iter_mut().zip(digest) {
            *byte = digest;
        }
        bytes[6] = (bytes[6] & 0x0F) | 0x80;
        bytes[8] = (bytes[8] & 0x3F) | 0x80;
        VolumeId(bytes)
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl VolumeId {
    /// The bytes, in the order of the UUID.
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for VolumeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            if matches!(index, 4 | 6 | 8 | 10) {
                f.write_char('-')?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

/// The contents of [`NODE_FILE`], but for its version.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NodeFile {
    node_id: String,
}

/// Why the data directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// Something about the directory or a file in it failed.
    #[error("{what} {} failed: {source}", path.display())]
    Io {
        /// What was tried, as the beginning of a sentence.
        what: &'static str,
        /// With which file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another process has the lock.
    #[error("the data directory {} is in use by {}", path.display(), holder(*pid))]
    InUse {
        /// The directory.
        path: PathBuf,
        /// The process, if it said so.
        pid: Option<u32>,
    },
    /// [`NODE_FILE`] is there, but cannot be understood.
    #[error("{} is damaged: {reason}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// [`NODE_FILE`] was written by another version of Fels.
    #[error("{} has version {version}, this Fels knows version {VERSION} only", path.display())]
    UnknownVersion {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: i64,
    },
    /// The system gives no random bytes.
    #[error("no random bytes for the identity of this node: {0}")]
    NoRandom(#[source] getrandom::Error),
}

fn holder(pid: Option<u32>) -> String {
    pid.map_or_else(|| "another process".to_owned(), |pid| format!("another node, process {pid}"))
}

impl StateError {
    /// What somebody can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Io { path, source, .. } => match source.kind() {
                io::ErrorKind::PermissionDenied => Some(format!(
                    "{} has to belong to the user that runs fels; or choose another directory with `data`",
                    path.display()
                )),
                io::ErrorKind::StorageFull => Some("make room on that file system".to_owned()),
                io::ErrorKind::ReadOnlyFilesystem => {
                    Some("choose a directory on another file system with `data`".to_owned())
                }
                _ => None,
            },
            Self::InUse { pid: Some(pid), .. } => {
                Some(format!("stop it with: kill {pid}   (it drains and ends), or set another `data`"))
            }
            Self::InUse { pid: None, .. } => Some("stop it, or set another `data`".to_owned()),
            Self::Damaged { path, .. } => Some(format!(
                "restore {} from a backup; without it the volumes get new identities and initiators take them for other disks",
                path.display()
            )),
            Self::UnknownVersion { .. } => Some("run the Fels that wrote it, or a newer one".to_owned()),
            Self::NoRandom(_) => None,
        }
    }
}

/// The data directory of a running node. The lock is held until this is dropped.
#[derive(Debug)]
pub struct DataDirectory {
    path: PathBuf,
    node_id: NodeId,
    _lock: File,
}

impl DataDirectory {
    /// Takes `path` as the data directory: made with mode 0700 if missing, locked against other processes,
    /// and given an identity if it has none.
    pub fn open(path: &Path) -> Result<Self, StateError> {
        make(path)?;
        let lock = lock(path)?;
        let node_id = match read_node_file(path)? {
            Some(node_id) => node_id,
            None => write_node_file(path)?,
        };
        Ok(Self { path: path.to_owned(), node_id, _lock: lock })
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Who this node is.
    pub fn node_id(&self) -> NodeId {
        self.node_id
    }
}

/// Adds what was tried to an error of the system.
fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StateError {
    let path = path.to_owned();
    move |source| StateError::Io { what, path, source }
}

fn make(path: &Path) -> Result<(), StateError> {
    if path.is_dir() {
        return Ok(());
    }
    let error = || failed("making the data directory", path);
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(error())?;
    // The name of a new directory is as mortal as that of a new file until its parent is on the disk.
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    sync_directory(parent).map_err(error())
}

fn lock(directory: &Path) -> Result<File, StateError> {
    let path = directory.join(LOCK_FILE);
    let error = || failed("locking", &path);
    // Not truncated here: the holder's process id stands in it.
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&path)
        .map_err(error())?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let pid = bounded(&file).ok().and_then(|text| text.trim().parse().ok());
            return Err(StateError::InUse { path: directory.to_owned(), pid });
        }
        Err(TryLockError::Error(source)) => return Err(error()(source)),
    }
    file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id())).map_err(error())?;
    Ok(file)
}

fn bounded(file: &File) -> io::Result<String> {
    let mut text = String::new();
    file.take(MAX_FILE_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

fn read_node_file(directory: &Path) -> Result<Option<NodeId>, StateError> {
    let path = directory.join(NODE_FILE);
    let text = match File::open(&path).and_then(|file| bounded(&file)) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            return Err(StateError::Damaged { path, reason: "it is not UTF-8 text".to_owned() });
        }
        Err(error) => return Err(failed("reading", &path)(error)),
    };
    parse_node_file(&text, &path).map(Some)
}

fn parse_node_file(text: &str, path: &Path) -> Result<NodeId, StateError> {
    let damaged = |reason: &str| StateError::Damaged { path: path.to_owned(), reason: reason.to_owned() };
    let mut table: toml::Table = text.parse().map_err(|_| damaged("it is not TOML"))?;
    // The version comes first: what else a later version has in it is not ours to judge.
    match table.remove("version").and_then(|version| version.as_integer()) {
        Some(version) if version == i64::from(VERSION) => {}
        Some(version) => return Err(StateError::UnknownVersion { path: path.to_owned(), version }),
        None => return Err(damaged("it has no `version`")),
    }
    let file: NodeFile = table.try_into().map_err(|error: toml::de::Error| damaged(error.message()))?;
    NodeId::parse(&file.node_id).ok_or_else(|| damaged("`node_id` is not 32 hexadecimal digits"))
}

/// Makes an identity and writes it, so that at any power cut there is either none or a whole one.
fn write_node_file(directory: &Path) -> Result<NodeId, StateError> {
    let node_id = NodeId::random().map_err(StateError::NoRandom)?;
    let path = directory.join(NODE_FILE);
    let new = directory.join(NEW_NODE_FILE);
    let text = format!(
        "# Who this node is. Keep it: the identities of its volumes follow from it.\nversion = {VERSION}\nnode_id = \"{node_id}\"\n"
    );
    let write = || -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&new, &path)?;
        sync_directory(directory)
    };
    write().map_err(failed("writing", &path))?;
    Ok(node_id)
}

fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}
