//! A pool as an administrator sees it: what it is, how it is, and what can be done to it. From any thread.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::core::Shared;
use super::erasing::Erasure;
use super::format::label::MAX_SPARES;
use super::format::{Cause, ExtensionError, Id, Label};
use super::keeper::{Answer, Message};
use super::level::Level;
use super::member::{Member, Place};
use super::watch::Progress;

/// The control handle of a pool.
#[derive(Clone)]
pub struct Handle(Arc<Shared>);

/// How a slot is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberState {
    /// It has everything.
    InSync,
    /// It is not used. The label says why.
    Out,
    /// It is given what it lacks.
    Rebuilding {
        /// Rows that are good, of all.
        rows: u64,
    },
}

/// One slot of a pool.
#[derive(Clone, Debug)]
pub struct MemberStatus {
    /// Which of the pool's sets of members it belongs to.
    pub set: usize,
    /// Where its member is, if it is there.
    pub place: Option<String>,
    /// How it is.
    pub state: MemberState,
    /// Why it is out, as the labels have it.
    pub cause: Option<Cause>,
    /// How far its rebuilding is.
    pub progress: Option<Progress>,
    /// How long it took to answer reads of late, on average; `None` before there were any.
    pub read_time: Option<Duration>,
    /// How long it took to answer writes of late.
    pub write_time: Option<Duration>,
    /// It takes several times as long as the others, and has for a while.
    pub slow: bool,
}

/// A member that waits for another one to fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpareStatus {
    /// What it is known by.
    pub id: Id,
    /// Where it is, if it is there.
    pub place: Option<String>,
}

/// How a pool is.
#[derive(Clone, Debug)]
pub struct Status {
    /// Its name.
    pub name: String,
    /// Its identity.
    pub id: Id,
    /// How its members are arranged.
    pub level: Level,
    /// Bytes of a unit.
    pub unit: u32,
    /// Rows of units.
    pub rows: u64,
    /// Bytes that volumes can have in all.
    pub bytes: u64,
    /// Whether checksums are kept and verified.
    pub integrity: bool,
    /// Nothing is written any more: more members failed than redundancy replaces.
    pub has_failed: bool,
    /// Its slots, in order.
    pub members: Vec<MemberStatus>,
    /// Its spares, in the order in which they are taken.
    pub spares: Vec<SpareStatus>,
    /// Blocks whose checksum did not fit, since the start.
    pub wrong: u64,
    /// Blocks that a member could not read.
    pub unreadable: u64,
    /// Blocks that were rebuilt and written again.
    pub repaired: u64,
    /// Blocks that nothing could rebuild.
    pub lost: u64,
    /// The scrub that runs, or the last one.
    pub scrub: Scrub,
    /// Volumes whose rows are being given back.
    pub erasing: Vec<Erasure>,
}

/// How far a scrub is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scrub {
    /// How many were begun since the pool was opened.
    pub begun: u64,
    /// It runs.
    pub runs: bool,
    /// Rows that it has verified.
    pub rows: u64,
    /// Blocks that were bad.
    pub bad: u64,
    /// Of those, repaired.
    pub repaired: u64,
    /// Of those, lost.
    pub lost: u64,
    /// Rows whose blocks did not fit one another.
    pub uneven: u64,
    /// Bytes of members verified a second, of late.
    pub bytes_per_second: u64,
    /// How long it takes yet at this rate, while it runs and as far as that can be said.
    pub left: Option<Duration>,
}

