//! From the volumes of a node to what each protocol tells its peers.

use std::sync::Arc;

use super::LiveError;
use crate::core::Offer;
use crate::limits::NVME_NAMESPACES;
use crate::session::iscsi::login::Authentication;
use crate::session::iscsi::{Target, Targets};
use crate::session::nbd::{Export, Exports};
use crate::session::nvme::Subsystem;
use crate::session::scsi::Unit;

/// A volume as it is offered.
pub struct Offered {
    /// How.
    pub offer: Offer,
    /// Its place in [`crate::shard::Shard::volumes`].
    pub place: usize,
    /// Its identity for ever.
    pub id: [u8; 16],
    /// What all cores share of its logical unit: the same one as long as the node has the volume.
    pub unit: Arc<Unit>,
    /// Its number in its subsystem, which stays while it is there.
    nsid: Option<u32>,
}

/// What the protocols tell.
pub(crate) struct Lists {
    pub targets: Targets,
    pub exports: Exports,
    pub subsystems: Vec<Subsystem>,
}

impl Offered {
    /// The volume at `place`, beside `others`.
    pub(super) fn new(
        offer: Offer,
        place: usize,
        id: [u8; 16],
        write_cache: bool,
        others: &[&Offered],
    ) -> Offered {
        let unit = Unit::new(offer.target_name.as_str(), write_cache);
        let nsid = nsid(&offer, others);
        Offered { offer, place, id, unit, nsid }
    }

    /// Whether it can become what `offer` says.
    pub(super) fn check_alteration(&self, offer: &Offer) -> Result<(), LiveError> {
        let (old, new) = (&self.offer.volume, &offer.volume);
        let volume = || old.name.clone();
        let fixed = [
            (old.backing != new.backing, "the place"),
            (old.block_size != new.block_size, "the block size"),
            (self.offer.target_name != offer.target_name, "the target name"),
        ];
        if let Some((_, what)) = fixed.into_iter().find(|(differs, _)| *differs) {
            return Err(LiveError::Fixed { volume: volume(), what });
        }
        if new.bytes < old.bytes {
            return Err(LiveError::Smaller { volume: volume(), is: old.bytes, wanted: new.bytes });
        }
        Ok(())
    }

    /// Whether it is the namespace that `offer` wishes to be.
    pub(super) fn has_number_of(&self, offer: &Offer) -> bool {
        let same = self.offer.subsystem == offer.subsystem && offer.subsystem.is_some();
        same && self.nsid.is_some() && self.nsid == offer.nsid
    }

    /// Offers it as `offer` says from now on.
    pub(super) fn alter(&mut self, offer: Offer, others: &[&Offered]) {
        if self.offer.subsystem != offer.subsystem || (offer.nsid.is_some() && offer.nsid != self.nsid) {
            self.nsid = nsid(&offer, others);
        }
        self.offer = offer;
    }
}

fn nsid(offer: &Offer, others: &[&Offered]) -> Option<u32> {
    let subsystem = offer.subsystem.as_deref()?;
    Some(offer.nsid.unwrap_or_else(|| free_nsid(subsystem, others)))
}

/// The number of a new namespace: behind all others, so that hosts take it for nothing that they knew; or, when there is no
/// higher one, the lowest that is free.
fn free_nsid(subsystem: &str, others: &[&Offered]) -> u32 {
    let is_in = |other: &&&Offered| other.offer.subsystem.as_deref() == Some(subsystem);
    let taken: Vec<u32> = others.iter().filter(is_in).filter_map(|other| other.nsid).collect();
    let next = taken.iter().max().map_or(1, |last| last + 1);
    if next <= NVME_NAMESPACES {
        return next;
    }
    // Beyond what can be had, the list is refused as a whole.
    (1..=NVME_NAMESPACES).find(|nsid| !taken.contains(nsid)).unwrap_or(next)
}

/// What the protocols tell of these volumes, in their order.
pub(crate) fn of<'o>(offered: impl Iterator<Item = &'o Offered>, discovery: &Authentication) -> Lists {
    let (mut targets, mut exports, mut namespaces) = (Vec::new(), Vec::new(), Vec::new());
    for volume in offered {
        let offer = &volume.offer;
        targets.push(Arc::new(Target {
            unit: volume.unit.clone(),
            name: offer.target_name.clone(),
            alias: offer.alias.clone(),
            volume: volume.place,
            authentication: offer.authentication.clone(),
            initiators: offer.initiators.clone(),
        }));
        if offer.nbd {
            exports.push(Export {
                name: offer.volume.name.clone(),
                description: offer.alias.clone().unwrap_or_default(),
                volume: volume.place,
            });
        }
        if let (Some(nqn), Some(nsid)) = (&offer.subsystem, volume.nsid) {
            namespaces.push((nqn, nsid, volume));
        }
    }
    // Subsystems in the order of their first volumes, namespaces in the order of their numbers.
    let mut subsystems: Vec<Subsystem> = Vec::new();
    for (nqn, _, volume) in &namespaces {
        if !subsystems.iter().any(|subsystem| subsystem.nqn == **nqn) {
            subsystems.push(Subsystem::new(nqn, volume.id));
        }
    }
    namespaces.sort_by_key(|(_, nsid, _)| *nsid);
    for (nqn, nsid, volume) in namespaces {
        let subsystem = subsystems.iter_mut().find(|subsystem| subsystem.nqn == *nqn);
        let subsystem = subsystem.expect("it was made above");
        subsystem.add_as(nsid, volume.place, volume.id, &volume.offer.hosts);
    }
    Lists { targets: Targets::new(targets, discovery.clone()), exports: Exports::new(exports), subsystems }
}
