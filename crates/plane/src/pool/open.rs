//! How a pool is made from blank members, and found again on those it has.

use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ring::{Buffer, Receiver, Ring, mailbox};

use super::bitmap::Bitmap;
use super::core::{PoolCore, Shared, Trouble};
use super::erasing::Erasing;
use super::events::Counters;
use super::format::{
    BLOCK, CatalogueReference, Cause, End, Geometry, Id, Label, LabelError, PlanError, Slot, SlotState,
    TablePage, VolumeEntry, bitmap_block, catalogue,
};
use super::grown::Current;
use super::handle::Handle;
use super::keeper::{Keeper, Message};
use super::layout::members;
use super::level::Level;
use super::load::TABLE_BYTES;
use super::locks::RowLocks;
use super::maintain::ScrubReport;
use super::member::{Member, MemberError};
use super::segments::Segments;
use super::slots::SlotStates;
use super::table::Table;
use super::volumes::VolumeWish;
use super::watch::Watch;
use crate::latest::Latest;
use crate::limits::POOL_MEMBER_STALL;
use crate::request::{Flags, Request};

/// What a pool is made with.
#[derive(Clone, Debug)]
pub struct PoolOptions {
    /// Its name.
    pub name: String,
    /// How its members are arranged.
    pub level: Level,
    /// Bytes of a unit.
    pub unit: u32,
    /// Whether checksums are kept and verified.
    pub integrity: bool,
    /// Blocks of one copy of the catalogue: 8 volumes each.
    pub catalogue_blocks: u32,
    /// Bytes of the journal on each member; `None` for what suits their size.
    pub journal_bytes: Option<u64>,
}

/// Why a pool cannot be made or opened. Sentences for people, with a hint.
#[derive(Debug, thiserror::Error)]
pub enum PoolError {
    /// A member.
    #[error(transparent)]
    Member(#[from] MemberError),
    /// The arrangement.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A member cannot be read or written.
    #[error(
        "member {place} of pool {pool} cannot be used: {cause}; hint: check the disk, and leave it out if redundancy allows"
    )]
    Io {
        /// Which pool.
        pool: String,
        /// Which member.
        place: String,
        /// What it said.
        cause: String,
    },
    /// Somebody's data would be overwritten.
    #[error(
        "{place} is not blank: it is a member of the pool {pool}; hint: import that pool, or wipe its label if nobody needs it"
    )]
    NotBlank {
        /// Which member.
        place: String,
        /// Whose it is.
        pool: String,
    },
    /// A volume.
    #[error("volume {volume} cannot be had from pool {pool}: {why}")]
    Volume {
        /// Of which pool.
        pool: String,
        /// Which.
        volume: String,
        /// A sentence with a hint.
        why: String,
    },
    /// The members do not make a pool.
    #[error("pool {pool} cannot be opened: {why}")]
    Refused {
        /// Which.
        pool: String,
        /// A sentence with a hint.
        why: String,
    },
}

/// A pool that is open, before its cores use it.
pub struct Pool {
    shared: Arc<Shared>,
    seed: Mutex<Option<(Label, Receiver<Message>)>>,
}

/// A member with what its label says.
pub(super) struct Labelled {
    pub(super) member: Arc<Member>,
    pub(super) label: Label,
}

impl Pool {
    /// Makes a pool of blank members.
    pub async fn make(
        ring: &Ring,
        options: &PoolOptions,
        members: Vec<Member>,
        cores: usize,
    ) -> Result<Pool, PoolError> {
        for member in &members {
            if let Some(label) = read_label(ring, member, &[]).await? {
                return Err(PoolError::NotBlank { place: member.place().to_string(), pool: label.name });
            }
        }
        let smallest = members.iter().map(Member::bytes).min().unwrap_or(0);
        let journal = options.journal_bytes.unwrap_or_else(|| super::format::default_journal_bytes(smallest));
        let geometry = Geometry::plan(
            options.level,
            members.len() as u16,
            options.unit,
            smallest,
            options.catalogue_blocks,
            journal,
        )?;
        let slots = members.iter().map(|_| Slot { member: random_id(), state: SlotState::InSync }).collect();
        let label = Label {
            pool: random_id(),
            member: [0; 16],
            generation: 1,
            slot: None,
            end: End::Head,
            integrity: options.integrity,
            // It is used from now on: who finds it so has to look into the journal.
            clean: false,
            geometry,
            retired: 1,
            catalogue: CatalogueReference {
                generation: 1,
                volumes: 0,
                checksum: catalogue::checksum(&[]),
                copy: 0,
            },
            name: options.name.clone(),
            slots,
            spares: Vec::new(),
            scrub: None,
        };
        let pool = Pool::new(
            label,
            members.into_iter().map(|member| Some(Arc::new(member))).collect(),
            Vec::new(),
            cores,
        );
        let core = pool.core(0, ring)?;
        core.format().await.map_err(|(slot, cause)| pool.failed(slot, cause))?;
        let (label, receiver) = pool.take_seed().expect("nobody else has it yet");
        let mut keeper = Keeper::new(core, label, Vec::new());
        keeper.write_labels(None).await;
        pool.put_seed(keeper.label().clone(), receiver);
        if pool.shared.has_failed() {
            return Err(pool.refused(
                "its labels could not be written; hint: the log names the members that failed: take others"
                    .to_owned(),
            ));
        }
        Ok(pool)
    }

