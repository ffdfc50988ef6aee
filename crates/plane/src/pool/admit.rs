//! A member that comes to a pool while that runs: opened, locked, looked at, and handed to the keeper.

use std::cell::RefCell;

use ring::{File, Ring, mailbox};

use super::handle::{Handle, Refusal};
use super::member::{Member, MemberError, Place};

/// Keeps the members of pools from other processes; lives on the core that opened them.
#[derive(Default)]
pub struct MemberLocks(RefCell<Vec<(Place, File)>>);

impl MemberLocks {
    /// Keeps the lock of the member at `place`, if it has one.
    pub(super) fn keep(&self, place: &Place, lock: Option<File>) {
        self.0.borrow_mut().extend(lock.map(|lock| (place.clone(), lock)));
    }

    /// Other processes may have what is at `place`.
    pub(crate) fn release(&self, place: &Place) {
        self.0.borrow_mut().retain(|(other, _)| other != place);
    }

    /// Takes in all of `other`.
    pub fn append(&self, other: MemberLocks) {
        self.0.borrow_mut().append(&mut other.0.into_inner());
    }

    /// How many are held.
    pub fn len(&self) -> usize {
        self.0.borrow().len()
    }

    /// Whether none is held.
    pub fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }
}

/// Why a member does not come in. Sentences with a hint.
#[derive(Debug, thiserror::Error)]
pub enum AdmitError {
    /// The pool.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// It cannot be opened.
    #[error(transparent)]
    Member(#[from] MemberError),
    /// It is one already.
    #[error("{place} is a member of pool {pool}, in slot {slot}; hint: give another file or disk")]
    InPlace {
        /// Which member.
        place: Place,
        /// Of which pool.
        pool: String,
        /// Where it is.
        slot: usize,
    },
    /// What is on it.
    #[error(
        "{place} {why}; hint: nothing was written to it: give another one, or wipe it if nobody needs what is on it"
    )]
    Unfit {
        /// Which member.
        place: Place,
        /// A sentence's end.
        why: String,
    },
    /// The pool has no further members.
    #[error("pool {pool} is not extended: {why}")]
    NotExtended {
        /// Which pool.
        pool: String,
        /// Why not, with what can be done if that is known.
        why: String,
    },
    /// The pool was closed meanwhile.
    #[error("pool {0} is being closed; hint: start the node again")]
    Closing(String),
}

/// Opens what is at `place` for a slot that is out and gives it to the pool, on the first core; the member that the slot had
/// may be opened again. `make`: a file that is missing is made, as large as members of the pool are.
pub async fn admit(
    ring: &Ring,
    locks: &MemberLocks,
    handle: &Handle,
    slot: usize,
    place: Place,
    make: bool,
) -> Result<(), AdmitError> {
    let pool = handle.status().name;
    handle.check_out(slot)?;
    let before = handle.place(slot);
    // Memory of one size is not one place.
    let is_path = matches!(place, Place::Path(_));
    if let Some(other) = handle.slot_at(&place).filter(|other| is_path && *other != slot) {
        return Err(AdmitError::InPlace { place, pool, slot: other });
    }
    // The lock belongs to the open file, not to the process: the same place could not be locked once more.
    if before.as_ref() == Some(&place) {
        locks.release(&place);
    }
    let bytes = make.then(|| handle.member_bytes());
    let (member, lock) = Member::open(ring, place.clone(), bytes, None).await?;
    let (tell, mut told) = mailbox();
    handle.online_telling(slot, member, Box::new(move |result| drop(tell.send(result))))?;
    // The keeper of a pool that is closed takes no more messages.
    let taken = told.receive().await.ok_or(AdmitError::Closing(pool))?;
    taken.map_err(|why| AdmitError::Unfit { place: place.clone(), why })?;
    if let Some(before) = before.filter(|before| *before != place) {
        locks.release(&before);
    }
    locks.keep(&place, lock);
    Ok(())
}

/// Opens what is at `place` and makes it a spare of the pool, on the first core; `make` as in [`admit`].
pub async fn admit_spare(
    ring: &Ring,
    locks: &MemberLocks,
    handle: &Handle,
    place: Place,
    make: bool,
) -> Result<(), AdmitError> {
    handle.check_spares()?;
    let bytes = make.then(|| handle.member_bytes());
    let (member, lock) = Member::open(ring, place.clone(), bytes, None).await?;
    let (tell, mut told) = mailbox();
    handle.add_spare_telling(member, Box::new(move |result| drop(tell.send(result))))?;
    let taken = told.receive().await.ok_or_else(|| AdmitError::Closing(handle.status().name))?;
    taken.map_err(|why| AdmitError::Unfit { place: place.clone(), why })?;
    locks.keep(&place, lock);
    Ok(())
}

/// Opens what is at these places and makes it further members of the pool, on the first core; beside each place,
/// how large a file is made when there is none.
pub async fn admit_further(
    ring: &Ring,
    locks: &MemberLocks,
    handle: &Handle,
    places: Vec<(Place, Option<u64>)>,
) -> Result<(), AdmitError> {
    let pool = handle.status().name;
    handle.check_extension(places.len())?;
    let (mut further, mut held) = (Vec::with_capacity(places.len()), Vec::with_capacity(places.len()));
    for (place, make) in places {
        let (member, lock) = Member::open(ring, place.clone(), make, None).await?;
        further.push(member);
        held.push((place, lock));
    }
    let (tell, mut told) = mailbox();
    handle.extend_telling(further, Box::new(move |result| drop(tell.send(result))))?;
    let taken = told.receive().await.ok_or_else(|| AdmitError::Closing(pool.clone()))?;
    taken.map_err(|why| AdmitError::NotExtended { pool, why })?;
    for (place, lock) in held {
        locks.keep(&place, lock);
    }
    Ok(())
}

/// Lets go of what was a spare, once it is none any more.
pub fn release_spare(locks: &MemberLocks, handle: &Handle, place: &Place) {
    if !handle.is_spare(place) && handle.slot_at(place).is_none() {
        locks.release(place);
    }
}
