//! Pools without a node: members looked at, pools made, closed for a journey, and given up, by a ring of one's own. Who holds a
//! member locks it, so nothing here touches what a node uses.

pub mod survey;
pub mod survival;
pub mod table;

use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use plane::pool::{
    Assembled, MemberPlan, MemberStatus, Place, PoolError, PoolPlan, Seen, assemble, inspect, wipe,
};
use ring::{Options, Reactor, Ring};

/// Why something cannot be done without a node.
#[derive(Debug, thiserror::Error)]
pub enum OfflineError {
    /// There is no ring.
    #[error(transparent)]
    Ring(#[from] ring::StartError),
    /// The pool.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// There is a pool on the members.
    #[error("the members are not blank any more; hint: look what is on them with `fels pool import`")]
    NotBlank,
    /// It could not be closed.
    #[error("{0}; hint: nothing is lost: whoever opens the pool next makes what is missing")]
    Close(String),
    /// It failed while it was open.
    #[error(
        "pool {0} is not closed in good order: more of its members could not be written than it can do without; hint: look at its \
         disks, and do it again when all are well: what was acknowledged is made then"
    )]
    Failed(String),
}

impl OfflineError {
    /// The sentence, and what can be done about it.
    pub fn parts(&self) -> (String, Option<String>) {
        let text = self.to_string();
        match text.split_once("; hint: ") {
            Some((sentence, hint)) => (sentence.to_owned(), Some(hint.to_owned())),
            None => (text, None),
        }
    }
}

/// Does something on a ring that lives no longer than that.
fn on_a_ring<T: 'static>(work: impl AsyncFnOnce(Ring) -> T + 'static) -> Result<T, OfflineError> {
    let reactor = Reactor::new(&Options::default())?;
    let ring = reactor.ring().clone();
    Ok(reactor.block_on(async move { work(ring).await }))
}

/// Whether a path names a device: what is missing there is not made.
pub fn is_device(path: &Path) -> bool {
    crate::config::is_device(path)
}

/// Why what is at a path cannot be a member whatever it holds: a sentence's end. Opening a pipe could take for ever.
pub fn is_unfit(path: &Path) -> Option<&'static str> {
    let kind = std::fs::metadata(path).ok()?.file_type();
    if kind.is_file() || kind.is_block_device() { None } else { Some("is neither a file nor a block device") }
}

/// Looks what is at each place. Nothing is written.
pub fn look(places: &[PathBuf]) -> Result<Vec<(PathBuf, Seen)>, OfflineError> {
    let places = places.to_vec();
    on_a_ring(async move |ring| {
        let mut seen = Vec::with_capacity(places.len());
        for path in places {
            let found = match is_unfit(&path) {
                Some(why) => Seen::Other(why.to_owned()),
                None => inspect(&ring, &Place::Path(path.clone())).await,
            };
            seen.push((path, found));
        }
        seen
    })
}

/// A pool that was open for a moment.
#[derive(Clone, Debug)]
pub struct Closed {
    /// Bytes that volumes can have.
    pub bytes: u64,
    /// Its members, in order.
    pub members: Vec<MemberStatus>,
    /// Its volumes: name and bytes.
    pub volumes: Vec<(String, u64)>,
}

/// Makes a pool of blank members and closes it in good order.
pub fn create(plan: PoolPlan) -> Result<Closed, OfflineError> {
    let (is_new, closed) = open(plan)?;
    if is_new {
        return Ok(closed);
    }
    // Looked at a moment ago, they were blank: somebody else was quicker.
    Err(OfflineError::NotBlank)
}

/// Opens a pool, brings what its journal has to its place, and closes it, so that its members say that there is nothing to
/// recover.
pub fn settle(plan: PoolPlan) -> Result<Closed, OfflineError> {
    open(plan).map(|(_, closed)| closed)
}

fn open(plan: PoolPlan) -> Result<(bool, Closed), OfflineError> {
    on_a_ring(async move |ring| {
        let (assembled, _locks) = assemble(&ring, &plan, 1).await?;
        Ok((assembled.is_new, close(&ring, &assembled).await?))
    })?
}

async fn close(ring: &Ring, assembled: &Assembled) -> Result<Closed, OfflineError> {
    let pool = assembled.pool();
    let core = pool.core(0, ring)?;
    pool.keep(&core);
    core.close().await.map_err(OfflineError::Close)?;
    let status = plane::pool::Handle::new(pool.shared().clone()).status();
    if status.has_failed {
        return Err(OfflineError::Failed(status.name));
    }
    let volumes = pool.volumes().iter().map(|volume| (volume.name.clone(), volume.bytes)).collect();
    Ok(Closed { bytes: status.bytes, members: status.members, volumes })
}

/// Makes the members of a pool blank again, one after the other; says which ones were before one failed.
pub fn destroy(members: &[PathBuf], pool: [u8; 16]) -> Result<Vec<PathBuf>, (Vec<PathBuf>, OfflineError)> {
    let members = members.to_vec();
    let done = on_a_ring(async move |ring| {
        let mut done = Vec::new();
        for path in members {
            if let Err(error) = wipe(&ring, &Place::Path(path.clone()), &pool).await {
                return Err((done, error.into()));
            }
            done.push(path);
        }
        Ok(done)
    });
    done.map_err(|error| (Vec::new(), error))?
}

/// The plan of a pool whose members are there already.
pub fn plan_of(pool: &survey::FoundPool) -> PoolPlan {
    let member =
        |path: &Path| MemberPlan { place: Place::Path(path.to_owned()), create_bytes: None, spinning: None };
    let label = &pool.label;
    PoolPlan {
        name: label.name.clone(),
        level: label.geometry.level,
        unit: label.geometry.unit,
        integrity: label.integrity,
        members: pool.named().iter().map(|path| member(path)).collect(),
        spares: pool.spares.iter().map(|path| member(path)).collect(),
    }
}