    /// Opens the pool whose members these are, in any order.
    pub async fn open(
        ring: &Ring,
        name: &str,
        members: Vec<Member>,
        cores: usize,
    ) -> Result<Pool, PoolError> {
        let mut labelled = Vec::with_capacity(members.len());
        let mut unknown = Vec::new();
        for member in members {
            match read_label(ring, &member, &[]).await {
                Ok(Some(label)) => labelled.push(Labelled { member: Arc::new(member), label }),
                other => unknown.push((member, other)),
            }
        }
        let tails = tails(&labelled);
        for (member, mut label) in unknown {
            let place = member.place().to_string();
            if !tails.is_empty() && !matches!(label, Err(PoolError::Io { .. })) {
                label = read_label(ring, &member, &tails).await;
            }
            let label = match label {
                // As one that is missing: whether the others suffice is seen later.
                Err(PoolError::Io { cause, .. }) => {
                    tracing::error!(pool = name, "member {place} cannot be used: {cause}");
                    continue;
                }
                label => label?,
            };
            let Some(label) = label else {
                let why = format!(
                    "{place} has no label of a pool; hint: it may be another disk: take it from the list, or `fels pool replace` with it"
                );
                return Err(PoolError::Refused { pool: name.to_owned(), why });
            };
            labelled.push(Labelled { member: Arc::new(member), label });
        }
        Pool::open_labelled(ring, name, labelled, cores).await
    }

    /// As [`Pool::open`], with the labels read already.
    pub(super) async fn open_labelled(
        ring: &Ring,
        name: &str,
        labelled: Vec<Labelled>,
        cores: usize,
    ) -> Result<Pool, PoolError> {
        let label = choose(name, &labelled)?;
        let mut places: Vec<Option<Arc<Member>>> = label.slots.iter().map(|_| None).collect();
        for (slot, entry) in label.slots.iter().enumerate() {
            let here = labelled.iter().find(|labelled| labelled.label.member == entry.member);
            places[slot] = here.map(|labelled| labelled.member.clone());
        }
        let spares = labelled.iter().filter(|labelled| label.spares.contains(&labelled.label.member));
        let spares = spares.map(|labelled| (labelled.label.member, labelled.member.clone())).collect();
        let pool = Pool::new(label, places, Vec::new(), cores);
        *pool.shared.watch.spares() = spares;
        pool.start(ring).await
    }

