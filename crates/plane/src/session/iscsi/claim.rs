//! The place in a session that a login has been promised, until its connection is there.

use std::sync::Arc;

use super::registry::Place;
use super::service::{Node, Service};
use crate::shard::Peers;

/// A promised place. Wherever it is dropped before its connection has come (the login takes too long, its answer
/// cannot be sent, a core goes), the place is given back.
pub struct Claim {
    node: Arc<Node>,
    peers: Peers,
    place: Place,
    leading: bool,
    taken: bool,
}

impl Claim {
    /// The place of a new session, which is in the registry already.
    pub fn leading(node: Arc<Node>, peers: Peers, place: Place) -> Claim {
        Claim { node, peers, place, leading: true, taken: false }
    }

    /// A place for a further connection, which the session counts already.
    pub fn joining(node: Arc<Node>, peers: Peers, place: Place) -> Claim {
        Claim { node, peers, place, leading: false, taken: false }
    }

    /// The session.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Whether the connection makes the session; else it joins it.
    pub fn is_leading(&self) -> bool {
        self.leading
    }

    /// The connection has come.
    pub fn take(mut self) {
        self.taken = true;
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.taken {
            return;
        }
        if self.leading {
            self.node.registry.leave(self.place.tsih);
            return;
        }
        let place = self.place.clone();
        self.peers.tell(place.shard, move |shard| {
            let session = shard.service::<Service>().and_then(|service| service.session(place.tsih));
            if let Some(session) = session.filter(|session| session.place == place) {
                shard.ring().spawn_later(async move { session.give_place_back().await });
            }
        });
    }
}
