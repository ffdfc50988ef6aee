//! Histories of pools: rounds of work and accidents, each ended by force or in good order, and judged.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use plane::Request;
use plane::disk::Disk;
use plane::pool::Level;
use plane::pool::format::{End, Geometry};
use plane::pool::layout::{Slots, members};
use ring::Buffer;
use ring::sim::Settings;

use super::atlas::Atlas;
use super::lane::{Control, Lane};
use super::machine::{Cut, Machine};
use super::model::{Model, Run};
use super::plan::Plan;
use crate::{Failure, SECTOR};

/// Bytes of one read when a volume is read back.
const READ_BACK: u64 = 128 << 10;

/// A history.
pub struct History {
    pub(super) machine: Machine,
    pub(super) control: Rc<Control>,
    pub(super) random: fastrand::Rng,
    /// Where everything was when the pool was made.
    pub(super) made: Geometry,
    /// Where the hot spot is.
    hot: usize,
    /// Two faults of one member met in one page of its table, or in a page and the journal that has what is missing in it, while
    /// redundancy was used up. What it says cannot be told from the truth.
    deceived: Cell<bool>,
    /// Parity in place of which nobody knows whether what it was computed from is there: see docs/concepts/simulation.md, "What still
    /// fails".
    half_made: Cell<bool>,
}

/// Pools of every level under every accident that their redundancy replaces.
pub fn within_redundancy(seed: u64) -> Result<(u64, u64), Failure> {
    let mut random = fastrand::Rng::with_seed(seed);
    play(seed, Plan::draw(&mut random, false), random)
}

/// The same on cores of which now and then one is not run for a while.
pub fn on_cores_that_starve(seed: u64) -> Result<(u64, u64), Failure> {
    let seed = seed ^ 1 << 62;
    let mut random = fastrand::Rng::with_seed(seed);
    let plan = Plan { nap_chance: 0.002, ..Plan::draw(&mut random, false) };
    play(seed, plan, random)
}

/// The same with so much to do that the journal is filled while cores are not run.
pub fn with_full_journals(seed: u64) -> Result<(u64, u64), Failure> {
    let seed = seed ^ 1 << 60;
    let mut random = fastrand::Rng::with_seed(seed);
    play(seed, Plan::draw_busy(&mut random), random)
}

/// Pools that get further members, whatever happens meanwhile.
pub fn that_are_extended(seed: u64) -> Result<(u64, u64), Failure> {
    let seed = seed ^ 1 << 61;
    let mut random = fastrand::Rng::with_seed(seed);
    play(seed, Plan::draw_extended(&mut random), random)
}

/// Pools under accidents that redundancy cannot replace, too: what is lost is reported as lost, and nothing else is.
pub fn beyond_redundancy(seed: u64) -> Result<(u64, u64), Failure> {
    let mut random = fastrand::Rng::with_seed(seed ^ 1 << 63);
    play(seed, Plan::draw(&mut random, true), random)
}

fn play(seed: u64, plan: Plan, random: fastrand::Rng) -> Result<(u64, u64), Failure> {
    let context = format!("{:?} of {} members, units of {}", plan.level, plan.slots, plan.unit);
    let mut history = History::new(seed, plan, random)?;
    let played = history.play();
    if !history.deceived.get() {
        played.map_err(|Failure(why)| history.tell(&context, &why))?;
    }
    history.leave()
}

impl History {
    fn new(seed: u64, plan: Plan, mut random: fastrand::Rng) -> Result<History, Failure> {
        let settings = Settings {
            torn_sectors: random.bool(),
            sector_bytes: if random.u8(0..3) == 0 { 4096 } else { 512 },
            steps: 2_000_000,
            span: Duration::from_secs(7200),
            nap_chance: plan.nap_chance,
            ..Settings::default()
        };
        let machine = Machine::new(seed, plan, settings)?;
        let sectors: u64 = machine.volumes.iter().map(|volume| volume.bytes / SECTOR as u64).sum();
        let control = Control {
            roster: machine.roster.clone(),
            model: RefCell::new(Model::new(sectors as usize)),
            atlas: RefCell::new(Atlas::new(machine.geometry(), machine.volumes.clone())),
            unwanted: Cell::new(0),
            budget: Cell::new(0),
            working: Cell::new(0),
            done: Cell::new(0),
            tolerated: Cell::new(0),
            story: RefCell::default(),
            failure: RefCell::new(None),
        };
        let hot = random.usize(0..sectors as usize);
        let made = machine.geometry();
        Ok(History {
            machine,
            control: Rc::new(control),
            random,
            made,
            hot,
            deceived: Cell::new(false),
            half_made: Cell::new(false),
        })
    }

