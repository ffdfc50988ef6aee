//! Targets: what initiators may log in to.

use std::collections::HashMap;
use std::sync::Arc;

use wire::iscsi::{IscsiName, LoginStatus};

use super::login::{Authentication, Directory, TargetAccess};
use super::text::TargetList;
use crate::session::scsi::Unit;

/// The tag of the one portal group: every portal leads to every target, and a session may use several of them.
pub const PORTAL_GROUP_TAG: u16 = 1;

/// One target: a volume as LUN 0.
#[derive(Debug)]
pub struct Target {
    /// Its name.
    pub name: IscsiName,
    /// Told to initiators beside the name.
    pub alias: Option<String>,
    /// The volume's place in [`crate::shard::Shard::volumes`].
    pub volume: usize,
    /// What all cores share of the logical unit.
    pub unit: Arc<Unit>,
    /// What initiators have to prove.
    pub authentication: Authentication,
    /// The initiators that may use it; empty means all.
    pub initiators: Vec<IscsiName>,
}

impl Target {
    pub(super) fn admits(&self, initiator: &IscsiName) -> bool {
        self.initiators.is_empty() || self.initiators.contains(initiator)
    }
}

/// All targets of a node, and what discovery asks for.
#[derive(Debug)]
pub struct Targets {
    list: Vec<Arc<Target>>,
    by_name: HashMap<IscsiName, usize>,
    discovery: Authentication,
}

impl Targets {
    /// These targets; names are unique.
    pub fn new(list: Vec<Arc<Target>>, discovery: Authentication) -> Targets {
        let by_name = list.iter().enumerate().map(|(index, target)| (target.name.clone(), index)).collect();
        Targets { list, by_name, discovery }
    }

    /// The targets in order.
    pub fn list(&self) -> &[Arc<Target>] {
        &self.list
    }

    /// The target with this name.
    pub fn find(&self, name: &IscsiName) -> Option<&Arc<Target>> {
        self.by_name.get(name).map(|index| &self.list[*index])
    }
}

impl Directory for Targets {
    fn target(&self, target: &IscsiName, initiator: &IscsiName) -> Result<TargetAccess, LoginStatus> {
        let target = self.find(target).ok_or(LoginStatus::NOT_FOUND)?;
        if !target.admits(initiator) {
            return Err(LoginStatus::AUTHORIZATION_FAILURE);
        }
        Ok(TargetAccess { alias: target.alias.clone(), authentication: target.authentication.clone() })
    }

    fn discovery(&self, _: &IscsiName) -> Result<Authentication, LoginStatus> {
        Ok(self.discovery.clone())
    }
}

/// The targets that one initiator may see, at the addresses by which it can reach them.
pub struct Visible<'a> {
    /// All targets.
    pub targets: &'a Targets,
    /// Who asks.
    pub initiator: &'a IscsiName,
    /// `address:port,portal-group-tag` of each portal.
    pub addresses: &'a [String],
}

impl TargetList for Visible<'_> {
    fn visit(&self, visit: &mut dyn FnMut(&str, &[String])) {
        for target in self.targets.list.iter().filter(|target| target.admits(self.initiator)) {
            visit(target.name.as_str(), self.addresses);
        }
    }
}