/// Why something cannot be done to a pool. Sentences with a hint.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Refusal {
    /// There is no such slot.
    #[error("pool {pool} has no slot {slot}; hint: its slots are 0 to {last}")]
    NoSlot {
        /// Of which pool.
        pool: String,
        /// Which slot.
        slot: usize,
        /// The highest one.
        last: usize,
    },
    /// The pool needs the member.
    #[error(
        "member {slot} of pool {pool} cannot be spared: {level} would lose data; hint: bring the other members back first"
    )]
    Needed {
        /// Of which pool.
        pool: String,
        /// Which slot.
        slot: usize,
        /// How its members are arranged.
        level: Level,
    },
    /// A member has to be out before another one comes.
    #[error("member {slot} of pool {pool} is in use; hint: take it out first")]
    InUse {
        /// Of which pool.
        pool: String,
        /// Which slot.
        slot: usize,
    },
    /// It cannot have more than it has.
    #[error(
        "pool {pool} has no room to grow: {place} has {bytes} bytes, and {used} are in use; hint: replace all members by larger ones first"
    )]
    NoRoom {
        /// Which pool.
        pool: String,
        /// The smallest member.
        place: String,
        /// Its bytes.
        bytes: u64,
        /// Those that are in use.
        used: u64,
    },
    /// Something is to be mended first.
    #[error(
        "not all members of pool {pool} are in sync; hint: bring them back, or wait until they are rebuilt"
    )]
    NotInSync {
        /// Which pool.
        pool: String,
    },
    /// It can have no further members, or not these.
    #[error("pool {pool} cannot be extended: {why}")]
    NotExtended {
        /// Which pool.
        pool: String,
        /// A sentence's end, with a hint.
        why: ExtensionError,
    },
    /// There is no such spare.
    #[error("pool {pool} has no such spare; hint: its status lists those that it has")]
    NoSpare {
        /// Of which pool.
        pool: String,
    },
    /// A spare could never be used.
    #[error(
        "pool {pool} is {level}, which goes on without none of its members: a spare is of no use; hint: keep the disk for another pool"
    )]
    NoRedundancy {
        /// Which pool.
        pool: String,
        /// How its members are arranged.
        level: Level,
    },
    /// There are too many.
    #[error("pool {pool} has {most} spares already; hint: remove one")]
    TooManySpares {
        /// Which pool.
        pool: String,
        /// As many as there can be.
        most: usize,
    },
    /// A member is too small.
    #[error(
        "{place} has {bytes} bytes, members of pool {pool} have {wanted}; hint: take one that is as large"
    )]
    TooSmall {
        /// Of which pool.
        pool: String,
        /// Which member.
        place: String,
        /// Its bytes.
        bytes: u64,
        /// What is needed.
        wanted: u64,
    },
}

impl Handle {
    /// Of a pool that is open.
    pub fn new(shared: Arc<Shared>) -> Handle {
        Handle(shared)
    }

    /// How it is now.
    pub fn status(&self) -> Status {
        let shared = &self.0;
        let (out, rebuilding) = (shared.states.out(), shared.states.rebuilding());
        let (watch, said) = (&shared.watch, shared.watch.said());
        let rows = shared.geometry.rows;
        let member = |slot: usize| MemberStatus {
            set: shared.geometry.set_of_slot(slot),
            place: shared.member(slot).map(|member| member.place().to_string()),
            cause: said.causes.get(slot).copied().flatten().filter(|_| out & 1 << slot != 0),
            progress: (rebuilding & 1 << slot != 0)
                .then(|| watch.rebuilds[slot].progress(shared.states.cursor(slot), rows)),
            read_time: watch.mean(slot, 0),
            write_time: watch.mean(slot, 1),
            slow: watch.is_slow(slot),
            state: if out & 1 << slot != 0 {
                MemberState::Out
            } else if rebuilding & 1 << slot != 0 {
                MemberState::Rebuilding { rows: shared.states.cursor(slot) }
            } else {
                MemberState::InSync
            },
        };
        let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        let (counters, scrub) = (&shared.counters, &shared.scrub);
        let spare = |id: &Id| SpareStatus {
            id: *id,
            place: watch.spare(id).map(|member| member.place().to_string()),
        };
        let all_rows = shared.geometry.all_rows();
        let (scrubs, progress) = (
            scrub.runs.load(Ordering::Relaxed),
            watch.scrub.progress(shared.geometry.rows_before(count(&scrub.row)), all_rows),
        );
        Status {
            name: shared.name.clone(),
            id: shared.id,
            level: shared.geometry.level,
            unit: shared.geometry.unit,
            rows: all_rows,
            bytes: shared.geometry.pool_bytes(),
            integrity: shared.integrity,
            has_failed: shared.has_failed(),
            members: (0..usize::from(shared.geometry.slots)).map(member).collect(),
            spares: said.spares.iter().map(spare).collect(),
            wrong: count(&counters.wrong),
            unreadable: count(&counters.unreadable),
            repaired: count(&counters.repaired),
            lost: count(&counters.lost),
            scrub: Scrub {
                begun: count(&scrub.begun),
                runs: scrubs,
                rows: progress.rows,
                bad: count(&scrub.bad),
                repaired: count(&scrub.repaired),
                lost: count(&scrub.lost),
                uneven: count(&scrub.uneven),
                bytes_per_second: progress.bytes_per_second,
                left: progress.left.filter(|_| scrubs),
            },
            erasing: self.0.erasing.list(),
        }
    }

