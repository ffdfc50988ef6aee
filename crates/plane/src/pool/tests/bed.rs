//! A machine with the members of a pool on its simulated disk.

use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ring::sim::{Node, World};
use ring::{Buffer, File, FileOptions, Reactor, Ring};

use crate::disk::Disk;
use crate::error::{Error, ErrorKind};
use crate::pool::format::{BLOCK, Geometry, Label, VolumeEntry};
use crate::pool::join::join;
use crate::pool::volumes::erase;
use crate::pool::{
    Handle, Level, Member, MemberState, Place, Pool, PoolCore, PoolDisk, PoolError, PoolOptions, Scrub,
    VolumeWish,
};
use crate::request::{Extent, Request, Verb};

/// Bytes of each member.
const MEMBER: u64 = 4 << 20;

pub struct Bed {
    pub world: World,
    pub machine: Node,
    pub level: Level,
    pub slots: usize,
    pub unit: u32,
    pub volume: u64,
    cores: usize,
    /// Slots whose first members are not given to the pool any more.
    left: Vec<usize>,
    /// Further members that are given to it.
    more: Vec<PathBuf>,
    /// Members are named in another order than that of their slots.
    pub backwards: bool,
    running: Option<Running>,
}

/// What became of something that was asked for.
pub type Told = Arc<Mutex<Option<Result<(), String>>>>;

struct Running {
    core: Rc<PoolCore>,
    disks: Vec<Rc<PoolDisk>>,
    /// Held for as long as the members are used.
    locks: Vec<File>,
    reactor: Reactor,
}

impl Bed {
    /// A pool with one volume, served.
    pub fn new(seed: u64, level: Level, slots: usize, unit: u32) -> Bed {
        Bed::of_cores(seed, level, slots, unit, 1)
    }

    /// The same, on a node with so many cores, of which the first one is there.
    pub fn of_cores(seed: u64, level: Level, slots: usize, unit: u32, cores: usize) -> Bed {
        let world = World::new(seed);
        let machine = world.node("machine");
        let mut bed = Bed {
            world,
            machine,
            level,
            slots,
            unit,
            volume: 0,
            cores,
            left: Vec::new(),
            more: Vec::new(),
            backwards: false,
            running: None,
        };
        let reactor = bed.machine.reactor();
        let (ring, options, places) = (reactor.ring().clone(), bed.options(), bed.places());
        let made = bed.world.block_on(&reactor, async move {
            let (members, locks) = members(&ring, places, Some(MEMBER)).await;
            let pool = Pool::make(&ring, &options, members, 1).await?;
            let bytes = pool.shared().geometry.row_bytes() * 12;
            pool.add_volume(&ring, [7; 16], "demo", bytes, 512).await?;
            Ok::<_, PoolError>((bytes, locks))
        });
        let (bytes, locks) = made.unwrap().unwrap();
        bed.volume = bytes;
        drop((locks, reactor));
        bed.machine.kill();
        bed.start().unwrap();
        bed
    }

    fn options(&self) -> PoolOptions {
        PoolOptions {
            name: "tank".into(),
            level: self.level,
            unit: self.unit,
            integrity: true,
            catalogue_blocks: 1,
            journal_bytes: Some(256 << 10),
        }
    }

    #[allow(clippy::unused_self, reason = "it reads better")]
    pub fn path(&self, slot: usize) -> PathBuf {
        PathBuf::from(format!("/m{slot}"))
    }

    fn places(&self) -> Vec<PathBuf> {
        let places = (0..self.slots)
            .filter(|slot| !self.left.contains(slot))
            .map(|slot| self.path(slot))
            .chain(self.more.iter().cloned())
            .filter(|path| self.machine.file_length(path).is_none_or(|length| length > 0));
        let mut places: Vec<PathBuf> = places.collect();
        if self.backwards {
            places.reverse();
        }
        places
    }

    /// Opens the pool on the members that are there.
    pub fn start(&mut self) -> Result<(), PoolError> {
        self.start_while(|_| {})
    }

    /// The same, while this happens.
    pub fn start_while(&mut self, happens: impl FnOnce(&Bed)) -> Result<(), PoolError> {
        let reactor = self.machine.reactor();
        let (ring, places, cores) = (reactor.ring().clone(), self.places(), self.cores);
        let open = async move {
            let (members, locks) = members(&ring, places, None).await;
            let pool = Pool::open(&ring, "tank", members, cores).await?;
            let core = pool.core(0, &ring)?;
            pool.keep(&core);
            let disk = |entry| Rc::new(PoolDisk::new(core.clone(), entry));
            let disks: Vec<_> = pool.volumes().iter().map(disk).collect();
            Ok::<_, PoolError>((core, disks, locks))
        };
        let opened = Rc::new(RefCell::new(None));
        let tell = opened.clone();
        reactor.ring().spawn_later(async move { drop(tell.replace(Some(open.await))) });
        happens(self);
        self.world.run_until(|| opened.borrow().is_some()).unwrap();
        let (core, disks, locks) = opened.take().expect("it is open, or refused")?;
        self.running = Some(Running { core, disks, locks, reactor });
        Ok(())
    }