    /// How many slots there were when that was looked at last.
    pub(super) fn slots(&self) -> usize {
        self.control.atlas.borrow().slots()
    }

    /// Looks where everything is, and how many members there are.
    fn know_geometry(&self) {
        self.machine.roster.refresh();
        self.control.atlas.borrow_mut().know_geometry(self.machine.geometry());
    }

    /// Notes what happened.
    pub(super) fn note(&self, what: impl std::fmt::Display) {
        let now = self.machine.world.now().as_nanos() / 1000;
        self.control.story.borrow_mut().push(format!("{now} us: {what}"));
    }

    fn tell(&self, context: &str, why: &str) -> Failure {
        self.note("the end");
        Failure(format!("{context}: {why}\n  {}", self.control.story.borrow().join("\n  ")))
    }

    fn play(&mut self) -> Result<(), Failure> {
        let mut up = self.machine.start(None)?;
        for _ in 0..self.random.u32(2..=4) {
            if up {
                self.work()?;
                self.end()?;
            }
            self.between();
            up = self.restart()?;
            if self.deceived.get() {
                return Ok(());
            }
            self.read_back()?;
            if self.deceived.get() {
                return Ok(());
            }
            if self.machine.plan.grows || self.random.bool() {
                self.resync()?;
            }
            if self.random.u8(0..4) == 0 {
                self.scrub()?;
            }
        }
        self.work()?;
        self.end()?;
        self.last_look()
    }

    /// Lanes work, and accidents befall them.
    fn work(&mut self) -> Result<(), Failure> {
        let budget = self.random.u32(self.machine.plan.requests.clone());
        self.control.budget.set(budget);
        let lanes = self.random.usize(self.machine.plan.lanes.clone());
        for lane in 0..lanes {
            let volume = lane % self.machine.volumes.len();
            let entry = &self.machine.volumes[volume];
            let core = self.random.usize(0..self.machine.plan.cores);
            let lane = Lane {
                control: self.control.clone(),
                disk: self.machine.disk(core, volume),
                volume,
                base: self.base(volume),
                sectors: entry.bytes as usize / SECTOR,
                block: entry.block_size as usize / SECTOR,
                row: self.machine.geometry().row_bytes() as usize / SECTOR,
                hot: self.hot,
                random: self.random.fork(),
            };
            self.control.working.set(self.control.working.get() + 1);
            self.machine.reactor(core).ring().spawn_later(lane.run());
        }
        let quiet = self.random.u8(0..4) == 0;
        let accidents = if quiet { 0 } else { self.random.u32(1..=4) };
        let fine = self.random.bool();
        let finishes = self.random.u8(0..3) == 0;
        for _ in 0..accidents {
            if self.meddle(fine)? {
                return Ok(());
            }
        }
        let until = if finishes || self.control.budget.get() == 0 {
            0
        } else {
            self.random.u32(0..self.control.budget.get())
        };
        let steps = self.random.u32(0..150);
        self.go_on(until, steps)?;
        if finishes {
            self.finish()?;
        }
        if self.machine.plan.is_tended && self.random.u8(0..4) == 0 {
            self.wait_for_spares()?;
        }
        Ok(())
    }

