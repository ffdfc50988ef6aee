//! A pool that lives as long as its target: made and filled when it is first opened, and opened again for each measurement.

use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use plane::layers::{Layer, Spindle, Spinning, Stack};
use plane::pool::{Layers, Member, Place, Pool, PoolCore, PoolDisk, PoolError, PoolOptions};
use plane::request::Request;
use ring::{Buffer, File, Memory, Ring};

use super::spec::{Members, PoolSpec};

/// The pool and its volume are called so.
const NAME: &str = "lab";
/// Bytes of a logical block of the volume.
const BLOCK_SIZE: u32 = 512;
/// Bytes of the writes that fill the volume.
const FILLING: u64 = 1 << 20;

/// Why a pool cannot be measured.
#[derive(Debug, thiserror::Error)]
pub enum BedError {
    /// It cannot be made or opened.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// Its directory.
    #[error("{directory}: {source}; hint: name a directory that can be written to", directory = directory.display())]
    Directory {
        /// Which.
        directory: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// There is no memory for it.
    #[error(
        "there is no memory for a member of {bytes} bytes ({source}); hint: make the pool smaller with size="
    )]
    Memory {
        /// Bytes of a member.
        bytes: u64,
        /// Why.
        source: std::io::Error,
    },
    /// Its members would push everything else out of the memory, and then stand still.
    #[error(
        "its members take {} MiB of memory, and {} MiB are free; hint: make the pool smaller with size=, or put its \
         members into files with on=DIRECTORY",
        needed >> 20,
        free >> 20
    )]
    Room {
        /// Bytes of all members.
        needed: u64,
        /// Bytes that can be had.
        free: u64,
    },
    /// It cannot be filled.
    #[error("it cannot be filled: {0}")]
    Filling(#[from] plane::Error),
    /// Nobody wants it any more.
    #[error("it was given up while it was filled")]
    GivenUp,
    /// Its arm cannot be so.
    #[error(transparent)]
    Disk(#[from] plane::layers::SpinningDiskError),
    /// Another thread has it open.
    #[error("it is open already; hint: pools are measured by one thread: leave --threads out")]
    InUse,
}

/// What is kept from one opening to the next.
#[derive(Default)]
struct Kept {
    memory: Vec<Arc<Memory>>,
    spindles: Vec<Arc<Spindle>>,
    /// Removed with what is in it at the end.
    directory: Option<Directory>,
    is_made: bool,
}

struct Directory(PathBuf);

impl Drop for Directory {
    fn drop(&mut self) {
        // Files that are left in somebody's directory for tests are worth a word; more cannot be done.
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            tracing::warn!("{} cannot be removed: {error}", self.0.display());
        }
    }
}

/// The members of a pool, and how to open it on them.
pub struct Bed {
    spec: PoolSpec,
    kept: Mutex<Kept>,
    is_open: AtomicBool,
    /// Bytes of its volume that are filled.
    filled: AtomicU64,
    given_up: AtomicBool,
}

impl Bed {
    /// Of a pool that is made when it is first opened.
    pub fn new(spec: PoolSpec) -> Bed {
        let (is_open, given_up) = (AtomicBool::new(false), AtomicBool::new(false));
        Bed { spec, kept: Mutex::default(), is_open, filled: AtomicU64::new(0), given_up }
    }

    /// What it is.
    pub fn spec(&self) -> &PoolSpec {
        &self.spec
    }

    /// Hundredths of its volume that are filled.
    pub fn filled_percent(&self) -> u32 {
        let filled = u128::from(self.filled.load(Ordering::Relaxed));
        (filled * 100 / u128::from(self.spec.size_bytes.max(1))) as u32
    }

    /// Who fills it stops; then it cannot be opened.
    pub fn give_up(&self) {
        self.given_up.store(true, Ordering::Relaxed);
    }

    /// Opens the pool on this thread, makes and fills it before if that is the first time. Models of disks take no time
    /// meanwhile.
    pub async fn open(self: &Arc<Bed>, ring: &Ring) -> Result<OpenPool, BedError> {
        if self.is_open.swap(true, Ordering::AcqRel) {
            return Err(BedError::InUse);
        }
        let using = Using(self.clone());
        self.skip(true);
        let (members, locks) = self.members(ring).await?;
        let is_made = self.kept().is_made;
        let pool = if is_made {
            Pool::open(ring, NAME, members, 1).await?
        } else {
            self.make(ring, members).await?
        };
        let core = pool.core(0, ring)?;
        pool.keep(&core);
        let disk = PoolDisk::new(core.clone(), &pool.volumes()[0]);
        let stack = Rc::new(Stack::new(ring.clone(), Vec::new(), Box::new(disk)));
        let open = OpenPool { ring: ring.clone(), core, stack, _locks: locks, using };
        if !is_made {
            open.fill().await?;
            self.kept().is_made = true;
        }
        self.skip(false);
        Ok(open)
    }

