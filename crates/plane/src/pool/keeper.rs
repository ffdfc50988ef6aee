//! What is done for a pool once, on its first core: labels, checkpoints, the bitmap, and who is out.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ring::{Buffer, Instant, Receiver};

use super::assemble::is_blank;
use super::core::{PoolCore, Shared, Trouble};
use super::format::{
    BLOCK, CatalogueReference, Cause, End, Geometry, Id, Label, SlotState, TablePage, VolumeEntry,
    bitmap_block, catalogue,
};
use super::join::join;
use super::layout::{Slots, members};
use super::member::Member;
use super::open::{random_id, read_label};
use super::volumes::VolumeWish;
use super::watch::SlowWatch;
use crate::error::{Error, ErrorKind};
use crate::limits::POOL_WATCH;
use crate::request::{Flags, Request};

/// How long changes wait for a checkpoint at most.
const CHECKPOINT: Duration = Duration::from_secs(5);

/// How often it is looked whether a pool that is being closed has settled.
const SETTLE: Duration = Duration::from_millis(1);

/// Writes to a member at once.
const WRITES: usize = 32;

/// Who waits for what becomes of a member.
pub(super) type Answer = Box<dyn FnOnce(Result<(), String>) + Send>;

/// What any core asks of the keeper.
pub(super) enum Message {
    /// A slot was taken out.
    Out {
        /// Which.
        slot: usize,
        /// Why.
        cause: Cause,
    },
    /// The journal is getting full.
    Checkpoint,
    /// Rows were changed that a member lacks.
    Bitmap,
    /// A slot is rebuilt up to a row.
    Cursor {
        /// Which slot.
        slot: usize,
        /// Which rebuilding of it says so.
        life: u64,
        /// Rows below are good.
        row: u64,
    },
    /// All of a slot is rebuilt.
    Rebuilt {
        /// Which.
        slot: usize,
        /// Which rebuilding of it says so.
        life: u64,
    },
    /// Everything is to be verified, from the first row on.
    Scrub,
    /// A scrub has come further.
    ScrubPlace,
    /// A scrub has ended.
    Scrubbed,
    /// A member waits for another one to fail from now on.
    AddSpare {
        /// The member, open.
        member: Arc<Member>,
        /// Is told whether it is one; why not is a sentence's end.
        answer: Answer,
    },
    /// A spare is to be none any more.
    RemoveSpare(Id),
    /// The pool is to have what its members have room for.
    Grow,
    /// There are to be other volumes.
    Volumes {
        /// Which.
        wish: VolumeWish,
        /// Is told the volume, or why not: a sentence with a hint.
        answer: Box<dyn FnOnce(Result<Option<VolumeEntry>, String>) + Send>,
    },
    /// The pool is to have further members.
    Extend {
        /// They, open.
        members: Vec<Arc<Member>>,
        /// Is told whether it has them; why not is a sentence.
        answer: Answer,
    },
    /// A slot is to be used no more, because an administrator says so.
    Offline {
        /// Which.
        slot: usize,
    },
    /// A member is there, for a slot that is out: the one it had, or another one.
    Online {
        /// Which slot.
        slot: usize,
        /// The member, open.
        member: Arc<Member>,
        /// Is told whether it is taken; why not is a sentence's end.
        answer: Answer,
    },
    /// The pool is to be closed.
    Close,
}

/// A page of the table that is to be written.
struct Page {
    number: u64,
    /// Which of its two places.
    copy: u8,
    block: Buffer,
}

impl Page {
    fn again(&self) -> Page {
        Page { block: Buffer::copy_of(&self.block), ..*self }
    }
}

/// The keeper of a pool.
pub(super) struct Keeper {
    pub(super) core: Rc<PoolCore>,
    /// As it was last written, but for member, slot and end.
    pub(super) label: Label,
    pub(super) volumes: Vec<VolumeEntry>,
    /// The transaction from which on a recovery had to look when the last checkpoint began: what was before is in one place
    /// of each page of the table at least.
    once_written: u64,
    /// When it began: members that are missing may come up late.
    pub(super) began: Instant,
    /// Slots whose members failed since.
    pub(super) faulted: Slots,
    /// Slots that an administrator took out since.
    pub(super) unwanted: Slots,
    /// While the pool grows: where table and bitmap are to lie. What a checkpoint writes comes to both tables.
    pub(super) growing: Option<Geometry>,
    pub(super) slow: SlowWatch,
}

