//! A volume: the control handle, which knows names and configuration, and the per-core channel, which is all that a
//! request may touch.

mod channel;
mod exclusive;
mod figures;
#[cfg(test)]
mod tests;

pub use crate::layers::Limits;
pub use channel::Channel;
pub use exclusive::Exclusive;
pub use figures::Figures;

use std::path::PathBuf;
use std::sync::Arc;

use ring::{Buffer, File, Memory, Ring};

use crate::disk::{Disk, FileError, Make, MemoryDisk, NullDisk, PreparedFile};
use crate::layers::{Faults, Layer, Limited, OpenLimits, Stack};
use crate::pool::format::VolumeEntry;
use crate::pool::{Assembled, PoolCores, PoolDisk, PoolError, Pools, VolumeWish};
use crate::request::{Extent, Request};

/// Where a volume's bytes are to live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Backing {
    /// A file, made sparse when it is missing.
    File(PathBuf),
    /// A block device.
    Device(PathBuf),
    /// The pool of this name.
    Pool(String),
    /// RAM.
    Memory,
    /// Nowhere.
    Null,
}

/// What a volume is made from.
#[derive(Clone, Debug)]
pub struct VolumeOptions {
    /// Its name; part of target names.
    pub name: String,
    /// Its identity for ever: what the stable SCSI and NVMe identifiers come from.
    pub id: [u8; 16],
    /// Bytes, a multiple of the block size.
    pub bytes: u64,
    /// 512 or 4096.
    pub block_size: u32,
    /// Where.
    pub backing: Backing,
    /// What it may do.
    pub limits: Limits,
    /// Bytes that have fewer than `bytes` are made larger; else they are refused.
    pub may_grow: bool,
    /// Faults that tests and drills plant into it; `None` leaves the layer out.
    pub faults: Option<Faults>,
}

/// Why a volume cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file or device.
    #[error(transparent)]
    File(#[from] FileError),
    /// The pool.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// The memory.
    #[error(
        "there is no memory for a volume of {bytes} bytes: {source}; hint: make it smaller or use a file"
    )]
    Memory {
        /// Bytes wanted.
        bytes: u64,
        /// Why.
        source: std::io::Error,
    },
}

enum Bytes {
    File(PreparedFile),
    Memory(Arc<Memory>),
    Pool {
        /// Which.
        pool: Arc<Assembled>,
        entry: VolumeEntry,
    },
    Null,
}

/// The control handle, shared by all cores.
pub struct Volume {
    options: VolumeOptions,
    limited: Limited,
    bytes: Bytes,
}

impl Volume {
    /// Checks and makes what holds the bytes, in one of `pools` if that is where it lives. The lock beside it, where there is
    /// one, lives on `ring`'s core: keep it as long as the volume.
    pub async fn prepare(
        ring: &Ring,
        options: VolumeOptions,
        pools: &Pools,
    ) -> Result<(Volume, Option<File>), OpenError> {
        let make = if options.may_grow { Make::Longer } else { Make::Missing };
        let (bytes, lock) = match &options.backing {
            Backing::File(path) => prepare_file(ring, path, &options, make).await?,
            Backing::Device(path) => prepare_file(ring, path, &options, Make::Nothing).await?,
            Backing::Memory => {
                let memory = Memory::new(options.bytes)
                    .map_err(|source| OpenError::Memory { bytes: options.bytes, source })?;
                (Bytes::Memory(Arc::new(memory)), None)
            }
            Backing::Pool(name) => {
                let pool = pools.find(name).ok_or_else(|| PoolError::Volume {
                    pool: name.clone(),
                    volume: options.name.clone(),
                    why: "there is no such pool; hint: name one that is configured".to_owned(),
                })?;
                let entry = pool.volume(ring, &options).await?;
                (Bytes::Pool { pool, entry }, None)
            }
            Backing::Null => (Bytes::Null, None),
        };
        Ok((Volume { limited: Limited::new(options.limits), options, bytes }, lock))
    }

    /// The same volume with other limits, and larger if `options` say so; whoever opens its stacks anew has them. `lock`: what
    /// [`Volume::prepare`] gave. Its bytes are still there if this fails.
    pub(crate) async fn altered(
        &self,
        ring: &Ring,
        options: VolumeOptions,
        lock: Option<&File>,
    ) -> Result<Volume, OpenError> {
        let larger = options.bytes > self.options.bytes;
        let bytes = match &self.bytes {
            Bytes::File(file) => Bytes::File(match lock.filter(|_| larger) {
                Some(lock) => file.larger(ring, lock, options.bytes).await?,
                None => file.clone(),
            }),
            Bytes::Memory(memory) if larger => Bytes::Memory(larger_memory(ring, memory, &options).await?),
            Bytes::Memory(memory) => Bytes::Memory(memory.clone()),
            Bytes::Pool { pool, entry } => {
                let wish = VolumeWish::Resize { name: entry.name.clone(), bytes: options.bytes };
                let entry = if larger { pool.pool().change_volumes(ring, wish).await? } else { None }
                    .unwrap_or_else(|| entry.clone());
                Bytes::Pool { pool: pool.clone(), entry }
            }
            Bytes::Null => Bytes::Null,
        };
        let limited = if options.limits == self.options.limits {
            self.limited.clone()
        } else {
            Limited::new(options.limits)
        };
        Ok(Volume { options, limited, bytes })
    }

