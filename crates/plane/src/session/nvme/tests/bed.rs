//! A node of two cores with one subsystem, and the machine of its hosts.

use std::future::Future;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use ring::sim::{self, World};
use ring::{Ring, in_use};
use wire::iscsi::IscsiName;

use crate::core::{Core, Offer, Plan, Portals, prepare};
use crate::session::iscsi::IscsiOptions;
use crate::session::iscsi::login::Authentication;
use crate::shard::Peers;
use crate::volume::{Backing, VolumeOptions};

pub const SUBSYSTEM: &str = "nqn.2026-11.internal.fels:demo";
pub const BLOCK: usize = 512;
const BLOCKS: u64 = 32 << 11;
const FILE: &str = "/volume";
/// Everything that has a deadline of its own has reached it after so long.
const LONG: Duration = Duration::from_secs(200);

/// The node and the machine of the hosts, as a test sees them.
#[derive(Clone)]
pub struct Bed {
    pub node: sim::Node,
    /// The reactor of the hosts.
    pub ring: Ring,
    pub cores: Rc<Vec<Core>>,
    pub portal: SocketAddr,
}

impl Bed {
    /// Lets simulated time pass.
    pub async fn pass(&self, span: Duration) {
        self.ring.sleep(span).await;
    }

    /// Operations on the volume's file do not end until [`Bed::release`].
    pub fn stall(&self) {
        self.node.stall(Path::new(FILE));
    }

    pub fn release(&self) {
        self.node.release(Path::new(FILE));
    }

    /// Controllers that there are.
    pub fn controllers(&self) -> usize {
        self.cores[0].nvme.node().controllers()
    }
}

/// Plays `test` in two worlds with a volume in RAM. At its end nothing of what it did may be left in the node.
pub fn play<F: Future<Output = ()> + 'static>(test: impl Fn(Bed) -> F) {
    (0..2).for_each(|seed| play_once(seed, Backing::Memory, &test));
}

/// The same with a volume in a file, whose disk can be made to stand still.
pub fn play_with_file<F: Future<Output = ()> + 'static>(test: impl Fn(Bed) -> F) {
    (0..2).for_each(|seed| play_once(seed, Backing::File(PathBuf::from(FILE)), &test));
}

fn play_once<F: Future<Output = ()> + 'static>(seed: u64, backing: Backing, test: impl Fn(Bed) -> F) {
    println!("seed {seed}");
    let world = World::new(seed);
    let (node, hosts) = (world.node("target"), world.node("hosts"));
    let reactors = [node.reactor(), node.reactor()];
    let ring = reactors[0].ring().clone();
    let plan = plan(backing);
    let (prepared, locks) =
        world.block_on(&reactors[0], async move { prepare(&ring, plan).await.unwrap() }).unwrap();
    let (peers, mails) = Peers::new(reactors.len());
    let core = |(index, mail)| {
        let reactor: &ring::Reactor = &reactors[index];
        Core::new(index, reactor.ring(), peers.clone(), mail, &prepared).unwrap()
    };
    let cores: Rc<Vec<Core>> = Rc::new(mails.into_iter().enumerate().map(core).collect());
    let portals = Portals { nvme: vec![node.at(4420)], ..Portals::default() };
    let portal = cores[0].listen(&portals).unwrap().nvme[0];
    let host = hosts.reactor();
    let bed = Bed { node, ring: host.ring().clone(), cores: cores.clone(), portal };
    world.block_on(&host, test(bed.clone())).unwrap();
    bed.release();
    world.run_for(LONG).unwrap();
    assert_eq!(bed.controllers(), 0, "controllers are left");
    for core in cores.iter() {
        assert!(core.nvme.controllers().is_empty(), "controllers are left on a core");
        assert_eq!(core.nvme.connection_count(), 0, "connections are left");
    }
    assert_eq!(in_use(), 0, "bytes of buffers are left");
    cores.iter().for_each(|core| core.shard.dismantle());
    drop((bed, cores, host, reactors, locks));
    assert!(world.is_empty(), "descriptors are left");
}

fn plan(backing: Backing) -> Plan {
    let volume = VolumeOptions {
        name: "demo".into(),
        id: [1; 16],
        bytes: BLOCKS * BLOCK as u64,
        block_size: BLOCK as u32,
        backing,
        faults: None,
    };
    let never = Duration::from_secs(3600);
    Plan {
        offers: vec![Offer {
            volume,
            target_name: IscsiName::parse("iqn.2026-11.internal.fels:demo").unwrap(),
            alias: None,
            authentication: Authentication::None,
            initiators: Vec::new(),
            nbd: false,
            subsystem: Some(SUBSYSTEM.into()),
            hosts: Vec::new(),
        }],
        discovery: Authentication::None,
        iscsi: IscsiOptions { nop_interval: never, nop_timeout: never },
    }
}