impl Keeper {
    /// `label`: any member's newest one.
    pub(super) fn new(core: Rc<PoolCore>, label: Label, volumes: Vec<VolumeEntry>) -> Keeper {
        let once_written = label.retired;
        let (began, slow) = (core.ring.now(), SlowWatch::new(label.geometry.level.most_slots()));
        let keeper = Keeper {
            core,
            label,
            volumes,
            once_written,
            began,
            faulted: 0,
            unwanted: 0,
            growing: None,
            slow,
        };
        keeper.publish();
        keeper
    }

    pub(super) fn shared(&self) -> &Shared {
        &self.core.shared
    }

    /// Serves until the pool is closed.
    pub(super) async fn run(mut self, mut messages: Receiver<Message>) {
        self.resume();
        let mut checkpointed = self.shared().next.load(Ordering::SeqCst);
        let ring = self.core.ring.clone();
        let mut watched = ring.now();
        loop {
            if ring.now().since(watched) >= POOL_WATCH && !self.shared().stops() {
                watched = ring.now();
                self.look().await;
            }
            // What is under way may need a bit of the bitmap, or a label, before it is in its place.
            if self.shared().stops() && self.is_settled() {
                self.shared().sealed.store(true, Ordering::SeqCst);
                if self.is_settled() {
                    return self.close().await;
                }
                // Somebody took a number before.
                self.shared().sealed.store(false, Ordering::SeqCst);
            }
            let message = if self.shared().stops() {
                let Some(message) = ring.timeout(SETTLE, messages.receive()).await else { continue };
                message
            } else {
                // Also when there is nothing to do: no message says that something was changed.
                ring.timeout(CHECKPOINT, messages.receive()).await.unwrap_or(Some(Message::Checkpoint))
            };
            match message {
                Some(Message::Out { slot, cause }) => self.take_out(slot, cause).await,
                Some(Message::Checkpoint) => {
                    let next = self.shared().next.load(Ordering::SeqCst);
                    if next != checkpointed || !self.is_written_twice() || self.shared().segments.is_short() {
                        self.checkpoint().await;
                        checkpointed = next;
                    }
                }
                Some(Message::Bitmap) => self.write_bitmap().await,
                Some(Message::Cursor { slot, life, row }) => self.save_cursor(slot, life, row).await,
                Some(Message::Rebuilt { slot, life }) => self.rebuilt(slot, life).await,
                Some(Message::Scrub) => self.scrub().await,
                Some(Message::ScrubPlace) => self.save_scrub().await,
                Some(Message::Scrubbed) => self.scrubbed().await,
                Some(Message::AddSpare { member, answer }) => answer(self.take_in(member).await),
                Some(Message::RemoveSpare(id)) => self.remove_spare(&id).await,
                Some(Message::Grow) => self.grow().await,
                Some(Message::Volumes { wish, answer }) => answer(self.change_volumes(&wish).await),
                Some(Message::Extend { members, answer }) => answer(self.extend(members).await),
                Some(Message::Offline { slot }) => {
                    if self.core.fail(slot, Cause::Administrator, &Trouble::Unwanted) {
                        self.unwanted |= 1 << slot;
                    }
                }
                Some(Message::Online { slot, member, answer }) => self.bring_in(slot, member, answer).await,
                Some(Message::Close) => self.shared().closing.store(true, Ordering::Release),
                None => return,
            }
        }
    }

    /// Whether nothing is under way, or nothing can go on.
    fn is_settled(&self) -> bool {
        let shared = self.shared();
        shared.oldest() == shared.next.load(Ordering::SeqCst) || shared.has_failed()
    }

    /// Goes on with what a restart interrupted.
    fn resume(&self) {
        for (slot, entry) in self.label.slots.iter().enumerate() {
            if let SlotState::Rebuilding { by_bitmap, .. } = entry.state {
                self.core.ring.spawn_later(self.core.clone().rebuild(slot, by_bitmap));
            }
        }
        if let Some(place) = self.label.scrub {
            self.begin_scrub(&place);
        }
    }

