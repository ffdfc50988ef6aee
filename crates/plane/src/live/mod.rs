//! Volumes come, change and go while a node serves.
//!
//! Lives on the first core, which prepares volumes, keeps their locks, and knows how each is offered. A change is made in
//! steps that leave nothing half done for initiators: what is offered is on every core before anybody is told of it, and is
//! told to nobody any more before it goes. One change is made at a time.

mod error;
mod lists;
mod pools;
mod sessions;

pub use error::LiveError;
pub use lists::Offered;
pub use sessions::{Crowd, Party, User, crowd, users};

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use ring::{Activity, File, Notify, Receiver, Ring, mailbox};

use crate::core::Offer;
use crate::limits::{DESTROY_MOMENT, DRAIN_TIME};
use crate::pool::{Destroyed, Handle, MemberLocks, PoolCores, PoolFigures, Pools};
use crate::request::{Extent, Request};
use crate::session::iscsi::login::Authentication;
use crate::session::scsi::UnitAttention;
use crate::session::{iscsi, nbd, nvme};
use crate::shard::Shard;
use crate::volume::{Backing, Channel, Exclusive, Figures, OpenError, Volume, VolumeOptions};

/// How often it is looked whether a volume is out of use.
const LOOK: Duration = Duration::from_millis(5);

/// How long a change waits for another one: longer than each of them waits for what is under way.
const TURN_TIME: Duration = Duration::from_secs(60);

/// What becomes of the bytes of a volume that is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bytes {
    /// They stay where they are.
    Keep,
    /// The file is removed, or the rows of the pool go to others. What is on a device stays.
    Destroy,
}

/// Bytes on a pool that are being destroyed.
enum Begun {
    /// There are none.
    Gone,
    /// Somebody has begun with it already.
    Before,
    /// Where is told how it ended.
    Now(Receiver<Destroyed>),
}

impl Begun {
    /// Waits a moment for the end. False: it goes on.
    async fn end(self, ring: &Ring) -> Result<bool, LiveError> {
        let mut told = match self {
            Begun::Gone => return Ok(true),
            Begun::Before => return Ok(false),
            Begun::Now(told) => told,
        };
        match ring.timeout(DESTROY_MOMENT, told.receive()).await {
            Some(Some(done)) => done.map(|()| true).map_err(LiveError::from),
            // It ended with the core that did it: nobody knows how.
            Some(None) | None => Ok(false),
        }
    }
}

/// A volume that the node has.
struct Held {
    offered: Offered,
    volume: Arc<Volume>,
    /// Keeps other processes off its file.
    lock: Option<File>,
    /// Nobody is told of it any more.
    leaves: bool,
}

/// The volumes of a node that serves.
pub struct Live {
    /// By their place in [`Shard::volumes`].
    volumes: RefCell<Vec<Option<Held>>>,
    members: Rc<MemberLocks>,
    pools: Pools,
    discovery: Authentication,
    busy: Cell<bool>,
    changed: Notify,
}

/// What one core has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoreFigures {
    /// Its number.
    pub index: usize,
    /// What it has asked of the kernel, and how it has waited.
    pub activity: Activity,
    /// Bytes of buffers that are in use.
    pub buffer_bytes: usize,
    /// How long it looks for something to do at most before it sleeps.
    pub busy_poll: Duration,
}

/// The right to change something.
struct Turn<'a>(&'a Live);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.busy.set(false);
        self.0.changed.notify();
    }
}

impl Live {
    /// Nothing yet on these pools, whose members `members` keeps.
    pub(crate) fn new(pools: Pools, members: MemberLocks, discovery: Authentication) -> Live {
        Live {
            volumes: RefCell::default(),
            members: Rc::new(members),
            pools,
            discovery,
            busy: Cell::new(false),
            changed: Notify::new(),
        }
    }

    /// The locks of members, which change as members come and go.
    pub fn members(&self) -> &Rc<MemberLocks> {
        &self.members
    }

    /// Takes in a volume that was prepared. Its place is the next one.
    pub(crate) fn enter(&self, offer: Offer, volume: Arc<Volume>, lock: Option<File>, write_cache: bool) {
        let mut volumes = self.volumes.borrow_mut();
        let others: Vec<&Offered> = volumes.iter().flatten().map(|held| &held.offered).collect();
        let offered = Offered::new(offer, volumes.len(), volume.id(), write_cache, &others);
        volumes.push(Some(Held { offered, volume, lock, leaves: false }));
    }

