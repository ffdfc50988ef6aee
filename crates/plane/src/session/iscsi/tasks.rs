//! The tasks of a session, found by place (target transfer tags) and by initiator task tag.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::rc::Rc;

use ring::Buffer;
use wire::iscsi::{Lun, SerialNumber};

use super::connection::Connection;
use super::transfer::Transfer;
use crate::session::scsi::Prepared;
use crate::session::traffic::Pending;

/// One SCSI command from its arrival to its response.
pub struct Task {
    /// Initiator task tag.
    pub initiator_task_tag: u32,
    /// The logical unit it is for.
    pub lun: Lun,
    /// The CDB.
    pub cdb: Cdb,
    /// Its place in the order.
    pub cmd_sn: SerialNumber,
    /// Whether it stands outside of that order.
    pub immediate: bool,
    /// Where it came from, and where its data and its response go.
    pub connection: Rc<Connection>,
    /// Expected Data Transfer Length.
    pub expected: u32,
    /// The initiator sends data.
    pub writes: bool,
    /// The initiator takes data.
    pub reads: bool,
    /// What the device server made of it, from delivery on.
    pub prepared: Option<Prepared>,
    /// Its output data.
    pub transfer: Transfer,
    /// Output data so far; empty while it is lent.
    pub buffer: Buffer,
    /// There was no memory for what came unasked, which is forgotten: it is to be sent again.
    pub turned_away: bool,
    /// The buffer is being received into.
    pub lent: bool,
    /// It waits for memory for a larger buffer.
    pub growing: bool,
    /// Its turn has come; it holds a place in the command window.
    pub delivered: bool,
    /// All of its data is there; nothing more is taken for it.
    pub started: bool,
    /// It is with the device server.
    pub running: bool,
    /// Nobody waits for a response.
    pub aborted: bool,
    /// It counts as in flight.
    pub pending: Pending,
}

/// A CDB of up to 16 bytes, or the beginning of a longer one, of which no operation code is supported.
pub type Cdb = [u8; 16];

/// Names a task; not given again to another one while anything still waits in its name, which may be long: for a peer that
/// does not read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TaskId {
    index: u16,
    generation: u32,
}

/// How much of a generation a target transfer tag has.
const TAG_GENERATION: u32 = 0x7f;

impl TaskId {
    /// The target transfer tag of R2T number `request` of this task; never the reserved value.
    pub fn transfer_tag(self, request: u32) -> u32 {
        (request & 0xff) << 24 | (self.generation & TAG_GENERATION) << 16 | u32::from(self.index)
    }
}

#[derive(Default)]
struct TagHasher(u64);

impl Hasher for TagHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u32(u32::from(*byte));
        }
    }
    fn write_u32(&mut self, tag: u32) {
        // Tags mostly count up; the multiplication spreads them over the table's upper bits. A peer that chooses
        // them to collide slows its own session, which has a few hundred at most.
        self.0 = (self.0 ^ u64::from(tag)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

#[derive(Default)]
struct Slot {
    generation: u32,
    task: Option<Task>,
}

/// The tasks of one session.
#[derive(Default)]
pub struct Tasks {
    slots: Vec<Slot>,
    free: Vec<u16>,
    by_tag: HashMap<u32, u16, BuildHasherDefault<TagHasher>>,
}

impl Tasks {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_tag.len()
    }

    /// Whether a task has this tag.
    pub fn has_tag(&self, initiator_task_tag: u32) -> bool {
        self.by_tag.contains_key(&initiator_task_tag)
    }

    /// Adds a task, whose tag is not in use. The caller bounds their number far below 65536.
    pub fn insert(&mut self, task: Task) -> TaskId {
        let index = self.free.pop().unwrap_or_else(|| {
            // One, not four as a vector would: many an initiator asks one thing at a time.
            self.slots.reserve_exact(usize::from(self.slots.is_empty()));
            self.slots.push(Slot::default());
            u16::try_from(self.slots.len() - 1).expect("the command window bounds the tasks")
        });
        self.by_tag.insert(task.initiator_task_tag, index);
        let slot = &mut self.slots[usize::from(index)];
        slot.task = Some(task);
        TaskId { index, generation: slot.generation }
    }

    /// The task, if it is still there.
    pub fn get(&mut self, id: TaskId) -> Option<&mut Task> {
        let slot = self.slots.get_mut(usize::from(id.index))?;
        if slot.generation == id.generation { slot.task.as_mut() } else { None }
    }

    /// The task with this initiator task tag.
    pub fn by_tag(&self, initiator_task_tag: u32) -> Option<TaskId> {
        let index = *self.by_tag.get(&initiator_task_tag)?;
        Some(TaskId { index, generation: self.slots[usize::from(index)].generation })
    }

    /// The task and the R2T (its number's low byte) that a target transfer tag names.
    pub fn by_transfer_tag(&mut self, tag: u32) -> Option<(TaskId, u8)> {
        let index = tag as u16;
        let generation = self.slots.get(usize::from(index))?.generation;
        let id = TaskId { index, generation };
        let is_it = tag >> 16 & TAG_GENERATION == generation & TAG_GENERATION && self.get(id).is_some();
        is_it.then_some((id, (tag >> 24) as u8))
    }

    /// Takes a task out.
    pub fn remove(&mut self, id: TaskId) -> Option<Task> {
        self.get(id)?;
        let slot = &mut self.slots[usize::from(id.index)];
        slot.generation = slot.generation.wrapping_add(1);
        let task = slot.task.take()?;
        self.by_tag.remove(&task.initiator_task_tag);
        self.free.push(id.index);
        Some(task)
    }

    /// Whether there is a task of this kind.
    pub fn has(&self, mut kind: impl FnMut(&Task) -> bool) -> bool {
        self.slots.iter().any(|slot| slot.task.as_ref().is_some_and(&mut kind))
    }

    /// Every task that `chosen` picks.
    pub fn select(&self, mut chosen: impl FnMut(&Task) -> bool) -> Vec<TaskId> {
        let ids =
            self.slots.iter().enumerate().filter(|(_, slot)| slot.task.as_ref().is_some_and(&mut chosen));
        ids.map(|(index, slot)| TaskId { index: index as u16, generation: slot.generation }).collect()
    }
}
