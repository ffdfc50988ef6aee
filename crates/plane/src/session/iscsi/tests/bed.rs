//! A node of two cores in a simulated world, and the machine of those who use it.

use std::cell::Cell;
use std::future::Future;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ring::sim::{self, Settings, World};
use ring::{Buffer, Options, Ring, in_use};
use wire::iscsi::IscsiName;

use super::peer::{Joining, Peer};
use crate::core::{Core, Offer, Plan, Portals, prepare};
use crate::live::{Crowd, User, crowd, users};
use crate::log::gathered::Logs;
use crate::request::Request;
use crate::session::iscsi::login::Authentication;
use crate::session::iscsi::{IscsiOptions, Session};
use crate::session::notice::{Notice, Notices};
use crate::shard::Peers;
use crate::volume::{Backing, Limits, VolumeOptions};

pub const TARGET: &str = "iqn.2026-11.internal.fels:demo";
pub const OTHER_TARGET: &str = "iqn.2026-11.internal.fels:other";
/// Bytes of a block, and blocks of the volume.
pub const BLOCK: usize = 512;
pub const BLOCKS: u64 = 32 << 11;
const FILE: &str = "/volume";
/// Everything that has a deadline of its own has reached it after so long.
const LONG: Duration = Duration::from_secs(120);

/// What a test is played on.
pub struct Stage {
    /// Each is another world: other latencies, other cuts, another order of turns.
    pub seeds: Range<u64>,
    pub settings: Settings,
    pub options: IscsiOptions,
    /// Of each core.
    pub receive_buffers: u16,
    pub file: bool,
    /// What the volume may do.
    pub limits: Limits,
}

impl Stage {
    /// A node with a volume in RAM that never pings; two worlds, or as many as the environment's `SEEDS` says.
    pub fn new() -> Stage {
        let seeds = std::env::var("SEEDS").map_or(2, |seeds| seeds.parse().expect("SEEDS is a number"));
        let never = Duration::from_secs(3600);
        Stage {
            seeds: 0..seeds,
            settings: Settings::default(),
            options: IscsiOptions { nop_interval: never, nop_timeout: never },
            receive_buffers: Options::default().receive_buffers,
            file: false,
            limits: Limits::default(),
        }
    }

    /// A volume in a file, whose disk can be made to stand still.
    pub fn with_file() -> Stage {
        Stage { file: true, ..Stage::new() }
    }

    /// Plays `test` in one world after the other. At its end nothing of what it did may be left in the node: no
    /// session, no connection, no buffer.
    pub fn play<F: Future<Output = ()> + 'static>(self, test: impl Fn(Bed) -> F) {
        for seed in self.seeds.clone() {
            println!("seed {seed}");
            self.play_once(seed, &test);
        }
    }

    fn play_once<F: Future<Output = ()> + 'static>(&self, seed: u64, test: impl Fn(Bed) -> F) {
        crate::log::begin();
        let logs = Logs::default();
        let _gathering = logs.gather();
        let world = World::with_settings(seed, self.settings.clone());
        let (node, clients) = (world.node("target"), world.node("initiators"));
        let options = Options { receive_buffers: self.receive_buffers, ..Options::default() };
        let reactors = [node.reactor_with(&options), node.reactor_with(&options)];
        let ring = reactors[0].ring().clone();
        let plan = plan(self.file, self.limits, self.options);
        let (prepared, locks) =
            world.block_on(&reactors[0], async move { prepare(&ring, plan).await.unwrap() }).unwrap();
        let (peers, mails) = Peers::new(reactors.len());
        let core = |(index, mail)| {
            let reactor: &ring::Reactor = &reactors[index];
            Core::new(index, reactor.ring(), peers.clone(), mail, &prepared).unwrap()
        };
        let cores: Rc<Vec<Core>> = Rc::new(mails.into_iter().enumerate().map(core).collect());
        let portals = Portals { iscsi: vec![node.at(3260)], ..Portals::default() };
        let portal = cores[0].listen(&portals).unwrap().iscsi[0];
        let client = clients.reactor();
        let bed = Bed {
            world: world.clone(),
            node,
            clients,
            ring: client.ring().clone(),
            cores: cores.clone(),
            portal,
            turn: Rc::new(Cell::new(0)),
            logs: logs.clone(),
        };
        let played = test(bed.clone());
        world.block_on(&client, played).unwrap_or_else(|stall| panic!("{stall}\n{}", logs.all()));
        bed.node.release(Path::new(FILE));
        world.run_for(LONG).unwrap();
        for core in cores.iter() {
            assert_eq!(core.iscsi.sessions().len(), 0, "sessions are left: {}", logs.all());
            assert_eq!(core.iscsi.connection_count(), 0, "connections are left: {}", logs.all());
        }
        assert!(prepared.iscsi.registry.is_empty(), "a session is left in the registry: {}", logs.all());
        assert_eq!(in_use(), 0, "bytes of buffers are left");
        cores.iter().for_each(|core| core.shard.dismantle());
        drop((bed, cores, client, reactors, locks));
        assert!(world.is_empty(), "descriptors are left");
    }
}

