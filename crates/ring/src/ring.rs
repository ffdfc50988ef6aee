//! The reactor of one core and the handle through which everything on that core uses it.

use std::cell::{Cell, RefCell, RefMut};
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::activity::Activity;
use crate::alone::Brought;
use crate::breaking::Breaking;
use crate::chunk::Chunk;
use crate::clock::Instant;
use crate::driver::Driver;
use crate::handle::Handle;
use crate::lockstep::Lockstep;
use crate::memory::Memory;
use crate::op::{Abandoned, Came, Completion, Keep, OpKey, Operation, Orphan, Outcome, Table};
use crate::patience::{BusyPoll, Patience};
use crate::pooled::PooledFuture;
use crate::remote::{Remote, bell, enter};
use crate::task::Executor;
use crate::timers::TimerKey;
use crate::uring::{Asked, Look, Uring, Wait};

/// Polls of tasks between two looks at the kernel.
const POLLS_PER_TURN: usize = 1024;
/// Bytes that may wait to be taken outside of the receive buffers: less than what a shard may have in buffers, which else
/// those would wait for who are to take them.
const MOST_MOVED: usize = 64 << 20;
/// How long a reactor that goes waits for the kernel to let go of its operations.
const DRAIN: Duration = Duration::from_secs(30);
/// Of an operation that is about no file.
const NO_DESCRIPTOR: RawFd = -1;

/// What a reactor is made with.
#[derive(Clone, Debug)]
pub struct Options {
    /// Submission entries; completions have four times as many.
    pub entries: u32,
    /// Receive buffers shared by all connections of the ring; a power of two.
    pub receive_buffers: u16,
    /// Bytes of each.
    pub receive_buffer_bytes: usize,
    /// How long the core looks for completions at most before it sleeps, when the last gaps say that this is likely
    /// to pay.
    pub busy_poll: BusyPoll,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            entries: 1024,
            receive_buffers: 64,
            receive_buffer_bytes: 128 << 10,
            busy_poll: BusyPoll::default(),
        }
    }
}

/// Why a reactor could not be made.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The kernel refuses io_uring, or lacks what Fels needs of it.
    #[error(
        "the kernel gave no io_uring ({0}); hint: Fels needs Linux 6.1 or newer, the sysctl \
         kernel.io_uring_disabled at 0, and a container that allows io_uring"
    )]
    Uring(#[source] io::Error),
    /// No eventfd.
    #[error("the kernel gave no eventfd ({0}); hint: raise the limit of open files (ulimit -n)")]
    Bell(#[source] io::Error),
}

pub(crate) struct Inner {
    pub(crate) executor: Executor,
    table: RefCell<Table>,
    pub(crate) driver: Driver,
    /// The clock of this turn; none while nobody has asked for it.
    now: Cell<Option<Instant>>,
    /// The clock shortly before this turn, where that is known.
    before: Cell<Option<Instant>>,
    /// The wait before this turn, if there is something to learn of it.
    waited: Cell<Option<Waited>>,
    pub(crate) patience: RefCell<Patience>,
    turns: Cell<u64>,
    lockstep: RefCell<Lockstep>,
    pub(crate) breaking: RefCell<Breaking>,
    /// What it says, while what the last wait brought is worked on.
    in_lockstep: Cell<bool>,
    steps_broken: Cell<u64>,
}

/// A wait that has ended without a sleep.
#[derive(Clone, Copy)]
struct Waited {
    begin: Instant,
    span: Duration,
    /// For something else than a peer's next bytes: most likely a disk.
    for_others: bool,
}

/// A handle to the reactor of this core; clones are cheap. Not `Send`.
#[derive(Clone)]
pub struct Ring(pub(crate) Rc<Inner>);

/// Owns a core's ring: runs it, and drains it when dropped.
pub struct Reactor {
    ring: Ring,
}

impl Reactor {
    /// A reactor on the kernel's io_uring. It must be run by the thread that made it.
    pub fn new(options: &Options) -> Result<Reactor, StartError> {
        let ours = bell().map_err(StartError::Bell)?;
        let theirs = ours.try_clone().map_err(StartError::Bell)?;
        let uring = Uring::new(options, ours)?;
        let (id, remote) = Remote::register(Some(theirs));
        let driver = Driver::Kernel(RefCell::new(uring));
        Ok(Reactor::with_driver(Executor::new(id, remote), driver, options.busy_poll))
    }

    pub(crate) fn with_driver(executor: Executor, driver: Driver, busy_poll: BusyPoll) -> Reactor {
        let patience = RefCell::new(Patience::new(busy_poll));
        Reactor {
            ring: Ring(Rc::new(Inner {
                executor,
                table: RefCell::default(),
                driver,
                now: Cell::new(None),
                before: Cell::new(None),
                waited: Cell::new(None),
                patience,
                turns: Cell::new(0),
                lockstep: RefCell::default(),
                breaking: RefCell::new(Breaking::new()),
                in_lockstep: Cell::new(false),
                steps_broken: Cell::new(0),
            })),
        }
    }

    /// The handle for everything that runs here.
    pub fn ring(&self) -> &Ring {
        &self.ring
    }

    /// Runs until `future` is done.
    pub fn block_on<T: 'static>(&self, future: impl Future<Output = T> + 'static) -> T {
        let result = Rc::new(RefCell::new(None));
        let store = result.clone();
        let main = PooledFuture::future(async move {
            let value = future.await;
            store.replace(Some(value));
        });
        self.ring.0.executor.spawn_later(main);
        if let Some(driver) = self.ring.0.driver.simulated() {
            let run = driver.world().run_until(|| result.borrow().is_some());
            run.unwrap_or_else(|stall| panic!("{stall}"));
        }
        loop {
            if let Some(value) = result.take() {
                return value;
            }
            self.ring.turn(POLLS_PER_TURN, || result.borrow().is_some());
        }
    }
}

