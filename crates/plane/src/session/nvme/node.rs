//! What all cores of a node share of NVMe: subsystems, controllers, portals.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::limits::CONTROLLERS;

/// A volume as a namespace.
#[derive(Clone, Debug)]
pub struct Namespace {
    /// NSID, from 1 without gaps.
    pub nsid: u32,
    /// The volume's place in [`crate::shard::Shard::volumes`].
    pub volume: usize,
    /// NGUID and UUID.
    pub id: [u8; 16],
}

/// A subsystem: what hosts connect to.
#[derive(Debug)]
pub struct Subsystem {
    /// Its name.
    pub nqn: String,
    /// Its namespaces in the order of their NSIDs.
    pub namespaces: Vec<Namespace>,
    /// The hosts that may connect; none means all.
    pub hosts: Option<Vec<String>>,
    /// Serial number: 20 characters of the first namespace's identity.
    pub serial: String,
}

impl Subsystem {
    /// A subsystem without namespaces. `id`: of its first volume, for the serial number.
    pub fn new(nqn: &str, id: [u8; 16]) -> Subsystem {
        let serial = id.iter().take(10).fold(String::new(), |serial, byte| format!("{serial}{byte:02x}"));
        Subsystem { nqn: nqn.to_owned(), namespaces: Vec::new(), hosts: None, serial }
    }

    /// Adds a volume as the next namespace. `hosts`: who may use it, empty means all; only who may use every volume may
    /// use the subsystem.
    pub fn add(&mut self, volume: usize, id: [u8; 16], hosts: &[String]) {
        if !hosts.is_empty() {
            let admitted = self.hosts.take().unwrap_or_else(|| hosts.to_vec());
            self.hosts = Some(admitted.into_iter().filter(|host| hosts.contains(host)).collect());
        }
        let nsid = self.namespaces.len() as u32 + 1;
        self.namespaces.push(Namespace { nsid, volume, id });
    }

    /// Whether `host` may connect.
    pub fn admits(&self, host: &str) -> bool {
        self.hosts.as_ref().is_none_or(|hosts| hosts.iter().any(|admitted| admitted == host))
    }

    /// The namespace with this NSID.
    pub fn namespace(&self, nsid: u32) -> Option<&Namespace> {
        self.namespaces.get(usize::try_from(nsid).ok()?.checked_sub(1)?)
    }
}

/// What a controller is of.
#[derive(Clone, Debug)]
pub enum Kind {
    /// I/O to the namespaces of a subsystem.
    Io(Arc<Subsystem>),
    /// The discovery service.
    Discovery,
}

/// The part of a controller that its queues on other cores look at.
#[derive(Debug)]
pub struct Link {
    /// CNTLID.
    pub cntlid: u16,
    /// The core of its admin queue.
    pub shard: usize,
    /// What it is of.
    pub kind: Kind,
    /// Host NQN.
    pub host: String,
    /// Host identifier.
    pub host_id: [u8; 16],
    /// CC.EN and CSTS.RDY.
    pub ready: AtomicBool,
    /// The volatile write cache is switched on (feature 06h).
    pub write_cache: AtomicBool,
    /// A command has come since the keep alive timer last looked.
    pub traffic: AtomicBool,
}

impl Link {
    /// Notes that a command has come.
    pub fn note_traffic(&self) {
        if !self.traffic.load(Ordering::Relaxed) {
            self.traffic.store(true, Ordering::Relaxed);
        }
    }
}

#[derive(Default)]
struct Controllers {
    by_id: HashMap<u16, Arc<Link>>,
    last: u16,
}

/// NVMe on all cores.
pub struct Node {
    subsystems: Vec<Arc<Subsystem>>,
    controllers: Mutex<Controllers>,
    portals: OnceLock<(Vec<SocketAddr>, Vec<SocketAddr>)>,
    generation: AtomicU64,
}