    /// Takes in tables, bitmap, catalogue and journal.
    async fn start(self, ring: &Ring) -> Result<Pool, PoolError> {
        let (mut label, receiver) = self.take_seed().expect("nobody else has it yet");
        let shared = self.shared.clone();
        let is_missed = |(slot, entry): (usize, &Slot)| {
            shared.member(slot).is_none() && !matches!(entry.state, SlotState::Out { .. })
        };
        if label.slots.iter().enumerate().any(is_missed) {
            // Of one that is not here the labels may be one generation ahead: they were being written when it went.
            label.generation += 1;
        }
        for slot in 0..label.slots.len() {
            let state = &mut label.slots[slot].state;
            match *state {
                SlotState::InSync if shared.member(slot).is_none() => {
                    let since = label.generation + 1;
                    *state = SlotState::Out { cause: Cause::Missing, since };
                    shared.states.take_out(slot);
                    shared.changes.fetch_add(1, Ordering::AcqRel);
                }
                SlotState::InSync => {}
                SlotState::Rebuilding { cursor, .. } if shared.member(slot).is_some() => {
                    shared.states.rebuild(slot, cursor);
                }
                // It is back, and gets what it has missed.
                SlotState::Out { since, cause }
                    if cause != Cause::Administrator && shared.member(slot).is_some() =>
                {
                    // One that went out before it had everything lacks more than the bitmap says.
                    let by_bitmap = cause != Cause::Replaced;
                    *state = SlotState::Rebuilding { since, cursor: 0, by_bitmap };
                    shared.states.rebuild(slot, 0);
                }
                SlotState::Rebuilding { by_bitmap, .. } => {
                    let cause = if by_bitmap { Cause::Missing } else { Cause::Replaced };
                    // It has labels of the time of its rebuilding.
                    *state = SlotState::Out { cause, since: label.generation + 1 };
                    shared.states.take_out(slot);
                }
                SlotState::Out { .. } => drop(shared.states.take_out(slot)),
            }
        }
        let gone = shared.states.out() | shared.states.rebuilding();
        if !shared.geometry.survives(gone) {
            return Err(self.refused(format!(
                "{} of its {} members are missing or out of date, which {} cannot do without; hint: give all members that are left",
                gone.count_ones(),
                label.slots.len(),
                shared.geometry.level
            )));
        }
        let core = self.core(0, ring)?;
        // What a process that was killed had on its way may be there and not be durable. Whatever is judged by it from now on outlives
        // the next cut only if it does, too.
        core.flush_members().await;
        self.has_heard_all(&core)?;
        for slot in members(shared.geometry.slot_mask() & !shared.states.out()) {
            let rows = match label.slots[slot].state {
                // What it is to get all of has nothing behind the cursor, nor pages of the table for that.
                SlotState::Rebuilding { cursor, by_bitmap: false, .. } => cursor,
                _ => shared.geometry.rows,
            };
            core.load_table(slot, rows).await;
        }
        core.load_bitmap().await;
        let volumes = core.load_catalogue(&label).await;
        // What is read of one that does not answer looks as if it had been lost.
        self.has_heard_all(&core)?;
        let volumes = volumes.ok_or_else(|| {
            self.refused(
                "no member has a catalogue that is whole; hint: restore the volumes from a backup".to_owned(),
            )
        })?;
        let (is_clean, retired) = (std::mem::replace(&mut label.clean, false), label.retired);
        let mut keeper = Keeper::new(core.clone(), label, volumes.clone());
        core.mend_tails().await;
        // A member that was away may have an old catalogue, or a damaged one. And the labels say who is out before anything is
        // made that he lacks.
        keeper.write_catalogue().await;
        keeper.label_out().await;
        if is_clean {
            shared.next.store(retired.max(1), Ordering::SeqCst);
        }
        while !is_clean && !core.recover(retired).await {
            keeper.label_out().await;
        }
        self.has_heard_all(&core)?;
        // All segments of the journal are free from now on.
        keeper.checkpoint_twice().await;
        keeper.label_out().await;
        shared.volumes.set(volumes);
        self.put_seed(keeper.label().clone(), receiver);
        Ok(self)
    }

    fn new(label: Label, members: Vec<Option<Arc<Member>>>, volumes: Vec<VolumeEntry>, cores: usize) -> Pool {
        let geometry = label.geometry;
        let (sender, receiver) = mailbox();
        let shared = Arc::new(Shared {
            id: label.pool,
            name: label.name.clone(),
            geometry: Current::new(geometry),
            integrity: label.integrity,
            table: Table::new(&geometry),
            locks: RowLocks::default(),
            segments: Segments::new(geometry.segments, cores),
            erasing: Erasing::default(),
            watch: Watch::new(cores, geometry.level.most_slots()),
            states: SlotStates::new(geometry.level.most_slots()),
            members: Mutex::new(members),
            replaced: AtomicU64::new(0),
            scrub: ScrubReport::default(),
            failed: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            sealed: AtomicBool::new(false),
            bitmap: Bitmap::new(&geometry),
            volumes: Latest::new(volumes),
            counters: Counters::default(),
            next: AtomicU64::new(1),
            retired: AtomicU64::new(1),
            oldest: (0..cores).map(|_| AtomicU64::new(u64::MAX)).collect(),
            without_tail: AtomicU64::new(0),
            changes: AtomicU64::new(0),
            labelled: AtomicU64::new(0),
            keeper: sender,
            closed: AtomicBool::new(false),
        });
        Pool { shared, seed: Mutex::new(Some((label, receiver))) }
    }

