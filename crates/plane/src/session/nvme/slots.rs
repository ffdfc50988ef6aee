//! The commands of one queue that are under way, found by transfer tag, and which identifiers they have.

use ring::{Buffer, Room};
use wire::nvme::Command;

use crate::session::traffic::Pending;

/// One command from its capsule to its completion.
pub struct Slot {
    /// The command.
    pub command: Command,
    /// Its output data so far; empty while it is being received into.
    pub buffer: Buffer,
    /// Room for data that was asked for and of which nothing has come.
    pub room: Option<Room>,
    /// Bytes of it that have come.
    pub received: u32,
    /// Bytes of it that were asked for.
    pub wanted: u32,
    /// The other half of a fused operation.
    pub partner: Option<SlotId>,
    /// All its data is there.
    pub ready: bool,
    /// It is with the volume or the controller.
    pub running: bool,
    /// Abort commands that wait for its end.
    pub aborts: u32,
    /// It counts as in flight; of the admin queue none does.
    _pending: Option<Pending>,
}

impl Slot {
    /// A command that has just come.
    pub fn new(command: Command, pending: Option<Pending>) -> Slot {
        Slot {
            command,
            buffer: Buffer::empty(),
            room: None,
            received: 0,
            wanted: 0,
            partner: None,
            ready: false,
            running: false,
            aborts: 0,
            _pending: pending,
        }
    }

    /// Whether the host has been asked for data and has not sent all of it.
    pub fn is_owed(&self) -> bool {
        self.received < self.wanted
    }
}

/// Names a command under way; not given again to another one for a while.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlotId(u16);

/// Bits of the place in a tag: queues have at most 1024 entries.
const PLACE_BITS: u32 = 11;
const PLACES: usize = 1 << PLACE_BITS;

impl SlotId {
    /// TTAG.
    pub fn tag(self) -> u16 {
        self.0
    }

    /// From a TTAG.
    pub fn of_tag(tag: u16) -> SlotId {
        SlotId(tag)
    }

    fn place(self) -> usize {
        usize::from(self.0) % PLACES
    }
}

#[derive(Default)]
struct Place {
    generation: u16,
    slot: Option<Slot>,
}

type Identifiers = [u64; 1024];

/// Among so many commands an identifier is looked for one by one.
const FEW: usize = 8;

/// The commands of one queue.
pub struct Slots {
    places: Vec<Place>,
    free: Vec<u16>,
    limit: usize,
    /// One bit per command identifier in use, once there have been more than [`FEW`] commands at a time: an idle queue
    /// does without the memory.
    identifiers: Option<Box<Identifiers>>,
    count: usize,
}

/// Why a command cannot be taken in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Full {
    /// Another command has its identifier.
    IdentifierInUse,
    /// More commands than the queue has entries: the host breaks the rules.
    QueueFull,
}

/// The bit of an identifier in its word.
fn bit(cid: u16) -> u64 {
    1 << (cid % 64)
}

fn set(identifiers: &mut Identifiers, cid: u16) {
    identifiers[usize::from(cid / 64)] |= bit(cid);
}

impl Slots {
    /// For a queue of `limit` entries, fewer than 2048.
    pub fn new(limit: usize) -> Slots {
        assert!(limit < PLACES);
        Slots { places: Vec::new(), free: Vec::new(), limit, identifiers: None, count: 0 }
    }

    /// How many are under way.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether a command with this identifier can be taken in.
    pub fn takes(&self, cid: u16) -> bool {
        self.count < self.limit && (self.count == 0 || !self.is_used(cid))
    }

    fn is_used(&self, cid: u16) -> bool {
        match &self.identifiers {
            Some(identifiers) => identifiers[usize::from(cid / 64)] & bit(cid) != 0,
            None => self.find(cid).is_some(),
        }
    }

    /// Notes an identifier as in use; with the first command that is one of many, those of the others too.
    fn note(&mut self, cid: u16) {
        if self.identifiers.is_none() && self.count >= FEW {
            let mut identifiers = Box::new([0; 1024]);
            self.ids().for_each(|(_, slot)| set(&mut identifiers, slot.command.cid));
            self.identifiers = Some(identifiers);
        }
        if let Some(identifiers) = &mut self.identifiers {
            set(identifiers, cid);
        }
    }

