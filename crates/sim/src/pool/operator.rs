//! What is done about members while a pool runs: by an administrator, and by spares themselves.

use std::rc::Rc;
use std::time::Duration;

use plane::limits::{POOL_MEMBER_STALL, POOL_SPARE_GRACE, POOL_WATCH};
use plane::pool::format::{Cause, End};
use plane::pool::layout::members;
use plane::pool::{Handle, Member, MemberLocks, MemberState, Place, admit, admit_spare};
use ring::Ring;
use ring::sim::Fault;

use super::accidents::Accident;
use super::lane::Control;
use super::play::History;
use super::roster::path;
use crate::Failure;

const BLOCK: u64 = 4096;

/// Bytes of a volume in new rows, about.
const ROOM_BYTES: u64 = 320 << 10;

/// How long is waited for some moment of what goes on, where little does.
const A_WHILE: Duration = Duration::from_secs(60);

/// What an administrator needs.
pub(super) struct Tools {
    pub(super) ring: Ring,
    pub(super) locks: Rc<MemberLocks>,
    pub(super) handle: Handle,
    control: Rc<Control>,
}

impl Tools {
    pub(super) fn tell(&self, what: &str, result: Result<(), String>) {
        let result = result.err().map_or_else(|| "done".to_owned(), |why| format!("refused: {why}"));
        self.control.story.borrow_mut().push(format!("  {what} is {result}"));
    }

    /// Brings what is at a file into a slot; `bytes`: of a file that is made for it.
    async fn bring_in(&self, slot: usize, file: usize, bytes: Option<u64>) -> Result<(), String> {
        let place = Place::Path(path(file));
        if bytes.is_some() {
            Member::open(&self.ring, place.clone(), bytes, None).await.map_err(|error| error.to_string())?;
        }
        let taken = admit(&self.ring, &self.locks, &self.handle, slot, place, false).await;
        taken.map_err(|error| error.to_string())
    }

    /// As `fels pool replace`.
    async fn replace(&self, slot: usize, file: usize, bytes: u64) -> Result<(), String> {
        if self.handle.status().members[slot].state != MemberState::Out {
            self.handle.offline(slot).map_err(|error| error.to_string())?;
            self.control.unwanted.set(self.control.unwanted.get() | 1 << slot);
        }
        while self.handle.status().members[slot].cause.is_none() {
            self.ring.sleep(Duration::from_millis(1)).await;
        }
        self.bring_in(slot, file, Some(bytes)).await
    }

    async fn add_spare(&self, file: usize, bytes: u64) -> Result<(), String> {
        let place = Place::Path(path(file));
        Member::open(&self.ring, place.clone(), Some(bytes), None)
            .await
            .map_err(|error| error.to_string())?;
        let taken = admit_spare(&self.ring, &self.locks, &self.handle, place, false).await;
        taken.map_err(|error| error.to_string())
    }
}

impl History {
    pub(super) fn tools(&self) -> Tools {
        let machine = &self.machine;
        Tools {
            ring: machine.reactor(0).ring().clone(),
            locks: machine.locks(),
            handle: machine.handle(),
            control: self.control.clone(),
        }
    }

    /// A file for a new member.
    fn new_file(&self) -> Option<usize> {
        self.machine.roster.add_file()
    }

    /// Something is done while the lanes work. True when the work is to end in the middle of it.
    pub(super) fn administrate(&mut self) -> Result<bool, Failure> {
        self.machine.roster.refresh();
        let plan = &self.machine.plan;
        if plan.further > 0 && (!plan.is_tended || self.random.bool()) {
            return self.extend();
        }
        if self.machine.plan.grows && self.random.u8(0..4) > 0 {
            return self.enlarge();
        }
        match self.random.u8(0..8) {
            0..3 => {
                let slot = self.random.usize(0..self.slots());
                self.replace(slot);
            }
            3..5 => self.add_spare(),
            5 => self.remove_spare(),
            _ => self.harm_spare(),
        }
        Ok(false)
    }

    /// Members that have no room are replaced by larger ones; then the pool grows.
    fn enlarge(&mut self) -> Result<bool, Failure> {
        let (roster, wanted) = (self.machine.roster.clone(), self.machine.plan.later_bytes);
        let is_small = |slot: &usize| {
            roster.node.file_length(&roster.path_of(*slot)).is_some_and(|bytes| bytes < wanted)
        };
        if let Some(slot) = (0..self.slots()).find(is_small) {
            self.replace(slot);
            return Ok(false);
        }
        if self.machine.handle().grow().is_err() {
            return Ok(false);
        }
        self.note("the pool is to grow");
        if self.random.bool() {
            return Ok(false);
        }
        self.go_some_steps()?;
        Ok(true)
    }

    /// To some moment of what goes on now.
    pub(super) fn go_some_steps(&mut self) -> Result<(), Failure> {
        let most = [60, 600, 3000][self.random.usize(0..3)];
        let mut steps = self.random.u32(0..most);
        let world = &self.machine.world;
        // A step of a pool that has nothing to do takes seconds.
        let end = world.now() + A_WHILE;
        world.run_until(|| {
            steps = steps.saturating_sub(1);
            steps == 0 || world.now() >= end
        })?;
        self.verdict()
    }

