//! Which file is which member, as the labels have it: a spare takes a slot by itself, and an administrator gives slots new
//! members.

use std::cell::{Cell, RefCell};
use std::path::PathBuf;

use plane::pool::format::{End, Geometry, Id, Label, SlotState};
use plane::pool::layout::{Slots, members};
use ring::sim::{Fault, Node, Plant};

const BLOCK: usize = 4096;

/// Most files that a history makes.
pub const MOST_FILES: usize = 40;

/// Of a slot that is new.
const NOBODY: usize = MOST_FILES;

/// A bit for each file.
pub type Files = u64;

/// The files of a machine, and what the pool's labels say of them.
pub struct Roster {
    pub node: Node,
    /// Of each slot, the file of its member.
    seats: RefCell<Vec<usize>>,
    /// Of each file, as which member it was known last.
    ids: RefCell<Vec<Option<Id>>>,
    /// Where everything is, and where it was before the pool grew.
    geometry: Cell<Geometry>,
    geometries: RefCell<Vec<Geometry>>,
    /// Files that are not given to the pool.
    pub absent: Cell<Files>,
    /// Files that do not answer.
    pub mute: Cell<Files>,
}

/// Where a file is.
pub fn path(file: usize) -> PathBuf {
    PathBuf::from(format!("/m{file}"))
}

impl Roster {
    /// Of a pool that was just made: each slot has the file of its number; `files` in all.
    pub fn new(node: Node, geometry: Geometry, files: usize) -> Roster {
        let roster = Roster {
            node,
            seats: RefCell::new((0..usize::from(geometry.slots)).collect()),
            ids: RefCell::new(vec![None; files]),
            geometry: Cell::new(geometry),
            geometries: RefCell::new(vec![geometry]),
            absent: Cell::new(0),
            mute: Cell::new(0),
        };
        roster.refresh();
        roster
    }

    /// How many files there are.
    pub fn files(&self) -> usize {
        self.ids.borrow().len()
    }

    /// A file more, which nobody knows yet. None when there are enough.
    pub fn add_file(&self) -> Option<usize> {
        let mut ids = self.ids.borrow_mut();
        ids.push(None);
        (ids.len() <= MOST_FILES).then(|| ids.len() - 1)
    }

    /// A file is blank from now on.
    pub fn wiped(&self, file: usize) {
        self.ids.borrow_mut()[file] = None;
    }

    /// Where everything is now.
    pub fn geometry(&self) -> Geometry {
        self.geometry.get()
    }

    /// The file of a slot's member.
    pub fn seat(&self, slot: usize) -> usize {
        self.seats.borrow()[slot]
    }

    /// Where that is.
    pub fn path_of(&self, slot: usize) -> PathBuf {
        path(self.seat(slot))
    }

    /// The slots whose members are among `files`.
    pub fn slots_of(&self, files: Files) -> Slots {
        let seats = self.seats.borrow();
        seats.iter().enumerate().fold(0, |slots, (slot, file)| slots | (files >> file & 1) << slot)
    }

    /// The slots whose members are not given to the pool, or do not answer.
    pub fn gone(&self) -> Slots {
        self.slots_of(self.absent.get() | self.mute.get())
    }

    /// The sectors of a slot's member that are not what they should be.
    pub fn damage(&self, slot: usize) -> Vec<std::ops::Range<u64>> {
        self.node.damage(&self.path_of(slot))
    }

    /// What waits for a slot's member.
    pub fn planted(&self, slot: usize) -> Vec<Plant> {
        self.node.planted(&self.path_of(slot))
    }

    /// Where labels are, or were.
    fn label_places(&self) -> Vec<u64> {
        let tails = self.geometries.borrow();
        [0].into_iter().chain(tails.iter().map(|geometry| geometry.label_place(End::Tail))).collect()
    }

    /// The slots whose members have no label that can be read.
    pub fn unlabelled(&self) -> Slots {
        let is_readable = |slot: usize, place: u64| {
            self.planted(slot).iter().all(|plant| {
                let touches = plant.range.start < place + BLOCK as u64 && place < plant.range.end;
                let fails =
                    matches!(plant.fault, Fault::FailReads | Fault::FailReadsUntilWritten | Fault::Misread);
                !(touches && fails) || plant.left == Some(0)
            })
        };
        let has_label = |slot: &usize| {
            self.label_places().into_iter().filter(|place| is_readable(*slot, *place)).any(|place| {
                let bytes = self.node.file_bytes(&self.path_of(*slot), place, BLOCK);
                bytes.is_some_and(|bytes| Label::decode(&bytes).is_ok())
            })
        };
        let slots = 0..self.seats.borrow().len();
        slots.filter(|slot| !has_label(slot)).fold(0, |slots, slot| slots | 1 << slot)
    }

    /// The newest label of a file.
    pub fn label(&self, file: usize) -> Option<Label> {
        let places = self.label_places();
        let read = |place| Label::decode(&self.node.file_bytes(&path(file), place, BLOCK)?).ok();
        places.into_iter().filter_map(read).max_by_key(|label| label.generation)
    }

    fn all(&self) -> Files {
        (1 << self.files()) - 1
    }

    /// The newest label of some files.
    fn newest(&self, files: Files) -> Option<Label> {
        members(files).filter_map(|file| self.label(file)).max_by_key(|label| label.generation)
    }

    /// The newest label of those that are given to the pool and answer; else of all.
    pub fn label_now(&self) -> Option<Label> {
        self.newest(self.all() & !self.absent.get() & !self.mute.get()).or_else(|| self.newest(self.all()))
    }

    /// Looks who is who.
    pub fn refresh(&self) {
        for file in 0..self.files() {
            if let Some(label) = self.label(file) {
                self.ids.borrow_mut()[file] = Some(label.member);
            }
        }
        let Some(label) = self.label_now() else { return };
        self.geometry.set(label.geometry);
        let mut geometries = self.geometries.borrow_mut();
        if !geometries.contains(&label.geometry) {
            geometries.push(label.geometry);
        }
        let mut seats = self.seats.borrow_mut();
        seats.resize(label.slots.len(), NOBODY);
        for (slot, entry) in label.slots.iter().enumerate() {
            if let Some(file) = self.file_of(&entry.member) {
                seats[slot] = file;
            }
        }
    }

    fn file_of(&self, id: &Id) -> Option<usize> {
        self.ids.borrow().iter().position(|other| other.as_ref() == Some(id))
    }

    /// The files that wait to take a slot.
    pub fn spares(&self) -> Vec<usize> {
        let spares = self.label_now().map_or_else(Vec::new, |label| label.spares);
        spares.iter().filter_map(|id| self.file_of(id)).collect()
    }

    /// The files that are of no use to the pool any more, or not yet.
    pub fn others(&self) -> Vec<usize> {
        let spares = self.spares();
        let seats = self.seats.borrow();
        (0..self.files()).filter(|file| !seats.contains(file) && !spares.contains(file)).collect()
    }

    /// The slots that are not in sync, as any label says that is newest.
    pub fn labelled_out(&self) -> Slots {
        let slots = self.newest(self.all()).map_or_else(Vec::new, |label| label.slots);
        let out = slots.iter().enumerate().filter(|(_, slot)| slot.state != SlotState::InSync);
        out.fold(0, |out, (slot, _)| out | 1 << slot)
    }
}
