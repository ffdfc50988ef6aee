//! A machine with the members of a pool on its disks, and the pool when it runs.

use std::cell::Cell;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use plane::pool::format::{Geometry, Id, VolumeEntry};
use plane::pool::layout::{Slots, members};
use plane::pool::{
    Handle, Member, MemberLocks, MemberPlan, MemberState, Place, Pool, PoolDisk, PoolError, PoolOptions,
    PoolPlan, Shared, assemble,
};
use plane::volume::{Backing, Limits, VolumeOptions};
use ring::sim::{Node, Settings, World};
use ring::{Reactor, Ring};

use super::plan::Plan;
use super::roster::{Files, Roster, path};
use crate::Failure;

const NAME: &str = "tank";

/// How the names of volumes begin that nobody uses: they take what is between the others.
const ROOM: &str = "room";

fn is_room(name: &str) -> bool {
    name.starts_with(ROOM)
}

/// How a process ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cut {
    /// The power goes.
    Power,
    /// `kill -9`.
    Kill,
}

/// A pool that is served.
struct Running {
    shared: Arc<Shared>,
    /// Of each core, its disks: one for each volume.
    disks: Vec<Vec<Rc<PoolDisk>>>,
    locks: Rc<MemberLocks>,
    reactors: Vec<Reactor>,
}

/// The machine.
pub struct Machine {
    pub world: World,
    pub node: Node,
    pub plan: Plan,
    /// Who is who.
    pub roster: Rc<Roster>,
    /// Those that requests go to.
    pub volumes: Vec<VolumeEntry>,
    /// All that a configuration names.
    wanted: Vec<VolumeOptions>,
    running: Option<Running>,
}

impl Machine {
    /// A pool that was just made, and is not served yet.
    pub fn new(seed: u64, plan: Plan, settings: Settings) -> Result<Machine, Failure> {
        let world = World::with_settings(seed, settings);
        let node = world.node("machine");
        let reactor = node.reactor();
        let (ring, drawn) = (reactor.ring().clone(), plan.clone());
        let made = world.block_on(&reactor, async move { make(&ring, &drawn).await })?;
        let (geometry, volumes) = made.map_err(|error| Failure::of(&error))?;
        drop(reactor);
        node.kill();
        let roster = Rc::new(Roster::new(node.clone(), geometry, plan.files()));
        let wanted =
            volumes.iter().map(|entry| wanted(&entry.name, entry.id[0], entry.bytes, entry.block_size));
        let wanted = wanted.collect();
        Ok(Machine { world, node, plan, roster, volumes, wanted, running: None })
    }

    /// From the next start on there is a volume of so many rows more, which begins at row `first`, behind all others.
    pub fn want_volume(&mut self, first: u64, rows: u64, block_size: u32) {
        let end = self
            .volumes
            .iter()
            .flat_map(|volume| &volume.extents)
            .map(|extent| extent.first_row + extent.rows);
        let (row_bytes, room) = (self.geometry().row_bytes(), first - end.max().unwrap_or(0));
        self.want_room(room * row_bytes);
        self.want_further_volume(rows * row_bytes, block_size);
    }

    /// From the next start on so many bytes are somebody else's.
    pub fn want_room(&mut self, bytes: u64) {
        if bytes > 0 {
            let id = self.wanted.len() as u8;
            self.wanted.push(wanted(&format!("{ROOM} {id}"), id + 0x80, bytes, 4096));
        }
    }

    /// From the next start on there is a volume of so many bytes more.
    pub fn want_further_volume(&mut self, bytes: u64, block_size: u32) {
        let (name, id) = (format!("volume {}", self.volumes.len()), self.wanted.len() as u8 + 1);
        self.wanted.push(wanted(&name, id, bytes, block_size));
    }

    /// How many volumes a configuration names that requests go to.
    pub fn volumes_wanted(&self) -> usize {
        self.wanted.iter().filter(|volume| !is_room(&volume.name)).count()
    }

    /// Where everything is on members.
    pub fn geometry(&self) -> Geometry {
        self.roster.geometry()
    }