impl Node {
    /// These subsystems; names are unique.
    pub fn new(subsystems: Vec<Arc<Subsystem>>) -> Arc<Node> {
        Arc::new(Node {
            subsystems,
            controllers: Mutex::default(),
            portals: OnceLock::new(),
            generation: AtomicU64::new(1),
        })
    }

    /// The subsystems in order.
    pub fn subsystems(&self) -> &[Arc<Subsystem>] {
        &self.subsystems
    }

    /// Where it listens for I/O and for discovery; said once.
    pub fn set_portals(&self, io: Vec<SocketAddr>, discovery: Vec<SocketAddr>) {
        self.portals.set((io, discovery)).ok();
    }

    /// Portals of I/O controllers.
    pub fn io_portals(&self) -> &[SocketAddr] {
        self.portals.get().map_or(&[], |(io, _)| io)
    }

    /// Portals of discovery controllers alone.
    pub fn discovery_portals(&self) -> &[SocketAddr] {
        self.portals.get().map_or(&[], |(_, discovery)| discovery)
    }

    /// GENCTR of the discovery log page.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// What discovery shows has changed.
    pub fn advance_generation(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    fn lock(&self) -> MutexGuard<'_, Controllers> {
        self.controllers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Allocates a controller (dynamic model); `None` when there are too many.
    pub fn allocate(&self, shard: usize, kind: Kind, host: String, host_id: [u8; 16]) -> Option<Arc<Link>> {
        let mut controllers = self.lock();
        if controllers.by_id.len() >= CONTROLLERS {
            return None;
        }
        loop {
            // FFF0h and above are reserved (Base 2.1 section 3.1.1).
            controllers.last = if controllers.last >= 0xffef { 1 } else { controllers.last + 1 };
            if !controllers.by_id.contains_key(&controllers.last) {
                break;
            }
        }
        let link = Arc::new(Link {
            cntlid: controllers.last,
            shard,
            kind,
            host,
            host_id,
            ready: AtomicBool::new(false),
            write_cache: AtomicBool::new(true),
            traffic: AtomicBool::new(false),
        });
        controllers.by_id.insert(link.cntlid, link.clone());
        Some(link)
    }

    /// The controller with this identifier.
    pub fn find(&self, cntlid: u16) -> Option<Arc<Link>> {
        self.lock().by_id.get(&cntlid).cloned()
    }

    /// Removes a controller that is no more.
    pub fn release(&self, cntlid: u16) {
        self.lock().by_id.remove(&cntlid);
    }

    /// How many controllers there are.
    pub fn controllers(&self) -> usize {
        self.lock().by_id.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_may_use_every_volume_may_use_the_subsystem() {
        let hosts = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let mut subsystem = Subsystem::new("nqn.2026-11.internal.fels:shared", [0xab; 16]);
        subsystem.add(3, [1; 16], &[]);
        assert!(subsystem.admits("a") && subsystem.admits("c"));
        subsystem.add(4, [2; 16], &hosts(&["a", "b"]));
        subsystem.add(5, [3; 16], &hosts(&["b", "c"]));
        assert!(subsystem.admits("b") && !subsystem.admits("a") && !subsystem.admits("c"));
        subsystem.add(6, [4; 16], &hosts(&["a"]));
        assert!(!subsystem.admits("a") && !subsystem.admits("b"), "nobody may use all of them");
        assert_eq!(subsystem.namespace(2).unwrap().volume, 4);
        assert!(subsystem.namespace(0).is_none() && subsystem.namespace(5).is_none());
        assert_eq!(subsystem.serial.len(), 20);
    }

    #[test]
    fn controllers_have_identifiers_of_their_own() {
        let node = Node::new(Vec::new());
        let allocate = || node.allocate(0, Kind::Discovery, "host".into(), [0; 16]).unwrap();
        let (first, second) = (allocate(), allocate());
        assert_ne!(first.cntlid, second.cntlid);
        node.release(first.cntlid);
        assert!(node.find(first.cntlid).is_none() && node.find(second.cntlid).is_some());
        assert_eq!(node.controllers(), 1);
    }
}
