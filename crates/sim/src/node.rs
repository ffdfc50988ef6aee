//! A simulated node of Fels: the product's own assembly, with a reactor for each shard instead of a thread.

use std::cell::Cell;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use plane::Request;
use plane::core::{Core, Locks, Offer, Plan, Portals, prepare};
use plane::session::iscsi::IscsiOptions;
use plane::session::iscsi::login::Authentication;
use plane::shard::Peers;
use plane::volume::{Backing, VolumeOptions};
use ring::Reactor;
use ring::sim::{Node, World};
use wire::iscsi::IscsiName;

use crate::Failure;

/// How long initiators get to log out by themselves when the node stops.
const GRACE: Duration = Duration::from_secs(1);

/// A volume on a file of the simulated disk.
#[derive(Clone, Debug)]
pub struct VolumePlan {
    /// Its name, and that of its file.
    pub name: String,
    /// Bytes.
    pub bytes: u64,
    /// 512 or 4096.
    pub block_size: u32,
}

impl VolumePlan {
    /// A volume called `name`.
    pub fn new(name: &str, bytes: u64, block_size: u32) -> VolumePlan {
        VolumePlan { name: name.to_owned(), bytes, block_size }
    }

    /// Its file on the simulated disk.
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/volumes/{}.img", self.name))
    }

    /// The name of its target.
    pub fn target(&self) -> String {
        format!("iqn.2026-11.internal.fels:{}", self.name)
    }

    fn offer(&self, index: usize) -> Offer {
        Offer {
            volume: VolumeOptions {
                name: self.name.clone(),
                id: [index as u8 + 1; 16],
                bytes: self.bytes,
                block_size: self.block_size,
                backing: Backing::File(self.path()),
                faults: None,
            },
            target_name: IscsiName::accept(&self.target()).expect("a good name"),
            alias: None,
            authentication: Authentication::None,
            initiators: Vec::new(),
            nbd: false,
            subsystem: None,
            hosts: Vec::new(),
        }
    }
}

/// The process of a node. Reactors go last: what the others hold belongs to them.
struct Running {
    cores: Vec<Core>,
    _locks: Locks,
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
    ports: Vec<u16>,
    running: Option<Running>,
}

impl Server {
    /// A machine that is off. It has a portal on each of `ports`.
    pub fn new(world: &World, shards: usize, volumes: Vec<VolumePlan>, ports: &[u16]) -> Server {
        let machine = world.node("server");
        Server { world: world.clone(), machine, shards, volumes, ports: ports.to_vec(), running: None }
    }

    /// The machine, for accidents.
    pub fn machine(&self) -> &Node {
        &self.machine
    }

    /// What it serves.
    pub fn volumes(&self) -> &[VolumePlan] {
        &self.volumes
    }

    /// Where it listens.
    pub fn ports(&self) -> &[u16] {
        &self.ports
    }

    /// Starts the process: volumes are prepared, every shard is built, the portals are opened.
    pub fn start(&mut self) -> Result<(), Failure> {
        assert!(self.running.is_none(), "it runs already");
        let reactors: Vec<Reactor> = (0..self.shards).map(|_| self.machine.reactor()).collect();
        let nop = Duration::from_secs(2);
        let plan = Plan {
            offers: self.volumes.iter().enumerate().map(|(index, volume)| volume.offer(index)).collect(),
            discovery: Authentication::None,
            iscsi: IscsiOptions { nop_interval: nop, nop_timeout: nop },
        };
        let ring = reactors[0].ring().clone();
        let prepared = self.world.block_on(&reactors[0], async move { prepare(&ring, plan).await })?;
        let (prepared, locks) = prepared.map_err(|error| Failure::of(&error))?;
        let (peers, mails) = Peers::new(self.shards);
        let mut cores = Vec::with_capacity(self.shards);
        for (index, (reactor, mail)) in reactors.iter().zip(mails).enumerate() {
            let core = Core::new(index, reactor.ring(), peers.clone(), mail, &prepared);
            cores.push(core.map_err(|error| Failure::of(&error))?);
        }
        let iscsi = self.ports.iter().map(|port| self.machine.at(*port)).collect();
        let portals = Portals { iscsi, ..Portals::default() };
        cores[0].listen(&portals).map_err(|error| Failure::of(&error))?;
        self.running = Some(Running { cores, _locks: locks, reactors });
        Ok(())
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
            let (service, left) = (core.iscsi.clone(), left.clone());
            core.shard.ring().spawn_later(async move {
                service.drain(GRACE).await;
                left.set(left.get() - 1);
            });
        }
        self.world.run_until(|| left.get() == 0)?;
        let shard = running.cores[0].shard.clone();
        let flushed = self.world.block_on(&running.reactors[0], async move {
            for channel in shard.volumes() {
                channel.submit(Request::flush()).await.result?;
            }
            Ok::<(), plane::Error>(())
        })?;
        flushed.map_err(|error| Failure::of(&error))
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
