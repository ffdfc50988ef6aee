//! How a change of what is offered reaches the controllers and queues of every core.
//!
//! The list of subsystems that a node is given is the truth: nothing is told of how it came to be. A command that is
//! under way when its namespace goes is carried out; the next one finds none. A volume that is to be closed has to be
//! taken out of the list first.

use std::rc::Rc;
use std::sync::Arc;

use wire::nvme::admin::event::Event;

use super::io::Channels;
use super::link::Kind;
use super::node::{Change, OfferError, Places};
use super::queue::Role;
use super::service::Service;
use super::subsystem::Subsystem;
use crate::shard::Shard;

/// This core's channels of a subsystem, by NSID from 1 on.
pub fn channels(shard: &Shard, subsystem: &Subsystem) -> Rc<Channels> {
    let count = subsystem.namespaces.last().map_or(0, |last| last.nsid as usize);
    let mut channels = vec![None; count];
    for namespace in &subsystem.namespaces {
        channels[namespace.nsid as usize - 1] = shard.find_volume(namespace.volume);
    }
    channels.into()
}

impl Service {
    /// Offers these subsystems, and nothing else, from now on, on all cores. Controllers of subsystems that are gone, or
    /// whose host is not let in any more, end; the other hosts are told of what has changed, if they have asked for it.
    /// A namespace that stays keeps its NSID; an NSID that gets another volume or identity counts as changed.
    pub fn offer(&self, subsystems: Vec<Subsystem>) -> Result<(), OfferError> {
        self.tell_all(self.node().replace(subsystems, self.shard.volume_places())?);
        Ok(())
    }

    /// The node is reached at these places from now on: hosts that have asked for it are told that the discovery log page is
    /// another.
    pub fn tell_places(&self, places: Places) {
        if self.node().set_places(places) {
            self.tell_all(Change { discovery: true, ..Change::default() });
        }
    }

    /// Lets all cores know.
    fn tell_all(&self, change: Change) {
        let change = Arc::new(change);
        for index in 0..self.shard.count() {
            let change = change.clone();
            self.shard.tell(index, move |shard| {
                if let Some(service) = shard.service::<Service>() {
                    service.adopt(&change);
                }
            });
        }
    }

    /// A volume has another size: hosts that have it as a namespace are told.
    pub fn tell_size(&self, volume: usize) {
        for controller in self.controllers() {
            let Kind::Io(subsystem) = controller.link.kind() else { continue };
            let places = subsystem.namespaces.iter().filter(|namespace| namespace.volume == volume);
            let nsids: Vec<u32> = places.map(|namespace| namespace.nsid).collect();
            if !nsids.is_empty() {
                controller.note_changed(&nsids);
            }
        }
    }

    fn adopt(&self, change: &Change) {
        // Queues before controllers: a host that is told of a namespace finds it.
        for queue in self.queues() {
            let (Role::Io(namespaces), Kind::Io(subsystem)) = (&queue.role, queue.link.kind()) else {
                continue;
            };
            if change.ended.contains(&queue.link.cntlid) {
                namespaces.replace(Rc::new([]));
            } else if change.namespaces.contains_key(&subsystem.nqn) {
                namespaces.replace(channels(&self.shard, &subsystem));
            }
        }
        for controller in self.controllers() {
            match controller.link.kind() {
                Kind::Io(_) if change.ended.contains(&controller.link.cntlid) => {
                    if let Some(admin) = controller.admin() {
                        admin.connection.keep_out();
                        admin.connection.close("its subsystem is not offered to this host any more");
                    }
                }
                Kind::Io(subsystem) => {
                    if let Some(nsids) = change.namespaces.get(&subsystem.nqn) {
                        controller.note_changed(nsids);
                    }
                }
                Kind::Discovery if change.discovery => controller.notify(Event::DISCOVERY_LOG_PAGE_CHANGE),
                Kind::Discovery => {}
            }
        }
    }
}
