//! The store: the configuration as a document that the node reads, edits and saves (`docs/formats/store.md`).

pub mod document;
pub mod files;
pub mod pending;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use sha2::{Digest, Sha256};

use crate::config::{Config, ConfigErrors, read_bounded};
use files::{System, Written};

/// The document of a node that is started with a data directory alone.
pub const DOCUMENT_FILE: &str = "fels.toml";
/// Its next version, until it is whole and renamed.
pub(crate) const NEW_DOCUMENT_FILE: &str = "fels.toml.new";
/// What a change is in the middle of.
pub(crate) const PENDING_FILE: &str = "pending.toml";
/// Its next version.
pub(crate) const NEW_PENDING_FILE: &str = "pending.toml.new";

/// What a document begins with that the node makes.
const FIRST_DOCUMENT: &str = "\
# What this node is wished to be. `fels volume`, `fels pool` and `fels apply` change it; after a change by hand say
# `fels apply -f` and the name of this file. Every key: docs/reference/configuration.md

[iscsi]
listen = [\"127.0.0.1:3260\"]
";

/// Which text a document is: its SHA-256.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version([u8; 32]);

impl Version {
    /// Of a text.
    pub fn of(text: &str) -> Version {
        Version(Sha256::digest(text.as_bytes()).into())
    }
}

impl fmt::Display for Version {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
    }
}

/// A text that is no version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a version is 64 hexadecimal digits")]
pub struct NoVersion;

impl FromStr for Version {
    type Err = NoVersion;

    fn from_str(text: &str) -> Result<Version, NoVersion> {
        let mut bytes = [0; 32];
        if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(NoVersion);
        }
        for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
            let digits = std::str::from_utf8(digits).map_err(|_| NoVersion)?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| NoVersion)?;
        }
        Ok(Version(bytes))
    }
}

/// Where the document is, and how it is read.
#[derive(Clone, Debug)]
pub struct Store {
    path: PathBuf,
    /// As people named it.
    name: String,
    /// The data directory, where that is what the node was started with.
    data: Option<PathBuf>,
}

/// A document that was read, and is good. It has secrets in it.
#[derive(Clone)]
pub struct Document {
    /// The text.
    pub text: String,
    /// Its version.
    pub version: Version,
    /// What it says.
    pub config: Config,
}

/// The document cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// What it says is wrong.
    #[error("{0}")]
    Config(#[from] ConfigErrors),
    /// It cannot be made or found.
    #[error("the configuration {path} cannot be {what}: {source}")]
    Io {
        /// Which.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
}

impl Store {
    /// The document in a file.
    pub fn of_file(path: &Path) -> Result<Store, StoreError> {
        let name = path.display().to_string();
        // A change replaces the file, not a link to it.
        let found = std::fs::canonicalize(path).map_err(|error| ConfigErrors::unreadable(&name, &error))?;
        Ok(Store { path: found, name, data: None })
    }

    /// The document of a data directory, made if it is missing.
    pub fn of_directory(data: &Path) -> Result<Store, StoreError> {
        let path = data.join(DOCUMENT_FILE);
        let failed = |source| StoreError::Io { path: path.clone(), what: "made", source };
        if !path.try_exists().map_err(failed)? {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(data).map_err(failed)?;
            files::replace(&System, &path, FIRST_DOCUMENT).map_err(failed)?;
        }
        let store = Store::of_file(&path)?;
        Ok(Store { data: Some(data.to_owned()), ..store })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file as people named it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Reads it.
    pub fn read(&self) -> Result<Document, ConfigErrors> {
        let text = self.text().map_err(|error| ConfigErrors::unreadable(&self.name, &error))?;
        self.parse(&text)
    }

    /// What it holds now, right or wrong.
    pub fn text(&self) -> io::Result<String> {
        read_bounded(&self.path)
    }

    /// Reads a text as this document would be.
    pub fn parse(&self, text: &str) -> Result<Document, ConfigErrors> {
        let config = match &self.data {
            Some(data) => Config::parse_in(text, &self.name, data)?,
            None => Config::parse(text, &self.name)?,
        };
        if pending::files_of(&config).contains(&self.path) {
            let message =
                format!("{} is this configuration, and named in it as if it held a volume", self.name);
            return Err(ConfigErrors::whole(message, "give the volume or member another file"));
        }
        Ok(Document { version: Version::of(text), text: text.to_owned(), config })
    }

    /// Brings a text to stable media beside the document; committed, it is the document.
    pub fn write(&self, text: &str) -> io::Result<Written> {
        files::write(&System, &self.path, text)
    }
}
