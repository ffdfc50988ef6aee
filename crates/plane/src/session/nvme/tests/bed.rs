//! A node of two cores with one subsystem, and the machine of its hosts.

use std::cell::Cell;
use std::future::Future;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ring::sim::{self, World};
use ring::{Options, Ring, in_use};
use wire::iscsi::IscsiName;

use crate::core::{Core, Offer, Plan, Portals, prepare};
use crate::layers::Faults;
use crate::live::{Crowd, User, crowd, users};
use crate::log::gathered::Logs;
use crate::session::iscsi::IscsiOptions;
use crate::session::iscsi::login::Authentication;
use crate::session::notice::{Notice, Notices};
use crate::session::nvme::Subsystem;
use crate::shard::Peers;
use crate::volume::{Backing, Limits, VolumeOptions};

pub const SUBSYSTEM: &str = "nqn.2026-11.internal.fels:demo";
/// It has two namespaces.
pub const SHARED: &str = "nqn.2026-11.internal.fels:shared";
/// It is for another host.
pub const PRIVATE: &str = "nqn.2026-11.internal.fels:private";
/// A discovery service elsewhere.
pub const REFERRAL: &str = "[2001:db8::7]:8009";
pub const BLOCK: usize = 512;
pub const BLOCKS: u64 = 32 << 11;
const FILE: &str = "/volume";
/// Everything that has a deadline of its own has reached it after so long.
const LONG: Duration = Duration::from_secs(200);

/// Who is there, and what was done.
pub struct Visitors {
    pub users: Vec<User>,
    pub crowd: Crowd,
}

/// The node and the machine of the hosts, as a test sees them.
#[derive(Clone)]
pub struct Bed {
    pub node: sim::Node,
    /// The reactor of the hosts.
    pub ring: Ring,
    pub cores: Rc<Vec<Core>>,
    pub portal: SocketAddr,
    /// Where discovery alone is served.
    pub discovery: SocketAddr,
    /// Faults of the first volume.
    pub faults: Faults,
    /// What the node says.
    pub logs: Logs,
    cut: Rc<Cell<bool>>,
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

    /// Every sync of the volume's file fails.
    pub fn fail_flushes(&self) {
        self.node.fail_flushes(Path::new(FILE));
    }

    /// The node is no more, and its disk has what it has. What it leaves behind is not looked at.
    pub fn power_cut(&self) {
        self.cut.set(true);
        self.node.power_cut();
    }

    /// A block as the volume's file has it.
    pub fn block(&self, lba: u64) -> Vec<u8> {
        self.node.file_bytes(Path::new(FILE), lba * BLOCK as u64, BLOCK).unwrap()
    }

    /// What is offered now.
    pub fn offered(&self) -> Vec<Subsystem> {
        self.cores[0].nvme.node().subsystems().iter().map(|subsystem| (**subsystem).clone()).collect()
    }

    /// Offers something else from now on.
    pub fn offer(&self, subsystems: Vec<Subsystem>) {
        self.cores[0].nvme.offer(subsystems).unwrap();
    }

    /// Who is there and what was done, asked of the node itself.
    pub async fn visitors(&self) -> Visitors {
        let (shard, told) = (self.cores[0].shard.clone(), Rc::new(Cell::new(None)));
        let tell = told.clone();
        shard.ring().clone().spawn_later(async move {
            let (users, crowd) = (users(&shard).await, crowd(&shard).await);
            tell.set(Some(Visitors { users, crowd }));
        });
        loop {
            if let Some(visitors) = told.take() {
                return visitors;
            }
            self.pass(Duration::from_millis(1)).await;
        }
    }

    /// From now on what is noticed is kept there.
    pub fn notices(&self) -> Arc<Mutex<Vec<Notice>>> {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let keep = heard.clone();
        let notices = self.cores[0].shard.service::<Notices>().unwrap();
        notices.listen(move |notice| keep.lock().unwrap().push(notice));
        heard
    }

    /// Controllers that there are.
    pub fn controllers(&self) -> usize {
        self.cores[0].nvme.node().controllers()
    }
}

/// What a test is played on.
#[derive(Clone)]
struct Stage {
    /// Of each core.
    receive_buffers: u16,
    /// Of the first volume.
    backing: Backing,
    /// Whether that has a layer to plant faults in.
    layered: bool,
    limits: Limits,
}

impl Stage {
    /// A volume in RAM.
    fn new() -> Stage {
        let receive_buffers = Options::default().receive_buffers;
        Stage { receive_buffers, backing: Backing::Memory, layered: true, limits: Limits::default() }
    }

    /// Plays `test` in two worlds. At its end nothing of what it did may be left in the node.
    fn play<F: Future<Output = ()> + 'static>(&self, test: &impl Fn(Bed) -> F) {
        (0..2).for_each(|seed| play_once(seed, self.clone(), test));
    }
}

