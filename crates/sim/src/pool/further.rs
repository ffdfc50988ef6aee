//! Pools that get further members: at any moment of their work, with a cut or a bad member in the middle of it.

use plane::pool::format::row_of;
use plane::pool::layout::{Slots, set};
use plane::pool::{Level, Place, admit_further};

use super::accidents::Accident;
use super::operator::Tools;
use super::play::History;
use super::roster::path;
use crate::Failure;

/// Most rows that are left at the end of a set.
const REST: u64 = 4;

impl Tools {
    /// As `fels pool extend`.
    async fn extend(&self, files: Vec<usize>, bytes: u64) -> Result<(), String> {
        let places = files.into_iter().map(|file| (Place::Path(path(file)), Some(bytes))).collect();
        let taken = admit_further(&self.ring, &self.locks, &self.handle, places).await;
        taken.map_err(|error| error.to_string())
    }
}

impl History {
    /// Files for as many members as the plan has. None when the pool cannot have them, or has had enough.
    fn further_files(&mut self) -> Option<Vec<usize>> {
        let count = self.machine.plan.further;
        let most = self.machine.plan.slots + 2 * count;
        if self.machine.handle().check_extension(count).is_err() || self.slots() >= most {
            return None;
        }
        (0..count).map(|_| self.machine.roster.add_file()).collect()
    }

    /// The slots that so many further members get; a new copy has nothing at first.
    fn new_copies(&self, count: usize) -> Slots {
        let slots = self.machine.handle().status().members.len();
        if self.machine.plan.level == Level::Raid1 { set(slots..slots + count) } else { 0 }
    }

    /// The pool gets further members while the lanes work. True when the work is to end in the middle of it.
    pub(super) fn extend(&mut self) -> Result<bool, Failure> {
        let Some(files) = self.further_files() else { return Ok(false) };
        self.note(format_args!("the pool is to have {files:?} too"));
        let (tools, bytes) = (self.tools(), self.machine.plan.later_bytes);
        if self.random.u8(0..4) == 0 {
            let file = files[self.random.usize(0..files.len())];
            self.harm(file, bytes);
        } else {
            self.control.atlas.borrow_mut().away |= self.new_copies(files.len());
        }
        self.machine.reactor(0).ring().spawn_later(async move {
            let result = tools.extend(files, bytes).await;
            tools.tell("extending", result);
        });
        if self.random.bool() {
            return Ok(false);
        }
        self.go_some_steps()?;
        Ok(true)
    }

    /// One that is to come does not take what it is given: the pool is not to have it.
    fn harm(&mut self, file: usize, bytes: u64) {
        self.machine.node.put_file(&path(file), &vec![0; bytes as usize]);
        let accident = match self.random.u8(0..4) {
            0 => Accident::Unflushable,
            1 => Accident::Stall,
            // Labels first: a part of what it gets may be there.
            _ => Accident::Unwritable(self.random.u64(0..self.machine.geometry().data)..u64::MAX),
        };
        self.note(format_args!("{}: {accident:?}", path(file).display()));
        self.machine.strike(file, &accident);
    }

    /// While the machine is off: a pool that has further sets gets a volume in their rows, or in those of several sets.
    pub(super) fn take_further_room(&mut self) {
        let now = self.machine.geometry();
        let sets = now.sets.count();
        if sets == 1 || self.machine.volumes_wanted() > self.machine.plan.volumes.len() {
            return;
        }
        // All sets but for their last rows are somebody else's.
        let mut rest = 0;
        for number in 0..sets {
            let left = self.random.u64(1..=REST).min(now.rows - REST);
            let first = self.control.atlas.borrow().end(number).max(row_of(number, 0));
            let taken = row_of(number, now.rows - left) - first;
            self.machine.want_room(taken * now.row_bytes_of(first));
            rest += left * now.row_bytes_of(first);
        }
        let bytes = self.random.u64(1..=rest / 4096) * 4096;
        self.note(format_args!("a volume is to have {bytes} bytes of {sets} sets"));
        self.machine.want_further_volume(bytes, if self.random.bool() { 512 } else { 4096 });
    }

    /// When all is well, a pool that can have further members gets them.
    pub(super) fn extend_at_last(&mut self) -> Result<(), Failure> {
        let Some(files) = self.further_files() else { return Ok(()) };
        self.note(format_args!("the pool is to have {files:?} at last"));
        let (tools, bytes) = (self.tools(), self.machine.plan.later_bytes);
        self.control.atlas.borrow_mut().away |= self.new_copies(files.len());
        let wanted = self.machine.handle().status().members.len() + files.len();
        let extended = self
            .machine
            .world
            .block_on(self.machine.reactor(0), async move { tools.extend(files, bytes).await })?;
        extended.map_err(|why| Failure(format!("the pool is not extended, though all is well: {why}")))?;
        if self.machine.handle().status().members.len() != wanted {
            return Err(Failure("the pool was extended, and does not have the further members".into()));
        }
        self.take_stock()?;
        self.resync()
    }
}
