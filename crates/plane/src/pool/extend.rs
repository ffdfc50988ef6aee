//! Extending: a pool gets further members while it is used. docs/formats/pool.md, "Extending".

use std::sync::Arc;

use ring::Buffer;

use super::format::{End, Geometry, Label, Slot, SlotState, catalogue};
use super::grow::PAGES;
use super::keeper::Keeper;
use super::member::Member;
use super::open::{never_came_in, random_id};
use crate::request::{Flags, Request};

impl Keeper {
    /// As [`Keeper::try_extend`], with what is to be said of it in the log.
    pub(super) async fn extend(&mut self, further: Vec<Arc<Member>>) -> Result<(), String> {
        let pool = self.shared().name.clone();
        let places: Vec<String> = further.iter().map(|member| member.place().to_string()).collect();
        match self.try_extend(&further).await {
            Ok(()) => tracing::info!(pool, "the pool has further members: {}", places.join(", ")),
            Err(why) => {
                tracing::error!(
                    pool,
                    "the pool cannot be extended: {why}; hint: give other members, or bring those that it has in sync"
                );
                return Err(why);
            }
        }
        Ok(())
    }

    /// Gives the pool further members. The error is why not; then it is as it was.
    async fn try_extend(&mut self, further: &[Arc<Member>]) -> Result<(), String> {
        let shared = self.core.shared.clone();
        let geometry = self.wider(further).await?;
        let first = self.label.slots.len();
        shared.table.grow(&geometry);
        shared.set_members_from(first, further);
        let slots = match self.introduce(first, &geometry).await {
            Ok(slots) => slots,
            Err(why) => {
                shared.set_members_from(first, &[]);
                return Err(why);
            }
        };
        // From the first of these on that is whole the pool has its new members.
        (self.label.geometry, self.label.slots) = (geometry, slots);
        self.label.generation += 1;
        for end in End::BOTH {
            self.write_label(end, geometry.label_place(end)).await;
        }
        if shared.has_failed() {
            return Err("the labels could not be written".to_owned());
        }
        let lacks = |slot: &usize| self.label.slots[*slot].state != SlotState::InSync;
        let lacking: Vec<usize> = (first..self.label.slots.len()).filter(lacks).collect();
        // Before anybody knows of them: whoever does sees that they have nothing.
        for slot in &lacking {
            shared.states.rebuild(*slot, 0);
        }
        shared.geometry.set(geometry);
        self.write_labels(None).await;
        self.write_spares().await;
        for slot in lacking {
            self.core.ring.spawn_later(self.core.clone().rebuild(slot, false));
        }
        Ok(())
    }

    /// The arrangement with further members, each of which can be one. The error is why that cannot be.
    async fn wider(&self, further: &[Arc<Member>]) -> Result<Geometry, String> {
        let shared = self.shared();
        if !shared.states.all_in_sync() {
            return Err("not all of its members are in sync".to_owned());
        }
        if !shared.geometry.can_grow() {
            return Err("it was grown or extended too often since it was opened".to_owned());
        }
        let geometry = shared.geometry.extended(further.len()).map_err(|error| error.to_string())?;
        for member in further {
            let place = member.place();
            if member.bytes() < geometry.bytes {
                let (bytes, wanted) = (member.bytes(), geometry.bytes);
                return Err(format!("{place} has {bytes} bytes, and members of this pool have {wanted}"));
            }
            match self.own_label(member).await.map_err(|why| format!("{place} {why}"))? {
                Some(label) if !never_came_in(&self.label, &label) => {
                    return Err(format!("{place} is a member of this pool, or was one"));
                }
                _ => {}
            }
        }
        Ok(geometry)
    }

    /// Writes all that members have to the new ones, in the slots from `first` on; gives all slots as they are with them. The error
    /// is which one did not take it.
    async fn introduce(&mut self, first: usize, geometry: &Geometry) -> Result<Vec<Slot>, String> {
        let shared = self.core.shared.clone();
        // What new members say of themselves has to have a lower generation than what the others say meanwhile.
        let generation = self.label.generation;
        self.write_labels(None).await;
        let mut label = Label { geometry: *geometry, generation, ..self.label.clone() };
        let state = if geometry.sets == shared.geometry.sets {
            SlotState::Rebuilding { since: generation, cursor: 0, by_bitmap: false }
        } else {
            // Of the rows of a new set nobody ever wrote one.
            SlotState::InSync
        };
        label.slots.resize_with(usize::from(geometry.slots), || Slot { member: random_id(), state });
        for slot in first..label.slots.len() {
            self.write_new_member(slot, &label).await.map_err(|why| {
                let place = shared.member(slot).map_or_else(String::new, |member| member.place().to_string());
                format!("{place}: {why}")
            })?;
        }
        if self.is_in_order() { Ok(label.slots) } else { Err("a member failed meanwhile".to_owned()) }
    }

    /// Whether all members are in sync.
    pub(super) fn is_in_order(&self) -> bool {
        self.shared().states.all_in_sync() && !self.shared().has_failed()
    }

    /// All that a member has, durably. Its labels first: with them it is known for what it is when the power goes.
    async fn write_new_member(&mut self, slot: usize, label: &Label) -> Result<(), String> {
        let geometry = &label.geometry;
        for end in End::BOTH {
            let bytes = Buffer::copy_of(&label.of_slot(slot, end).encode());
            self.write_new(slot, Request::write(geometry.label_place(end), bytes).with(Flags::FUA)).await?;
        }
        for first in (0..geometry.table_pages).step_by(PAGES as usize) {
            self.write_new_pages(slot, geometry, first).await?;
            // This takes long on a large member: the journal is not to be full meanwhile, and no failure is to wait.
            if !self.is_in_order() {
                return Err("another member failed meanwhile".to_owned());
            }
            if self.shared().segments.is_short() {
                self.checkpoint().await;
            }
        }
        self.write_new_bitmap(slot, geometry).await?;
        let catalogue = catalogue::encode(&self.volumes, geometry).map_err(|error| error.to_string())?;
        for end in End::BOTH.into_iter().filter(|_| !catalogue.is_empty()) {
            let place = geometry.catalogue_place(end, label.catalogue.copy);
            self.write_new(slot, Request::write(place, Buffer::copy_of(&catalogue))).await?;
        }
        self.write_new(slot, Request::flush()).await
    }

    async fn write_new(&self, slot: usize, request: Request) -> Result<(), String> {
        self.core.ask(slot, request).await.result.map_err(|trouble| trouble.to_string())
    }
}