    async fn save_cursor(&mut self, slot: usize, life: u64, row: u64) {
        // Said of a member whose place another one has by now.
        if self.shared().states.life(slot) != life {
            return;
        }
        if let SlotState::Rebuilding { since, by_bitmap, .. } = self.label.slots[slot].state {
            // As in `rebuilt`.
            self.checkpoint().await;
            if self.shared().has_failed() {
                return;
            }
            self.label.slots[slot].state = SlotState::Rebuilding { since, cursor: row, by_bitmap };
            self.checkpoint().await;
        }
    }

    async fn rebuilt(&mut self, slot: usize, life: u64) {
        if self.shared().states.life(slot) != life {
            return;
        }
        // What the rebuilding wrote, which is not in the journal, is durable before anybody relies on it, and its checksums
        // are in both places of their pages.
        self.checkpoint_twice().await;
        if self.shared().has_failed()
            || !matches!(self.label.slots[slot].state, SlotState::Rebuilding { .. })
            || self.shared().states.rebuilding() & 1 << slot == 0
        {
            return;
        }
        self.label.slots[slot].state = SlotState::InSync;
        self.write_labels(None).await;
        self.shared().states.in_sync(slot);
        tracing::info!(pool = self.shared().name, "member {slot} is rebuilt");
        if self.shared().states.all_in_sync() {
            self.shared().bitmap.clear();
            self.write_bitmap().await;
        }
    }

    /// A member for a slot that is out. One that was there before gets what it missed; another one gets everything.
    async fn bring_in(&mut self, slot: usize, member: Arc<Member>, answer: Answer) {
        if !matches!(self.label.slots[slot].state, SlotState::Out { .. }) {
            return answer(Err(format!("is not needed: slot {slot} is not out")));
        }
        let known = match self.recognize(slot, &member).await {
            Ok(known) => known,
            Err(why) => {
                let place = member.place();
                tracing::error!(
                    pool = self.shared().name,
                    "{place} {why}; hint: nothing was written to it: give another one, or wipe it if nobody needs what is on it"
                );
                return answer(Err(why));
            }
        };
        let place = member.place().to_string();
        let installed = self.install(slot, member, (!known).then(random_id)).await;
        if let Err(why) = &installed {
            tracing::error!(pool = self.shared().name, "{place} {why}; hint: look at the disk and its cable");
        }
        answer(installed);
    }

    /// A member has a slot that is out from now on, and is given what it lacks. `newcomer`: what one is known by that never had
    /// anything. The error, never of a newcomer, is why it does not get the slot: a sentence's end.
    pub(super) async fn install(
        &mut self,
        slot: usize,
        member: Arc<Member>,
        newcomer: Option<Id>,
    ) -> Result<(), String> {
        let SlotState::Out { since, cause } = self.label.slots[slot].state else { return Ok(()) };
        let shared = self.core.shared.clone();
        let before = shared.member(slot);
        shared.set_member(slot, Some(member));
        // One that went out before it had everything lacks more than the bitmap says.
        let by_bitmap = newcomer.is_none() && cause != Cause::Replaced;
        if !by_bitmap {
            shared.table.renew(slot);
        } else if !self.core.load_table(slot, shared.geometry.rows).await {
            shared.set_member(slot, before);
            return Err("does not answer".to_owned());
        }
        (self.faulted, self.unwanted) = (self.faulted & !(1 << slot), self.unwanted & !(1 << slot));
        shared.without_tail.fetch_and(!(1 << slot), Ordering::AcqRel);
        if let Some(id) = newcomer {
            self.label.slots[slot].member = id;
        }
        self.label.slots[slot].state = SlotState::Rebuilding { since, cursor: 0, by_bitmap };
        shared.changes.fetch_add(1, Ordering::AcqRel);
        let changes = shared.changes.load(Ordering::Acquire);
        shared.states.rebuild(slot, 0);
        self.write_catalogue().await;
        self.checkpoint().await;
        self.write_bitmap().await;
        shared.labelled.fetch_max(changes, Ordering::AcqRel);
        self.core.ring.spawn_later(self.core.clone().rebuild(slot, by_bitmap));
        Ok(())
    }

