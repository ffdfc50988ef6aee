//! What all cores know of portals and initiators.

use std::collections::BTreeMap;

use super::{Portal, VerbCounts, add};
use crate::meter::{Figures, add_figures};

/// What is known of a portal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortalFigures {
    /// Which.
    pub portal: Portal,
    /// Connections that are open.
    pub connections: u64,
    /// Operations that have not ended.
    pub in_flight: u64,
    /// What came by it, by [`Verb`].
    pub verbs: Figures,
}

/// What is known of portals and initiators.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LedgerFigures {
    /// In the order of the configuration.
    pub portals: Vec<PortalFigures>,
    /// What each initiator did, by protocol and name.
    pub initiators: BTreeMap<(&'static str, String), VerbCounts>,
}

impl LedgerFigures {
    /// Adds what is known on another core.
    pub fn add(&mut self, other: LedgerFigures) {
        for theirs in other.portals {
            match self.portals.iter_mut().find(|mine| mine.portal == theirs.portal) {
                Some(mine) => {
                    mine.connections += theirs.connections;
                    mine.in_flight += theirs.in_flight;
                    add_figures(&mut mine.verbs, theirs.verbs);
                }
                None => self.portals.push(theirs),
            }
        }
        for (who, counts) in other.initiators {
            add(self.initiators.entry(who).or_default(), &counts);
        }
    }
}
