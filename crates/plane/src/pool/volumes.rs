//! Volumes of a pool: made, made larger, and taken away, before it is kept and while it runs.

use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

use ring::{Buffer, Receiver, mailbox};

use super::allocate::allocate;
use super::core::PoolCore;
use super::disk::PoolDisk;
use super::format::{Geometry, Id, RowExtent, VolumeEntry};
use super::handle::Handle;
use super::keeper::{Keeper, Message};
use super::open::PoolError;
use crate::disk::Disk;
use crate::limits::ERASE_BYTES;
use crate::request::{Extent, Request, Verb};

/// What is to become of the volumes of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VolumeWish {
    /// There is to be another one.
    Add {
        /// For ever.
        id: Id,
        /// What people call it.
        name: String,
        /// Its size.
        bytes: u64,
        /// 512 or 4096.
        block_size: u32,
    },
    /// One is to be larger. Its first bytes stay where they are, what is added reads as zeroes.
    Resize {
        /// Which.
        name: String,
        /// Its new size.
        bytes: u64,
    },
    /// One is to be no more. All of it was erased before: its rows go to others.
    Remove {
        /// Which.
        name: String,
    },
}

impl VolumeWish {
    /// The volume that it is about.
    pub fn name(&self) -> &str {
        match self {
            VolumeWish::Add { name, .. } | VolumeWish::Resize { name, .. } | VolumeWish::Remove { name } => {
                name
            }
        }
    }

    /// The catalogue that it makes of `volumes`. The error is why there is none: a sentence with a hint.
    pub(super) fn apply(
        &self,
        volumes: &[VolumeEntry],
        geometry: &Geometry,
    ) -> Result<Vec<VolumeEntry>, String> {
        let mut volumes = volumes.to_vec();
        match self {
            VolumeWish::Add { id, name, bytes, block_size } => {
                let extents = rows(&volumes, geometry, *bytes)?;
                volumes.push(VolumeEntry {
                    id: *id,
                    name: name.clone(),
                    bytes: *bytes,
                    block_size: *block_size,
                    extents,
                });
            }
            VolumeWish::Resize { name, bytes } => {
                let place = place(&volumes, name)?;
                let room = |extent: &RowExtent| extent.rows * geometry.row_bytes_of(extent.first_row);
                let wanted = bytes.saturating_sub(volumes[place].extents.iter().map(room).sum());
                if *bytes < volumes[place].bytes {
                    return Err(
                        "it has more bytes than that; hint: a volume cannot be made smaller".to_owned()
                    );
                }
                let mut more = if wanted == 0 { Vec::new() } else { rows(&volumes, geometry, wanted)? };
                let entry = &mut volumes[place];
                // Rows that follow the last ones make no extent of their own.
                if let (Some(last), Some(first)) = (entry.extents.last_mut(), more.first())
                    && last.first_row + last.rows == first.first_row
                {
                    last.rows += first.rows;
                    more.remove(0);
                }
                entry.extents.append(&mut more);
                entry.bytes = *bytes;
            }
            VolumeWish::Remove { name } => {
                volumes.remove(place(&volumes, name)?);
            }
        }
        Ok(volumes)
    }
}

fn place(volumes: &[VolumeEntry], name: &str) -> Result<usize, String> {
    let place = volumes.iter().position(|volume| volume.name == name);
    place.ok_or_else(|| "it is not there; hint: `fels pool status` has the volumes of a pool".to_owned())
}

fn rows(volumes: &[VolumeEntry], geometry: &Geometry, wanted: u64) -> Result<Vec<RowExtent>, String> {
    allocate(volumes, geometry, wanted).map_err(|free| {
        format!("it takes {wanted} bytes, and {free} are free; hint: make it smaller, or add members")
    })
}

impl Keeper {
    /// Makes the catalogue what `wish` says, on stable media. Gives the volume, if there is one afterwards. The error is why
    /// not: a sentence with a hint.
    pub(super) async fn change_volumes(&mut self, wish: &VolumeWish) -> Result<Option<VolumeEntry>, String> {
        let volumes = wish.apply(&self.volumes, &self.shared().geometry)?;
        self.set_volumes(volumes)
            .await
            .map_err(|error| format!("{error}; hint: remove volumes that nobody needs"))?;
        Ok(self.volumes.iter().find(|volume| volume.name == wish.name()).cloned())
    }
}