    /// Something happens in the middle of it all. True when that ends the work.
    fn meddle(&mut self, fine: bool) -> Result<bool, Failure> {
        let left = self.control.budget.get();
        let until = if left > 0 { self.random.u32(0..left) } else { 0 };
        self.go_on(until, 0)?;
        let is_tended = self.machine.plan.is_tended;
        if (is_tended || self.machine.plan.further > 0) && self.random.u8(0..3) == 0 {
            return self.administrate();
        }
        self.machine.roster.refresh();
        let slot = self.random.usize(0..self.slots());
        let mut atlas = self.control.atlas.borrow_mut();
        let accident = self.machine.draw_accident(&atlas, &mut self.random);
        if self.machine.befall(&mut atlas, slot, &accident) {
            self.note(format_args!("member {slot}: {accident:?}"));
        }
        drop(atlas);
        if is_tended && self.random.u8(0..3) == 0 && self.pounce()? {
            return Ok(true);
        }
        if !fine && self.random.u8(0..6) == 0 {
            // Long enough for a checkpoint.
            self.note("a nap");
            self.machine.world.run_for(Duration::from_secs(6))?;
        }
        Ok(false)
    }

    /// Lets the world go on until so much of the budget is left, and for some more steps.
    fn go_on(&mut self, budget: u32, mut steps: u32) -> Result<(), Failure> {
        let control = self.control.clone();
        self.machine.world.run_until(|| {
            if control.budget.get() <= budget {
                if control.working.get() == 0 || steps == 0 {
                    return true;
                }
                steps -= 1;
            }
            false
        })?;
        self.verdict()
    }

    /// Lets all lanes end what they have begun.
    fn finish(&mut self) -> Result<(), Failure> {
        self.control.budget.set(0);
        let control = self.control.clone();
        self.machine.world.run_until(|| control.working.get() == 0)?;
        self.verdict()
    }

    pub(super) fn verdict(&self) -> Result<(), Failure> {
        self.control.failure.borrow().clone().map_or(Ok(()), Err)
    }

    /// The process ends, one way or another.
    fn end(&mut self) -> Result<(), Failure> {
        let way = self.random.u8(0..10);
        self.note(["power cut", "kill", "stop"][usize::from(way >= 7) + usize::from(way >= 9)]);
        match way {
            0..7 => self.machine.cut(Cut::Power),
            7..9 => self.machine.cut(Cut::Kill),
            _ => {
                self.finish()?;
                self.machine.stop()?;
            }
        }
        self.control.budget.set(0);
        self.control.working.set(0);
        self.control.unwanted.set(0);
        self.control.model.borrow_mut().cut();
        Ok(())
    }

    /// While the machine is off.
    fn between(&mut self) {
        self.know_geometry();
        let slots = self.slots();
        if self.random.bool() {
            self.note("repaired");
            self.machine.repair();
        }
        self.machine.bring_back(&mut self.random);
        if self.machine.plan.is_tended {
            self.tidy();
        }
        let mut atlas = self.control.atlas.borrow_mut();
        atlas.look(&self.machine.roster);
        if self.random.u8(0..3) == 0 {
            let slot = self.random.usize(0..slots);
            if self.machine.put_by(&mut atlas, slot) {
                self.note(format_args!("member {slot} is taken away"));
            }
        }
        if self.random.bool() {
            let slot = self.random.usize(0..slots);
            let accident = self.machine.draw_accident(&atlas, &mut self.random);
            let is_stall = matches!(accident, super::accidents::Accident::Stall);
            if !is_stall && self.machine.befall(&mut atlas, slot, &accident) {
                self.note(format_args!("off, member {slot}: {accident:?}"));
            }
        }
    }