    /// While the machine is off: a pool that has grown gets a volume in its new rows, which begins near the old end.
    pub(super) fn take_room(&mut self) {
        self.machine.roster.refresh();
        let (now, before) = (self.machine.geometry(), self.made);
        if now.rows <= before.rows || self.machine.volumes_wanted() > self.machine.plan.volumes.len() {
            return;
        }
        let end = self.control.atlas.borrow().end(0);
        let first = before.rows.saturating_sub(self.random.u64(0..3)).max(end);
        let most = (ROOM_BYTES / now.row_bytes()).clamp(2, 8).min(now.rows - first);
        if self.random.bool() && most > 0 {
            let rows = self.random.u64(1..=most);
            self.note(format_args!("a volume is to have {rows} rows from {first} on"));
            self.machine.want_volume(first, rows, if self.random.bool() { 512 } else { 4096 });
        }
    }

    /// When all is well, a pool whose members have room grows.
    pub(super) fn grow_at_last(&mut self) -> Result<(), Failure> {
        let handle = self.machine.handle();
        let before = handle.status().rows;
        let wanted = self.machine.plan.later_bytes;
        let has_small_spares =
            handle.status().spares.iter().filter_map(|spare| spare.place.as_deref()).any(|place| {
                self.machine.node.file_length(place.as_ref()).is_some_and(|bytes| bytes < wanted)
            });
        if has_small_spares || handle.grow().is_err() {
            return Ok(());
        }
        self.note("the pool is to grow at last");
        let end = self.machine.world.now() + Duration::from_secs(30);
        while handle.status().rows == before {
            self.machine.world.run_for(Duration::from_millis(20))?;
            if self.machine.world.now() > end {
                return Err(Failure("the pool does not grow, though all of its members have room".into()));
            }
        }
        self.take_stock()
    }

    /// A member is replaced by a new one, if the others can do without it.
    fn replace(&mut self, slot: usize) {
        let mut atlas = self.control.atlas.borrow_mut();
        let bad = atlas.bad(&self.machine.roster);
        if !atlas.affords_all(&bad, slot) && !self.machine.plan.beyond {
            return;
        }
        let Some(file) = self.new_file() else { return };
        atlas.away |= 1 << slot;
        atlas.look(&self.machine.roster);
        drop(atlas);
        self.note(format_args!("member {slot} is replaced by {}", path(file).display()));
        let (tools, bytes) = (self.tools(), self.machine.plan.later_bytes);
        self.machine.reactor(0).ring().spawn_later(async move {
            let result = tools.replace(slot, file, bytes).await;
            tools.tell(&format!("replacing member {slot}"), result);
        });
    }

    fn add_spare(&mut self) {
        let Some(file) = self.new_file() else { return };
        self.note(format_args!("{} becomes a spare", path(file).display()));
        let (tools, bytes) = (self.tools(), self.machine.plan.later_bytes);
        self.machine.reactor(0).ring().spawn_later(async move {
            let result = tools.add_spare(file, bytes).await;
            tools.tell("the spare", result);
        });
    }

    fn remove_spare(&mut self) {
        let handle = self.machine.handle();
        let spares = handle.status().spares;
        if let Some(spare) = self.random.choice(&spares) {
            self.note(format_args!("the spare {:?} is to be none any more", spare.place));
            handle.remove_spare(&spare.id).ok();
        }
    }

    /// Something befalls a spare, which has nothing yet that could be lost.
    pub(super) fn harm_spare(&mut self) {
        let spares = self.machine.roster.spares();
        let Some(file) = self.random.choice(&spares).copied() else { return };
        let label = self.machine.geometry().label_place(End::BOTH[self.random.usize(0..2)]);
        let label = label..label + BLOCK;
        let accident = match self.random.u8(0..8) {
            0..2 => Accident::Unwritable(0..u64::MAX),
            2 => Accident::Unflushable,
            3 => Accident::Detach,
            4 => Accident::Stall,
            5 => Accident::Pending(label),
            6 => Accident::Drop(label, 1),
            _ => Accident::Spoil { bytes: label, bits: self.random.bool() },
        };
        self.note(format_args!("the spare {}: {accident:?}", path(file).display()));
        self.machine.strike(file, &accident);
    }

    /// While the machine is off: spares go, and what was replaced is wiped.
    pub(super) fn tidy(&mut self) {
        let roster = self.machine.roster.clone();
        let (spares, others) = (roster.spares(), roster.others());
        if self.random.u8(0..4) == 0
            && let Some(file) = self.random.choice(&spares).copied()
        {
            self.note(format_args!("the spare {} is taken away", path(file).display()));
            roster.absent.set(roster.absent.get() | 1 << file);
        }
        if self.random.u8(0..4) == 0
            && let Some(file) = self.random.choice(&others).copied()
            && roster.node.remove_file(&path(file)).is_ok()
        {
            self.note(format_args!("{} is gone for good", path(file).display()));
            roster.wiped(file);
        }
    }