    /// What all cores share.
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// The volumes that it has now.
    pub fn volumes(&self) -> Arc<Vec<VolumeEntry>> {
        self.shared.volumes.get()
    }

    /// One core's way to it.
    pub fn core(&self, index: usize, ring: &Ring) -> Result<Rc<PoolCore>, PoolError> {
        Ok(PoolCore::new(self.shared.clone(), index, ring.clone())?)
    }

    /// Adds a volume of so many bytes, in the first rows that are free.
    pub async fn add_volume(
        &self,
        ring: &Ring,
        id: Id,
        name: &str,
        bytes: u64,
        block_size: u32,
    ) -> Result<(), PoolError> {
        let wish = VolumeWish::Add { id, name: name.to_owned(), bytes, block_size };
        self.change_volumes(ring, wish).await.map(|_| ())
    }

    /// Changes which volumes there are, whether the pool is kept already or not. Gives the volume, if there is one
    /// afterwards.
    pub async fn change_volumes(
        &self,
        ring: &Ring,
        wish: VolumeWish,
    ) -> Result<Option<VolumeEntry>, PoolError> {
        match self.before_kept(ring, async |keeper| keeper.change_volumes(&wish).await).await {
            Some(result) => result.map_err(|why| self.no_volume(wish.name(), why)),
            None => Handle::new(self.shared.clone()).change_volumes(wish).await,
        }
    }

    /// Lets a keeper work on the pool before it is kept; `None` afterwards.
    async fn before_kept<T>(
        &self,
        ring: &Ring,
        work: impl AsyncFnOnce(&mut Keeper) -> Result<T, String>,
    ) -> Option<Result<T, String>> {
        let (label, receiver) = self.take_seed()?;
        let core = match self.core(0, ring) {
            Ok(core) => core,
            Err(error) => {
                self.put_seed(label, receiver);
                return Some(Err(error.to_string()));
            }
        };
        let mut keeper = Keeper::new(core, label, self.volumes().to_vec());
        let result = work(&mut keeper).await;
        self.put_seed(keeper.label().clone(), receiver);
        Some(result)
    }

    /// Gives the pool a blank member as a spare.
    pub(super) async fn add_spare(&self, ring: &Ring, member: Member) -> Result<(), PoolError> {
        let place = member.place().to_string();
        let member = Arc::new(member);
        let result = self.before_kept(ring, async |keeper| keeper.add_spare(member).await).await;
        result.expect("spares are taken before the pool is kept").map_err(|why| {
            self.refused(format!(
                "{place} cannot be a spare: it {why}; hint: take it from the list of spares"
            ))
        })
    }

    /// Keeps the pool, on its first core, until it is closed.
    pub fn keep(&self, core: &Rc<PoolCore>) {
        if let Some((label, receiver)) = self.take_seed() {
            let keeper = Keeper::new(core.clone(), label, self.volumes().to_vec());
            core.ring.spawn_later(keeper.run(receiver));
        }
    }

    /// Says to the keeper that everything is to be put in its place; waits until that is so.
    pub async fn close(shared: &Arc<Shared>, ring: &Ring) {
        shared.keeper.send(Message::Close).ok();
        while !shared.closed.load(Ordering::Acquire) {
            ring.sleep(std::time::Duration::from_micros(200)).await;
        }
    }