    /// The pool is opened, after some attempts that the power ends. False when it cannot be while so many members are away.
    fn restart(&mut self) -> Result<bool, Failure> {
        if !self.are_good_ones_there() {
            return Ok(false);
        }
        let attempts = if self.random.u8(0..3) == 0 { self.random.u32(1..=3) } else { 0 };
        for _ in 0..attempts {
            let patience = Duration::from_micros(self.random.u64(100..20_000));
            self.note(format_args!("power cut after {patience:?} of opening"));
            self.look_at_media();
            if self.machine.start(Some(patience)).unwrap_or(false) {
                self.machine.cut(Cut::Power);
            }
            if !self.are_good_ones_there() {
                return Ok(false);
            }
        }
        self.take_room();
        self.take_further_room();
        self.look_at_media();
        let spares = self.waiting_spares();
        if let Err(failure) = self.machine.start(None) {
            self.control.atlas.borrow_mut().look(&self.machine.roster);
            if !self.control.atlas.borrow().is_broken() {
                return Err(failure);
            }
            self.heal();
            if let Err(failure) = self.machine.start(None) {
                if !self.machine.plan.beyond || !self.has_no_catalogue() {
                    return Err(failure);
                }
                self.note("no catalogue is whole");
                self.deceived.set(true);
                return Ok(false);
            }
        }
        let mut atlas = self.control.atlas.borrow_mut();
        for volume in atlas.know_volumes(&self.machine.volumes) {
            self.control.model.borrow_mut().extend(volume.bytes as usize / SECTOR);
        }
        drop(atlas);
        self.look_for_spares(&spares)?;
        self.take_stock()?;
        Ok(true)
    }

    /// Old members alone would be taken for good ones: nobody is there to say that they are not. False when those that could
    /// say it have no labels any more.
    fn are_good_ones_there(&mut self) -> bool {
        let survives = |history: &History| {
            let (machine, roster) = (&history.machine, &history.machine.roster);
            let old = machine.not_in_sync() | roster.gone() | roster.unlabelled();
            machine.geometry().survives(old)
        };
        if !survives(self) {
            self.note("all come back");
            self.heal();
        }
        // Within redundancy no pool comes to that: the opening is to say so.
        if survives(self) || !self.machine.plan.beyond {
            return true;
        }
        self.note("too few that are in sync have labels");
        self.deceived.set(true);
        false
    }

    /// Before the pool is opened.
    fn look_at_media(&self) {
        self.know_geometry();
        self.look_at_tables();
        let atlas = self.control.atlas.borrow();
        let lost = atlas.without_journal(&self.machine.roster);
        let halved = atlas.halved();
        // One that is still to fail may do so while the pool is opened, before the others have what it alone has.
        let unused = self.machine.roster.gone() | self.machine.not_in_sync() | self.ailing();
        drop(atlas);
        if !self.machine.geometry().survives(lost | unused) && lost != 0 {
            self.note(format_args!("the journals of members {lost:b} have damage, {unused:b} are not used"));
            self.doubt();
            let has_parity = matches!(self.machine.plan.level, Level::Raid5 | Level::Raid6);
            self.half_made.set(self.half_made.get() || has_parity && unused != 0);
            if lost & halved != 0 {
                self.note("an old page of a table counts, and the journal lacks what is not in it");
                self.deceived.set(true);
            }
        }
    }

    /// Of what was written since the pool was last read back, anything may be there or lost.
    fn doubt(&self) {
        let mut model = self.control.model.borrow_mut();
        for (volume, entry) in self.machine.volumes.iter().enumerate() {
            let sectors = self.base(volume)..self.base(volume) + entry.bytes as usize / SECTOR;
            for block in sectors
                .clone()
                .step_by(8)
                .filter(|block| (*block..*block + 8).any(|sector| model.is_fresh(sector)))
            {
                let offset = ((block - sectors.start) * SECTOR) as u64;
                self.control.atlas.borrow_mut().doubt(volume, &(offset..offset + 4096));
            }
        }
        model.doubt();
    }

    /// Whether no member has a catalogue that is whole: then nobody knows where the volumes are.
    fn has_no_catalogue(&self) -> bool {
        let roster = &self.machine.roster;
        let Some(label) = roster.label_now() else { return true };
        let is_bad = |slot: usize| {
            End::BOTH.into_iter().all(|end| {
                let place = label.geometry.catalogue_place(end, label.catalogue.copy);
                roster.damage(slot).iter().any(|bytes| bytes.start < place + 4096 && place < bytes.end)
            })
        };
        let out = self.machine.not_in_sync();
        members(label.geometry.slot_mask() & !out).all(is_bad)
    }

    fn look_at_tables(&self) {
        if let Some(id) = self.machine.id()
            && !self.control.atlas.borrow_mut().look_at_tables(&self.machine.roster, &id)
        {
            self.note("a page of a table is an old one that looks right");
            self.deceived.set(true);
        }
    }

