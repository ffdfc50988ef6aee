//! What all cores of a node share of NVMe: what is offered, controllers, portals.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use wire::nvme::DISCOVERY_NQN;

use super::link::{Kind, Link};
use super::seats::Seats;
use super::subsystem::Subsystem;
use crate::latest::Latest;
use crate::limits::{CONTROLLERS, CONTROLLERS_PER_HOST, CONTROLLERS_PER_SUBSYSTEM, NVME_NAMESPACES};

/// Where a node is reached, and where hosts are sent on to.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// Portals of I/O controllers.
    pub io: Vec<SocketAddr>,
    /// Portals of discovery controllers alone.
    pub discovery: Vec<SocketAddr>,
    /// Discovery services elsewhere.
    pub referrals: Vec<SocketAddr>,
}

#[derive(Default)]
struct State {
    subsystems: Vec<Arc<Subsystem>>,
    by_id: HashMap<u16, Arc<Link>>,
    last: u16,
}

/// Why a host gets no controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// There is no such subsystem.
    #[error("there is no such subsystem")]
    NoSubsystem,
    /// The host may not use it.
    #[error("it may not use this subsystem")]
    Host,
    /// There are too many controllers: of the host, of the subsystem, or of the node.
    #[error("there are too many controllers")]
    TooMany,
}

/// Why subsystems cannot be offered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OfferError {
    /// Two have one name, or it is the discovery service's.
    #[error("the subsystem {0} cannot be offered twice")]
    Name(String),
    /// NSIDs that do not rise from 1, or are more than a subsystem has.
    #[error("NSID {nsid} of the subsystem {nqn} is not between its neighbours and {NVME_NAMESPACES}")]
    Nsid {
        /// Which subsystem.
        nqn: String,
        /// Which NSID.
        nsid: u32,
    },
    /// A volume that is not there.
    #[error("namespace {nsid} of the subsystem {nqn} is a volume that the node does not have")]
    Volume {
        /// Which subsystem.
        nqn: String,
        /// Which NSID.
        nsid: u32,
    },
}

/// How what is offered became another.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// By subsystem, the NSIDs whose namespace came, went, or became another.
    pub namespaces: HashMap<String, Vec<u32>>,
    /// Controllers of subsystems that are no more, or whose host may not use them any more.
    pub ended: HashSet<u16>,
    /// The discovery log page is another for some host.
    pub discovery: bool,
}

/// NVMe on all cores.
pub struct Node {
    state: Mutex<State>,
    places: Latest<Places>,
    generation: AtomicU64,
    tokens: AtomicU64,
    seats: Seats,
}