impl Drop for Reactor {
    fn drop(&mut self) {
        let inner = &self.ring.0;
        enter(&inner.executor, || {
            inner.executor.clear();
            if let Some(driver) = inner.driver.simulated() {
                driver.leave();
                self.ring.look(Wait::No);
            }
            let start = inner.driver.now();
            while inner.table.borrow().in_flight() > 0 && inner.driver.now().since(start) < DRAIN {
                self.ring.look(Wait::For(Duration::from_millis(100)));
            }
        });
        Remote::unregister(inner.executor.id());
        if inner.table.borrow().in_flight() > 0 {
            // The kernel still writes to buffers of ours: better to leak them than to free them.
            std::mem::forget(self.ring.clone());
        }
    }
}

impl Ring {
    /// One turn: wake-ups and timers, at most `polls` polls of tasks that can go on, submission, completions. Sleeps
    /// when nothing can go on, unless `done` says that there is nothing to wait for.
    pub(crate) fn turn(&self, polls: usize, done: impl Fn() -> bool) {
        let inner = &self.0;
        enter(&inner.executor, || {
            inner.turns.set(inner.turns.get() + 1);
            inner.now.set(None);
            inner.executor.collect(self.recent_time());
            inner.executor.run(polls);
            inner.in_lockstep.set(false);
            inner.before.set(None);
            if done() || inner.executor.has_ready() {
                self.look(Wait::No);
            } else {
                self.wait(inner.executor.next_deadline());
            }
        });
    }

    /// Nothing can go on: looks for a while if that is likely to pay, then sleeps until something completes or the
    /// deadline has come.
    fn wait(&self, deadline: Option<Instant>) {
        let inner = &self.0;
        self.learn_of_wait();
        let start = inner.driver.now();
        let left = deadline.map(|deadline| deadline.since(start));
        let mut patience = inner.patience.borrow_mut();
        let most = patience.look().min(left.unwrap_or(Duration::MAX));
        // When the deadline comes first there is nothing to sleep for, and of completions nothing to learn.
        let is_due = left == Some(most);
        let look = (!most.is_zero()).then(|| inner.driver.look(most, || inner.executor.is_told()));
        if let Some(look) = &look {
            if look.found {
                drop(patience);
                return self.take_in(start, look);
            }
            inner.driver.count_look(look.lasted, is_due);
        }
        self.interrupt_step(start);
        let looked = look.map_or(Duration::ZERO, |look| look.lasted);
        if is_due {
            // A trial of longer looks goes on with it all the same.
            patience.weigh(start + looked, looked, inner.driver.moved());
            return self.look(Wait::No);
        }
        self.look(left.map_or(Wait::Forever, |left| Wait::For(left.saturating_sub(looked))));
        let now = inner.driver.now();
        patience.learn(now.since(start), !most.is_zero(), false);
        patience.weigh(now, now.since(start), inner.driver.moved());
    }