    /// What is offered, as each protocol has it.
    pub(crate) fn lists(&self) -> lists::Lists {
        let volumes = self.volumes.borrow();
        let offered = volumes.iter().flatten().filter(|held| !held.leaves).map(|held| &held.offered);
        lists::of(offered, &self.discovery)
    }

    /// Waits until nobody else changes anything; not for ever, as a change may wait for a disk that does not answer.
    async fn turn(&self, ring: &Ring) -> Result<Turn<'_>, LiveError> {
        let free = self.changed.until(|| (!self.busy.get()).then_some(()));
        ring.timeout(TURN_TIME, free).await.ok_or(LiveError::Occupied)?;
        self.busy.set(true);
        Ok(Turn(self))
    }

    fn place(&self, name: &str) -> Option<usize> {
        let is_it = |held: &Option<Held>| held.as_ref().is_some_and(|held| held.volume.name() == name);
        self.volumes.borrow().iter().position(is_it)
    }

    fn find(&self, name: &str) -> Result<usize, LiveError> {
        self.place(name).ok_or_else(|| LiveError::Missing { volume: name.to_owned() })
    }

    /// Makes a volume and offers it.
    pub async fn add(&self, shard: &Rc<Shard>, offer: Offer) -> Result<(), LiveError> {
        let _turn = self.turn(shard.ring()).await?;
        if self.place(&offer.volume.name).is_some() {
            return Err(LiveError::Exists { volume: offer.volume.name });
        }
        if self.is_being_destroyed(&offer.volume) {
            return Err(LiveError::Destroyed { volume: offer.volume.name });
        }
        self.check_number(&offer)?;
        let (volume, lock) = Volume::prepare(shard.ring(), offer.volume.clone(), &self.pools).await?;
        let volume = Arc::new(volume);
        let place = shard.volume_places();
        let opened = on_every(shard, {
            let volume = volume.clone();
            move |shard| {
                open(shard, &volume).map(|stack| {
                    let channel = Rc::new(Channel::new(place, volume.clone(), stack));
                    shard.set_volume(place, Some(channel.clone()));
                    channel.geometry().write_cache
                })
            }
        })
        .await;
        let write_cache = match opened.into_iter().collect::<Result<Vec<bool>, OpenError>>() {
            Ok(cores) => cores.into_iter().any(|cached| cached),
            Err(error) => {
                on_every(shard, move |shard| shard.set_volume(place, None)).await;
                self.volumes.borrow_mut().push(None);
                return Err(error.into());
            }
        };
        self.enter(offer, volume, lock, write_cache);
        self.offer(shard, Duration::ZERO).await
    }

    /// Makes a volume what `offer` says: larger, within other limits, for other initiators, over other protocols. Who may not
    /// use it any more is asked to go, and ended after `grace`.
    pub async fn alter(&self, shard: &Rc<Shard>, offer: Offer, grace: Duration) -> Result<(), LiveError> {
        let _turn = self.turn(shard.ring()).await?;
        let place = self.find(&offer.volume.name)?;
        self.check_number(&offer)?;
        let (is_another, is_larger) = {
            let volumes = self.volumes.borrow();
            let held = volumes[place].as_ref().expect("it was found");
            held.offered.check_alteration(&offer)?;
            let (old, new) = (held.volume.options(), &offer.volume);
            (old.bytes != new.bytes || old.limits != new.limits, old.bytes != new.bytes)
        };
        if is_another {
            self.rebuild(shard, place, &offer).await?;
        }
        self.note_alteration(place, offer, is_larger);
        if is_larger {
            on_every(shard, move |shard| {
                if let Some(service) = shard.service::<nvme::Service>() {
                    service.tell_size(place);
                }
            })
            .await;
        }
        self.offer(shard, grace).await
    }

    /// Two namespaces of a subsystem have two numbers.
    fn check_number(&self, offer: &Offer) -> Result<(), LiveError> {
        let volumes = self.volumes.borrow();
        let others = volumes.iter().flatten().map(|held| &held.offered);
        match others
            .filter(|other| other.offer.volume.name != offer.volume.name)
            .find(|other| other.has_number_of(offer))
        {
            Some(other) => Err(LiveError::Number {
                nsid: offer.nsid.unwrap_or_default(),
                volume: offer.volume.name.clone(),
                other: other.offer.volume.name.clone(),
            }),
            None => Ok(()),
        }
    }

    /// A volume is as `offer` says from now on.
    fn note_alteration(&self, place: usize, offer: Offer, is_larger: bool) {
        let mut volumes = self.volumes.borrow_mut();
        let Some(mut held) = volumes[place].take() else { return };
        let others: Vec<&Offered> = volumes.iter().flatten().map(|other| &other.offered).collect();
        held.offered.alter(offer, &others);
        if is_larger {
            held.offered.unit.establish_all(UnitAttention::CapacityChanged);
        }
        volumes[place] = Some(held);
    }

    /// Opens the stacks of a volume anew, as `offer` says, while nobody uses it.
    async fn rebuild(&self, shard: &Rc<Shard>, place: usize, offer: &Offer) -> Result<(), LiveError> {
        let channel = shard.volume(place);
        // Whoever comes meanwhile waits, and finds the new stack.
        let whole = Extent::new(0, channel.geometry().bytes());
        let busy = || LiveError::Held { volume: offer.volume.name.clone() };
        let old = self.volumes.borrow()[place].as_ref().expect("it is there").volume.clone();
        let unlimited = old.open_limits();
        let held = hold(shard, &channel, whole).await.ok_or_else(busy)?;
        drop(unlimited);
        let lock = self.volumes.borrow()[place].as_ref().and_then(|held| held.lock.clone());
        let options = offer.volume.clone();
        let volume = Arc::new(old.altered(shard.ring(), options, lock.as_ref()).await?);
        let next = volume.clone();
        let opened = on_every(shard, move |shard| {
            open(shard, &next).map(|stack| shard.volume(place).prepare_stack(stack))
        })
        .await;
        let opened = opened.into_iter().collect::<Result<Vec<()>, OpenError>>();
        let is_open = opened.is_ok();
        on_every(shard, move |shard| shard.volume(place).end_preparation(is_open)).await;
        opened?;
        if let Some(held) = &mut self.volumes.borrow_mut()[place] {
            held.volume = volume;
        }
        drop(held);
        Ok(())
    }

    /// Takes a volume out of service: initiators are asked to go and ended after `grace`, what is under way is carried out,
    /// everything is made durable. A volume that could not be closed in time can be removed once more. What is told is whether
    /// all is done; if not, its bytes are being destroyed, as in [`Live::destroy`].
    pub async fn remove(
        &self,
        shard: &Rc<Shard>,
        name: &str,
        grace: Duration,
        bytes: Bytes,
    ) -> Result<bool, LiveError> {
        let _turn = self.turn(shard.ring()).await?;
        let place = self.find(name)?;
        let leaving = self.volumes.borrow_mut()[place].as_mut().map(|held| {
            held.leaves = true;
            held.volume.open_limits()
        });
        let busy = || LiveError::Busy { volume: name.to_owned() };
        self.offer(shard, grace).await?;
        let released = everywhere(shard, move |shard| release(shard, place)).await;
        if released.into_iter().any(|is_out| !is_out) {
            return Err(busy());
        }
        let channel = shard.volume(place);
        let flush = channel.submit(Request::flush());
        let flushed = shard.ring().timeout(DRAIN_TIME, flush).await.ok_or_else(busy)?.result;
        drop((channel, leaving));
        on_every(shard, move |shard| shard.set_volume(place, None)).await;
        let held = self.volumes.borrow_mut()[place].take().expect("it is there");
        let backing = held.volume.options().backing.clone();
        // The lock goes before the file, which somebody else may make anew at once.
        drop(held);
        match (bytes, backing) {
            (Bytes::Destroy, Backing::File(path)) => remove_file(path).await.map(|()| true),
            (Bytes::Destroy, Backing::Pool(pool)) => {
                self.begin_destroying(shard, &pool, name)?.end(shard.ring()).await
            }
            // What is on a device stays there, whatever is wished.
            _ => {
                flushed.map_err(|source| LiveError::Flush { volume: name.to_owned(), source }).map(|()| true)
            }
        }
    }

    /// Gives what a volume that is not served has of its pool to others. That goes on in the background when it takes longer than a
    /// moment, which is told by `false`; [`crate::pool::Status::erasing`] says how far it is.
    pub async fn destroy(&self, shard: &Rc<Shard>, pool: &str, name: &str) -> Result<bool, LiveError> {
        let begun = {
            // No volume may be coming of what goes; once it has begun, none can.
            let _turn = self.turn(shard.ring()).await?;
            if self.lives_on(name, pool) {
                return Err(LiveError::Busy { volume: name.to_owned() });
            }
            self.begin_destroying(shard, pool, name)?
        };
        begun.end(shard.ring()).await
    }

    fn begin_destroying(&self, shard: &Rc<Shard>, pool: &str, name: &str) -> Result<Begun, LiveError> {
        let pool = self.pools.find(pool).ok_or_else(|| LiveError::NoPool { pool: pool.to_owned() })?;
        let volumes = pool.pool().volumes();
        let Some(entry) = volumes.iter().find(|entry| entry.name == name) else { return Ok(Begun::Gone) };
        let cores = shard.service::<PoolCores>();
        let core = cores.and_then(|cores| cores.find(pool.pool().shared()));
        let core = core.ok_or_else(|| LiveError::NoPool { pool: pool.pool().shared().name.clone() })?;
        let handle = Handle::new(pool.pool().shared().clone());
        Ok(handle.destroy(&core, entry).map_or(Begun::Before, Begun::Now))
    }

    /// Whether the volume of that name is served, and from this pool: one of the same name may have its bytes elsewhere.
    pub fn lives_on(&self, name: &str, pool: &str) -> bool {
        let backing = Backing::Pool(pool.to_owned());
        let volumes = self.volumes.borrow();
        volumes
            .iter()
            .flatten()
            .any(|held| held.volume.name() == name && held.volume.options().backing == backing)
    }

    /// Whether the bytes of a volume of that name are being destroyed where another one is to have its own.
    fn is_being_destroyed(&self, volume: &VolumeOptions) -> bool {
        let Backing::Pool(pool) = &volume.backing else { return false };
        let pool = self.pools.find(pool);
        pool.is_some_and(|pool| Handle::new(pool.pool().shared().clone()).destroys(&volume.name))
    }

    /// What happened to each volume, over all cores, in the order of their places.
    pub async fn figures(shard: &Rc<Shard>) -> Vec<Figures> {
        let of_core = |shard: &Rc<Shard>| -> Vec<Figures> {
            shard.volumes().iter().map(|channel| channel.figures(shard.index())).collect()
        };
        let mut all: BTreeMap<usize, Figures> = BTreeMap::new();
        for figures in on_every(shard, of_core).await.into_iter().flatten() {
            match all.entry(figures.place) {
                Entry::Vacant(place) => drop(place.insert(figures)),
                Entry::Occupied(mut place) => place.get_mut().add(figures),
            }
        }
        all.into_values().collect()
    }

    /// What was asked of each pool, over all cores, in the order of the plan.
    pub async fn pool_figures(shard: &Rc<Shard>) -> Vec<PoolFigures> {
        let of_core = |shard: &Rc<Shard>| -> Vec<PoolFigures> {
            shard.service::<PoolCores>().map_or_else(Vec::new, |pools| pools.figures())
        };
        let mut all: Vec<PoolFigures> = Vec::new();
        for figures in on_every(shard, of_core).await.into_iter().flatten() {
            match all.iter_mut().find(|mine| mine.name == figures.name) {
                Some(mine) => mine.add(figures),
                None => all.push(figures),
            }
        }
        all
    }

    /// What every core has done, in their order.
    pub async fn core_figures(shard: &Rc<Shard>) -> Vec<CoreFigures> {
        let of_core = |shard: &Rc<Shard>| CoreFigures {
            index: shard.index(),
            activity: shard.ring().activity(),
            buffer_bytes: ring::in_use(),
            busy_poll: shard.ring().busy_poll(),
        };
        let mut all = on_every(shard, of_core).await;
        all.sort_unstable_by_key(|core| core.index);
        all
    }

    /// Tells all cores what is offered now, and waits until those are gone who may not use it any more; for a while, if what they
    /// asked for does not come to its end.
    async fn offer(&self, shard: &Rc<Shard>, grace: Duration) -> Result<(), LiveError> {
        let lists = self.lists();
        let service = |missing| LiveError::Protocol { protocol: missing };
        shard.service::<iscsi::Service>().ok_or_else(|| service("iSCSI"))?.offer(lists.targets);
        shard.service::<nbd::Service>().ok_or_else(|| service("NBD"))?.offer(lists.exports);
        shard.service::<nvme::Service>().ok_or_else(|| service("NVMe"))?.offer(lists.subsystems)?;
        everywhere(shard, move |shard| adopt(shard, grace)).await;
        Ok(())
    }
}