    /// Begins to verify everything, unless that is being done. It goes on after a restart.
    pub fn scrub(&self) {
        self.0.keeper.send(Message::Scrub).ok();
    }

    /// Ends a scrub after the row that it is at.
    pub fn stop_scrub(&self) {
        self.0.scrub.stop.store(true, Ordering::Release);
    }

    /// Whether the pool could do without a member.
    pub fn check_spared(&self, slot: usize) -> Result<(), Refusal> {
        self.check(slot)?;
        let gone = self.0.states.out() | self.0.states.rebuilding() | 1 << slot;
        if self.0.geometry.survives(gone) {
            return Ok(());
        }
        let level = self.0.geometry.level;
        Err(Refusal::Needed { pool: self.0.name.clone(), slot, level })
    }

    /// Takes a member out. What is written from now on it gets when it is back.
    pub fn offline(&self, slot: usize) -> Result<(), Refusal> {
        self.check_spared(slot)?;
        self.0.keeper.send(Message::Offline { slot }).ok();
        Ok(())
    }

    /// Brings a member in for a slot that is out: the one that was there gets what it missed, another one everything.
    pub fn online(&self, slot: usize, member: Member) -> Result<(), Refusal> {
        self.online_telling(slot, member, Box::new(|_| {}))
    }

    /// As [`Handle::online`]; `answer` is told whether the member is taken, and why not: a sentence's end.
    pub(super) fn online_telling(&self, slot: usize, member: Member, answer: Answer) -> Result<(), Refusal> {
        self.check_out(slot)?;
        self.is_large(&member)?;
        self.0.keeper.send(Message::Online { slot, member: Arc::new(member), answer }).ok();
        Ok(())
    }

    /// Gives the pool a blank member that takes the place of one that fails, by itself; or brings one in that is a spare already
    /// and was missing.
    pub fn add_spare(&self, member: Member) -> Result<(), Refusal> {
        self.add_spare_telling(member, Box::new(|_| {}))
    }

    /// As [`Handle::add_spare`]; `answer` is told whether it is one, and why not: a sentence's end.
    pub(super) fn add_spare_telling(&self, member: Member, answer: Answer) -> Result<(), Refusal> {
        self.check_spares()?;
        self.is_large(&member)?;
        self.0.keeper.send(Message::AddSpare { member: Arc::new(member), answer }).ok();
        Ok(())
    }

    /// Whether the pool can have one more spare.
    pub fn check_spares(&self) -> Result<(), Refusal> {
        let (pool, geometry) = (self.0.name.clone(), &self.0.geometry);
        if geometry.redundancy() == 0 {
            return Err(Refusal::NoRedundancy { pool, level: geometry.level });
        }
        if self.0.watch.spares().len() >= MAX_SPARES {
            return Err(Refusal::TooManySpares { pool, most: MAX_SPARES });
        }
        Ok(())
    }

    /// A spare is none any more, and blank again if it is there.
    pub fn remove_spare(&self, id: &Id) -> Result<(), Refusal> {
        if !self.0.watch.said().spares.contains(id) {
            return Err(Refusal::NoSpare { pool: self.0.name.clone() });
        }
        self.0.keeper.send(Message::RemoveSpare(*id)).ok();
        Ok(())
    }

    /// Gives the pool the rows that its members have room for, once all of them were replaced by larger ones. Status has the new
    /// size when it is done; volumes can have it then.
    pub fn grow(&self) -> Result<(), Refusal> {
        self.check_growth()?;
        self.0.keeper.send(Message::Grow).ok();
        Ok(())
    }