    /// The pool that was cut off, opened and not served.
    pub fn open(&self) -> Pool {
        let reactor = self.machine.reactor();
        let (ring, places) = (reactor.ring().clone(), self.places());
        let opened = self.world.block_on(&reactor, async move {
            let (members, _locks) = members(&ring, places, None).await;
            Pool::open(&ring, "tank", members, 1).await
        });
        opened.unwrap().unwrap()
    }

    /// Opens the pool, and cuts the power after a while, whether it is open or not.
    pub fn cut_opening(&mut self, after: Duration) {
        let reactor = self.machine.reactor();
        let (ring, places) = (reactor.ring().clone(), self.places());
        reactor.ring().spawn_later(async move {
            let (members, _locks) = members(&ring, places, None).await;
            drop(Pool::open(&ring, "tank", members, 1).await);
        });
        self.world.run_for(after).unwrap();
        self.power_cut();
    }

    /// Begins a write, which nobody waits for.
    pub fn begin_write(&self, offset: u64, bytes: &[u8]) {
        self.begin_write_to(0, offset, bytes);
    }

    /// Begins a write to a volume, which nobody waits for.
    pub fn begin_write_to(&self, volume: usize, offset: u64, bytes: &[u8]) {
        let (disk, buffer) = (self.volume_disk(volume), Buffer::copy_of(bytes));
        self.ring().spawn_later(async move { drop(disk.submit(Request::write(offset, buffer)).await) });
    }

    /// Begins a read, which leaves what it got.
    pub fn begin_read(&self, offset: u64, length: usize) -> Rc<RefCell<Option<Vec<u8>>>> {
        let (disk, left) = (self.disk(), Rc::new(RefCell::new(None)));
        let leave = left.clone();
        self.ring().spawn_later(async move {
            let completion = disk.submit(Request::read(offset, Buffer::new(length))).await;
            completion.result.unwrap();
            leave.replace(Some(completion.buffer.to_vec()));
        });
        left
    }

    pub fn core(&self) -> &Rc<PoolCore> {
        &self.running.as_ref().unwrap().core
    }

    pub fn geometry(&self) -> Geometry {
        *self.core().shared().geometry
    }

    /// The newest label of a first member.
    pub fn first_label(&self, slot: usize) -> Label {
        let read = |place| Label::decode(&self.machine.file_bytes(&self.path(slot), place, BLOCK)?).ok();
        let labels = [0, MEMBER - BLOCK as u64].into_iter().filter_map(read);
        labels.max_by_key(|label| label.generation).unwrap()
    }

    /// As that says, also while the pool is not served.
    pub fn geometry_of(&self, slot: usize) -> Geometry {
        self.first_label(slot).geometry
    }

    pub fn disk(&self) -> Rc<PoolDisk> {
        self.volume_disk(0)
    }

    fn volume_disk(&self, volume: usize) -> Rc<PoolDisk> {
        self.running.as_ref().unwrap().disks[volume].clone()
    }

    /// Enters another volume, while the pool is not served.
    pub fn add_volume(&self, bytes: u64) -> Result<(), PoolError> {
        let reactor = self.machine.reactor();
        let (ring, places) = (reactor.ring().clone(), self.places());
        let added = self.world.block_on(&reactor, async move {
            let (members, _locks) = members(&ring, places, None).await;
            let pool = Pool::open(&ring, "tank", members, 1).await?;
            pool.add_volume(&ring, [8; 16], "more", bytes, 512).await
        });
        drop(reactor);
        self.machine.kill();
        added.unwrap()
    }

    /// Changes the volumes while the pool is served; a disk for each of them is opened anew.
    pub fn change_volumes(&mut self, wish: VolumeWish) -> Result<(), String> {
        let handle = self.handle();
        let changed = async move { handle.change_volumes(wish).await.map_err(|error| error.to_string()) };
        let reactor = &self.running.as_ref().unwrap().reactor;
        self.world.block_on(reactor, changed).unwrap()?;
        let core = self.core().clone();
        let disks = self.volumes().iter().map(|entry| Rc::new(PoolDisk::new(core.clone(), entry))).collect();
        self.running.as_mut().unwrap().disks = disks;
        Ok(())
    }

