//! A machine with the members of a pool on its disks, and the pool when it runs.

use std::cell::Cell;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use plane::pool::format::{End, Geometry, Id, Label, Slot, SlotState, VolumeEntry};
use plane::pool::layout::Slots;
use plane::pool::{Handle, Member, MemberState, Place, Pool, PoolDisk, PoolError, PoolOptions, Shared};
use ring::sim::{Fault, Node, Settings, World};
use ring::{File, Reactor, Ring};

use super::plan::Plan;
use crate::Failure;

const BLOCK: usize = 4096;

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
    _locks: Vec<File>,
    reactors: Vec<Reactor>,
}

/// The machine.
pub struct Machine {
    pub world: World,
    pub node: Node,
    pub plan: Plan,
    /// As the pool was made.
    pub geometry: Geometry,
    pub volumes: Vec<VolumeEntry>,
    /// Members that are not given to the pool.
    pub absent: Slots,
    /// Members that do not answer.
    pub mute: Slots,
    running: Option<Running>,
}

impl Machine {
    /// A pool that was just made, and is not served yet.
    pub fn new(seed: u64, plan: Plan, settings: Settings) -> Result<Machine, Failure> {
        let world = World::with_settings(seed, settings);
        let node = world.node("machine");
        let reactor = node.reactor();
        let (ring, drawn) = (reactor.ring().clone(), plan.clone());
        let paths: Vec<PathBuf> = (0..plan.slots).map(path).collect();
        let made = world.block_on(&reactor, async move {
            let (members, locks) = open_members(&ring, paths, Some(drawn.member_bytes)).await;
            let options = PoolOptions {
                name: "tank".into(),
                level: drawn.level,
                unit: drawn.unit,
                integrity: true,
                catalogue_blocks: 1,
                journal_bytes: Some(1 << 20),
            };
            let mut pool = Pool::make(&ring, &options, members, 1).await?;
            let geometry = *pool.shared().geometry;
            for (index, (rows, block_size)) in drawn.volumes.iter().enumerate() {
                let name = format!("volume {index}");
                let bytes = rows * geometry.row_bytes();
                pool.add_volume(&ring, [index as u8 + 1; 16], &name, bytes, *block_size).await?;
            }
            Ok::<_, PoolError>((geometry, pool.volumes().to_vec(), locks))
        })?;
        let (geometry, volumes, locks) = made.map_err(|error| Failure::of(&error))?;
        drop((locks, reactor));
        node.kill();
        Ok(Machine { world, node, plan, geometry, volumes, absent: 0, mute: 0, running: None })
    }

