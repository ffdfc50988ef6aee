//! A simulated node of Fels: the product's own assembly, with a reactor for each shard instead of a thread.

use std::cell::Cell;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use plane::Request;
use plane::core::{Core, Offer, Plan, Portals, close_pools, drain, prepare};
use plane::live::Live;
use plane::pool::{Handle, Level, MemberPlan, MemberState, Place, PoolCores, PoolPlan};
use plane::session::iscsi::IscsiOptions;
use plane::session::iscsi::login::Authentication;
use plane::shard::{Peers, Shard};
use plane::volume::{Backing, Limits, VolumeOptions};
use ring::sim::{Node, World};
use ring::{Options, Reactor};
use wire::iscsi::IscsiName;

use crate::Failure;
use crate::transport::Transport;

/// How long initiators get to log out by themselves when the node stops.
const GRACE: Duration = Duration::from_secs(1);

/// The name of the pool of a node.
const POOL: &str = "tank";

/// Bytes of a member of that.
const MEMBER_BYTES: u64 = 4 << 20;

/// How the members of a node's pool are arranged.
#[derive(Clone, Copy, Debug)]
pub struct PoolShape {
    /// The level.
    pub level: Level,
    /// Their number.
    pub members: usize,
    /// Bytes of a unit.
    pub unit: u32,
}

/// Where a member of the pool is on the simulated disk.
pub fn member_path(member: usize) -> PathBuf {
    PathBuf::from(format!("/members/{member}"))
}

impl PoolShape {
    /// What makes or opens it.
    pub fn plan(self) -> PoolPlan {
        let member = |member| MemberPlan {
            place: Place::Path(member_path(member)),
            create_bytes: Some(MEMBER_BYTES),
            spinning: None,
        };
        PoolPlan {
            name: POOL.into(),
            level: self.level,
            unit: self.unit,
            integrity: true,
            members: (0..self.members).map(member).collect(),
            spares: Vec::new(),
        }
    }
}

/// A volume on a file of the simulated disk, on a pool, or in RAM; offered over every transport.
#[derive(Clone, Debug)]
pub struct VolumePlan {
    /// Its name, and that of its file.
    pub name: String,
    /// Bytes.
    pub bytes: u64,
    /// 512 or 4096.
    pub block_size: u32,
    /// It lives as long as the process.
    pub in_memory: bool,
    /// It lives on the pool of the node, which is so.
    pub pool: Option<PoolShape>,
    /// The end of the NQN of its NVMe subsystem.
    pub subsystem: String,
}

impl VolumePlan {
    /// A volume called `name` with a subsystem of its own.
    pub fn new(name: &str, bytes: u64, block_size: u32) -> VolumePlan {
        let (name, subsystem) = (name.to_owned(), name.to_owned());
        VolumePlan { name, bytes, block_size, in_memory: false, pool: None, subsystem }
    }

    /// The same in RAM.
    #[must_use]
    pub fn in_memory(self) -> VolumePlan {
        VolumePlan { in_memory: true, ..self }
    }

    /// The same on the pool of the node, if that has one.
    #[must_use]
    pub fn on_pool(self, pool: Option<PoolShape>) -> VolumePlan {
        VolumePlan { pool, ..self }
    }

    /// The same in a subsystem that others may be in too.
    #[must_use]
    pub fn in_subsystem(self, name: &str) -> VolumePlan {
        VolumePlan { subsystem: name.to_owned(), ..self }
    }

    /// Its file on the simulated disk.
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/volumes/{}.img", self.name))
    }

    /// The name of its target.
    pub fn target(&self) -> String {
        format!("iqn.2026-11.internal.fels:{}", self.name)
    }

    /// The name of its subsystem.
    pub fn nqn(&self) -> String {
        format!("nqn.2026-11.internal.fels:{}", self.subsystem)
    }

    fn backing(&self) -> Backing {
        match self.pool {
            Some(_) => Backing::Pool(POOL.into()),
            None if self.in_memory => Backing::Memory,
            None => Backing::File(self.path()),
        }
    }

    /// How it is offered, as the volume of this number.
    pub fn offer(&self, index: usize) -> Offer {
        Offer {
            volume: VolumeOptions {
                name: self.name.clone(),
                id: [index as u8 + 1; 16],
                bytes: self.bytes,
                block_size: self.block_size,
                backing: self.backing(),
                limits: Limits::default(),
                may_grow: false,
                faults: None,
            },
            target_name: IscsiName::accept(&self.target()).expect("a good name"),
            alias: None,
            authentication: Authentication::None,
            initiators: Vec::new(),
            nbd: true,
            subsystem: Some(self.nqn()),
            nsid: None,
            hosts: Vec::new(),
        }
    }
}

/// The process of a node. Reactors go last: what the others hold belongs to them.
struct Running {
    cores: Vec<Core>,
    live: Rc<Live>,
    reactors: Vec<Reactor>,
}

impl Drop for Running {
    fn drop(&mut self) {
        for core in &self.cores {
            core.shard.dismantle();
        }
    }
}

/// A machine that serves volumes; its disks stay while its process comes and goes.
pub struct Server {
    world: World,
    machine: Node,
    shards: usize,
    volumes: Vec<VolumePlan>,
    /// How many each core has.
    pub receive_buffers: u16,
    running: Option<Running>,
}