    /// Takes a command in.
    pub fn insert(&mut self, slot: Slot) -> Result<SlotId, Full> {
        if self.count >= self.limit {
            return Err(Full::QueueFull);
        }
        let cid = slot.command.cid;
        if self.is_used(cid) {
            return Err(Full::IdentifierInUse);
        }
        self.note(cid);
        self.count += 1;
        let place = self.free.pop().unwrap_or_else(|| {
            // One, not four as a vector would: an admin queue has one command at a time, mostly.
            self.places.reserve_exact(usize::from(self.places.is_empty()));
            self.places.push(Place::default());
            (self.places.len() - 1) as u16
        });
        let at = &mut self.places[usize::from(place)];
        at.slot = Some(slot);
        Ok(SlotId(at.generation << PLACE_BITS | place))
    }

    /// The command, if it is still under way.
    pub fn get(&mut self, id: SlotId) -> Option<&mut Slot> {
        let place = self.places.get_mut(id.place())?;
        if place.generation << PLACE_BITS == id.0 & !(PLACES as u16 - 1) { place.slot.as_mut() } else { None }
    }

    /// Takes a command out.
    pub fn remove(&mut self, id: SlotId) -> Option<Slot> {
        self.get(id)?;
        let place = &mut self.places[id.place()];
        place.generation = place.generation.wrapping_add(1) & ((1 << (16 - PLACE_BITS)) - 1);
        let slot = place.slot.take()?;
        self.free.push(id.place() as u16);
        self.count -= 1;
        if let Some(identifiers) = &mut self.identifiers {
            identifiers[usize::from(slot.command.cid / 64)] &= !bit(slot.command.cid);
        }
        Some(slot)
    }

    /// The command with this identifier.
    pub fn find(&self, cid: u16) -> Option<SlotId> {
        self.ids().find(|(_, slot)| slot.command.cid == cid).map(|(id, _)| id)
    }

    /// All commands.
    pub fn ids(&self) -> impl Iterator<Item = (SlotId, &Slot)> {
        self.places.iter().enumerate().filter_map(|(index, place)| {
            let id = SlotId(place.generation << PLACE_BITS | index as u16);
            place.slot.as_ref().map(|slot| (id, slot))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(cid: u16) -> Slot {
        let command = Command { cid, ..Command::default() };
        Slot::new(command, None)
    }

    #[test]
    fn commands_are_found_by_tag_and_identifier_until_they_end() {
        let mut slots = Slots::new(4);
        let first = slots.insert(slot(7)).unwrap();
        assert_eq!(slots.insert(slot(7)), Err(Full::IdentifierInUse));
        assert_eq!(slots.find(7), Some(first));
        assert!(slots.get(SlotId::of_tag(first.tag())).is_some());
        assert_eq!(slots.remove(first).unwrap().command.cid, 7);
        let second = slots.insert(slot(7)).unwrap();
        assert_ne!(first, second, "an old tag does not name a new command");
        assert!(slots.get(first).is_none() && slots.remove(first).is_none());
    }

    #[test]
    fn a_queue_takes_as_many_as_it_has_entries() {
        let mut slots = Slots::new(3);
        for cid in 0..3 {
            slots.insert(slot(cid * 1000)).unwrap();
        }
        assert_eq!(slots.insert(slot(1)), Err(Full::QueueFull));
        let id = slots.find(2000).unwrap();
        slots.remove(id);
        assert!(slots.insert(slot(65535)).is_ok());
        assert_eq!(slots.len(), 3);
    }

    #[test]
    fn an_identifier_in_use_is_known_among_few_and_among_many() {
        for many in [1, 3 * FEW as u16] {
            let mut slots = Slots::new(64);
            let ids: Vec<SlotId> = (0..many).map(|cid| slots.insert(slot(cid * 999)).unwrap()).collect();
            for cid in 0..many {
                assert!(!slots.takes(cid * 999) && slots.takes(cid * 999 + 1));
                assert_eq!(slots.insert(slot(cid * 999)), Err(Full::IdentifierInUse));
            }
            for (cid, id) in ids.into_iter().enumerate() {
                slots.remove(id).unwrap();
                assert!(slots.takes(cid as u16 * 999));
                assert!((cid as u16 + 1..many).all(|cid| !slots.takes(cid * 999)));
            }
            assert_eq!((slots.len(), slots.identifiers.is_some()), (0, many > FEW as u16));
        }
    }

    #[test]
    fn tags_of_strangers_name_nothing() {
        let mut slots = Slots::new(3);
        slots.insert(slot(1)).unwrap();
        for tag in 1..=u16::MAX {
            assert!(slots.get(SlotId::of_tag(tag)).is_none());
        }
    }
}
