//! The executor of one core: tasks in a slab, a queue of those that can go on, and timers.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use crate::clock::Instant;
use crate::pooled::PooledFuture;
use crate::remote::{Remote, TaskId};
use crate::timers::{TimerKey, Timers};

/// Tasks that a waker can name.
const MOST_TASKS: usize = 1 << 24;

struct Task {
    generation: u16,
    queued: bool,
    live: bool,
    /// Absent while it is being polled.
    future: Option<PooledFuture<'static, ()>>,
}

#[derive(Default)]
struct Tasks {
    slots: Vec<Task>,
    free: Vec<u32>,
    ready: VecDeque<TaskId>,
    /// Who waits until nobody else can go on, or for the next turn.
    at_last: VecDeque<Waker>,
}

pub(crate) struct Executor {
    id: u32,
    tasks: RefCell<Tasks>,
    timers: RefCell<Timers>,
    remote: Arc<Remote>,
    arrived: RefCell<Vec<TaskId>>,
    /// Who waits for the next turn.
    next_turn: RefCell<VecDeque<Waker>>,
}

impl Executor {
    pub(crate) fn new(id: u32, remote: Arc<Remote>) -> Executor {
        Executor {
            id,
            tasks: RefCell::default(),
            timers: RefCell::default(),
            remote,
            arrived: RefCell::default(),
            next_turn: RefCell::default(),
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.id
    }

    /// Puts a task into the queue of those that can go on. In one place: whether the queue's `push_back` is a call of its own
    /// hung on what else was compiled.
    #[inline(never)]
    pub(crate) fn wake(&self, id: TaskId) {
        let mut tasks = self.tasks.borrow_mut();
        if let Some(task) = tasks.slots.get_mut(id.task())
            && task.live
            && task.generation == id.generation()
            && !task.queued
        {
            task.queued = true;
            tasks.ready.push_back(id);
        }
    }

    /// Starts a task: it runs at once, up to its first wait, before this returns.
    pub(crate) fn spawn(&self, future: PooledFuture<'static, ()>) {
        let id = self.insert();
        self.poll(id, future);
    }

    /// Starts a task that first runs in a later turn.
    pub(crate) fn spawn_later(&self, future: PooledFuture<'static, ()>) -> TaskId {
        let id = self.insert();
        self.tasks.borrow_mut().slots[id.task()].future = Some(future);
        self.wake(id);
        id
    }

    fn insert(&self) -> TaskId {
        let mut tasks = self.tasks.borrow_mut();
        let index = tasks.free.pop().unwrap_or_else(|| {
            tasks.slots.push(Task { generation: 0, queued: false, live: false, future: None });
            assert!(tasks.slots.len() <= MOST_TASKS, "fewer than 2^24 tasks");
            (tasks.slots.len() - 1) as u32
        });
        let task = &mut tasks.slots[index as usize];
        task.live = true;
        task.queued = false;
        TaskId::new(self.id, task.generation, index)
    }

    fn poll(&self, id: TaskId, mut future: PooledFuture<'static, ()>) {
        let waker = id.waker();
        let poll = Pin::new(&mut future).poll(&mut Context::from_waker(&waker));
        let mut tasks = self.tasks.borrow_mut();
        let task = &mut tasks.slots[id.task()];
        if poll.is_pending() {
            task.future = Some(future);
            return;
        }
        task.live = false;
        task.generation = task.generation.wrapping_add(1);
        tasks.free.push(id.task() as u32);
        drop(tasks);
        // Outside of the borrow: what the task owned may wake others while it goes.
        drop(future);
    }

    /// Runs what can go on, at most `limit` polls. True when something ran.
    pub(crate) fn run(&self, limit: usize) -> bool {
        for count in 0..limit {
            let mut tasks = self.tasks.borrow_mut();
            let Some(id) = tasks.ready.pop_front() else {
                let Some(waker) = tasks.at_last.pop_front() else { return count > 0 };
                drop(tasks);
                waker.wake();
                continue;
            };
            let task = &mut tasks.slots[id.task()];
            // Left by a task that woke itself and came to its end; another one may have its place now, which must
            // not be polled under a name at which nobody can wake it.
            if task.generation != id.generation() {
                continue;
            }
            task.queued = false;
            let Some(future) = task.future.take() else { continue };
            drop(tasks);
            self.poll(id, future);
        }
        true
    }

    pub(crate) fn has_ready(&self) -> bool {
        let tasks = self.tasks.borrow();
        !tasks.ready.is_empty()
            || !tasks.at_last.is_empty()
            || self.remote.is_told()
            || !self.next_turn.borrow().is_empty()
    }

    /// Whether another thread has called.
    pub(crate) fn is_told(&self) -> bool {
        self.remote.is_told()
    }

    /// A turn begins: takes in wake-ups of those who wait for it, from other threads, and from timers that are due at `now`.
    pub(crate) fn collect(&self, now: Instant) {
        loop {
            let next = self.next_turn.borrow_mut().pop_front();
            let Some(waker) = next.or_else(|| self.tasks.borrow_mut().at_last.pop_front()) else { break };
            waker.wake();
        }
        let mut arrived = self.arrived.borrow_mut();
        self.remote.drain(&mut arrived);
        for id in arrived.drain(..) {
            self.wake(id);
        }
        loop {
            let due = self.timers.borrow_mut().pop(now);
            // Outside of the borrow: a waker of somebody else's may do anything.
            let Some(waker) = due else { return };
            waker.wake();
        }
    }

    /// Lets `waker` be woken when the next turn begins.
    pub(crate) fn wake_in_next_turn(&self, waker: &Waker) {
        self.next_turn.borrow_mut().push_back(waker.clone());
    }

    /// Lets `waker` be woken when nobody else can go on, or when the next turn begins: others may go on without end.
    pub(crate) fn wake_at_last(&self, waker: &Waker) {
        self.tasks.borrow_mut().at_last.push_back(waker.clone());
    }

    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.timers.borrow_mut().next_deadline()
    }

    /// Lets `waker` be woken at `deadline`, by the timer `key` if that has not ended.
    pub(crate) fn wake_at(&self, key: Option<TimerKey>, deadline: Instant, waker: &Waker) -> TimerKey {
        let mut timers = self.timers.borrow_mut();
        match key {
            Some(key) if timers.update(key, waker) => key,
            _ => timers.add(deadline, waker.clone()),
        }
    }

    pub(crate) fn forget_timer(&self, key: TimerKey) {
        self.timers.borrow_mut().remove(key);
    }

    /// Drops every task. What they own goes with them; tasks started meanwhile go too.
    pub(crate) fn clear(&self) {
        loop {
            let futures: Vec<_> = {
                let mut tasks = self.tasks.borrow_mut();
                tasks.ready.clear();
                tasks.at_last.clear();
                tasks.slots.iter_mut().filter_map(|task| task.future.take()).collect()
            };
            self.timers.borrow_mut().clear();
            self.next_turn.borrow_mut().clear();
            if futures.is_empty() {
                return;
            }
        }
    }
}
