//! Spares, as the keeper has them: members that wait for another one to fail, and then take its place by themselves. And what
//! else the keeper does now and then: it holds members against one another, and notes how far a scrub is.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ring::Buffer;

use super::core::Trouble;
use super::format::label::MAX_SPARES;
use super::format::{BLOCK, Cause, End, Id, Label, ScrubPlace, SlotState};
use super::keeper::Keeper;
use super::member::Member;
use super::open::{random_id, read_label};
use super::watch::{Said, Turn};
use crate::limits::{POOL_MEMBER_STALL, POOL_SPARE_GRACE};
use crate::request::{Flags, Request};

impl Keeper {
    /// Says to whoever asks what the labels have.
    pub(super) fn publish(&self) {
        let cause = |state: &SlotState| match state {
            SlotState::Out { cause, .. } => Some(*cause),
            _ => None,
        };
        let causes = self.label.slots.iter().map(|slot| cause(&slot.state)).collect();
        self.shared().watch.say(Said { causes, spares: self.label.spares.clone() });
    }

    /// What is looked after now and then.
    pub(super) async fn look(&mut self) {
        let shared = self.core.shared.clone();
        for (slot, turn) in self.slow.window(&shared.watch, shared.states.out()) {
            let place = shared.member(slot).map_or_else(String::new, |member| member.place().to_string());
            match turn {
                Turn::Slow(own, others) => tracing::warn!(
                    pool = shared.name,
                    "member {slot}, {place}, is slow: it takes {own} microseconds where the others take {others}; \
                     hint: look at its SMART values and its cable, and replace it if that goes on"
                ),
                Turn::Well => {
                    tracing::info!(
                        pool = shared.name,
                        "member {slot}, {place}, is as fast as the others again"
                    );
                }
            }
        }
        self.fill_in().await;
    }

    /// Whether a spare is to take a slot: its member failed, or was missing for long; but not when an administrator took it out.
    fn wants_spare(&self, slot: usize) -> bool {
        let SlotState::Out { cause, .. } = self.label.slots[slot].state else { return false };
        let waited = self.core.ring.now().since(self.began) >= POOL_SPARE_GRACE;
        cause != Cause::Administrator
            && self.unwanted & 1 << slot == 0
            && (self.faulted & 1 << slot != 0 || waited)
    }

    /// Gives the slots that want one a spare, as long as there are some.
    pub(super) async fn fill_in(&mut self) {
        for slot in 0..self.label.slots.len() {
            if self.shared().stops() || self.shared().has_failed() || self.shared().watch.spares().is_empty()
            {
                return;
            }
            if self.wants_spare(slot) {
                self.take_spare(slot).await;
            }
        }
    }

    /// A spare takes a slot. The labels of all others say so before anything of it is rebuilt.
    async fn take_spare(&mut self, slot: usize) {
        let shared = self.core.shared.clone();
        while let Some(id) = self.label.spares.iter().find(|id| shared.watch.spare(id).is_some()).copied() {
            let Some(member) = shared.watch.spare(&id) else { return };
            shared.watch.drop_spare(&id);
            if let Err(why) = self.is_usable(&member, &id).await {
                tracing::error!(
                    pool = shared.name,
                    "the spare {} cannot take the place of member {slot}: it {why}; hint: replace it",
                    member.place()
                );
                continue;
            }
            tracing::warn!(
                pool = shared.name,
                "the spare {} takes the place of member {slot} and is being rebuilt; hint: add another spare",
                member.place()
            );
            self.label.spares.retain(|other| *other != id);
            // It never had anything: nothing has to be read of it.
            drop(self.install(slot, member, Some(id)).await);
            return self.write_spares().await;
        }
    }

    /// Whether a spare is still the one that it was. The error is a sentence's end.
    async fn is_usable(&self, member: &Member, id: &Id) -> Result<(), String> {
        if member.bytes() < self.shared().geometry.bytes {
            return Err(format!("has {} bytes only", member.bytes()));
        }
        let tail = self.shared().geometry.label_place(End::Tail);
        match read_label(&self.core.ring, member, &[tail]).await {
            Ok(Some(label)) if label.pool == self.label.pool && label.member == *id => Ok(()),
            Ok(_) => Err("has lost its label".to_owned()),
            Err(error) => Err(format!("cannot be used: {error}")),
        }
    }

    /// As [`Keeper::add_spare`], with what is to be said of it in the log.
    pub(super) async fn take_in(&mut self, member: Arc<Member>) -> Result<(), String> {
        let (pool, place) = (self.shared().name.clone(), member.place().to_string());
        if let Err(why) = self.add_spare(member).await {
            tracing::error!(
                pool,
                "{place} cannot be a spare: it {why}; hint: give another one, or wipe it if nobody needs what is on it"
            );
            return Err(why);
        }
        tracing::info!(pool, "{place} is a spare from now on");
        self.fill_in().await;
        Ok(())
    }