    /// Serves the pool. The power goes at the end of `patience`, if that is given: then it is false.
    pub fn start(&mut self, patience: Option<Duration>) -> Result<bool, Failure> {
        let begin = self.world.now();
        let mut outcome = self.try_start(patience)?;
        if matches!(&outcome, Some(Err(PoolError::Refused { why, .. })) if why.contains("used without the other"))
        {
            // An operator leaves out what was replaced: nobody can tell any more that it is only old.
            let others = self.roster.others().into_iter().fold(0, |files, file| files | 1 << file);
            self.roster.absent.set(self.roster.absent.get() | others);
            outcome = self.try_start(patience)?;
        }
        match outcome {
            None => Ok(false),
            Some(Err(error)) => Err(Failure(format!("the pool cannot be opened: {error}"))),
            Some(Ok(())) => {
                let took = self.world.now().since(begin);
                if took > Duration::from_secs(120) {
                    return Err(Failure(format!("opening the pool took {took:?}")));
                }
                Ok(true)
            }
        }
    }

    /// What a configuration names: those that are not given are looked for where nothing is.
    fn pool_plan(&self) -> PoolPlan {
        let absent = self.roster.absent.get();
        let file = |file: usize| {
            let place = if absent >> file & 1 == 1 { PathBuf::from("/away") } else { path(file) };
            MemberPlan { place: Place::Path(place), create_bytes: None, spinning: None }
        };
        let slots = usize::from(self.geometry().slots);
        let seats: Vec<usize> = (0..slots).map(|slot| self.roster.seat(slot)).collect();
        let rest = (0..self.roster.files()).filter(|file| !seats.contains(file));
        let spares = if self.plan.is_redundant() { rest.map(file).collect() } else { Vec::new() };
        PoolPlan {
            name: NAME.into(),
            level: self.plan.level,
            unit: self.plan.unit,
            integrity: true,
            members: seats.iter().map(|seat| file(*seat)).collect(),
            spares,
        }
    }

    fn try_start(&mut self, patience: Option<Duration>) -> Result<Option<Result<(), PoolError>>, Failure> {
        let reactors: Vec<Reactor> = (0..self.plan.cores).map(|_| self.node.reactor()).collect();
        let rings: Vec<Ring> = reactors.iter().map(|reactor| reactor.ring().clone()).collect();
        let (plan, volumes) = (self.pool_plan(), self.wanted.clone());
        let opened = Rc::new(Cell::new(None));
        let store = opened.clone();
        reactors[0].ring().spawn_later(async move { store.set(Some(open(rings, plan, volumes).await)) });
        let end = patience.map(|patience| self.world.now() + patience);
        let (world, mut outcome) = (self.world.clone(), None);
        self.world.run_until(|| {
            outcome = opened.take();
            outcome.is_some() || end.is_some_and(|end| world.now() >= end)
        })?;
        let outcome = match outcome {
            None => {
                self.running = None;
                self.node.power_cut();
                None
            }
            Some(Err(error)) => {
                self.node.kill();
                Some(Err(error))
            }
            Some(Ok((shared, disks, locks, volumes))) => {
                self.volumes = volumes;
                self.running = Some(Running { shared, disks, locks, reactors });
                Some(Ok(()))
            }
        };
        self.roster.refresh();
        Ok(outcome)
    }

    /// A core's way to a volume.
    pub fn disk(&self, core: usize, volume: usize) -> Rc<PoolDisk> {
        self.running().disks[core][volume].clone()
    }

    fn running(&self) -> &Running {
        self.running.as_ref().expect("it is served")
    }

    /// A core.
    pub fn reactor(&self, core: usize) -> &Reactor {
        &self.running().reactors[core]
    }

    /// What an administrator has of it.
    pub fn handle(&self) -> Handle {
        Handle::new(self.running().shared.clone())
    }

    /// What keeps members from other processes.
    pub fn locks(&self) -> Rc<MemberLocks> {
        self.running().locks.clone()
    }

    /// Its identity.
    pub fn id(&self) -> Option<Id> {
        self.roster.label_now().map(|label| label.pool)
    }

    /// Ends the process.
    pub fn cut(&mut self, cut: Cut) {
        match cut {
            Cut::Power => self.node.power_cut(),
            Cut::Kill => self.node.kill(),
        }
        self.running = None;
        self.roster.refresh();
    }