    /// Everybody is there again, and well, but for what is damaged.
    fn heal(&mut self) {
        self.machine.repair();
        self.machine.roster.absent.set(0);
        self.machine.roster.refresh();
    }

    /// What the pool says of its members is held against what befell them.
    pub(super) fn take_stock(&mut self) -> Result<(), Failure> {
        self.know_geometry();
        let mut atlas = self.control.atlas.borrow_mut();
        atlas.look(&self.machine.roster);
        let out = self.machine.not_in_sync();
        self.note(format_args!("open, away {:b}, not in sync {out:b}", atlas.away));
        if out & !atlas.away != 0 {
            return Err(Failure(format!(
                "members {:b} are out, though only {:b} had accidents",
                out, atlas.away
            )));
        }
        atlas.away = out | self.machine.roster.gone() | self.ailing();
        let in_sync = self.machine.geometry().slot_mask() & !out;
        atlas.seated(&self.machine.roster, in_sync);
        if atlas.survives(atlas.away) {
            atlas.mended();
        }
        atlas.look(&self.machine.roster);
        Ok(())
    }

    /// Members that are still to fail.
    fn ailing(&self) -> Slots {
        use ring::sim::Fault;
        let data = self.machine.data();
        let ails = |slot: usize| {
            self.machine.roster.planted(slot).iter().any(|plant| {
                plant.left != Some(0)
                    && (matches!(plant.fault, Fault::FailWrites | Fault::FailFlushes)
                        || !data.contains(&plant.range.start)
                        || plant.range.end > data.end)
            })
        };
        let slots = 0..usize::from(self.machine.geometry().slots);
        slots.filter(|slot| ails(*slot)).fold(0, |slots, slot| slots | 1 << slot)
    }

    /// Waits until all members that can be are in sync.
    pub(super) fn resync(&mut self) -> Result<(), Failure> {
        if self.machine.roster.gone() | self.ailing() != 0 {
            return Ok(());
        }
        self.mend()?;
        let end = self.machine.world.now() + Duration::from_secs(60);
        while self.machine.not_in_sync() != 0 {
            self.machine.world.run_for(Duration::from_millis(20))?;
            if self.machine.world.now() > end {
                return Err(Failure(format!(
                    "members {:b} are not in sync after a minute",
                    self.machine.not_in_sync()
                )));
            }
        }
        self.take_stock()
    }

    /// Verifies everything; parity too, which reads do not look at.
    fn scrub(&mut self) -> Result<(), Failure> {
        let handle = self.machine.handle();
        handle.scrub();
        // The keeper may have to do with other things first.
        self.machine.world.run_until(|| handle.status().scrub.runs)?;
        self.machine.world.run_until(|| !handle.status().scrub.runs)?;
        let scrub = handle.status().scrub;
        self.note(format_args!("scrubbed: {scrub:?}"));
        let mut atlas = self.control.atlas.borrow_mut();
        atlas.look(&self.machine.roster);
        if atlas.away == 0 && !atlas.is_doomed() {
            if scrub.lost + scrub.uneven != 0 {
                return Err(Failure(format!("a scrub found what must not be: {scrub:?}")));
            }
            atlas.scrubbed();
        }
        Ok(())
    }

    /// The number of a volume's first sector in the model.
    fn base(&self, volume: usize) -> usize {
        self.machine.volumes[..volume].iter().map(|volume| volume.bytes as usize / SECTOR).sum()
    }

    /// Holds all of the volumes against the model.
    fn read_back(&mut self) -> Result<(), Failure> {
        for volume in 0..self.machine.volumes.len() {
            let bytes = self.machine.volumes[volume].bytes;
            let mut offset = 0;
            while offset < bytes {
                let length = READ_BACK.min(bytes - offset);
                if !self.read_whole(volume, offset..offset + length)? {
                    for block in (offset..offset + length).step_by(4096) {
                        self.read_block(volume, block..block + 4096)?;
                    }
                }
                if self.deceived.get() {
                    return Ok(());
                }
                offset += length;
            }
        }
        Ok(())
    }

