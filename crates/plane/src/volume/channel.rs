//! One core's handle of a volume.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use ring::{Instant, Notify, Ring, Shared, Soon, Writing};

use crate::error::{Error, ErrorKind};
use crate::layers::Stack;
use crate::limits::EXPECTED_BYTES;
use crate::meter::Meter;
use crate::request::{Completion, Extent, Flags, Geometry, Request, Run, Verb};
use crate::shard::Shard;
use crate::volume::Volume;
use crate::volume::exclusive::{Exclusive, Owner};
use crate::volume::figures::{Busy, Figures, Turns};

/// One core's handle of a volume: the stack, what is in flight on it, and which extents are frozen for somebody.
pub struct Channel {
    index: usize,
    volume: Arc<Volume>,
    /// What a request goes through. Another one takes its place while the whole volume is frozen.
    stack: RefCell<Rc<Stack>>,
    geometry: Cell<Geometry>,
    is_prompt: Cell<bool>,
    is_limited: Cell<bool>,
    /// The stack that is to come.
    next: RefCell<Option<Stack>>,
    ring: Ring,
    meter: Meter,
    followed: Turns,
    in_flight: RefCell<InFlight>,
    frozen: RefCell<Vec<(u64, Extent)>>,
    /// `frozen.is_empty()`, for one cheap look per request.
    thawed: Cell<bool>,
    changed: Notify,
    pub(crate) owner: Owner,
}

#[derive(Default)]
struct InFlight {
    slots: Vec<Option<Extent>>,
    free: Vec<u32>,
    busy: Busy,
}

impl InFlight {
    fn insert(&mut self, extent: Extent, now: Instant) -> u32 {
        if self.free.len() == self.slots.len() {
            self.busy.begin(now);
        }
        if let Some(slot) = self.free.pop() {
            self.slots[slot as usize] = Some(extent);
            return slot;
        }
        self.slots.push(Some(extent));
        u32::try_from(self.slots.len() - 1).expect("requests in flight are bounded far below 2^32")
    }

    fn remove(&mut self, slot: u32, ring: &Ring) {
        self.slots[slot as usize] = None;
        self.free.push(slot);
        if self.free.len() == self.slots.len() {
            self.busy.end(ring.turn_time());
        }
    }
}

/// A request in flight; given up or done, it leaves the list.
struct Entered<'a> {
    channel: &'a Channel,
    slot: u32,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.channel.in_flight.borrow_mut().remove(self.slot, &self.channel.ring);
        if !self.channel.thawed.get() {
            self.channel.changed.notify();
        }
    }
}

impl Channel {
    /// `index`: the volume's place in [`Shard::volumes`].
    pub fn new(index: usize, volume: Arc<Volume>, stack: Stack) -> Channel {
        let (ring, geometry, is_prompt) = (stack.ring().clone(), stack.geometry(), stack.is_prompt());
        let is_limited = Cell::new(stack.is_limited());
        Channel {
            index,
            volume,
            stack: RefCell::new(Rc::new(stack)),
            geometry: Cell::new(geometry),
            is_prompt: Cell::new(is_prompt),
            is_limited,
            next: RefCell::default(),
            ring,
            meter: Meter::default(),
            followed: Turns::default(),
            in_flight: RefCell::default(),
            frozen: RefCell::default(),
            thawed: Cell::new(true),
            changed: Notify::new(),
            owner: Owner::default(),
        }
    }

    /// The volume's place in [`Shard::volumes`].
    pub fn index(&self) -> usize {
        self.index
    }

    /// Names and configuration.
    pub fn volume(&self) -> &Arc<Volume> {
        &self.volume
    }

    /// What the volume is.
    pub fn geometry(&self) -> Geometry {
        self.geometry.get()
    }

    /// The layers as they are now, for those who look at times.
    pub fn stack(&self) -> Rc<Stack> {
        self.stack.borrow().clone()
    }

    /// Keeps the stack that is to take the place of this one, if all cores have theirs.
    pub(crate) fn prepare_stack(&self, stack: Stack) {
        self.next.replace(Some(stack));
    }

    /// Takes the stack that was prepared, or gives it up. Who takes it holds the whole volume exclusively, so that nothing but
    /// flushes is under way: what those have to make durable, both stacks have.
    pub(crate) fn end_preparation(&self, takes: bool) {
        let Some(stack) = self.next.take().filter(|_| takes) else { return };
        self.geometry.set(stack.geometry());
        self.is_prompt.set(stack.is_prompt());
        self.is_limited.set(stack.is_limited());
        self.stack.replace(Rc::new(stack));
    }

    /// Whether a request is under way on this core.
    pub(crate) fn is_busy(&self) -> bool {
        self.in_flight.borrow().slots.iter().any(Option::is_some)
    }

