//! Who uses which volume now, and what was done for him.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use super::on_every;
use crate::session::nvme::{Kind, Subsystem};
use crate::session::traffic::{self, Ledger, LedgerFigures, Traffic, Venue, VerbCounts};
use crate::session::{iscsi, nbd, nvme};
use crate::shard::Shard;

/// One who uses volumes: an iSCSI session, an NVMe controller, an NBD connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// `iscsi`, `nvme` or `nbd`.
    pub protocol: &'static str,
    /// What tells it from others of its protocol: the TSIH, the controller identifier, or the peer's address.
    pub id: String,
    /// Who it is: the initiator or host name; for NBD, which asks nobody, where it comes from.
    pub initiator: String,
    /// The places of the volumes that it uses; none in discovery.
    pub volumes: Vec<usize>,
    /// Where it comes from and goes to, a pair for each connection that is known on this core; the latter only for iSCSI.
    pub connections: Vec<(String, Option<String>)>,
    /// The core on which it lives.
    pub shard: usize,
    /// What was done for the connections that it has now, those of its queues on other cores included.
    pub counts: VerbCounts,
    /// What it has asked for and has no answer to.
    pub in_flight: usize,
}

impl User {
    /// Takes in what was done for a connection.
    fn count(&mut self, traffic: &Traffic, in_flight: usize) {
        traffic::add(&mut self.counts, &traffic.counts());
        self.in_flight += in_flight;
    }
}

/// Sessions of one initiator that use the same volumes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Party {
    /// `iscsi`, `nvme` or `nbd`.
    pub protocol: &'static str,
    /// Who it is: the initiator or host name; for NBD, which asks nobody, the address without the port.
    pub initiator: String,
    /// The places of the volumes that they use.
    pub volumes: Vec<usize>,
    /// How many there are.
    pub sessions: u64,
}

/// What is known of all who use volumes without asking each of them.
#[derive(Clone, Debug, Default)]
pub struct Crowd {
    /// Who is there; of several cores one after the other.
    pub parties: Vec<Party>,
    /// What was done for those who are there, and for those who were.
    pub ledger: LedgerFigures,
}

impl Crowd {
    /// How many sessions use the volume at a place.
    pub fn sessions(&self, place: usize) -> u64 {
        let using = self.parties.iter().filter(|party| party.volumes.contains(&place));
        using.map(|party| party.sessions).sum()
    }
}

/// What one core knows.
#[derive(Default)]
struct OfCore {
    users: Vec<User>,
    /// What was done for I/O queues of NVMe, whose controllers may live elsewhere: by controller.
    queues: Vec<(String, VerbCounts, usize)>,
}

/// What all cores know without asking anybody: it is looked at every few seconds, and of a thousand sessions that do nothing
/// each is a few pages of memory that nobody has touched for long.
pub async fn crowd(shard: &Rc<Shard>) -> Crowd {
    let mut all = Crowd::default();
    for core in on_every(shard, crowd_of_core).await {
        all.parties.extend(core.parties);
        all.ledger.add(core.ledger);
    }
    all
}

fn crowd_of_core(shard: &Rc<Shard>) -> Crowd {
    let ledger = Ledger::of(shard);
    let subsystems = shard.service::<nvme::Service>().map(|service| service.node().subsystems());
    // Thousands of hosts may each have a subsystem of their own.
    let by_name: HashMap<&str, &Arc<Subsystem>> =
        subsystems.iter().flatten().map(|subsystem| (subsystem.nqn.as_str(), subsystem)).collect();
    let volumes = |venue: &Venue| match venue {
        Venue::Volume(place) => vec![*place],
        Venue::Subsystem(nqn) => by_name.get(&**nqn).map_or_else(Vec::new, |subsystem| volumes_of(subsystem)),
    };
    let party = |(protocol, initiator, venue, sessions): (_, Rc<str>, Venue, _)| Party {
        protocol,
        initiator: initiator.to_string(),
        volumes: volumes(&venue),
        sessions,
    };
    Crowd { parties: ledger.guests().into_iter().map(party).collect(), ledger: ledger.figures() }
}

fn volumes_of(subsystem: &Subsystem) -> Vec<usize> {
    subsystem.namespaces.iter().map(|namespace| namespace.volume).collect()
}

/// All who use volumes, on all cores.
pub async fn users(shard: &Rc<Shard>) -> Vec<User> {
    let mut all = Vec::new();
    let mut queues = Vec::new();
    for core in on_every(shard, OfCore::new).await {
        all.extend(core.users);
        queues.extend(core.queues);
    }
    for (id, counts, in_flight) in queues {
        let is_its = |user: &&mut User| user.protocol == "nvme" && user.id == id;
        if let Some(user) = all.iter_mut().find(is_its) {
            traffic::add(&mut user.counts, &counts);
            user.in_flight += in_flight;
        }
    }
    all
}

impl OfCore {
    fn new(shard: &Rc<Shard>) -> OfCore {
        let mut core = OfCore::default();
        if let Some(service) = shard.service::<iscsi::Service>() {
            for session in service.sessions() {
                core.add_session(&session);
            }
        }
        if let Some(service) = shard.service::<nvme::Service>() {
            core.users
                .extend(service.controllers().iter().filter_map(|controller| of_controller(controller)));
            for queue in service.queues() {
                let (id, traffic) = (queue.link.cntlid.to_string(), &queue.connection.traffic);
                core.queues.push((id, traffic.counts(), queue.in_flight()));
            }
        }
        if let Some(service) = shard.service::<nbd::Service>() {
            for (connection, volume) in service.users() {
                core.add_client(&connection, volume, shard.index());
            }
        }
        core
    }

    fn add_session(&mut self, session: &iscsi::Session) {
        let ends = |connection: &Rc<iscsi::Connection>| {
            (connection.peer.to_string(), Some(connection.local.to_string()))
        };
        let mut user = User {
            protocol: "iscsi",
            id: session.place.tsih.to_string(),
            initiator: session.place.key.initiator.as_str().to_owned(),
            volumes: session.attached.iter().map(|attached| attached.target.volume).collect(),
            connections: session.connections().iter().map(ends).collect(),
            shard: session.place.shard,
            counts: VerbCounts::default(),
            in_flight: 0,
        };
        for connection in session.connections() {
            let is_its = |task: &iscsi::Task| Rc::ptr_eq(&task.connection, &connection);
            let in_flight = session.tasks(|tasks| tasks.select(is_its).len());
            user.count(&connection.traffic, in_flight);
        }
        self.users.push(user);
    }

    fn add_client(&mut self, connection: &nbd::Connection, volume: usize, shard: usize) {
        let peer = connection.peer.to_string();
        let mut user = User {
            protocol: "nbd",
            id: peer.clone(),
            initiator: peer.clone(),
            volumes: vec![volume],
            connections: vec![(peer, None)],
            shard,
            counts: VerbCounts::default(),
            in_flight: 0,
        };
        user.count(&connection.traffic, connection.in_flight());
        self.users.push(user);
    }
}

fn of_controller(controller: &nvme::Controller) -> Option<User> {
    let volumes = match controller.link.kind() {
        Kind::Io(subsystem) => volumes_of(&subsystem),
        Kind::Discovery => Vec::new(),
    };
    let admin = controller.admin()?;
    Some(User {
        protocol: "nvme",
        id: controller.link.cntlid.to_string(),
        initiator: controller.link.host.clone(),
        volumes,
        connections: vec![(admin.connection.peer.to_string(), None)],
        shard: controller.shard.index(),
        counts: VerbCounts::default(),
        in_flight: 0,
    })
}