    fn read_bytes(
        &self,
        volume: usize,
        bytes: &std::ops::Range<u64>,
    ) -> Result<Result<Buffer, plane::Error>, Failure> {
        let (disk, request) = (
            self.machine.disk(0, volume),
            Request::read(bytes.start, Buffer::new((bytes.end - bytes.start) as usize)),
        );
        let read = async move { disk.submit(request).await };
        let completion = self.machine.world.block_on(self.machine.reactor(0), read)?;
        Ok(completion.result.map(|()| completion.buffer))
    }

    /// False when some of it cannot be read.
    fn read_whole(&self, volume: usize, bytes: std::ops::Range<u64>) -> Result<bool, Failure> {
        let Ok(buffer) = self.read_bytes(volume, &bytes)? else { return Ok(false) };
        let run =
            Run { first: self.base(volume) + bytes.start as usize / SECTOR, count: buffer.len() / SECTOR };
        // An opening with enough members puts everything in its place.
        let kept = !self.control.atlas.borrow().is_broken();
        let has_failed = self.machine.handle().status().has_failed;
        let mut model = self.control.model.borrow_mut();
        let settled = if has_failed { model.glance(run, &buffer) } else { model.settle(run, &buffer, kept) };
        let Err(Failure(why)) = settled else { return Ok(true) };
        if self.half_made.get() {
            self.note(format_args!("an update that was made in part: {why}"));
            self.deceived.set(true);
            return Ok(true);
        }
        Err(Failure(format!("reading volume {volume} back at {}: {why}", bytes.start)))
    }

    fn read_block(&self, volume: usize, bytes: std::ops::Range<u64>) -> Result<(), Failure> {
        if self.read_whole(volume, bytes.clone())? {
            return Ok(());
        }
        let mut atlas = self.control.atlas.borrow_mut();
        atlas.look(&self.machine.roster);
        if atlas.may_fail_read(volume, &bytes) {
            self.control.tolerated.set(self.control.tolerated.get() + 1);
            return Ok(());
        }
        Err(Failure(format!("volume {volume} cannot be read back at {bytes:?}, though redundancy suffices")))
    }

    /// Everything is healed: what has to be there is, and still is when as many members are taken away as can be.
    fn last_look(&mut self) -> Result<(), Failure> {
        self.note("healed");
        self.heal();
        // Labels that were damaged as the power went while others were written stay that.
        if !self.are_good_ones_there() {
            return Ok(());
        }
        self.look_at_media();
        if self.deceived.get() {
            return Ok(());
        }
        self.machine.start(None)?;
        self.take_stock()?;
        self.read_back()?;
        self.resync()?;
        if self.machine.plan.grows {
            self.grow_at_last()?;
        }
        if self.machine.plan.further > 0 {
            self.extend_at_last()?;
        }
        self.scrub()?;
        self.read_back()?;
        self.machine.cut(Cut::Kill);
        self.look_at_media();
        let slots = self.slots();
        for _ in 0..3 {
            let slot = self.random.usize(0..slots);
            let beyond = std::mem::replace(&mut self.machine.plan.beyond, false);
            if self.machine.put_by(&mut self.control.atlas.borrow_mut(), slot) {
                self.note(format_args!("member {slot} is taken away at last"));
            }
            self.machine.plan.beyond = beyond;
        }
        if self.deceived.get() {
            return Ok(());
        }
        self.machine.start(None)?;
        self.take_stock()?;
        self.read_back()
    }

    /// Lets everything go. Gives the world's trace, and what was acknowledged.
    fn leave(self) -> Result<(u64, u64), Failure> {
        let (world, done) = (self.machine.world.clone(), self.control.done.get());
        drop(self);
        let trace = world.trace();
        if !world.is_empty() {
            return Err(Failure("descriptors are open after the end".into()));
        }
        match ring::in_use() {
            0 => Ok((trace, done)),
            bytes => Err(Failure(format!("{bytes} bytes of buffers are in use after the end"))),
        }
    }
}