    /// Right after a member has failed: the cut is to come while a spare takes its place. False when none does.
    pub(super) fn pounce(&mut self) -> Result<bool, Failure> {
        let handle = self.machine.handle();
        let status = handle.status();
        let Some(spare) = status.spares.into_iter().find(|spare| spare.place.is_some()) else {
            return Ok(false);
        };
        let (end, mut looks) = (self.machine.world.now() + POOL_MEMBER_STALL * 2, 0);
        let (world, control) = (self.machine.world.clone(), self.control.clone());
        self.machine.world.run_until(|| {
            looks += 1;
            let is_taken = looks % 8 == 0 && handle.spare_place(&spare.id).is_none();
            is_taken || world.now() >= end || control.failure.borrow().is_some()
        })?;
        if handle.spare_place(&spare.id).is_some() {
            return Ok(false);
        }
        self.go_some_steps()?;
        self.note("in the middle of taking over");
        Ok(true)
    }

    /// Waits for as long as a spare may take: no slot is left to itself while one waits that is well.
    pub(super) fn wait_for_spares(&mut self) -> Result<(), Failure> {
        let end = self.machine.world.now() + POOL_SPARE_GRACE + POOL_WATCH * 2 + POOL_MEMBER_STALL * 6;
        while let Some(slot) = self.lacks_spare() {
            self.machine.world.run_for(Duration::from_millis(500))?;
            self.verdict()?;
            if self.machine.world.now() > end {
                return Err(Failure(format!("member {slot} is out, and no spare takes its place")));
            }
        }
        Ok(())
    }

    /// A slot that is out and not wanted so, while a spare waits that is well.
    fn lacks_spare(&self) -> Option<usize> {
        let status = self.machine.handle().status();
        let roster = &self.machine.roster;
        let is_well = |file: &usize| {
            let place = path(*file);
            let is_known = status.spares.iter().any(|spare| spare.place.as_deref() == place.to_str());
            is_known
                && (roster.absent.get() | roster.mute.get()) & 1 << file == 0
                && roster.label(*file).is_some()
                && roster.node.planted(&place).iter().all(|plant| plant.left == Some(0))
        };
        if status.has_failed || !roster.spares().iter().any(is_well) {
            return None;
        }
        let is_unwanted = |slot: usize| self.control.unwanted.get() & 1 << slot != 0;
        let mut members = status.members.iter().enumerate();
        let left = members.find(|(slot, member)| {
            let by_hand = member.cause == Some(Cause::Administrator) || is_unwanted(*slot);
            member.state == MemberState::Out && !by_hand
        });
        left.map(|(slot, _)| slot)
    }

    /// An administrator brings in what is out: what was there if that is well, else something new.
    pub(super) fn mend(&mut self) -> Result<(), Failure> {
        let status = self.machine.handle().status();
        for (slot, member) in status.members.iter().enumerate() {
            if member.state != MemberState::Out {
                continue;
            }
            let (roster, tools) = (self.machine.roster.clone(), self.tools());
            let seat = roster.seat(slot);
            let is_known = roster.label(seat).is_some_and(|label| {
                roster.label_now().is_some_and(|now| now.slots[slot].member == label.member)
            });
            let file = if is_known { Some(seat) } else { None };
            let Some(other) = self.new_file() else { continue };
            let bytes = self.machine.plan.later_bytes;
            let brought = self.machine.world.block_on(self.machine.reactor(0), async move {
                if let Some(file) = file
                    && tools.bring_in(slot, file, None).await.is_ok()
                {
                    return Ok(file);
                }
                tools.bring_in(slot, other, Some(bytes)).await.map(|()| other)
            })?;
            match brought {
                Ok(file) => self.note(format_args!("{} is brought in for slot {slot}", path(file).display())),
                Err(why) => return Err(Failure(format!("nothing can be brought in for slot {slot}: {why}"))),
            }
        }
        Ok(())
    }

    /// The spares that wait and are well; before the pool is opened.
    pub(super) fn waiting_spares(&self) -> Vec<usize> {
        let roster = &self.machine.roster;
        let is_well = |file: &usize| {
            let harmless = |fault| matches!(fault, Fault::FailFlushes);
            (roster.absent.get() | roster.mute.get()) & 1 << file == 0
                && roster.label(*file).is_some()
                && roster
                    .node
                    .planted(&path(*file))
                    .iter()
                    .all(|plant| plant.left == Some(0) || harmless(plant.fault))
        };
        roster.spares().into_iter().filter(is_well).collect()
    }

    /// Nobody has forgotten a spare that waited.
    pub(super) fn look_for_spares(&self, before: &[usize]) -> Result<(), Failure> {
        let roster = &self.machine.roster;
        let now = roster.spares();
        let seats: Vec<usize> =
            members(self.machine.geometry().slot_mask()).map(|slot| roster.seat(slot)).collect();
        match before.iter().find(|file| !now.contains(file) && !seats.contains(file)) {
            Some(file) => {
                Err(Failure(format!("{} was a spare, and is none any more", path(*file).display())))
            }
            None => Ok(()),
        }
    }
}