    /// Takes in what a look has found; the wait that it has ended began at `begin`.
    fn take_in(&self, begin: Instant, look: &Look) {
        let inner = &self.0;
        let brought = if let Some(Asked { key, completion, at }) = look.asked {
            inner.before.set(Some(at));
            self.complete(key, completion);
            Brought::default()
        } else {
            self.look(Wait::No);
            inner.driver.brought()
        };
        inner.in_lockstep.set(inner.lockstep.borrow().is_so() && !brought.by_others);
        let (span, for_others) = (look.lasted, brought.others > 0 && !look.lasted.is_zero());
        inner.waited.set(Some(Waited { begin, span, for_others }));
    }

    /// Learns of the wait before this turn: now, when what it has brought is done and nobody waits for an answer.
    fn learn_of_wait(&self) {
        let inner = &self.0;
        let Some(Waited { begin, span, for_others }) = inner.waited.take() else { return };
        inner.driver.count_look(span, true);
        let mut patience = inner.patience.borrow_mut();
        patience.learn(span, true, true);
        patience.weigh(begin + span, span, inner.driver.moved());
        if for_others {
            self.interrupt_step(begin);
        } else {
            inner.lockstep.borrow_mut().waited(begin, span);
            self.weigh_step(begin + span);
        }
    }

    /// A wait for a peer has ended at `at`. Finds out whether it pays to break step.
    pub(crate) fn weigh_step(&self, at: Instant) {
        let inner = &self.0;
        let mut breaking = inner.breaking.borrow_mut();
        breaking.waited(at, inner.driver.moved());
        if let Some(span) = breaking.hold() {
            inner.driver.hold(span);
            inner.lockstep.borrow_mut().forget();
        }
    }

    /// The core has slept, or has waited for something else than a peer.
    pub(crate) fn interrupt_step(&self, at: Instant) {
        self.0.lockstep.borrow_mut().forget();
        self.0.breaking.borrow_mut().interrupt(at);
    }

    /// Starts a task. It runs at once up to its first wait, then whenever what it waits for has come.
    pub fn spawn(&self, future: impl Future<Output = ()> + 'static) {
        self.0.executor.spawn(PooledFuture::future(future));
    }

    /// Starts a task that first runs after the current one has come to a wait.
    pub fn spawn_later(&self, future: impl Future<Output = ()> + 'static) {
        self.0.executor.spawn_later(PooledFuture::future(future));
    }

    /// The clock.
    pub fn now(&self) -> Instant {
        self.0.driver.now()
    }

    /// The clock as it stood when somebody first asked for it in this turn; for all others it costs nothing.
    #[inline]
    pub fn turn_time(&self) -> Instant {
        self.0.now.get().unwrap_or_else(|| self.begin_turn_time())
    }

    fn begin_turn_time(&self) -> Instant {
        let now = self.0.driver.now();
        self.0.now.set(Some(now));
        now
    }

    /// The same for those to whom a microsecond is nothing: shortly before this turn, where that costs nothing and the other
    /// one would keep an answer waiting.
    #[inline]
    pub fn recent_time(&self) -> Instant {
        self.0.before.get().unwrap_or_else(|| self.turn_time())
    }

    /// How many turns this reactor has made: a core that nobody asks anything makes few.
    pub fn turns(&self) -> u64 {
        self.0.turns.get()
    }

    /// Whether this core and the one connection that has brought something in this turn work in turn, each while the other
    /// waits: then it may pay to [break step](Ring::break_step). In a simulated world, see [`crate::sim::Settings::lockstep`].
    pub fn is_in_lockstep(&self) -> bool {
        self.0.in_lockstep.get() || self.0.driver.simulates_lockstep(self.turns())
    }

    /// What this core has asked of its kernel, and how it has waited.
    pub fn activity(&self) -> Activity {
        Activity { steps_broken: self.0.steps_broken.get(), ..self.0.driver.activity() }
    }

    /// Whether a receive is held back from the kernel.
    #[cfg(test)]
    pub(crate) fn holds(&self) -> bool {
        self.0.driver.holds()
    }

    /// See [`Options::busy_poll`]; what was learnt is forgotten.
    pub fn set_busy_poll(&self, busy_poll: BusyPoll) {
        *self.0.patience.borrow_mut() = Patience::new(busy_poll);
    }

    /// How long the core looks at most now.
    pub fn busy_poll(&self) -> Duration {
        self.0.patience.borrow().limit()
    }

    /// Waits until `deadline`.
    pub fn sleep_until(&self, deadline: Instant) -> Sleep {
        Sleep { ring: self.clone(), deadline, timer: None }
    }

    /// Waits for `span`.
    pub fn sleep(&self, span: Duration) -> Sleep {
        self.sleep_until(self.now() + span)
    }