    /// Nobody waits within its limits until the result is dropped.
    pub(crate) fn open_limits(&self) -> OpenLimits {
        self.limited.open()
    }

    /// The pool that it lives on, and what it is there.
    pub(crate) fn on_pool(&self) -> Option<(&Arc<Assembled>, &VolumeEntry)> {
        match &self.bytes {
            Bytes::Pool { pool, entry } => Some((pool, entry)),
            _ => None,
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.options.name
    }

    /// Its identity for ever: on a pool the one that it was made with, on whichever node that was.
    pub fn id(&self) -> [u8; 16] {
        match &self.bytes {
            Bytes::Pool { entry, .. } => entry.id,
            _ => self.options.id,
        }
    }

    /// What it was made from.
    pub fn options(&self) -> &VolumeOptions {
        &self.options
    }

    /// Whether I/O goes around the page cache; `None` where there is none.
    pub fn is_direct(&self) -> Option<bool> {
        match &self.bytes {
            Bytes::File(file) => Some(file.is_direct()),
            Bytes::Memory(_) | Bytes::Pool { .. } | Bytes::Null => None,
        }
    }

    /// Builds the stack of one core, whose pools `pools` are.
    pub fn stack(&self, ring: &Ring, pools: &PoolCores) -> Result<Stack, OpenError> {
        let block_size = self.options.block_size;
        let disk: Box<dyn Disk> = match &self.bytes {
            Bytes::File(file) => Box::new(file.open(ring)?),
            Bytes::Memory(memory) => Box::new(MemoryDisk::new(ring, memory.clone(), block_size)),
            Bytes::Pool { pool, entry } => {
                let core = pools.find(pool.pool().shared()).ok_or_else(|| PoolError::Volume {
                    pool: pool.pool().shared().name.clone(),
                    volume: self.options.name.clone(),
                    why: "the pool is closed; hint: open it again".to_owned(),
                })?;
                Box::new(PoolDisk::new(core, entry))
            }
            Bytes::Null => Box::new(NullDisk::new(self.options.bytes / u64::from(block_size), block_size)),
        };
        let mut layers: Vec<Box<dyn Layer>> = Vec::new();
        if let Some(faults) = &self.options.faults {
            layers.push(Box::new(faults.clone()));
        }
        if !self.limited.limits().is_unlimited() {
            layers.push(Box::new(self.limited.layer(ring)));
        }
        Ok(Stack::new(ring.clone(), layers, disk))
    }
}

async fn prepare_file(
    ring: &Ring,
    path: &std::path::Path,
    options: &VolumeOptions,
    make: Make,
) -> Result<(Bytes, Option<File>), OpenError> {
    let (file, lock) = PreparedFile::new(ring, path, options.bytes, options.block_size, make).await?;
    Ok((Bytes::File(file), Some(lock)))
}

/// Bytes that are copied at a time, so that others get their turn in between.
const COPY_BYTES: u64 = 1 << 20;

/// Memory of the new size with what is in `memory`, which nobody writes meanwhile.
async fn larger_memory(
    ring: &Ring,
    memory: &Arc<Memory>,
    options: &VolumeOptions,
) -> Result<Arc<Memory>, OpenError> {
    let bytes = options.bytes;
    let larger = Memory::new(bytes).map_err(|source| OpenError::Memory { bytes, source })?;
    let larger = Arc::new(larger);
    let old = MemoryDisk::new(ring, memory.clone(), options.block_size);
    let new = MemoryDisk::new(ring, larger.clone(), options.block_size);
    let (mut offset, end) = (0, memory.length());
    while offset < end {
        let left = Extent::new(offset, COPY_BYTES.min(end - offset));
        let run = old.allocation(left).expect("memory knows what is in it");
        if run.mapped {
            let read = old.submit(Request::read(offset, Buffer::new(run.length as usize))).await;
            new.submit(Request::write(offset, read.buffer)).await.result.expect("it is as large");
        }
        offset += run.length;
        ring.next_turn().await;
    }
    Ok(larger)
}