fn open(shard: &Shard, volume: &Volume) -> Result<crate::layers::Stack, OpenError> {
    let pools = shard.service::<PoolCores>().unwrap_or_default();
    volume.stack(shard.ring(), &pools)
}

/// Ends, on this core, who may not use what he uses any more. Both protocols at once.
async fn adopt(shard: Rc<Shard>, grace: Duration) {
    let (done, mut ended) = mailbox();
    let ring = shard.ring();
    if let Some(service) = shard.service::<iscsi::Service>() {
        let done = done.clone();
        ring.spawn(async move {
            service.adopt(grace).await;
            done.send(()).ok();
        });
    }
    if let Some(service) = shard.service::<nbd::Service>() {
        let done = done.clone();
        ring.spawn(async move {
            service.adopt(grace).await;
            done.send(()).ok();
        });
    }
    drop(done);
    let all = async { while ended.receive().await.is_some() {} };
    ring.timeout(grace + DRAIN_TIME, all).await;
}

/// Holds an extent exclusively; `None` when what is under way in it does not end in time. Who wants it no more still takes his turn,
/// and lets go at once: nobody could find a turn that is given up half way.
async fn hold(shard: &Rc<Shard>, channel: &Rc<Channel>, extent: Extent) -> Option<Exclusive> {
    let (place, came) = (Rc::new(RefCell::new(None)), Rc::new(Notify::new()));
    let (weak, tell, shard, channel) = (Rc::downgrade(&place), came.clone(), shard.clone(), channel.clone());
    let ring = shard.ring().clone();
    ring.spawn(async move {
        let held = channel.exclusive(&shard, extent).await;
        if let Some(place) = weak.upgrade() {
            place.replace(Some(held));
            tell.notify();
        }
    });
    ring.timeout(DRAIN_TIME, came.until(|| place.take())).await
}