    /// A request for `extent` is about to come. Only a hint, taken for small extents.
    #[inline]
    pub fn expect(&self, verb: Verb, extent: Extent, soon: Soon) {
        if extent.length <= EXPECTED_BYTES {
            self.stack.borrow().expect(verb, extent, soon);
        }
    }

    /// What a read of `extent` would give now, if that can be lent without a copy and nobody has the extent exclusively.
    pub fn lend(&self, extent: Extent) -> Option<Shared> {
        let lent = if self.thawed.get() { self.stack.borrow().lend(extent) } else { None };
        if lent.is_some() {
            self.meter.prompt(Verb::Read, extent.length);
        }
        lent
    }

    /// Whether [`Channel::absorb`] and [`Channel::lend`] are worth a try: a disk in RAM without layers.
    pub fn is_prompt(&self) -> bool {
        self.is_prompt.get()
    }

    /// Whether requests wait for their turn within limits; who may give them up says so by [`crate::layers::while_wanted`].
    pub fn is_limited(&self) -> bool {
        self.is_limited.get()
    }

    /// Writes these pieces to `extent`, if the disk can and nobody has the extent exclusively: they are there when what it gives
    /// is dropped, before the core does anything else with the volume. The answer is made meanwhile, and sent after it.
    /// `None`: nothing was written, and [`Channel::submit`] will do it or tell why not.
    pub fn absorb(&self, extent: Extent, pieces: &[&[u8]]) -> Option<Writing> {
        let writing = if self.thawed.get() { self.stack.borrow().absorb(extent, pieces) } else { None };
        if writing.is_some() {
            self.meter.prompt(Verb::Write, extent.length);
        }
        writing
    }

    /// Carries out a request. It waits while its extent is exclusively somebody else's.
    pub async fn submit(&self, request: Request) -> Completion {
        let extent = request.extent;
        if !self.thawed.get() {
            let free = || !self.frozen.borrow().iter().any(|(_, frozen)| frozen.overlaps(extent));
            self.changed.until(|| free().then_some(())).await;
        }
        let slot = self.in_flight.borrow_mut().insert(extent, self.ring.turn_time());
        let _entered = Entered { channel: self, slot };
        self.pass(request).await
    }

    /// Sends a request through the stack, and counts it.
    async fn pass(&self, mut request: Request) -> Completion {
        let stack = self.stack();
        let (verb, bytes, begun) = (request.verb, request.extent.length, self.ring.turn_time());
        if self.followed.next() {
            request.flags |= Flags::TRACED;
        }
        let completion = stack.submit(request).await;
        let failed = completion.result.as_ref().is_err_and(|error| error.kind() != ErrorKind::GivenUp);
        self.meter.done(verb, bytes, begun, self.ring.turn_time(), failed);
        completion
    }

    /// What happened to it on this core, which has this number.
    pub fn figures(&self, core: usize) -> Figures {
        let in_flight = self.in_flight.borrow();
        Figures {
            place: self.index,
            name: self.volume.name().to_owned(),
            bytes: self.geometry().bytes(),
            verbs: self.meter.figures(),
            in_flight: in_flight.slots.iter().flatten().count(),
            busy: BTreeMap::from([(core, in_flight.busy.until(self.ring.turn_time()))]),
            layers: self.stack.borrow().spent().collect(),
            followed: self.stack.borrow().followed(),
        }
    }

    /// Carries out a request within an extent that the caller has frozen.
    pub(super) async fn submit_inside(&self, request: Request) -> Completion {
        self.pass(request).await
    }

    /// See [`crate::layers::Layer::allocation`].
    pub fn allocation(&self, extent: Extent) -> Result<Run, Error> {
        self.stack.borrow().allocation(extent)
    }

    /// Waits until nobody on any core uses `extent`, and keeps everybody off it until the result is dropped.
    pub async fn exclusive(self: &Rc<Self>, shard: &Rc<Shard>, extent: Extent) -> Exclusive {
        Exclusive::acquire(self, shard, extent).await
    }

    /// Keeps new requests off `extent` on this core and waits until those in flight are done.
    pub(super) async fn freeze(&self, token: u64, extent: Extent) {
        self.frozen.borrow_mut().push((token, extent));
        self.thawed.set(false);
        let busy = || self.in_flight.borrow().slots.iter().flatten().any(|other| other.overlaps(extent));
        self.changed.until(|| (!busy()).then_some(())).await;
    }

    pub(super) fn thaw(&self, token: u64) {
        let mut frozen = self.frozen.borrow_mut();
        frozen.retain(|(held, _)| *held != token);
        self.thawed.set(frozen.is_empty());
        drop(frozen);
        self.changed.notify();
    }
}