impl Server {
    /// A machine that is off.
    pub fn new(world: &World, shards: usize, volumes: Vec<VolumePlan>) -> Server {
        let machine = world.node("server");
        let receive_buffers = Options::default().receive_buffers;
        Server { world: world.clone(), machine, shards, volumes, receive_buffers, running: None }
    }

    /// The machine, for accidents.
    pub fn machine(&self) -> &Node {
        &self.machine
    }

    /// What it serves.
    pub fn volumes(&self) -> &[VolumePlan] {
        &self.volumes
    }

    /// Notes a volume that the process is told to serve, so that clients find it.
    pub fn know(&mut self, volume: VolumePlan) {
        self.volumes.push(volume);
    }

    /// Forgets the last one again.
    pub fn forget_last(&mut self) {
        self.volumes.pop();
    }

    /// The namespace that a volume is in its subsystem.
    pub fn nsid(&self, volume: usize) -> u32 {
        let subsystem = &self.volumes[volume].subsystem;
        let before = self.volumes[..volume].iter().filter(|other| other.subsystem == *subsystem);
        before.count() as u32 + 1
    }

    /// Where it listens when it starts.
    pub fn portals(&self) -> Portals {
        let at = |transport: Transport| transport.ports().map(|port| self.machine.at(port)).to_vec();
        Portals {
            iscsi: at(Transport::Iscsi),
            nbd: at(Transport::Nbd),
            nvme: at(Transport::Nvme),
            ..Portals::default()
        }
    }

    /// Starts the process: volumes are prepared, every shard is built, the portals are opened.
    pub fn start(&mut self) -> Result<(), Failure> {
        assert!(self.running.is_none(), "it runs already");
        let options = Options { receive_buffers: self.receive_buffers, ..Options::default() };
        let reactors: Vec<Reactor> = (0..self.shards).map(|_| self.machine.reactor_with(&options)).collect();
        let nop = Duration::from_secs(2);
        let plan = Plan {
            shards: self.shards,
            pools: self.pool().map(PoolShape::plan).into_iter().collect(),
            offers: self.volumes.iter().enumerate().map(|(index, volume)| volume.offer(index)).collect(),
            discovery: Authentication::None,
            iscsi: IscsiOptions { nop_interval: nop, nop_timeout: nop },
        };
        let ring = reactors[0].ring().clone();
        let prepared = self.world.block_on(&reactors[0], async move { prepare(&ring, plan).await })?;
        let (prepared, live) = prepared.map_err(|error| Failure::of(&error))?;
        let (peers, mails) = Peers::new(self.shards);
        let mut cores = Vec::with_capacity(self.shards);
        for (index, (reactor, mail)) in reactors.iter().zip(mails).enumerate() {
            let core = Core::new(index, reactor.ring(), peers.clone(), mail, &prepared);
            cores.push(core.map_err(|error| Failure::of(&error))?);
        }
        cores[0].listen(&self.portals()).map_err(|error| Failure::of(&error))?;
        self.running = Some(Running { cores, live, reactors });
        Ok(())
    }

    /// Does something about what a process that runs serves, and waits for its end.
    pub fn change<T: 'static, F: Future<Output = T> + 'static>(
        &self,
        work: impl FnOnce(Rc<Live>, Rc<Shard>) -> F,
    ) -> Result<T, Failure> {
        let running = self.running.as_ref().expect("it runs");
        let work = work(running.live.clone(), running.cores[0].shard.clone());
        Ok(self.world.block_on(&running.reactors[0], work)?)
    }

    /// The pool that it has.
    pub fn pool(&self) -> Option<PoolShape> {
        self.volumes.iter().find_map(|volume| volume.pool)
    }

    /// Whether the pool could do without a member now: all of them are in sync.
    pub fn is_pool_whole(&self) -> bool {
        let Some(running) = &self.running else { return false };
        let Some(pools) = running.cores[0].shard.service::<PoolCores>() else { return false };
        let status = pools.list().first().map(|pool| Handle::new(pool.shared().clone()).status());
        status.is_some_and(|status| status.members.iter().all(|member| member.state == MemberState::InSync))
    }

    /// Whether the process runs.
    pub fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Ends the process in good order: sessions are drained, volumes made durable.
    pub fn stop(&mut self) -> Result<(), Failure> {
        let Some(running) = self.running.take() else { return Ok(()) };
        let left = Rc::new(Cell::new(running.cores.len()));
        for core in &running.cores {
            let (shard, left) = (core.shard.clone(), left.clone());
            core.shard.ring().spawn_later(async move {
                drain(&shard, GRACE).await;
                left.set(left.get() - 1);
            });
        }
        self.world.run_until(|| left.get() == 0)?;
        let shard = running.cores[0].shard.clone();
        self.world.block_on(&running.reactors[0], async move {
            for channel in shard.volumes() {
                channel.submit(Request::flush()).await.result.map_err(|error| Failure::of(&error))?;
            }
            close_pools(&shard).await.map_err(Failure)
        })?
    }

    /// `kill -9` of the process.
    pub fn kill(&mut self) {
        self.machine.kill();
        self.running = None;
    }

    /// The power goes.
    pub fn power_cut(&mut self) {
        self.machine.power_cut();
        self.running = None;
    }
}