/// Plays `test` in two worlds with a volume in RAM.
pub fn play<F: Future<Output = ()> + 'static>(test: impl Fn(Bed) -> F) {
    Stage::new().play(&test);
}

/// The same with so many receive buffers on each core.
pub fn play_with_receive_buffers<F: Future<Output = ()> + 'static>(count: u16, test: impl Fn(Bed) -> F) {
    Stage { receive_buffers: count, ..Stage::new() }.play(&test);
}

/// The same, and again with a volume that has no layer to plant faults in: what can be done at once is.
pub fn play_layered_and_bare<F: Future<Output = ()> + 'static>(test: impl Fn(Bed) -> F) {
    Stage::new().play(&test);
    Stage { layered: false, ..Stage::new() }.play(&test);
}

/// The same with a volume in a file, whose disk can be made to stand still.
pub fn play_with_file<F: Future<Output = ()> + 'static>(test: impl Fn(Bed) -> F) {
    Stage { backing: Backing::File(PathBuf::from(FILE)), ..Stage::new() }.play(&test);
}

/// The same with a volume in RAM that may do no more than this.
pub fn play_within<F: Future<Output = ()> + 'static>(limits: Limits, test: impl Fn(Bed) -> F) {
    Stage { limits, ..Stage::new() }.play(&test);
}

fn play_once<F: Future<Output = ()> + 'static>(seed: u64, stage: Stage, test: &impl Fn(Bed) -> F) {
    println!("seed {seed}");
    crate::log::begin();
    let logs = Logs::default();
    let _gathering = logs.gather();
    let world = World::new(seed);
    let (node, hosts) = (world.node("target"), world.node("hosts"));
    let Stage { receive_buffers, backing, layered, limits } = stage;
    let options = Options { receive_buffers, ..Options::default() };
    let reactors = [node.reactor_with(&options), node.reactor_with(&options)];
    let ring = reactors[0].ring().clone();
    let faults = Faults::default();
    let plan = plan(backing, layered.then_some(&faults), limits);
    let (prepared, locks) =
        world.block_on(&reactors[0], async move { prepare(&ring, plan).await.unwrap() }).unwrap();
    let (peers, mails) = Peers::new(reactors.len());
    let core = |(index, mail)| {
        let reactor: &ring::Reactor = &reactors[index];
        Core::new(index, reactor.ring(), peers.clone(), mail, &prepared).unwrap()
    };
    let cores: Rc<Vec<Core>> = Rc::new(mails.into_iter().enumerate().map(core).collect());
    let portals = Portals {
        nvme: vec![node.at(4420)],
        nvme_discovery: vec![node.at(8009)],
        nvme_referrals: vec![REFERRAL.parse().unwrap()],
        ..Portals::default()
    };
    let open = cores[0].listen(&portals).unwrap();
    let (portal, discovery) = (open.nvme[0], open.nvme_discovery[0]);
    let host = hosts.reactor();
    let bed = Bed {
        node,
        ring: host.ring().clone(),
        cores: cores.clone(),
        portal,
        discovery,
        faults,
        logs,
        cut: Rc::default(),
    };
    world.block_on(&host, test(bed.clone())).unwrap();
    if bed.cut.get() {
        return;
    }
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

/// The subsystem of each volume, and who may use it.
const OFFERS: [(&str, &[&str]); 4] =
    [(SUBSYSTEM, &[]), (SHARED, &[]), (SHARED, &[]), (PRIVATE, &["nqn.2014-08.com.example:other"])];

fn offer(index: usize, backing: Backing, faults: Option<&Faults>, limits: Limits) -> Offer {
    let (subsystem, hosts) = OFFERS[index];
    let volume = VolumeOptions {
        name: format!("volume{index}"),
        id: [1 + index as u8; 16],
        bytes: BLOCKS * BLOCK as u64,
        block_size: BLOCK as u32,
        backing,
        limits: if index == 0 { limits } else { Limits::default() },
        may_grow: false,
        faults: faults.filter(|_| index == 0).cloned(),
    };
    Offer {
        volume,
        target_name: IscsiName::parse(&format!("iqn.2026-11.internal.fels:volume{index}")).unwrap(),
        alias: None,
        authentication: Authentication::None,
        initiators: Vec::new(),
        nbd: false,
        subsystem: Some(subsystem.into()),
        nsid: None,
        hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
    }
}

/// The volume under test, and small ones in RAM beside it.
fn plan(backing: Backing, faults: Option<&Faults>, limits: Limits) -> Plan {
    let never = Duration::from_secs(3600);
    let mut backing = Some(backing);
    let mut next = |index| offer(index, backing.take().unwrap_or(Backing::Memory), faults, limits);
    Plan {
        shards: 1,
        pools: Vec::new(),
        offers: (0..OFFERS.len()).map(&mut next).collect(),
        discovery: Authentication::None,
        iscsi: IscsiOptions { nop_interval: never, nop_timeout: never },
    }
}