    fn take_seed(&self) -> Option<(Label, Receiver<Message>)> {
        self.seed.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn put_seed(&self, label: Label, receiver: Receiver<Message>) {
        *self.seed.lock().unwrap_or_else(PoisonError::into_inner) = Some((label, receiver));
    }

    /// Whether all that was read so far is known.
    fn has_heard_all(&self, core: &PoolCore) -> Result<(), PoolError> {
        let Some(slot) = core.silent.get() else { return Ok(()) };
        let place = self.shared.member(slot).map_or_else(String::new, |member| member.place().to_string());
        Err(self.refused(format!(
            "member {slot}, {place}, without which it cannot be opened, does not answer; hint: look at the disk and its cable, \
             and try again: nothing is lost"
        )))
    }

    fn refused(&self, why: String) -> PoolError {
        PoolError::Refused { pool: self.shared.name.clone(), why }
    }

    pub(super) fn no_volume(&self, volume: &str, why: String) -> PoolError {
        PoolError::Volume { pool: self.shared.name.clone(), volume: volume.to_owned(), why }
    }

    fn failed(&self, slot: usize, cause: String) -> PoolError {
        let place = self.shared.member(slot).map_or_else(String::new, |member| member.place().to_string());
        PoolError::Io { pool: self.shared.name.clone(), place, cause }
    }
}

impl PoolCore {
    /// Writes what a blank member needs, but for its label.
    async fn format(&self) -> Result<(), (usize, String)> {
        let geometry = *self.geometry();
        for slot in members(geometry.slot_mask()) {
            let failed = |trouble: super::core::Trouble| (slot, trouble.to_string());
            for first in (0..geometry.table_pages).step_by(TABLE_BYTES / 2 / BLOCK) {
                let count = (geometry.table_pages - first).min((TABLE_BYTES / 2 / BLOCK) as u64);
                let mut bytes = Buffer::zeroed(count as usize * 2 * BLOCK);
                for (index, pair) in bytes.chunks_exact_mut(2 * BLOCK).enumerate() {
                    let page = first + index as u64;
                    // Generation 2 is in the first place, 1 in the second.
                    for (place, generation) in pair.chunks_exact_mut(BLOCK).zip([2, 1]) {
                        let head = TablePage { pool: self.shared.id, slot: slot as u16, page, generation };
                        head.encode(std::iter::repeat_n(0, super::format::table_page::ENTRIES), place);
                    }
                    self.shared.table.written(slot, page, 2);
                }
                let request = Request::write(geometry.table_page_place(first, 0), bytes);
                self.ask(slot, request).await.result.map_err(failed)?;
            }
            for number in 0..geometry.bitmap_blocks {
                let mut block = Buffer::new(BLOCK);
                bitmap_block::encode(&self.shared.id, number, &[], &mut block);
                let request = Request::write(geometry.bitmap_place(number), block);
                self.ask(slot, request).await.result.map_err(failed)?;
            }
            self.ask(slot, Request::flush()).await.result.map_err(failed)?;
        }
        Ok(())
    }

