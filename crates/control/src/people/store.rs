//! The people of a node that runs: what the file says, and changes to it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

pub use super::file::{PEOPLE_FILE, PeopleError};
use super::file::{read, write};
use super::{Change, People, Refusal};
use crate::whole::Step;

/// Why a change was not made.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// It may not be.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// It could not be kept.
    #[error("{PEOPLE_FILE} cannot be written: {0}; hint: see to the file system of the data directory; {1}")]
    Write(io::Error, &'static str),
}

/// The people, as the file has them. Changes block for as long as a disk takes.
pub struct Store {
    directory: PathBuf,
    current: RwLock<Arc<Kept>>,
    /// Changes are made one after the other.
    turn: Mutex<()>,
}

struct Kept {
    people: Arc<People>,
    generation: u64,
}

impl Kept {
    fn read(directory: &Path) -> Result<Arc<Kept>, PeopleError> {
        let (people, generation) = read(directory)?;
        Ok(Arc::new(Kept { people: Arc::new(people), generation }))
    }
}

impl Store {
    /// Reads the file of a data directory, of which this process has the lock.
    pub fn open(directory: &Path) -> Result<Store, PeopleError> {
        let current = RwLock::new(Kept::read(directory)?);
        Ok(Store { directory: directory.to_owned(), current, turn: Mutex::default() })
    }

    /// Who there is now.
    pub fn people(&self) -> Arc<People> {
        self.current().people.clone()
    }

    fn current(&self) -> Arc<Kept> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, kept: Arc<Kept>) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = kept;
    }

    /// Makes a change and keeps it. Blocks.
    pub fn change(&self, change: Change) -> Result<Arc<People>, StoreError> {
        self.change_by_steps(change, &mut |_| Ok(()))
    }

    /// Makes a change and keeps it; `before` is asked before each step.
    pub(super) fn change_by_steps(
        &self,
        change: Change,
        before: &mut dyn FnMut(Step) -> io::Result<()>,
    ) -> Result<Arc<People>, StoreError> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let old = self.current();
        let people = Arc::new(old.people.changed(change)?);
        let generation = old.generation.saturating_add(1);
        if let Err(error) = write(&self.directory, &people, generation, before) {
            // It may have got its name all the same: then that is what holds, here as after the next start.
            let known = Kept::read(&self.directory).map(|kept| self.set(kept));
            let hint = match known {
                Ok(()) => "then look what is there, and try again",
                Err(_) => "then start the node again: the file cannot be read either",
            };
            return Err(StoreError::Write(error, hint));
        }
        self.set(Arc::new(Kept { people: people.clone(), generation }));
        Ok(people)
    }
}