    /// A blank member is a spare from now on, or one that is a spare already is there again. The error is why not: a sentence's
    /// end.
    pub(super) async fn add_spare(&mut self, member: Arc<Member>) -> Result<(), String> {
        let wanted = self.shared().geometry.bytes;
        if member.bytes() < wanted {
            return Err(format!("has {} bytes, and members of this pool have {wanted}", member.bytes()));
        }
        let id = match self.own_label(&member).await? {
            Some(label) if self.label.spares.contains(&label.member) => label.member,
            Some(label) if self.label.slot_of(&label.member).is_some() => {
                return Err("is a member of this pool".to_owned());
            }
            Some(_) => return Err("was a member of this pool and was replaced".to_owned()),
            None => random_id(),
        };
        if !self.label.spares.contains(&id) {
            if self.label.spares.len() == MAX_SPARES {
                let watch = &self.shared().watch;
                let missing = self.label.spares.iter().position(|id| watch.spare(id).is_none());
                let missing = missing.ok_or_else(|| format!("would be one more than {MAX_SPARES}"))?;
                self.label.spares.remove(missing);
            }
            self.label.spares.push(id);
            // Of the members first: a spare that they do not know would pass for one that was replaced.
            self.write_labels(None).await;
        }
        if let Err(trouble) = self.write_spare(&member, &id).await {
            self.label.spares.retain(|other| *other != id);
            self.write_labels(None).await;
            return Err(format!("cannot be written: {trouble}"));
        }
        self.shared().watch.drop_spare(&id);
        self.shared().watch.spares().push((id, member));
        self.write_spares().await;
        Ok(())
    }

    /// A spare is none any more; it is blank again if it is there.
    pub(super) async fn remove_spare(&mut self, id: &Id) {
        let shared = self.core.shared.clone();
        if !self.label.spares.contains(id) {
            return;
        }
        // Before the labels: one that the members do not know any more would pass for one that was replaced.
        if let Some(member) = shared.watch.spare(id) {
            shared.watch.drop_spare(id);
            if let Err(trouble) = self.write_ends(&member, |_| Buffer::zeroed(BLOCK)).await {
                tracing::warn!(
                    pool = shared.name,
                    "the label of the spare {} could not be wiped: {trouble}",
                    member.place()
                );
            }
        }
        self.label.spares.retain(|other| other != id);
        self.write_labels(None).await;
        self.write_spares().await;
    }

    /// Writes the labels of all spares that are there. One that does not take it is not there any more.
    pub(super) async fn write_spares(&mut self) {
        let shared = self.core.shared.clone();
        let spares = shared.watch.spares().clone();
        for (id, member) in spares {
            if let Err(trouble) = self.write_spare(&member, &id).await {
                shared.watch.drop_spare(&id);
                tracing::error!(
                    pool = shared.name,
                    "the spare {} cannot be written: {trouble}; hint: replace it",
                    member.place()
                );
            }
        }
    }

    async fn write_spare(&self, member: &Member, id: &Id) -> Result<(), String> {
        self.write_ends(member, |end| {
            let label = Label { slot: None, member: *id, end, clean: false, ..self.label.clone() };
            Buffer::copy_of(&label.encode())
        })
        .await
    }

    /// Writes both labels of a member that has no slot, durably.
    async fn write_ends(&self, member: &Member, content: impl Fn(End) -> Buffer) -> Result<(), String> {
        let stack = member.stack(&self.core.ring).map_err(|error| error.to_string())?;
        for end in End::BOTH {
            let place = self.shared().geometry.label_place(end);
            let write = stack.submit(Request::write(place, content(end)).with(Flags::FUA));
            match self.core.ring.timeout(POOL_MEMBER_STALL, write).await {
                Some(completion) => completion.result.map_err(|error| error.to_string())?,
                None => return Err(Trouble::Stall.to_string()),
            }
        }
        Ok(())
    }

    /// Begins to verify everything, unless that is being done.
    pub(super) async fn scrub(&mut self) {
        if self.shared().scrub.runs.load(Ordering::Acquire) {
            return;
        }
        let place = ScrubPlace { row: 0, bad: 0, repaired: 0, lost: 0, uneven: 0 };
        self.label.scrub = Some(place);
        self.begin_scrub(&place);
        self.write_labels(None).await;
    }

    /// Verifies everything from a row on.
    pub(super) fn begin_scrub(&self, place: &ScrubPlace) {
        self.shared().scrub.begin(place);
        self.core.ring.spawn_later(self.core.clone().scrub());
    }

    /// How far the scrub is that runs.
    pub(super) fn scrub_place(&self) -> Option<ScrubPlace> {
        let report = &self.shared().scrub;
        report.runs.load(Ordering::Acquire).then(|| report.place())
    }

    /// What was verified, and made good, need not be looked at again after a restart: as soon as it is durable.
    pub(super) async fn save_scrub(&mut self) {
        if let Some(place) = self.scrub_place() {
            self.label.scrub = Some(place);
            self.checkpoint().await;
        }
    }

    /// A scrub has ended, unless another one has begun.
    pub(super) async fn scrubbed(&mut self) {
        if !self.shared().scrub.runs.load(Ordering::Acquire) {
            self.label.scrub = None;
            // What it has repaired last is durable before the labels say that it is over.
            self.checkpoint().await;
        }
    }
}