impl Handle {
    /// Changes the volumes of a pool that runs. Gives the volume, if there is one afterwards.
    pub async fn change_volumes(&self, wish: VolumeWish) -> Result<Option<VolumeEntry>, PoolError> {
        let refused = |why: String| PoolError::Volume {
            pool: self.name().to_owned(),
            volume: wish.name().to_owned(),
            why,
        };
        let (tell, mut told) = mailbox();
        let answer = Box::new(move |result| drop(tell.send(result)));
        self.tell(Message::Volumes { wish: wish.clone(), answer });
        // The keeper of a pool that is closed takes no more messages.
        let result = told.receive().await;
        result
            .unwrap_or_else(|| Err("the pool is being closed; hint: start the node again".to_owned()))
            .map_err(refused)
    }
}

impl Handle {
    /// Gives what a volume has of the pool to others, on one core: in the background, as a large one takes a while. What it gives
    /// back is told when that is over. `None`: it is being done already.
    ///
    /// Until then its rows are its own, and its name is taken; what is not done when the pool is closed is left.
    pub fn destroy(&self, core: &Rc<PoolCore>, entry: &VolumeEntry) -> Option<Receiver<Destroyed>> {
        let done_bytes = self.shared().erasing.begin(entry)?;
        let (tell, told) = mailbox();
        let (handle, entry, core) = (self.clone(), entry.clone(), core.clone());
        core.ring.clone().spawn(async move {
            let result = match erase(&core, &entry, &done_bytes).await {
                Ok(()) => {
                    handle.change_volumes(VolumeWish::Remove { name: entry.name.clone() }).await.map(drop)
                }
                Err(error) => Err(PoolError::Volume {
                    pool: handle.name().to_owned(),
                    volume: entry.name.clone(),
                    why: format!("it is not erased: {error}; hint: look at the members of the pool"),
                }),
            };
            match &result {
                Err(_) if handle.shared().stops() => tracing::info!(
                    pool = handle.name(),
                    "the bytes of the volume {} are destroyed when the pool is open again",
                    entry.name
                ),
                Err(error) => tracing::error!(pool = handle.name(), "{error}"),
                Ok(()) => {}
            }
            handle.shared().erasing.end(&entry.name);
            drop(tell.send(result));
        });
        Some(told)
    }

    /// Whether a volume is being destroyed.
    pub fn destroys(&self, volume: &str) -> bool {
        self.shared().erasing.list().iter().any(|erasure| erasure.volume == volume)
    }
}

/// How destroying a volume ended.
pub type Destroyed = Result<(), PoolError>;

/// Gives all space of a volume back, on one core, so that its rows read as zeroes for whoever has them next.
pub(super) async fn erase(
    core: &Rc<PoolCore>,
    entry: &VolumeEntry,
    done_bytes: &AtomicU64,
) -> Result<(), crate::Error> {
    let disk = PoolDisk::new(core.clone(), entry);
    // Its last row may have more bytes than the volume: nobody could write those.
    let mut offset = 0;
    while offset < entry.bytes {
        if core.shared().stops() {
            return Err(crate::Error::new(
                crate::ErrorKind::Aborted,
                "giving rows back when the pool was closed",
            ));
        }
        let extent = Extent::new(offset, ERASE_BYTES.min(entry.bytes - offset));
        let run = disk.allocation(extent)?;
        if run.mapped {
            let (verb, flags, buffer) = (Verb::Discard, crate::Flags::empty(), Buffer::empty());
            disk.submit(Request { verb, flags, extent, buffer }).await.result?;
            offset += extent.length;
        } else {
            // What was never written has nothing to give back. Looking keeps the core busy: others have their turn.
            offset += run.length;
            core.ring.next_turn().await;
        }
        done_bytes.store(offset, Ordering::Relaxed);
    }
    Ok(())
}
