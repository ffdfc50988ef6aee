//! Which pools the members make that were found somewhere, and what is wrong with the others. No I/O: labels in, sentences out.

use std::path::{Path, PathBuf};

use plane::pool::format::{Cause, Label, SlotState, VolumeEntry};
use plane::pool::{MemberLabel, Seen, is_parted};

use super::survival::Survival;
use super::table::PoolTable;

/// What was found.
#[derive(Debug, Default)]
pub struct Survey {
    /// The pools, by name.
    pub pools: Vec<FoundPool>,
    /// What is no member of any: where it is, and a sentence's end.
    pub others: Vec<(PathBuf, String)>,
    /// Members that another process has, so that nobody knows whose they are.
    pub in_use: Vec<PathBuf>,
}

/// A pool of which members were found.
#[derive(Debug)]
pub struct FoundPool {
    /// The newest label: what it says counts.
    pub label: Label,
    /// The volumes, if a catalogue can be read.
    pub volumes: Option<Vec<VolumeEntry>>,
    /// Its slots, in order.
    pub slots: Vec<FoundSlot>,
    /// Where its spares are.
    pub spares: Vec<PathBuf>,
    /// Members that cannot be used with the others: where they are, and a sentence's end.
    pub unfit: Vec<(PathBuf, String)>,
    /// Those of them that were used without the others, which went on without them: somebody has to choose.
    pub parted: Vec<PathBuf>,
}

/// A slot of a pool that was found.
#[derive(Debug)]
pub struct FoundSlot {
    /// Where its member is, if it was found.
    pub place: Option<PathBuf>,
    /// What the newest label says of it.
    pub state: SlotState,
}

impl FoundSlot {
    /// How it is, as the end of a sentence about its member.
    pub fn condition(&self) -> String {
        match (&self.place, self.state) {
            (None, _) => "missing".to_owned(),
            (Some(_), SlotState::InSync) => "in sync".to_owned(),
            (Some(_), SlotState::Out { cause: Cause::Administrator, .. }) => {
                "out: taken out by an administrator".to_owned()
            }
            (Some(_), SlotState::Out { cause, .. }) => {
                format!("stale: went out ({cause}); gets what it missed")
            }
            (Some(_), SlotState::Rebuilding { .. }) => "incomplete: its rebuilding goes on".to_owned(),
        }
    }

    fn is_good(&self) -> bool {
        self.place.is_some() && self.state == SlotState::InSync
    }
}

impl FoundPool {
    /// Whether it can be opened, and what may fail then.
    pub fn survival(&self) -> Survival {
        let good: Vec<_> = self.slots.iter().map(FoundSlot::is_good).collect();
        Survival::of(self.label.geometry.level, &good)
    }

    /// The members that were found, in the order of their slots.
    pub fn found(&self) -> Vec<PathBuf> {
        self.slots.iter().filter_map(|slot| slot.place.clone()).collect()
    }

    /// A path for each slot, also of those whose member was not found.
    pub fn named(&self) -> Vec<PathBuf> {
        let missing = |slot: usize| PathBuf::from(format!("/nonexistent/missing-member-{slot}"));
        let named = self.slots.iter().enumerate();
        named.map(|(slot, found)| found.place.clone().unwrap_or_else(|| missing(slot))).collect()
    }

    /// What the configuration has to say to have it.
    pub fn table(&self) -> PoolTable {
        PoolTable {
            name: self.label.name.clone(),
            level: self.label.geometry.level,
            unit: self.label.geometry.unit,
            integrity: self.label.integrity,
            members: self.slots.iter().map(|slot| slot.place.clone()).collect(),
            spares: self.spares.clone(),
            member_bytes: None,
        }
    }

    /// Volumes that it has.
    pub fn volume_count(&self) -> usize {
        self.label.catalogue.volumes as usize
    }
}

/// Puts together what belongs together.
pub fn survey(seen: Vec<(PathBuf, Seen)>) -> Survey {
    let mut survey = Survey::default();
    let mut members: Vec<(PathBuf, MemberLabel)> = Vec::new();
    for (path, seen) in seen {
        match seen {
            Seen::Member(label) => members.push((path, *label)),
            Seen::InUse => survey.in_use.push(path),
            Seen::Missing => survey.others.push((path, "is not there, or empty".to_owned())),
            Seen::Blank { .. } => survey.others.push((path, "is blank".to_owned())),
            Seen::Other(why) => survey.others.push((path, why)),
        }
    }
    // The newest first: with it a pool begins, and of two copies it is the one that counts.
    members.sort_by(|one, other| {
        other.1.label.generation.cmp(&one.1.label.generation).then(one.0.cmp(&other.0))
    });
    for (path, member) in members {
        let known = survey.pools.iter_mut().find(|pool| pool.label.pool == member.label.pool);
        if let Some(pool) = known {
            pool.take(path, &member);
        } else {
            let mut pool = begin(&member);
            pool.take(path, &member);
            survey.pools.push(pool);
        }
    }
    survey.pools.sort_by(|one, other| one.label.name.cmp(&other.label.name));
    survey
}

fn begin(newest: &MemberLabel) -> FoundPool {
    let slots = newest.label.slots.iter().map(|slot| FoundSlot { place: None, state: slot.state });
    FoundPool {
        slots: slots.collect(),
        volumes: newest.volumes.clone(),
        spares: Vec::new(),
        unfit: Vec::new(),
        parted: Vec::new(),
        label: newest.label.clone(),
    }
}

impl FoundPool {
    fn take(&mut self, path: PathBuf, member: &MemberLabel) {
        let label = &member.label;
        let is_further = label.slot.is_some_and(|slot| usize::from(slot) >= self.slots.len());
        if !is_further && is_parted(&self.label, label) {
            let why = "was used without the others, and they without it: leave one of both out";
            self.parted.push(path.clone());
            return self.unfit.push((path, why.to_owned()));
        }
        let Some(slot) = self.label.slot_of(&label.member) else {
            if self.label.spares.contains(&label.member) {
                return self.spares.push(path);
            }
            let why = if is_further {
                "was to be a further member, and the pool was not extended"
            } else {
                "was a member once, and was replaced"
            };
            return self.unfit.push((path, why.to_owned()));
        };
        if let Some(first) = &self.slots[slot].place {
            let why = copy_of(first, label.generation < self.label.generation);
            return self.unfit.push((path, why));
        }
        if self.volumes.is_none() && label.catalogue == self.label.catalogue {
            self.volumes.clone_from(&member.volumes);
        }
        self.slots[slot].place = Some(path);
    }
}

fn copy_of(first: &Path, is_older: bool) -> String {
    let age = if is_older { "an older" } else { "a" };
    format!("is {age} copy of {}", first.display())
}

#[cfg(test)]
mod tests;
