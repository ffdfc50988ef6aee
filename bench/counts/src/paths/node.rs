//! A node of one core with a volume in RAM, in a simulated world without chance.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use plane::core::{Core, Offer, Plan, Portals, prepare};
use plane::live::Live;
use plane::session::iscsi::IscsiOptions;
use plane::session::iscsi::login::Authentication;
use plane::shard::Peers;
use plane::volume::{Backing, Limits, VolumeOptions};
use ring::Reactor;
use ring::sim::{Outsider, Settings, World};
use wire::iscsi::IscsiName;

use super::BLOCK;

pub const TARGET: &str = "iqn.2026-11.internal.fels:demo";
pub const SUBSYSTEM: &str = "nqn.2026-11.internal.fels:demo";
pub const EXPORT: &str = "demo";

/// A node and the machine of those who use it.
pub struct Node {
    peers: ring::sim::Node,
    /// Of their machine.
    pub peer: Reactor,
    world: World,
    pub portals: Portals,
    /// Let go before the reactor.
    core: Core,
    _live: Rc<Live>,
    _reactor: Reactor,
}

impl Drop for Node {
    fn drop(&mut self) {
        self.core.shard.dismantle();
    }
}

/// Every message takes the same time and comes in one piece, and a turn runs all that can go on.
pub fn world() -> World {
    let always = Duration::from_micros(10)..Duration::from_micros(10);
    let settings = Settings {
        latency: always,
        cut: 0.0,
        window: 16 << 20,
        polls: &[1024],
        lockstep: false,
        ..Settings::default()
    };
    World::with_settings(1, settings)
}

impl Node {
    /// A node that listens for everything.
    pub fn start() -> Node {
        let world = world();
        let (node, peers) = (world.node("node"), world.node("peers"));
        let reactor = node.reactor();
        let ring = reactor.ring().clone();
        let prepared = world.block_on(&reactor, async move { prepare(&ring, plan()).await });
        let (prepared, live) = prepared.expect("nothing stalls").expect("there is memory for the volume");
        let (mailboxes, mut mails) = Peers::new(1);
        let core =
            Core::new(0, reactor.ring(), mailboxes, mails.remove(0), &prepared).expect("the stack is built");
        let portals = Portals {
            iscsi: vec![node.at(3260)],
            nvme: vec![node.at(4420)],
            nbd: vec![node.at(10809)],
            ..Portals::default()
        };
        let portals = core.listen(&portals).expect("the ports are free");
        let peer = peers.reactor();
        Node { peers, peer, world, portals, core, _live: live, _reactor: reactor }
    }

    /// Runs something on the machine of those who use it.
    pub fn run<T: 'static>(&self, future: impl Future<Output = T> + 'static) -> T {
        self.world.block_on(&self.peer, future).expect("nothing stalls")
    }

    /// Runs several things there side by side.
    pub fn run_all(&self, futures: Vec<impl Future<Output = ()> + 'static>) {
        let ended = Rc::new(Cell::new(0));
        let count = futures.len();
        for future in futures {
            let ended = ended.clone();
            self.peer.ring().spawn_later(async move {
                future.await;
                ended.set(ended.get() + 1);
            });
        }
        self.world.run_until(|| ended.get() == count).expect("nothing stalls");
    }

    /// A connection.
    pub fn connect(&self, portals: &[SocketAddr]) -> Outsider {
        self.peers.outsider(portals[0]).expect("the node listens")
    }
}

fn plan() -> Plan {
    let never = Duration::from_secs(3600);
    Plan {
        pools: Vec::new(),
        shards: 1,
        offers: vec![Offer {
            volume: VolumeOptions {
                name: EXPORT.into(),
                id: [1; 16],
                bytes: 16 << 20,
                block_size: BLOCK as u32,
                backing: Backing::Memory,
                limits: Limits::default(),
                may_grow: false,
                faults: None,
            },
            target_name: IscsiName::parse(TARGET).expect("it is a name"),
            alias: None,
            authentication: Authentication::None,
            initiators: Vec::new(),
            nbd: true,
            subsystem: Some(SUBSYSTEM.into()),
            nsid: None,
            hosts: Vec::new(),
        }],
        discovery: Authentication::None,
        iscsi: IscsiOptions { nop_interval: never, nop_timeout: never },
    }
}