    /// Begins a change, which nobody waits for.
    pub fn begin_change(&self, wish: VolumeWish) {
        let handle = self.handle();
        self.ring().spawn_later(async move { drop(handle.change_volumes(wish).await) });
    }

    /// The volumes now.
    pub fn volumes(&self) -> Vec<VolumeEntry> {
        self.core().shared().volumes.get().to_vec()
    }

    /// Gives back everything that a volume has.
    pub fn erase_volume(&self, place: usize) {
        let (core, entry) = (self.core().clone(), self.volumes()[place].clone());
        let reactor = &self.running.as_ref().unwrap().reactor;
        self.world
            .block_on(reactor, async move { erase(&core, &entry, &AtomicU64::new(0)).await })
            .unwrap()
            .unwrap();
    }

    /// How many rows the newest label of a member has.
    pub fn label_rows(&self, path: &std::path::Path) -> Option<u64> {
        self.label_of(path).map(|label| label.geometry.rows)
    }

    /// The newest label of a member.
    pub fn label_of(&self, path: &std::path::Path) -> Option<Label> {
        let length = self.machine.file_length(path)?;
        let read = |place| Label::decode(&self.machine.file_bytes(path, place, BLOCK)?).ok();
        let labels = [0, length - BLOCK as u64].into_iter().filter_map(read);
        labels.max_by_key(|label| label.generation)
    }

    /// Brings a member in for a slot that is out, now and whenever the pool is opened.
    pub fn give(&mut self, slot: usize, path: &str) {
        let (member, lock) = self.member(path.into());
        self.running.as_mut().unwrap().locks.extend(lock);
        self.handle().online(slot, member).unwrap();
        self.more.push(path.into());
    }

    pub fn ring(&self) -> Ring {
        self.running.as_ref().unwrap().reactor.ring().clone()
    }

    /// Makes a file of so many bytes that nobody has written.
    pub fn make_file(&self, path: &str, bytes: u64) {
        let (ring, path) = (self.ring(), PathBuf::from(path));
        let make = async move {
            let options = FileOptions { create: true, ..FileOptions::default() };
            File::open(&ring, &path, options).unwrap().set_length(bytes).unwrap();
        };
        self.world.block_on(&self.running.as_ref().unwrap().reactor, make).unwrap();
    }

    /// Ends the process by force.
    pub fn kill(&mut self) {
        self.machine.kill();
        self.running = None;
    }

    pub fn power_cut(&mut self) {
        self.machine.power_cut();
        self.running = None;
    }

    pub fn read(&self, offset: u64, length: usize) -> Result<Vec<u8>, ErrorKind> {
        self.read_from(0, offset, length)
    }

