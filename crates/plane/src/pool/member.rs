//! A member as it is opened: a file, a device, or memory.

use std::path::PathBuf;
use std::sync::Arc;

use ring::{File, FileOptions, Memory, Ring};

use super::format::BLOCK;
use crate::disk::{Disk, FileError, Make, MemoryDisk, PreparedFile};
use crate::layers::{Layer, SpinningDiskError, Stack};

/// Where a member is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A file, or a block device.
    Path(PathBuf),
    /// Memory of so many bytes, which nothing outlives: for measuring and for tests.
    Memory(u64),
}

impl std::fmt::Display for Place {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Place::Path(path) => write!(formatter, "{}", path.display()),
            Place::Memory(bytes) => write!(formatter, "{bytes} bytes of memory"),
        }
    }
}

enum Held {
    File(PreparedFile),
    Memory(Arc<Memory>),
}

/// Makes the layers of a member on one core.
pub type Layers = Arc<dyn Fn(&Ring) -> Vec<Box<dyn Layer>> + Send + Sync>;

/// An open member, shared by all cores.
pub struct Member {
    place: Place,
    bytes: u64,
    held: Held,
    /// What lies over it: models of slow disks, faults.
    layers: Option<Layers>,
}

impl Member {
    /// Opens a member, which is locked for as long as the file beside it lives. A file that is missing is made with
    /// `make` bytes, if that is given.
    pub async fn open(
        ring: &Ring,
        place: Place,
        make: Option<u64>,
        layers: Option<Layers>,
    ) -> Result<(Member, Option<File>), MemberError> {
        let path = match &place {
            Place::Memory(bytes) => {
                let memory =
                    Memory::new(*bytes).map_err(|source| MemberError::Memory { bytes: *bytes, source })?;
                let held = Held::Memory(Arc::new(memory));
                return Ok((Member { bytes: *bytes, place, held, layers }, None));
            }
            Place::Path(path) => path.clone(),
        };
        let there = File::open(ring, &path, FileOptions { read_only: true, ..FileOptions::default() });
        let bytes = match (there.and_then(|file| file.length()), make) {
            (Ok(0), Some(make)) => make,
            (Ok(length), _) => length,
            (Err(error), Some(make)) if error.kind() == std::io::ErrorKind::NotFound => make,
            (Err(source), _) => return Err(FileError::Open { path, source }.into()),
        };
        let bytes = bytes / BLOCK as u64 * BLOCK as u64;
        let made = if make.is_some() { Make::Missing } else { Make::Nothing };
        let (file, lock) = PreparedFile::new(ring, &path, bytes, BLOCK as u32, made).await?;
        Ok((Member { place, bytes, held: Held::File(file), layers }, Some(lock)))
    }

    /// A member in memory that outlives it: for measuring the same pool again.
    pub fn over(memory: Arc<Memory>, layers: Option<Layers>) -> Member {
        let bytes = memory.length() / BLOCK as u64 * BLOCK as u64;
        Member { place: Place::Memory(bytes), bytes, held: Held::Memory(memory), layers }
    }

    /// Where it is.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Its bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// One core's way to it.
    pub fn stack(&self, ring: &Ring) -> Result<Stack, MemberError> {
        let disk: Box<dyn Disk> = match &self.held {
            Held::File(file) => Box::new(file.open(ring)?),
            Held::Memory(memory) => Box::new(MemoryDisk::new(ring, memory.clone(), BLOCK as u32)),
        };
        let layers = self.layers.as_ref().map_or_else(Vec::new, |layers| layers(ring));
        Ok(Stack::new(ring.clone(), layers, disk))
    }
}

/// Why a member cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum MemberError {
    /// The file or device.
    #[error(transparent)]
    File(#[from] FileError),
    /// The memory.
    #[error("there is no memory for a member of {bytes} bytes: {source}; hint: make it smaller or use files")]
    Memory {
        /// Bytes wanted.
        bytes: u64,
        /// Why.
        source: std::io::Error,
    },
    /// The disk that it is to behave like.
    #[error(transparent)]
    Spinning(#[from] SpinningDiskError),
}