    /// Whether a member is the one that a slot had. The error is why it can be neither that nor a new one: a sentence's end.
    async fn recognize(&self, slot: usize, member: &Member) -> Result<bool, String> {
        let Some(label) = self.own_label(member).await? else { return Ok(false) };
        if label.member != self.label.slots[slot].member {
            return Err("is a member of this pool, but not the one that this slot had".to_owned());
        }
        if label.generation > self.label.generation {
            return Err("was used without the other members".to_owned());
        }
        Ok(true)
    }

    /// The label of a member of this pool; none of a blank one. The error is what else it is: a sentence's end.
    pub(super) async fn own_label(&self, member: &Member) -> Result<Option<Label>, String> {
        let tail = self.shared().geometry.label_place(End::Tail);
        let label = read_label(&self.core.ring, member, &[tail]).await;
        let label = label.map_err(|error| format!("cannot be used: {error}"))?;
        match label {
            Some(label) if label.pool != self.label.pool => {
                Err(format!("is a member of another pool, {}", label.name))
            }
            Some(label) => Ok(Some(label)),
            None => match is_blank(&self.core.ring, member).await {
                Ok(Some(true)) => Ok(None),
                Ok(Some(false)) => Err("has something on it that is no label of a pool".to_owned()),
                Ok(None) => Err("cannot be read".to_owned()),
                Err(error) => Err(format!("cannot be used: {error}")),
            },
        }
    }

    /// Everything in its place, and said so.
    async fn close(&mut self) {
        self.checkpoint_twice().await;
        // What is not in its place is made when the pool is opened again.
        self.label.clean = !self.shared().has_failed();
        self.label.scrub = self.scrub_place();
        self.write_labels(None).await;
        // Whoever still waits for labels is to find that the pool is closed.
        self.shared().labelled.store(u64::MAX, Ordering::Release);
        self.shared().closed.store(true, Ordering::Release);
    }

    async fn take_out(&mut self, slot: usize, cause: Cause) {
        let changes = self.shared().changes.load(Ordering::Acquire);
        if self.note_failed(|other| if other == slot { cause } else { Cause::WriteError }) {
            self.write_bitmap().await;
            self.write_labels(None).await;
        }
        self.shared().labelled.fetch_max(changes, Ordering::AcqRel);
        self.fill_in().await;
    }

    /// While the pool is opened: the labels say who has failed so far.
    pub(super) async fn label_out(&mut self) {
        loop {
            let changes = self.shared().changes.load(Ordering::Acquire);
            if !self.note_failed(|_| Cause::WriteError) {
                self.shared().labelled.fetch_max(changes, Ordering::AcqRel);
                return;
            }
            self.write_bitmap().await;
            self.write_labels(None).await;
        }
    }

    /// Whether the journal has forgotten all that was in its place at the last checkpoint.
    fn is_written_twice(&self) -> bool {
        self.label.retired == self.once_written
    }

    /// As a checkpoint, for what is to be forgotten altogether.
    pub(super) async fn checkpoint_twice(&mut self) {
        self.checkpoint().await;
        self.checkpoint().await;
    }

    /// Brings table pages to their members, makes everything durable, and lets the journal forget what is in its place, and
    /// whose checksums are in both places of their pages: one of them may turn out to be damaged.
    pub(super) async fn checkpoint(&mut self) {
        if self.shared().has_failed() {
            return;
        }
        let oldest = self.shared().oldest();
        self.shared().bitmap.turn();
        // A member that fails meanwhile may lack what the journal is about to forget: that has to stand in the bitmap, and
        // in the labels that it is out, before.
        loop {
            let slots = self.used();
            for slot in members(slots) {
                self.write_table(slot).await;
            }
            self.note_failed(|_| Cause::WriteError);
            if !self.shared().states.all_in_sync() {
                self.write_bitmap().await;
            }
            self.flush(slots & self.used()).await;
            if self.used() == slots {
                break;
            }
        }
        if self.shared().has_failed() {
            return;
        }
        self.shared().bitmap.settle();
        let retired = std::mem::replace(&mut self.once_written, oldest);
        self.label.retired = retired;
        self.write_labels(None).await;
        if self.shared().has_failed() {
            // Nobody knows whether the labels say so: the journal keeps what they may ask for.
            return;
        }
        self.shared().retired.store(retired, Ordering::Release);
        self.shared().segments.retire(retired);
    }