    /// Serves the pool. The power goes at the end of `patience`, if that is given: then it is false.
    pub fn start(&mut self, patience: Option<Duration>) -> Result<bool, Failure> {
        let begin = self.world.now();
        let outcome = self.try_start(patience)?;
        let outcome = match outcome {
            // An operator leaves out what the pool cannot make sense of.
            Some(Err(PoolError::Refused { .. })) if self.unlabelled() != 0 => {
                self.absent |= self.unlabelled();
                self.try_start(patience)?
            }
            outcome => outcome,
        };
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

    fn try_start(&mut self, patience: Option<Duration>) -> Result<Option<Result<(), PoolError>>, Failure> {
        let reactors: Vec<Reactor> = (0..self.plan.cores).map(|_| self.node.reactor()).collect();
        let rings: Vec<Ring> = reactors.iter().map(|reactor| reactor.ring().clone()).collect();
        let slots = (0..self.plan.slots).filter(|slot| self.absent & 1 << slot == 0);
        let paths: Vec<PathBuf> = slots.map(path).collect();
        let opened = Rc::new(Cell::new(None));
        let store = opened.clone();
        reactors[0].ring().spawn_later(async move { store.set(Some(open(rings, paths).await)) });
        let end = patience.map(|patience| self.world.now() + patience);
        let (world, mut outcome) = (self.world.clone(), None);
        self.world.run_until(|| {
            outcome = opened.take();
            outcome.is_some() || end.is_some_and(|end| world.now() >= end)
        })?;
        match outcome {
            None => {
                self.running = None;
                self.node.power_cut();
                drop(reactors);
                Ok(None)
            }
            Some(Err(error)) => {
                self.node.kill();
                drop(reactors);
                Ok(Some(Err(error)))
            }
            Some(Ok((shared, disks, locks))) => {
                self.running = Some(Running { shared, disks, _locks: locks, reactors });
                Ok(Some(Ok(())))
            }
        }
    }

    /// A core's way to a volume.
    pub fn disk(&self, core: usize, volume: usize) -> Rc<PoolDisk> {
        self.running.as_ref().expect("it is served").disks[core][volume].clone()
    }

    /// A core.
    pub fn reactor(&self, core: usize) -> &Reactor {
        &self.running.as_ref().expect("it is served").reactors[core]
    }

    /// What an administrator has of it.
    pub fn handle(&self) -> Handle {
        Handle::new(self.running.as_ref().expect("it is served").shared.clone())
    }

    /// Its identity.
    pub fn id(&self) -> Option<Id> {
        (0..self.plan.slots).find_map(|slot| self.label(slot)).map(|label| label.pool)
    }

    /// Ends the process.
    pub fn cut(&mut self, cut: Cut) {
        match cut {
            Cut::Power => self.node.power_cut(),
            Cut::Kill => self.node.kill(),
        }
        self.running = None;
    }

    /// Ends the process in good order.
    pub fn stop(&mut self) -> Result<(), Failure> {
        let running = self.running.as_ref().expect("it is served");
        let (shared, ring) = (running.shared.clone(), running.reactors[0].ring().clone());
        self.world.block_on(&running.reactors[0], async move { Pool::close(&shared, &ring).await })?;
        self.cut(Cut::Kill);
        Ok(())
    }

    /// The newest label of a member that is there.
    fn label(&self, slot: usize) -> Option<Label> {
        let read = |place| self.node.file_bytes(&path(slot), place, BLOCK);
        let places = End::BOTH.map(|end| self.geometry.label_place(end));
        let labels = places.into_iter().filter_map(|place| Label::decode(&read(place)?).ok());
        labels.max_by_key(|label| label.generation)
    }

    /// Members that are there and have no label any more that can be read.
    fn unlabelled(&self) -> Slots {
        let there = (0..self.plan.slots).filter(|slot| self.absent & 1 << slot == 0);
        let lost = |slot: &usize| {
            let lies = self.node.planted(&path(*slot)).into_iter().any(|plant| {
                let hits = |end| {
                    let place = self.geometry.label_place(end);
                    plant.range.start < place + BLOCK as u64 && place < plant.range.end
                };
                plant.fault == Fault::Misread && End::BOTH.into_iter().any(hits)
            });
            lies || self.label(*slot).is_none()
        };
        there.filter(lost).fold(0, |slots, slot| slots | 1 << slot)
    }

    /// The slots of which the labels, or the pool that runs, say that they are not in sync.
    pub fn not_in_sync(&self) -> Slots {
        let unsaid = self.running.as_ref().map_or(0, |running| {
            let status = Handle::new(running.shared.clone()).status();
            let members = status.members.iter().enumerate();
            let unsaid = members.filter(|(_, member)| member.state != MemberState::InSync);
            unsaid.fold(0, |slots, (slot, _)| slots | 1 << slot)
        });
        unsaid | self.labelled_out()
    }

    fn labelled_out(&self) -> Slots {
        let newest =
            (0..self.plan.slots).filter_map(|slot| self.label(slot)).max_by_key(|label| label.generation);
        let slots: Vec<Slot> = newest.map_or_else(Vec::new, |label| label.slots);
        let out = slots.iter().enumerate().filter(|(_, slot)| slot.state != SlotState::InSync);
        out.fold(0, |out, (slot, _)| out | 1 << slot)
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.cut(Cut::Kill);
    }
}

/// Where a slot's member is.
pub fn path(slot: usize) -> PathBuf {
    PathBuf::from(format!("/m{slot}"))
}

type Opened = (Arc<Shared>, Vec<Vec<Rc<PoolDisk>>>, Vec<File>);

async fn open(rings: Vec<Ring>, paths: Vec<PathBuf>) -> Result<Opened, PoolError> {
    let (members, locks) = open_members(&rings[0], paths, None).await;
    let pool = Pool::open(&rings[0], "tank", members, rings.len()).await?;
    let mut disks = Vec::new();
    for (index, ring) in rings.iter().enumerate() {
        let core = pool.core(index, ring)?;
        if index == 0 {
            pool.keep(&core);
        }
        disks.push(pool.volumes().iter().map(|entry| Rc::new(PoolDisk::new(core.clone(), entry))).collect());
    }
    Ok((pool.shared().clone(), disks, locks))
}

async fn open_members(ring: &Ring, paths: Vec<PathBuf>, make: Option<u64>) -> (Vec<Member>, Vec<File>) {
    let (mut members, mut locks) = (Vec::new(), Vec::new());
    for path in paths {
        // One that cannot be opened is not there.
        if let Ok((member, lock)) = Member::open(ring, Place::Path(path), make, None).await {
            members.push(member);
            locks.extend(lock);
        }
    }
    (members, locks)
}