    /// Ends the process in good order.
    pub fn stop(&mut self) -> Result<(), Failure> {
        let running = self.running();
        let (shared, ring) = (running.shared.clone(), running.reactors[0].ring().clone());
        self.world.block_on(&running.reactors[0], async move { Pool::close(&shared, &ring).await })?;
        self.cut(Cut::Kill);
        Ok(())
    }

    /// The slots of which the labels, or the pool that runs, say that they are not in sync.
    pub fn not_in_sync(&self) -> Slots {
        let unsaid = self.running.as_ref().map_or(0, |running| {
            let status = Handle::new(running.shared.clone()).status();
            let members = status.members.iter().enumerate();
            let unsaid = members.filter(|(_, member)| member.state != MemberState::InSync);
            unsaid.fold(0, |slots, (slot, _)| slots | 1 << slot)
        });
        unsaid | self.roster.labelled_out()
    }

    /// What ails files that are still there ends; what was done stays.
    pub fn repair(&mut self) {
        self.roster.mute.set(0);
        for file in 0..self.roster.files() {
            let path = path(file);
            self.node.repair(&path);
            self.node.release(&path);
            self.node.attach(&path);
            self.node.slow_down(&path, 1);
        }
    }

    /// Files that were put by come back.
    pub fn bring_back(&mut self, random: &mut fastrand::Rng) {
        let absent = self.roster.absent.get();
        let back: Files = members(absent).filter(|_| random.bool()).fold(0, |back, file| back | 1 << file);
        self.roster.absent.set(absent & !back);
        self.roster.refresh();
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.cut(Cut::Kill);
    }
}

async fn make(ring: &Ring, plan: &Plan) -> Result<(Geometry, Vec<VolumeEntry>), PoolError> {
    let (mut opened, mut locks) = (Vec::new(), Vec::new());
    for (file, bytes) in plan.sizes.iter().enumerate() {
        let (member, lock) = Member::open(ring, Place::Path(path(file)), Some(*bytes), None).await?;
        opened.push(member);
        locks.extend(lock);
    }
    // The rest are blank, and wait to be spares.
    opened.truncate(plan.slots);
    let options = PoolOptions {
        name: NAME.into(),
        level: plan.level,
        unit: plan.unit,
        integrity: true,
        catalogue_blocks: 1,
        journal_bytes: Some(1 << 20),
    };
    let pool = Pool::make(ring, &options, opened, 1).await?;
    let geometry = *pool.shared().geometry;
    for (index, (rows, block_size)) in plan.volumes.iter().enumerate() {
        let (name, bytes) = (format!("volume {index}"), rows * geometry.row_bytes());
        pool.add_volume(ring, [index as u8 + 1; 16], &name, bytes, *block_size).await?;
    }
    Ok((geometry, pool.volumes().to_vec()))
}

fn wanted(name: &str, id: u8, bytes: u64, block_size: u32) -> VolumeOptions {
    let backing = Backing::Pool(NAME.into());
    let limits = Limits::default();
    VolumeOptions {
        name: name.into(),
        id: [id; 16],
        bytes,
        block_size,
        backing,
        limits,
        may_grow: false,
        faults: None,
    }
}

type Opened = (Arc<Shared>, Vec<Vec<Rc<PoolDisk>>>, Rc<MemberLocks>, Vec<VolumeEntry>);

async fn open(rings: Vec<Ring>, plan: PoolPlan, volumes: Vec<VolumeOptions>) -> Result<Opened, PoolError> {
    let (assembled, locks) = assemble(&rings[0], &plan, rings.len()).await?;
    let mut entries = Vec::new();
    for volume in &volumes {
        let entry = assembled.volume(&rings[0], volume).await?;
        if !is_room(&volume.name) {
            entries.push(entry);
        }
    }
    let pool = assembled.pool();
    let mut disks = Vec::new();
    for (index, ring) in rings.iter().enumerate() {
        let core = pool.core(index, ring)?;
        if index == 0 {
            pool.keep(&core);
        }
        disks.push(entries.iter().map(|entry| Rc::new(PoolDisk::new(core.clone(), entry))).collect());
    }
    Ok((pool.shared().clone(), disks, Rc::new(locks), entries))
}