    /// The label learns of all members that have failed: those of which no message has come yet too, as whoever waits for the
    /// labels waits for all of them. False when it knows. One that never had everything is noted as such.
    fn note_failed(&mut self, cause: impl Fn(usize) -> Cause) -> bool {
        let since = self.label.generation + 1;
        let mut any = false;
        for slot in members(self.core.shared.states.out()) {
            let state = &mut self.label.slots[slot].state;
            *state = match *state {
                SlotState::Out { .. } => continue,
                SlotState::Rebuilding { by_bitmap: false, .. } => {
                    SlotState::Out { cause: Cause::Replaced, since }
                }
                SlotState::Rebuilding { .. } | SlotState::InSync => {
                    let unwanted = self.unwanted & 1 << slot != 0;
                    SlotState::Out { cause: if unwanted { Cause::Administrator } else { cause(slot) }, since }
                }
            };
            self.faulted |= 1 << slot;
            any = true;
        }
        if any {
            self.shared().bitmap.keep_recent();
        }
        any
    }

    fn used(&self) -> Slots {
        self.shared().geometry.slot_mask() & !self.shared().states.out()
    }

    /// A member failed. One that cannot be spared lacks something that nobody may rely on then.
    fn fail(&self, slot: usize, trouble: &Trouble) {
        let cause = if matches!(trouble, Trouble::Stall) { Cause::Stall } else { Cause::WriteError };
        if !self.core.fail(slot, cause, trouble) {
            self.shared().fail_stop("what was written could not be made durable");
        }
    }

    /// Makes what was written to members durable.
    pub(super) async fn flush(&self, slots: Slots) {
        let flushes = members(slots).map(|slot| self.core.ask(slot, Request::flush()));
        for (slot, answer) in members(slots).zip(join(flushes).await) {
            if let Err(trouble) = answer.result {
                self.fail(slot, &trouble);
            }
        }
    }

    async fn write_table(&mut self, slot: usize) {
        let shared = self.core.shared.clone();
        let changed = shared.table.take_changed(slot);
        for pages in changed.chunks(WRITES) {
            let blocks: Vec<Page> = pages.iter().map(|page| self.next_page(slot, *page)).collect();
            let again = self.growing.map(|geometry| (geometry, blocks.iter().map(Page::again).collect()));
            if let Err(trouble) = self.write_pages(&shared.geometry, slot, blocks).await {
                self.fail(slot, &trouble);
            } else if let Some((geometry, blocks)) = again
                && self.write_pages(&geometry, slot, blocks).await.is_err()
            {
                // The growth sees that, and the pool stays as it is.
                self.growing = None;
            }
            // What is left it gets when it is back. To wait for each part of it would keep all from writing who wait until the labels
            // say that it is out.
            if self.used() & 1 << slot == 0 || shared.has_failed() {
                return;
            }
        }
    }

    /// A page of the table as it is now.
    fn next_page(&self, slot: usize, page: u64) -> Page {
        let shared = self.shared();
        let generation = shared.table.generation(slot, page) + 1;
        let mut block = Buffer::new(BLOCK);
        let head = TablePage { pool: shared.id, slot: slot as u16, page, generation };
        head.encode(shared.table.page(slot, page), &mut block);
        shared.table.written(slot, page, generation);
        Page { number: page, copy: (generation % 2) as u8, block }
    }

    /// Writes pages of a member's table where `geometry` has them. The error is the first one.
    async fn write_pages(&self, geometry: &Geometry, slot: usize, pages: Vec<Page>) -> Result<(), Trouble> {
        let writes = pages.into_iter().map(|Page { number, copy, block }| {
            self.core.ask(slot, Request::write(geometry.table_page_place(number, copy), block))
        });
        join(writes).await.into_iter().try_for_each(|answer| answer.result)
    }