    /// Whether it can grow.
    pub fn check_growth(&self) -> Result<(), Refusal> {
        let (shared, pool) = (&self.0, self.0.name.clone());
        let there = (0..usize::from(shared.geometry.slots)).map(|slot| shared.member(slot));
        let members = there.collect::<Option<Vec<_>>>().filter(|_| shared.states.all_in_sync());
        let Some(members) = members else { return Err(Refusal::NotInSync { pool }) };
        if let Some(smallest) = members.iter().min_by_key(|member| member.bytes())
            && shared.geometry.grown(smallest.bytes()).is_none()
        {
            let (place, used) = (smallest.place().to_string(), shared.geometry.bytes);
            return Err(Refusal::NoRoom { pool, place, bytes: smallest.bytes(), used });
        }
        Ok(())
    }

    /// Gives the pool further members.
    pub fn extend(&self, members: Vec<Member>) -> Result<(), Refusal> {
        self.extend_telling(members, Box::new(|_| {}))
    }

    /// As [`Handle::extend`]; `answer` is told whether it has them, and why not: a sentence.
    pub(super) fn extend_telling(&self, members: Vec<Member>, answer: Answer) -> Result<(), Refusal> {
        self.check_extension(members.len())?;
        members.iter().try_for_each(|member| self.is_large(member))?;
        let members = members.into_iter().map(Arc::new).collect();
        self.0.keeper.send(Message::Extend { members, answer }).ok();
        Ok(())
    }

    /// Whether it can have so many further members.
    pub fn check_extension(&self, members: usize) -> Result<(), Refusal> {
        let pool = self.0.name.clone();
        self.0.geometry.extended(members).map_err(|why| Refusal::NotExtended { pool: pool.clone(), why })?;
        if self.0.states.all_in_sync() { Ok(()) } else { Err(Refusal::NotInSync { pool }) }
    }

    /// Whether `label` is of one that was to be a further member, when a cut came before that: it can be given again.
    pub fn never_came_in(&self, label: &Label) -> bool {
        let is_further = label.slot.is_some_and(|slot| slot >= self.0.geometry.slots);
        label.pool == self.0.id && is_further
    }

    fn is_large(&self, member: &Member) -> Result<(), Refusal> {
        let wanted = self.0.geometry.bytes;
        if member.bytes() >= wanted {
            return Ok(());
        }
        let (pool, place) = (self.0.name.clone(), member.place().to_string());
        Err(Refusal::TooSmall { pool, place, bytes: member.bytes(), wanted })
    }

    /// Whether a slot is out, and waits for a member.
    pub(super) fn check_out(&self, slot: usize) -> Result<(), Refusal> {
        self.check(slot)?;
        let is_out = self.0.states.out() & 1 << slot != 0;
        if is_out { Ok(()) } else { Err(Refusal::InUse { pool: self.0.name.clone(), slot }) }
    }

    /// The pool's name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Asks the keeper.
    pub(super) fn tell(&self, message: Message) {
        self.0.keeper.send(message).ok();
    }

    pub(super) fn shared(&self) -> &Shared {
        &self.0
    }

    /// Where the member of a slot is, or was before it went out.
    pub fn place(&self, slot: usize) -> Option<Place> {
        self.0.member(slot).map(|member| member.place().clone())
    }

    /// The slot whose member is at a place.
    pub(super) fn slot_at(&self, place: &Place) -> Option<usize> {
        (0..usize::from(self.0.geometry.slots)).find(|slot| self.place(*slot).as_ref() == Some(place))
    }

    /// Where a spare is, if it is there.
    pub fn spare_place(&self, id: &Id) -> Option<Place> {
        self.0.watch.spare(id).map(|member| member.place().clone())
    }

    /// Whether a spare is at a place.
    pub(super) fn is_spare(&self, place: &Place) -> bool {
        self.0.watch.spares().iter().any(|(_, member)| member.place() == place)
    }

    /// Bytes that a member has.
    pub fn member_bytes(&self) -> u64 {
        self.0.geometry.bytes
    }

    /// Whether there is such a slot.
    pub fn check(&self, slot: usize) -> Result<(), Refusal> {
        let slots = usize::from(self.0.geometry.slots);
        if slot < slots {
            return Ok(());
        }
        Err(Refusal::NoSlot { pool: self.0.name.clone(), slot, last: slots - 1 })
    }
}