    /// Lets every other task that can go on do so first. What takes long waits for the [next turn](Ring::next_turn) instead.
    pub async fn yield_now(&self) {
        let mut yielded = false;
        poll_fn(|context| {
            if std::mem::replace(&mut yielded, true) {
                return Poll::Ready(());
            }
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }

    /// One who [works in turn](Ring::is_in_lockstep) with its peer can do a part of what came now and the rest in the next
    /// turn. Where it is seen to pay, the peer has what is submitted already before the task goes on: it has something to do
    /// then, while this core does the rest.
    pub async fn break_step(&self) {
        if self.is_to_break_step() {
            self.0.waited.set(None);
            self.0.lockstep.borrow_mut().forget();
            self.0.steps_broken.set(self.0.steps_broken.get() + 1);
            self.next_turn().await;
        }
    }

    /// In a simulated world it always is.
    fn is_to_break_step(&self) -> bool {
        let inner = &self.0;
        inner.driver.simulated().is_some() || inner.breaking.borrow_mut().has_occasion(self.recent_time())
    }

    /// See [`crate::Inflow::several`]. What comes together from who works in turn with this core was sent together: the kernel
    /// would gather no more of it.
    pub(crate) fn note_several(&self) {
        if !self.0.lockstep.borrow().is_so() {
            self.0.driver.several();
        }
    }

    /// Waits until nobody else can go on, or for the next turn.
    pub(crate) async fn others_first(&self) {
        let mut has_waited = false;
        poll_fn(|context| {
            if std::mem::replace(&mut has_waited, true) {
                return Poll::Ready(());
            }
            self.0.executor.wake_at_last(context.waker());
            Poll::Pending
        })
        .await;
    }

    /// Waits for the next turn: by then what was submitted in this one is with the kernel, and what has come meanwhile is
    /// taken in. What takes long does so between its steps.
    pub async fn next_turn(&self) {
        let turn = self.turns();
        poll_fn(|context| {
            if self.turns() != turn {
                return Poll::Ready(());
            }
            self.0.executor.wake_in_next_turn(context.waker());
            Poll::Pending
        })
        .await;
    }

    /// The future's value, or `None` when it takes longer than `span`. An operation it waits for is abandoned, and
    /// cancelled where the kernel can.
    pub async fn timeout<T>(&self, span: Duration, future: impl Future<Output = T>) -> Option<T> {
        let mut future = pin!(future);
        let mut sleep = pin!(self.sleep(span));
        poll_fn(|context| {
            if let Poll::Ready(value) = future.as_mut().poll(context) {
                return Poll::Ready(Some(value));
            }
            sleep.as_mut().poll(context).map(|()| None)
        })
        .await
    }

    pub(crate) fn submit(&self, handle: &Rc<Handle>, operation: Operation, keep: Keep) -> Op {
        self.begin(handle.descriptor, Some(handle.clone()), operation, keep)
    }

    #[inline]
    fn begin(&self, descriptor: RawFd, handle: Option<Rc<Handle>>, operation: Operation, keep: Keep) -> Op {
        let mut table = self.0.table.borrow_mut();
        let key = table.insert(operation, handle, keep);
        if let Some(keep) = table.keep(key) {
            self.0.driver.submit(key, operation, descriptor, keep);
        }
        Op { ring: self.clone(), key: Some(key) }
    }

    /// Lets the kernel touch `length` bytes of a memory from `at` on, on a thread of its own. What it cannot, as it has none to
    /// give or does not know how, is left to who writes there. In a simulated world all memory is there.
    pub(crate) async fn populate(&self, memory: &Arc<Memory>, at: usize, length: usize) {
        if self.0.driver.simulated().is_none() {
            let keep = Keep::Memory(memory.clone());
            self.begin(NO_DESCRIPTOR, None, Operation::Populate { at, length }, keep).await;
        }
    }

    /// Submits, waits as told, takes in completions.
    fn look(&self, wait: Wait) {
        let mut orphans = Vec::new();
        let mut table = self.0.table.borrow_mut();
        self.0.driver.turn(wait, &mut table, &mut orphans);
        self.taken_in(table, orphans);
    }

    /// Takes in one completion that did not come through the kernel's ring.
    fn complete(&self, key: OpKey, completion: Completion) {
        let mut table = self.0.table.borrow_mut();
        let orphan = table.complete(key, completion);
        self.taken_in(table, orphan);
    }

    /// What there is to do when completions have been taken in.
    fn taken_in(&self, mut table: RefMut<'_, Table>, orphans: impl IntoIterator<Item = Orphan>) {
        while let Some(key) = table.crowded() {
            self.0.driver.cancel(key);
        }
        drop(table);
        orphans.into_iter().for_each(|orphan| self.clean_up(&orphan));
    }

    /// What an abandoned operation brought is given back: a connection, a receive buffer.
    fn clean_up(&self, orphan: &Orphan) {
        match orphan.operation {
            Operation::Accept if orphan.result >= 0 => self.close(orphan.result),
            Operation::Receive | Operation::KeepReceiving => drop(self.chunk(orphan.result, orphan.flags)),
            _ => {}
        }
    }

    fn abandon(&self, key: OpKey) {
        let abandoned = self.0.table.borrow_mut().abandon(key);
        match abandoned {
            Abandoned::Nothing => {}
            Abandoned::Completed(orphan) => self.clean_up(&orphan),
            // What was begun on a disk is let finish: half a write is worse than a whole one.
            Abandoned::InFlight(
                Operation::Accept
                | Operation::Connect { .. }
                | Operation::ConnectUnix { .. }
                | Operation::Receive
                | Operation::ReceiveInto { .. }
                | Operation::Send,
            ) => self.0.driver.cancel(key),
            Abandoned::InFlight(_) => {}
            Abandoned::Standing { came, is_in_flight, .. } => {
                for came in came {
                    if let Came::Here { result, flags } = came {
                        drop(self.chunk(result, flags));
                    }
                }
                if is_in_flight {
                    self.0.driver.cancel(key);
                }
            }
        }
    }

    /// A receive found no buffer: one more goes round, or those are emptied that nobody has taken. False when those
    /// that were taken have to come back first: most do within a turn, and a quarter of all at most is kept for longer
    /// ([`Ring::has_plenty_of_buffers`]).
    pub(crate) fn make_room(&self) -> bool {
        if self.0.driver.widen() {
            return true;
        }
        self.empty_buffers(MOST_MOVED)
    }

    /// Whether so few receive buffers are held that a connection can keep its [`Chunk`]s while it waits for the next one.
    pub fn has_plenty_of_buffers(&self) -> bool {
        self.0.driver.has_plenty()
    }

    /// See [`Table::make_room`].
    pub(crate) fn empty_buffers(&self, limit: usize) -> bool {
        self.0.table.borrow_mut().make_room(limit, |result, flags| self.chunk(result, flags))
    }

    pub(crate) fn chunk(&self, result: i32, flags: u32) -> Option<Chunk> {
        self.0.driver.chunk(result, flags)
    }

    pub(crate) fn close(&self, descriptor: RawFd) {
        self.0.driver.close(descriptor);
    }

    pub(crate) fn handle(&self, descriptor: RawFd) -> Rc<Handle> {
        Rc::new(Handle::new(self.clone(), descriptor))
    }

    pub(crate) fn peer(&self, descriptor: RawFd) -> io::Result<SocketAddr> {
        self.0.driver.peer(descriptor)
    }
}

/// An operation in flight. Dropping it abandons the result; what the operation owns stays until it completes.
pub(crate) struct Op {
    ring: Ring,
    key: Option<OpKey>,
}

impl Future for Op {
    type Output = Outcome;
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        let key = self.key.expect("an operation is not polled after its end");
        let outcome = self.ring.0.table.borrow_mut().poll(key, context.waker());
        match outcome {
            Some(outcome) => {
                self.key = None;
                Poll::Ready(outcome)
            }
            None => Poll::Pending,
        }
    }
}

impl Op {
    /// What a standing operation has brought next; none when it has ended.
    pub(crate) fn poll_next(&mut self, context: &Context<'_>) -> Poll<Option<Came>> {
        let Some(key) = self.key else { return Poll::Ready(None) };
        let next = self.ring.0.table.borrow_mut().next(key, context.waker());
        if matches!(next, Poll::Ready(None)) {
            self.key = None;
        }
        next
    }

    /// Lets a standing operation end. What it has brought is still to be taken.
    pub(crate) fn cancel(&self) {
        if let Some(key) = self.key {
            self.ring.0.driver.cancel(key);
        }
    }
}

impl Drop for Op {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.ring.abandon(key);
        }
    }
}

/// Ends at its deadline.
pub struct Sleep {
    ring: Ring,
    deadline: Instant,
    timer: Option<TimerKey>,
}

impl Future for Sleep {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.ring.now() >= self.deadline {
            return Poll::Ready(());
        }
        // Each time: it may be another task that waits now.
        self.timer = Some(self.ring.0.executor.wake_at(self.timer, self.deadline, context.waker()));
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(timer) = self.timer {
            self.ring.0.executor.forget_timer(timer);
        }
    }
}
