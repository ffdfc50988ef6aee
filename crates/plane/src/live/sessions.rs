//! Who uses which volume now.

use std::rc::Rc;

use super::on_every;
use crate::session::nvme::Kind;
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
}

/// All of them, on all cores.
pub async fn users(shard: &Rc<Shard>) -> Vec<User> {
    on_every(shard, of_core).await.into_iter().flatten().collect()
}

fn of_core(shard: &Rc<Shard>) -> Vec<User> {
    let mut users = Vec::new();
    if let Some(service) = shard.service::<iscsi::Service>() {
        users.extend(service.sessions().iter().map(|session| of_session(session)));
    }
    if let Some(service) = shard.service::<nvme::Service>() {
        users.extend(service.controllers().iter().filter_map(|controller| of_controller(controller)));
    }
    if let Some(service) = shard.service::<nbd::Service>() {
        users.extend(service.users().into_iter().map(|(peer, volume)| User {
            protocol: "nbd",
            id: peer.to_string(),
            initiator: peer.to_string(),
            volumes: vec![volume],
            connections: vec![(peer.to_string(), None)],
            shard: shard.index(),
        }));
    }
    users
}

fn of_session(session: &iscsi::Session) -> User {
    let ends = |connection: &Rc<iscsi::Connection>| {
        (connection.peer.to_string(), Some(connection.local.to_string()))
    };
    User {
        protocol: "iscsi",
        id: session.place.tsih.to_string(),
        initiator: session.place.key.initiator.as_str().to_owned(),
        volumes: session.attached.iter().map(|attached| attached.target.volume).collect(),
        connections: session.connections().iter().map(ends).collect(),
        shard: session.place.shard,
    }
}

fn of_controller(controller: &nvme::Controller) -> Option<User> {
    let volumes = match controller.link.kind() {
        Kind::Io(subsystem) => subsystem.namespaces.iter().map(|namespace| namespace.volume).collect(),
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
    })
}