fn plan(file: bool, limits: Limits, iscsi: IscsiOptions) -> Plan {
    let volume = |name: &str, id| VolumeOptions {
        name: name.into(),
        id: [id; 16],
        bytes: BLOCKS * BLOCK as u64,
        block_size: BLOCK as u32,
        backing: if file && id == 1 { Backing::File(PathBuf::from(FILE)) } else { Backing::Memory },
        limits: if id == 1 { limits } else { Limits::default() },
        may_grow: false,
        faults: None,
    };
    let offer = |target: &str, volume| Offer {
        volume,
        target_name: IscsiName::parse(target).unwrap(),
        alias: None,
        authentication: Authentication::None,
        initiators: Vec::new(),
        nbd: false,
        subsystem: None,
        nsid: None,
        hosts: Vec::new(),
    };
    Plan {
        shards: 1,
        pools: Vec::new(),
        offers: vec![offer(TARGET, volume("demo", 1)), offer(OTHER_TARGET, volume("other", 2))],
        discovery: Authentication::None,
        iscsi,
    }
}

/// Who is there, and what was done.
pub struct Visitors {
    pub users: Vec<User>,
    pub crowd: Crowd,
}

/// The node and the machine of the initiators, as a test sees them.
#[derive(Clone)]
pub struct Bed {
    pub world: World,
    pub node: sim::Node,
    pub clients: sim::Node,
    /// The reactor of the initiators.
    pub ring: Ring,
    pub cores: Rc<Vec<Core>>,
    pub portal: SocketAddr,
    /// Connections so far: the node spreads them over its cores in turn.
    turn: Rc<Cell<usize>>,
    pub logs: Logs,
}

impl Bed {
    /// A connection that has not logged in; it comes to the other core than the one before.
    pub async fn connect(&self) -> Peer {
        self.turn.set(self.turn.get() + 1);
        Peer::connect(self).await
    }

    /// A connection that comes to this core.
    pub async fn connect_to(&self, core: usize) -> Peer {
        while (self.turn.get() + 1) % self.cores.len() != core {
            self.connect().await;
        }
        self.connect().await
    }

    /// A session with these keys besides the usual ones, which has been told that it is new.
    pub async fn log_in(&self, keys: &str) -> Peer {
        self.log_in_as(1, keys).await
    }

    /// The same with another ISID.
    pub async fn log_in_as(&self, isid: u16, keys: &str) -> Peer {
        let peer = self.connect().await;
        peer.log_in(Joining { isid, keys, ..Joining::default() }).await.unwrap();
        peer.take_attention(0x29).await;
        peer
    }

    /// Lets simulated time pass.
    pub async fn pass(&self, span: Duration) {
        self.ring.sleep(span).await;
    }

    /// Lets what is under way come to where it has to wait.
    pub async fn settle(&self) {
        self.pass(Duration::from_millis(20)).await;
    }

    /// Operations on the volume's file do not end until [`Bed::release`].
    pub fn stall(&self) {
        self.node.stall(Path::new(FILE));
    }

    pub fn release(&self) {
        self.node.release(Path::new(FILE));
    }

    /// What is on the volume, asked of the node itself.
    pub async fn on_volume(&self, lba: u64, blocks: usize) -> Vec<u8> {
        let channel = self.cores[0].shard.volume(0);
        let done = Rc::new(Cell::new(None));
        let store = done.clone();
        self.cores[0].shard.ring().spawn_later(async move {
            let buffer = Buffer::new(blocks * BLOCK);
            let completion = channel.submit(Request::read(lba * BLOCK as u64, buffer)).await;
            completion.result.unwrap();
            store.set(Some(completion.buffer.to_vec()));
        });
        loop {
            if let Some(bytes) = done.take() {
                return bytes;
            }
            self.pass(Duration::from_millis(1)).await;
        }
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

    /// The session with this handle, and its core.
    pub fn session(&self, tsih: u16) -> Option<(usize, Rc<Session>)> {
        let on = |(index, core): (usize, &Core)| Some((index, core.iscsi.session(tsih)?));
        self.cores.iter().enumerate().find_map(on)
    }

    /// How many sessions the node has.
    pub fn session_count(&self) -> usize {
        self.cores.iter().map(|core| core.iscsi.sessions().len()).sum()
    }
}

/// Plays `test` on the usual stage.
pub fn play<F: Future<Output = ()> + 'static>(test: impl Fn(Bed) -> F) {
    Stage::new().play(test);
}

/// Plays `test` with a volume in a file.
pub fn play_with_file<F: Future<Output = ()> + 'static>(test: impl Fn(Bed) -> F) {
    Stage::with_file().play(test);
}