    pub fn read_from(&self, volume: usize, offset: u64, length: usize) -> Result<Vec<u8>, ErrorKind> {
        let disk = self.volume_disk(volume);
        let read = async move { disk.submit(Request::read(offset, Buffer::new(length))).await };
        let completion = self.world.block_on(&self.running.as_ref().unwrap().reactor, read).unwrap();
        completion.result.map_err(|error| error.kind()).map(|()| completion.buffer.to_vec())
    }

    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        self.write_to(0, offset, bytes)
    }

    pub fn write_to(&self, volume: usize, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        let (disk, buffer) = (self.volume_disk(volume), Buffer::copy_of(bytes));
        let write = async move { disk.submit(Request::write(offset, buffer)).await };
        self.world.block_on(&self.running.as_ref().unwrap().reactor, write).unwrap().result
    }

    /// Writes all of these at once.
    pub fn write_together(&self, writes: Vec<(u64, Vec<u8>)>) -> Vec<Result<(), ErrorKind>> {
        let disk = self.disk();
        let write = async move {
            let writes = writes
                .into_iter()
                .map(|(offset, bytes)| disk.submit(Request::write(offset, Buffer::copy_of(&bytes))));
            let answers = join(writes).await;
            answers.into_iter().map(|answer| answer.result.map_err(|error| error.kind())).collect()
        };
        self.world.block_on(&self.running.as_ref().unwrap().reactor, write).unwrap()
    }

    /// The number of the next transaction.
    pub fn next(&self) -> u64 {
        self.core().shared().next.load(Ordering::Relaxed)
    }

    pub fn erase(&self, offset: u64, length: u64) -> Result<(), Error> {
        let disk = self.disk();
        let erase =
            async move { disk.submit(Request::plain(Verb::Discard, Extent::new(offset, length))).await };
        self.world.block_on(&self.running.as_ref().unwrap().reactor, erase).unwrap().result
    }

    pub fn handle(&self) -> Handle {
        Handle::new(self.core().shared().clone())
    }

    /// Verifies everything.
    pub fn scrub(&self) -> Scrub {
        let handle = self.handle();
        handle.scrub();
        self.world.run_until(|| handle.status().scrub.runs).unwrap();
        self.world.run_until(|| !handle.status().scrub.runs).unwrap();
        handle.status().scrub
    }

    /// Opens a member beside those that the pool has; a new file when it is missing.
    pub fn member(&self, path: PathBuf) -> (Member, Option<File>) {
        let ring = self.ring();
        let open = async move { Member::open(&ring, Place::Path(path), Some(MEMBER), None).await.unwrap() };
        self.world.block_on(&self.running.as_ref().unwrap().reactor, open).unwrap()
    }

    pub fn state(&self, slot: usize) -> MemberState {
        self.handle().status().members[slot].state.clone()
    }

    /// Lets the pool know that a member is not to be used, until it does.
    pub fn take_out(&self, slot: usize) {
        self.handle().offline(slot).unwrap();
        self.world.run_until(|| self.state(slot) == MemberState::Out).unwrap();
    }

    /// Gives a slot that is out a new member.
    pub fn renew(&mut self, slot: usize) {
        self.machine.remove_file(&self.path(slot)).ok();
        let (member, lock) = self.member(self.path(slot));
        self.handle().online(slot, member).unwrap();
        self.running.as_mut().unwrap().locks.extend(lock);
    }

    /// Waits until a member is in sync.
    pub fn rebuild_of(&self, slot: usize) {
        self.world.run_until(|| self.state(slot) == MemberState::InSync).unwrap();
    }

    /// Gives the pool a spare, now and whenever it is opened.
    pub fn add_spare(&mut self, path: &str) {
        let (member, lock) = self.member(path.into());
        self.running.as_mut().unwrap().locks.extend(lock);
        self.handle().add_spare(member).unwrap();
        let there = || self.handle().status().spares.iter().any(|spare| spare.place.as_deref() == Some(path));
        self.world.run_until(there).unwrap();
        self.forget(path);
        self.more.push(path.into());
    }

    /// Begins to give the pool further members, new files where there are none; later starts have them too. What becomes of it
    /// is in what is given back.
    pub fn begin_extending(&mut self, paths: &[&str]) -> Told {
        let mut further = Vec::new();
        for path in paths {
            let (member, lock) = self.member(path.into());
            self.running.as_mut().unwrap().locks.extend(lock);
            further.push(member);
            self.forget(path);
            self.more.push(path.into());
        }
        let told = Told::default();
        let tell = told.clone();
        let answer = Box::new(move |result| *tell.lock().unwrap() = Some(result));
        self.handle().extend_telling(further, answer).unwrap();
        told
    }

    /// Gives the pool further members.
    pub fn extend(&mut self, paths: &[&str]) -> Result<(), String> {
        let locks = self.running.as_ref().unwrap().locks.len();
        let told = self.begin_extending(paths);
        self.world.run_until(|| told.lock().unwrap().is_some()).unwrap();
        let result = told.lock().unwrap().take().unwrap();
        if result.is_err() {
            for path in paths {
                self.forget(path);
            }
            self.running.as_mut().unwrap().locks.truncate(locks);
        }
        result
    }

    /// A further member is not given to the pool any more.
    pub fn forget(&mut self, path: &str) {
        self.more.retain(|other| other.as_os_str() != path);
    }

    /// The first member of a slot is not given to the pool any more.
    pub fn leave(&mut self, slot: usize) {
        self.left.push(slot);
    }

    /// Ends the pool in good order.
    pub fn close(&mut self) {
        let (shared, ring) = (self.core().shared().clone(), self.ring());
        let close = async move { Pool::close(&shared, &ring).await };
        self.world.block_on(&self.running.as_ref().unwrap().reactor, close).unwrap();
        self.kill();
    }

    /// Waits until all members are in sync.
    pub fn rebuild(&self) {
        let shared = self.core().shared().clone();
        self.world.run_until(|| shared.states.all_in_sync()).unwrap();
    }

    /// Waits until everything acknowledged is in its place.
    pub fn settle(&self) {
        let core = self.core().clone();
        self.world.run_until(|| core.under_way.get() == 0).unwrap();
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        self.kill();
    }
}

async fn members(ring: &Ring, places: Vec<PathBuf>, make: Option<u64>) -> (Vec<Member>, Vec<File>) {
    let (mut members, mut locks) = (Vec::new(), Vec::new());
    for place in places {
        if let Ok((member, lock)) = Member::open(ring, Place::Path(place), make, None).await {
            members.push(member);
            locks.extend(lock);
        }
    }
    (members, locks)
}