    /// The power went while the tails of labels were written: where one is not whole it gets what the head says, before that is
    /// written. Else the next cut could take both.
    async fn mend_tails(&self) {
        let [head, tail] = End::BOTH.map(|end| self.geometry().label_place(end));
        for slot in members(self.geometry().slot_mask() & !self.shared.states.out()) {
            if Label::decode(&self.read_pages(slot, tail, 1).await).is_ok() {
                continue;
            }
            let Ok(label) = Label::decode(&self.read_pages(slot, head, 1).await) else { continue };
            if label.geometry.label_place(End::Tail) != tail {
                continue;
            }
            let block = Buffer::copy_of(&Label { end: End::Tail, ..label }.encode());
            let answer = self.ask(slot, Request::write(tail, block).with(Flags::FUA)).await;
            if let Err(trouble) = answer.result
                && !self.fail(slot, Cause::WriteError, &trouble)
            {
                self.shared.fail_stop("a label could not be written");
            }
        }
    }
}

/// Where the labels at the tails of these members are.
pub(super) fn tails(labelled: &[Labelled]) -> Vec<u64> {
    let mut tails: Vec<u64> =
        labelled.iter().map(|labelled| labelled.label.geometry.label_place(End::Tail)).collect();
    tails.sort_unstable();
    tails.dedup();
    tails
}

/// The newest label of a member; none of a blank one. One that cannot be read is an error: nobody knows what it has. `tails`:
/// where other members have theirs.
pub(super) async fn read_label(
    ring: &Ring,
    member: &Member,
    tails: &[u64],
) -> Result<Option<Label>, PoolError> {
    let stack = member.stack(ring)?;
    let mut newest: Option<Label> = None;
    let (mut damaged, mut unreadable) = (None, None);
    let last = member.bytes().saturating_sub(BLOCK as u64);
    // Where a member ends that has no more bytes than it needs. Of another one the head says where its tail is, also one
    // that is damaged: torn by a cut it still has what the old one and the new one have in common.
    let mut places = vec![0, last];
    let add = |places: &mut Vec<u64>, place: u64| {
        if place <= last && !places.contains(&place) {
            places.push(place);
        }
    };
    for tail in tails {
        add(&mut places, *tail);
    }
    let mut index = 0;
    while let Some(place) = places.get(index).copied() {
        index += 1;
        let read = stack.submit(Request::read(place, Buffer::new(BLOCK)));
        let Some(completion) = ring.timeout(POOL_MEMBER_STALL, read).await else {
            unreadable = Some(Trouble::Stall);
            break;
        };
        if let Err(error) = completion.result {
            unreadable = Some(Trouble::Error(error));
            continue;
        }
        match Label::decode(&completion.buffer) {
            Ok(label) => {
                add(&mut places, label.geometry.label_place(End::Tail));
                if newest.as_ref().is_none_or(|newest| label.generation > newest.generation) {
                    newest = Some(label);
                }
            }
            Err(LabelError::NotALabel) => {}
            Err(error) => {
                if let Some(tail) = Label::tail_of_damaged(&completion.buffer) {
                    add(&mut places, tail);
                }
                damaged = Some(error);
            }
        }
    }
    match (newest, damaged, unreadable) {
        (_, _, Some(cause @ Trouble::Stall)) | (None, _, Some(cause)) => Err(PoolError::Io {
            pool: String::new(),
            place: member.place().to_string(),
            cause: cause.to_string(),
        }),
        (Some(label), _, _) => Ok(Some(label)),
        (None, Some(error), None) => {
            Err(PoolError::Refused { pool: String::new(), why: format!("{}: {error}", member.place()) })
        }
        (None, None, None) => Ok(None),
    }
}

/// Whether the pool that `label` is of went on without a member: that is out, or another one has its place.
fn is_without(label: &Label, member: &Id) -> bool {
    let uses = |slot: &Slot| slot.member == *member && !matches!(slot.state, SlotState::Out { .. });
    !label.slots.iter().any(uses)
}

/// Whether none of those that `label` has as good was used when `other` was written.
fn has_none_of(label: &Label, other: &Label) -> bool {
    let in_sync = |slot: &&Slot| slot.state == SlotState::InSync;
    label.slots.iter().filter(in_sync).all(|slot| is_without(other, &slot.member))
}

/// Whether a member was used without those that `label` has as good, while these were used without it.
pub fn is_parted(label: &Label, other: &Label) -> bool {
    match label.slot_of(&other.member).map(|slot| label.slots[slot].state) {
        // One that is only old has no label of a generation in which it was out.
        Some(SlotState::Out { since, .. }) => other.generation >= since,
        Some(_) => false,
        None if label.spares.contains(&other.member) => false,
        // Another one has its place: one that was never used without some other one is only old.
        None => {
            let is_out = |slot: &Slot| matches!(slot.state, SlotState::Out { .. });
            other.slots.iter().any(is_out) && has_none_of(label, other)
        }
    }
}

/// Whether the members of `label` went on without another one for good: it is of no use to them any more.
pub(super) fn was_replaced(label: &Label, other: &Label) -> bool {
    let known = label.slot_of(&other.member).is_some() || label.spares.contains(&other.member);
    other.pool == label.pool && !known && !is_parted(label, other)
}

/// Whether the pool that `label` is of was to be extended by a member, and was not: a cut came before that.
pub(super) fn never_came_in(label: &Label, other: &Label) -> bool {
    let is_known = label.slot_of(&other.member).is_some() || label.spares.contains(&other.member);
    let lacks_slot = other.slot.is_some_and(|slot| usize::from(slot) >= label.slots.len());
    other.pool == label.pool && lacks_slot && !is_known
}

/// The newest label.
pub(super) fn newest(labelled: &[Labelled]) -> Option<&Labelled> {
    labelled.iter().max_by_key(|labelled| labelled.label.generation)
}

/// The label that counts, if the members belong together.
pub(super) fn choose(name: &str, labelled: &[Labelled]) -> Result<Label, PoolError> {
    let refused = |why: String| PoolError::Refused { pool: name.to_owned(), why };
    let Some(newest) = newest(labelled) else {
        return Err(refused("no member was given; hint: name its files or devices".to_owned()));
    };
    let label = &newest.label;
    for other in labelled {
        let place = other.member.place();
        if other.label.pool != label.pool {
            return Err(refused(format!(
                "{place} is a member of another pool, {}; hint: take it from the list",
                other.label.name
            )));
        }
        if never_came_in(label, &other.label) {
            continue;
        }
        if was_replaced(label, &other.label) {
            return Err(refused(format!(
                "{place} was a member once and was replaced; hint: take it from the list, or wipe it and add it as a spare"
            )));
        }
        if is_parted(label, &other.label) {
            return Err(refused(format!(
                "{place} and {} were each used without the other, and differ; hint: choose one and leave the other out",
                newest.member.place()
            )));
        }
    }
    Ok(label.clone())
}

pub(super) fn random_id() -> Id {
    let mut id = [0; 16];
    loop {
        getrandom::fill(&mut id).expect("the kernel has random numbers");
        if id != [0; 16] {
            return id;
        }
    }
}