    async fn make(&self, ring: &Ring, members: Vec<Member>) -> Result<Pool, BedError> {
        let options = PoolOptions {
            name: NAME.to_owned(),
            level: self.spec.level,
            unit: self.spec.unit_bytes,
            integrity: self.spec.integrity,
            catalogue_blocks: 1,
            journal_bytes: None,
        };
        let pool = Pool::make(ring, &options, members, 1).await?;
        pool.add_volume(ring, [1; 16], NAME, self.spec.size_bytes, BLOCK_SIZE).await?;
        Ok(pool)
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn skip(&self, skip: bool) {
        self.kept().spindles.iter().for_each(|spindle| spindle.skip(skip));
    }

    /// The members as they were left, or new ones.
    async fn members(&self, ring: &Ring) -> Result<(Vec<Member>, Vec<File>), BedError> {
        let bytes = self.spec.member_bytes();
        self.prepare(bytes)?;
        let mut members = Vec::new();
        let mut locks = Vec::new();
        for slot in 0..usize::from(self.spec.members) {
            let (layers, memory, path) = {
                let kept = self.kept();
                let layers = kept.spindles.get(slot).map(|spindle| layers(spindle.clone()));
                let path = kept.directory.as_ref().map(|directory| directory.0.join(format!("{slot}.img")));
                (layers, kept.memory.get(slot).cloned(), path)
            };
            let member = match (memory, path) {
                (Some(memory), _) => Member::over(memory, layers),
                (None, path) => {
                    let place = Place::Path(path.unwrap_or_default());
                    let opened = Member::open(ring, place, Some(bytes), layers).await;
                    let (member, lock) = opened.map_err(PoolError::from)?;
                    locks.extend(lock);
                    member
                }
            };
            members.push(member);
        }
        Ok((members, locks))
    }

    /// Takes memory, or a new directory, and the arms; once.
    fn prepare(&self, bytes: u64) -> Result<(), BedError> {
        static DIRECTORIES: AtomicU64 = AtomicU64::new(0);
        let mut kept = self.kept();
        if !kept.memory.is_empty() || kept.directory.is_some() {
            return Ok(());
        }
        match &self.spec.on {
            Members::Memory => {
                has_room(bytes.saturating_mul(self.spec.members.into()), free_memory())?;
                let memory = (0..self.spec.members).map(|_| Memory::new(bytes).map(Arc::new));
                let failed = |source| BedError::Memory { bytes, source };
                kept.memory = memory.collect::<Result<_, _>>().map_err(failed)?;
            }
            Members::Files(directory) => {
                let number = DIRECTORIES.fetch_add(1, Ordering::Relaxed);
                let directory = directory.join(format!("fels-lab-{}-{number}", std::process::id()));
                let failed = |source| BedError::Directory { directory: directory.clone(), source };
                std::fs::create_dir(&directory).map_err(failed)?;
                kept.directory = Some(Directory(directory));
            }
        }
        let disks = (0..self.spec.members).filter_map(|slot| self.spec.disk(slot));
        kept.spindles = disks.map(Spindle::new).collect::<Result<_, _>>()?;
        kept.spindles.iter().for_each(|spindle| spindle.skip(true));
        Ok(())
    }
}

/// Refuses members that do not fit into the memory: it is given as it is touched, so that nothing else would.
pub(super) fn has_room(needed: u64, free: Option<u64>) -> Result<(), BedError> {
    match free {
        Some(free) if needed > free => Err(BedError::Room { needed, free }),
        _ => Ok(()),
    }
}

/// Bytes of memory that can be had without pushing out others; nothing where the system does not say.
fn free_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
}

fn layers(spindle: Arc<Spindle>) -> Layers {
    Arc::new(move |ring| -> Vec<Box<dyn Layer>> {
        vec![Box::new(Spinning { ring: ring.clone(), spindle: spindle.clone() })]
    })
}

/// The bed is free again when this goes.
struct Using(Arc<Bed>);

impl Drop for Using {
    fn drop(&mut self) {
        self.0.is_open.store(false, Ordering::Release);
    }
}

/// An open pool with its volume, on the thread that opened it.
pub struct OpenPool {
    ring: Ring,
    core: Rc<PoolCore>,
    stack: Rc<Stack>,
    _locks: Vec<File>,
    using: Using,
}

impl OpenPool {
    /// The volume.
    pub fn stack(&self) -> &Rc<Stack> {
        &self.stack
    }

    /// Writes every block once: what was never written is not read from the members.
    async fn fill(&self) -> Result<(), BedError> {
        let bed = &self.using.0;
        let size = self.stack.geometry().bytes();
        let mut random = fastrand::Rng::with_seed(1);
        let mut buffer = Buffer::new(FILLING as usize);
        random.fill(&mut buffer);
        let mut offset = 0;
        while offset < size {
            if bed.given_up.load(Ordering::Relaxed) {
                return Err(BedError::GivenUp);
            }
            let length = FILLING.min(size - offset);
            if length < FILLING {
                buffer = Buffer::copy_of(&buffer[..length as usize]);
            }
            let completion = self.stack.submit(Request::write(offset, buffer)).await;
            completion.result?;
            buffer = completion.buffer;
            offset += length;
            bed.filled.store(offset, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Brings everything to its place. Nothing may be in flight.
    pub async fn close(&self) {
        self.using.0.skip(true);
        Pool::close(self.core.shared(), &self.ring).await;
    }
}