impl Node {
    /// These subsystems; names are unique.
    pub fn new(subsystems: Vec<Arc<Subsystem>>) -> Arc<Node> {
        Arc::new(Node {
            state: Mutex::new(State { subsystems, ..State::default() }),
            places: Latest::default(),
            generation: AtomicU64::new(1),
            tokens: AtomicU64::new(0),
            seats: Seats::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The subsystems in order, as they are offered now.
    pub fn subsystems(&self) -> Vec<Arc<Subsystem>> {
        self.lock().subsystems.clone()
    }

    /// Where it is reached.
    pub fn places(&self) -> Arc<Places> {
        self.places.get()
    }

    /// Says where it is reached from now on. Whether hosts knew it otherwise, and have to be told.
    pub fn set_places(&self, places: Places) -> bool {
        let before = self.places.get();
        let is_first = *before == Places::default();
        let changes = *before != places;
        self.places.set(places);
        if changes && !is_first {
            self.generation.fetch_add(1, Ordering::AcqRel);
        }
        changes && !is_first
    }

    /// GENCTR of the discovery log page.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// How the I/O queues are spread over the cores.
    pub fn seats(&self) -> &Seats {
        &self.seats
    }

    /// A number that nobody had before.
    pub fn token(&self) -> u64 {
        self.tokens.fetch_add(1, Ordering::Relaxed)
    }

    /// Offers `subsystems`, and nothing else, from now on; `volumes` is how many the node has. The cores have to be
    /// told of the change: [`super::Service::offer`] does both.
    pub fn replace(&self, subsystems: Vec<Subsystem>, volumes: usize) -> Result<Change, OfferError> {
        check(&subsystems, volumes)?;
        let mut state = self.lock();
        let old: HashMap<&str, &Arc<Subsystem>> =
            state.subsystems.iter().map(|subsystem| (subsystem.nqn.as_str(), subsystem)).collect();
        let mut change = Change::default();
        // What stays as it is stays the same object.
        let keep = |new: Subsystem| match old.get(new.nqn.as_str()) {
            Some(old) if ***old == new => (*old).clone(),
            _ => Arc::new(new),
        };
        let new: Vec<Arc<Subsystem>> = subsystems.into_iter().map(keep).collect();
        let place = |nqn: &str| new.iter().find(|subsystem| subsystem.nqn == nqn);
        for new in &new {
            match old.get(new.nqn.as_str()) {
                Some(old) => {
                    let nsids = new.differences(old);
                    if !nsids.is_empty() {
                        change.namespaces.insert(new.nqn.clone(), nsids);
                    }
                    change.discovery |= new.hosts != old.hosts;
                }
                None => change.discovery = true,
            }
        }
        change.discovery |= old.keys().any(|nqn| place(nqn).is_none());
        drop(old);
        for link in state.by_id.values() {
            let Kind::Io(of) = link.kind() else { continue };
            match place(&of.nqn).filter(|subsystem| subsystem.admits(&link.host)) {
                Some(subsystem) => link.set_subsystem(subsystem),
                None => {
                    change.ended.insert(link.cntlid);
                }
            }
        }
        state.subsystems = new;
        if change.discovery {
            self.generation.fetch_add(1, Ordering::AcqRel);
        }
        Ok(change)
    }

    /// Allocates a controller (dynamic model) of what `nqn` names, on core `shard`.
    pub fn allocate(
        &self,
        shard: usize,
        nqn: &str,
        host: &str,
        host_id: [u8; 16],
    ) -> Result<Arc<Link>, Refused> {
        let mut state = self.lock();
        let kind = if nqn == DISCOVERY_NQN {
            Kind::Discovery
        } else {
            let found = state.subsystems.iter().find(|subsystem| subsystem.nqn == nqn);
            let subsystem = found.ok_or(Refused::NoSubsystem)?;
            if !subsystem.admits(host) {
                return Err(Refused::Host);
            }
            Kind::Io(subsystem.clone())
        };
        if state.is_full(nqn, host) {
            return Err(Refused::TooMany);
        }
        loop {
            // FFF0h and above are reserved (Base 2.1 section 3.1.1).
            state.last = if state.last >= 0xffef { 1 } else { state.last + 1 };
            if !state.by_id.contains_key(&state.last) {
                break;
            }
        }
        let link = Arc::new(Link::new(state.last, shard, kind, host.to_owned(), host_id));
        state.by_id.insert(link.cntlid, link.clone());
        Ok(link)
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

impl State {
    /// Whether there can be no further controller of `nqn` for `host`.
    fn is_full(&self, nqn: &str, host: &str) -> bool {
        if self.by_id.len() >= CONTROLLERS {
            return true;
        }
        let (mut of_host, mut of_subsystem) = (0, 0);
        for link in self.by_id.values() {
            let same = match link.kind() {
                Kind::Io(subsystem) => subsystem.nqn == nqn,
                Kind::Discovery => nqn == DISCOVERY_NQN,
            };
            of_subsystem += usize::from(same);
            of_host += usize::from(same && link.host == host);
        }
        of_host >= CONTROLLERS_PER_HOST || of_subsystem >= CONTROLLERS_PER_SUBSYSTEM
    }
}

fn check(subsystems: &[Subsystem], volumes: usize) -> Result<(), OfferError> {
    let mut names = HashSet::from([DISCOVERY_NQN]);
    for Subsystem { nqn, namespaces, .. } in subsystems {
        if !names.insert(nqn) {
            return Err(OfferError::Name(nqn.clone()));
        }
        let mut last = 0;
        for namespace in namespaces {
            let nsid = namespace.nsid;
            if nsid <= last || nsid > NVME_NAMESPACES {
                return Err(OfferError::Nsid { nqn: nqn.clone(), nsid });
            }
            if namespace.volume >= volumes {
                return Err(OfferError::Volume { nqn: nqn.clone(), nsid });
            }
            last = nsid;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NQN: &str = "nqn.2026-11.internal.fels:demo";

    fn subsystem(nqn: &str, volumes: &[usize]) -> Subsystem {
        let mut subsystem = Subsystem::new(nqn, [1; 16]);
        for volume in volumes {
            subsystem.add(*volume, [*volume as u8; 16], &[]);
        }
        subsystem
    }

    #[test]
    fn controllers_have_identifiers_of_their_own() {
        let node = Node::new(Vec::new());
        let allocate = || node.allocate(0, DISCOVERY_NQN, "host", [0; 16]).unwrap();
        let (first, second) = (allocate(), allocate());
        assert_ne!(first.cntlid, second.cntlid);
        node.release(first.cntlid);
        assert!(node.find(first.cntlid).is_none() && node.find(second.cntlid).is_some());
        assert_eq!(node.controllers(), 1);
    }

    #[test]
    fn controllers_are_bounded_for_a_host_a_subsystem_and_the_node() {
        let names: Vec<String> =
            (0..=CONTROLLERS / CONTROLLERS_PER_SUBSYSTEM).map(|n| format!("{NQN}{n}")).collect();
        let node = Node::new(names.iter().map(|nqn| Arc::new(subsystem(nqn, &[0]))).collect());
        let allocate = |nqn: &str, host: &str| node.allocate(0, nqn, host, [0; 16]);
        for _ in 0..CONTROLLERS_PER_HOST {
            allocate(&names[0], "one").unwrap();
        }
        assert_eq!(allocate(&names[0], "one").unwrap_err(), Refused::TooMany);
        allocate(&names[1], "one").expect("another subsystem counts for itself");
        for host in CONTROLLERS_PER_HOST..CONTROLLERS_PER_SUBSYSTEM {
            allocate(&names[0], &host.to_string()).unwrap();
        }
        let refused = allocate(&names[0], "another").unwrap_err();
        assert_eq!(refused, Refused::TooMany);
        // The node's own bound, without a quadratic number of looks.
        let mut state = node.lock();
        let link = state.by_id.values().next().unwrap().clone();
        for id in 1..=CONTROLLERS as u16 {
            state.by_id.entry(id).or_insert(link.clone());
        }
        drop(state);
        assert_eq!(allocate(&names[2], "one").unwrap_err(), Refused::TooMany);
        node.release(1);
        allocate(&names[2], "one").expect("one that has ended makes room");
    }

    #[test]
    fn what_is_offered_anew_is_compared_with_what_was() {
        let shared = "nqn.2026-11.internal.fels:shared";
        let node = Node::new(vec![Arc::new(subsystem(NQN, &[0])), Arc::new(subsystem(shared, &[1]))]);
        let (one, two) =
            (node.allocate(0, NQN, "a", [0; 16]).unwrap(), node.allocate(0, shared, "a", [0; 16]).unwrap());
        let change = node.replace(vec![subsystem(NQN, &[0]), subsystem(shared, &[1])], 3).unwrap();
        assert_eq!((change, node.generation()), (Change::default(), 1), "nothing changes, nobody is told");
        let change = node.replace(vec![subsystem(NQN, &[0, 2]), subsystem(shared, &[1])], 3).unwrap();
        assert_eq!(change.namespaces, HashMap::from([(NQN.to_owned(), vec![2])]));
        assert!(!change.discovery && change.ended.is_empty() && node.generation() == 1);
        let Kind::Io(now) = one.kind() else { panic!() };
        assert_eq!(now.namespaces.len(), 2, "the controller sees it");
        let mut guarded = subsystem(NQN, &[0, 2]);
        guarded.hosts = Some(vec!["b".to_owned()]);
        let change = node.replace(vec![guarded], 3).unwrap();
        assert!(change.discovery && node.generation() == 2);
        assert_eq!(change.ended, HashSet::from([one.cntlid, two.cntlid]));
        assert_eq!(node.allocate(0, NQN, "a", [0; 16]).unwrap_err(), Refused::Host);
        assert_eq!(node.allocate(0, shared, "a", [0; 16]).unwrap_err(), Refused::NoSubsystem);
    }

    #[test]
    fn what_cannot_be_offered_changes_nothing() {
        let node = Node::new(Vec::new());
        let twice = node.replace(vec![subsystem(NQN, &[0]), subsystem(NQN, &[1])], 2);
        assert_eq!(twice, Err(OfferError::Name(NQN.to_owned())));
        let absent = node.replace(vec![subsystem(NQN, &[0, 2])], 2);
        assert_eq!(absent, Err(OfferError::Volume { nqn: NQN.to_owned(), nsid: 2 }));
        let mut backwards = subsystem(NQN, &[0, 1]);
        backwards.namespaces.swap(0, 1);
        assert_eq!(node.replace(vec![backwards], 2), Err(OfferError::Nsid { nqn: NQN.to_owned(), nsid: 1 }));
        assert!(node.subsystems().is_empty() && node.generation() == 1);
    }
}