/// Waits until nobody on this core uses a volume that is not offered any more. False: somebody still does.
async fn release(shard: Rc<Shard>, place: usize) -> bool {
    if let Some(service) = shard.service::<iscsi::Service>() {
        service.forget_volume(place);
    }
    let Some(channel) = shard.find_volume(place) else { return true };
    let deadline = shard.ring().now() + DRAIN_TIME;
    // One is the shard's, one is ours.
    while Rc::strong_count(&channel) > 2 || channel.is_busy() {
        if shard.ring().now() >= deadline {
            return false;
        }
        shard.ring().sleep(LOOK).await;
    }
    true
}

/// Removes a file, durably, on a thread of its own: a large one takes the file system long.
async fn remove_file(path: std::path::PathBuf) -> Result<(), LiveError> {
    let (tell, mut told) = mailbox();
    let failed = |path: &std::path::Path, source| LiveError::File { path: path.to_owned(), source };
    let removed = path.clone();
    let remove = move || {
        let parent = removed.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(std::path::Path::new("."));
        let result = std::fs::remove_file(&removed)
            .and_then(|()| std::fs::File::open(parent))
            .and_then(|directory| directory.sync_all());
        tell.send(result).ok();
    };
    std::thread::Builder::new()
        .name("remove".to_owned())
        .spawn(remove)
        .map_err(|source| failed(&path, source))?;
    told.receive().await.unwrap_or(Ok(())).map_err(|source| failed(&path, source))
}

/// As [`everywhere`], for what waits for nothing.
async fn on_every<T: Send + 'static>(
    shard: &Rc<Shard>,
    work: impl FnOnce(&Rc<Shard>) -> T + Clone + Send + 'static,
) -> Vec<T> {
    everywhere(shard, |shard| std::future::ready(work(&shard))).await
}

/// Lets every core do something, all at once, and waits for all. Answers come in no order.
async fn everywhere<T, F, W>(shard: &Rc<Shard>, work: W) -> Vec<T>
where
    T: Send + 'static,
    F: Future<Output = T> + 'static,
    W: FnOnce(Rc<Shard>) -> F + Clone + Send + 'static,
{
    let (answer, mut answers) = mailbox();
    for index in 0..shard.count() {
        let (answer, work) = (answer.clone(), work.clone());
        shard.tell(index, move |shard| {
            let ring: Ring = shard.ring().clone();
            ring.spawn(async move {
                answer.send(work(shard).await).ok();
            });
        });
    }
    drop(answer);
    let mut all = Vec::with_capacity(shard.count());
    while let Some(answer) = answers.receive().await {
        all.push(answer);
    }
    all
}