    /// Writes the bitmap to all members that are used, durably.
    async fn write_bitmap(&self) {
        let shared = self.shared();
        let words = shared.bitmap.words();
        let mut writes = Vec::new();
        let slots = self.used();
        for slot in members(slots) {
            for number in 0..shared.geometry.bitmap_blocks {
                let first = (number as usize * bitmap_block::WORDS).min(words.len());
                let mut block = Buffer::new(BLOCK);
                bitmap_block::encode(
                    &shared.id,
                    number,
                    words[first..].iter().take(bitmap_block::WORDS).copied().collect::<Vec<_>>().as_slice(),
                    &mut block,
                );
                let request = Request::write(shared.geometry.bitmap_place(number), block).with(Flags::FUA);
                writes.push((slot, self.core.ask(slot, request)));
            }
        }
        let (owners, writes): (Vec<_>, Vec<_>) = writes.into_iter().unzip();
        for (slot, answer) in owners.into_iter().zip(join(writes).await) {
            if let Err(trouble) = answer.result {
                self.fail(slot, &trouble);
            }
        }
        if !shared.has_failed() {
            shared.bitmap.written(&words);
        }
    }

    /// Changes which volumes there are.
    pub(super) async fn set_volumes(&mut self, volumes: Vec<VolumeEntry>) -> Result<(), Error> {
        let bytes = catalogue::encode(&volumes, &self.shared().geometry).map_err(|error| {
            Error::caused(ErrorKind::NoSpace, "writing the catalogue of a pool", std::io::Error::other(error))
        })?;
        self.write_labels(Some((&bytes, volumes.len() as u32))).await;
        if self.shared().has_failed() {
            // Nobody knows which catalogue the next opening finds.
            return Err(Error::new(ErrorKind::Failed, "writing the catalogue of a pool"));
        }
        self.shared().volumes.set(volumes.clone());
        self.volumes = volumes;
        Ok(())
    }

    /// Writes the catalogue as it is to all members that are used.
    pub(super) async fn write_catalogue(&mut self) {
        match catalogue::encode(&self.volumes, &self.shared().geometry) {
            Ok(bytes) => self.write_labels(Some((&bytes, self.volumes.len() as u32))).await,
            Err(error) => tracing::error!(pool = self.shared().name, "{error}"),
        }
    }

    /// Writes the labels of all members that are used: first the catalogue, if it is another one, then heads, then tails.
    pub(super) async fn write_labels(&mut self, catalogue: Option<(&[u8], u32)>) {
        self.label.generation += 1;
        if let Some((bytes, volumes)) = catalogue {
            let copy = 1 - self.label.catalogue.copy;
            self.label.catalogue = CatalogueReference {
                generation: self.label.generation,
                volumes,
                checksum: catalogue::checksum(bytes),
                copy,
            };
            if !bytes.is_empty() {
                for end in End::BOTH {
                    let place = self.shared().geometry.catalogue_place(end, copy);
                    self.write_everywhere(place, |_| Buffer::copy_of(bytes)).await;
                }
            }
        }
        for end in End::BOTH {
            // One that did not take its head, and cannot be spared, keeps its tail as it is.
            if self.shared().has_failed() && end == End::Tail {
                break;
            }
            self.write_label(end, self.shared().geometry.label_place(end)).await;
        }
        self.publish();
    }

    /// Writes one of the labels of all members that are used. Who did not take his tail keeps his head as it is: what was to come
    /// there may still be on its way.
    pub(super) async fn write_label(&mut self, end: End, place: u64) {
        let without_tail = &self.core.shared.without_tail;
        let kept = if end == End::Head { without_tail.load(Ordering::Acquire) } else { 0 };
        let slots = self.used() & !kept;
        let content = |slot| Buffer::copy_of(&self.label.of_slot(slot, end).encode());
        let failed = self.write_to(slots, place, content).await;
        if end == End::Tail {
            without_tail.fetch_or(failed, Ordering::AcqRel);
        }
    }

    /// One durable write to all members that are used.
    pub(super) async fn write_everywhere(&self, place: u64, content: impl Fn(usize) -> Buffer) {
        self.write_to(self.used(), place, content).await;
    }

    /// One durable write to some members. Gives those that did not take it.
    async fn write_to(&self, slots: Slots, place: u64, content: impl Fn(usize) -> Buffer) -> Slots {
        let write = |slot| self.core.ask(slot, Request::write(place, content(slot)).with(Flags::FUA));
        let answers = join(members(slots).map(write)).await;
        let mut failed = 0;
        for (slot, answer) in members(slots).zip(answers) {
            if let Err(trouble) = answer.result {
                self.fail(slot, &trouble);
                failed |= 1 << slot;
            }
        }
        failed
    }

    /// The label as it stands.
    pub(super) fn label(&self) -> &Label {
        &self.label
    }
}
