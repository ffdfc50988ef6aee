//! Wakers that are plain numbers, and the way a wake-up takes to a task of another thread.
//!
//! A waker packs executor, task and the task's generation into the 64 bits of its data pointer. Cloning copies,
//! dropping does nothing, and a stale waker wakes at worst a task that looks once and goes back to sleep. Waking a
//! task of the executor that runs right now is a push onto its queue; any other goes through [`Remote`].

use std::cell::Cell;
use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::task::{RawWaker, RawWakerVTable, Waker};

use crate::task::Executor;

/// Executor (24 bits), generation (16 bits), task (24 bits).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TaskId(u64);

impl TaskId {
    pub(crate) fn new(executor: u32, generation: u16, task: u32) -> TaskId {
        debug_assert!(executor < EXECUTORS && task < 1 << 24);
        TaskId(u64::from(executor) << 40 | u64::from(generation) << 24 | u64::from(task))
    }
    pub(crate) fn executor(self) -> u32 {
        (self.0 >> 40) as u32
    }
    pub(crate) fn generation(self) -> u16 {
        (self.0 >> 24) as u16
    }
    pub(crate) fn task(self) -> usize {
        (self.0 & 0xff_ffff) as usize
    }

    pub(crate) fn waker(self) -> Waker {
        // SAFETY: the functions of the table read the data pointer as a number only and keep no state, so the
        // contract of `RawWaker` (thread safety included) holds trivially.
        unsafe { Waker::from_raw(raw(self.0)) }
    }

    fn wake(self) {
        let local = CURRENT.try_with(Cell::get).ok().flatten();
        if let Some(executor) = local {
            // SAFETY: `enter` keeps the pointer set only while the executor is borrowed by its own turn.
            let executor = unsafe { executor.as_ref() };
            if executor.id() == self.executor() {
                executor.wake(self);
                return;
            }
        }
        self.wake_elsewhere();
    }

    /// Of another executor: few are, and it takes a lock.
    #[cold]
    fn wake_elsewhere(self) {
        let remotes = REMOTES.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(remote) = remotes.live.get(&self.executor()) {
            remote.push(self);
        }
    }
}

fn raw(data: u64) -> RawWaker {
    RawWaker::new(ptr::without_provenance(data as usize), &TABLE)
}

fn id(data: *const ()) -> TaskId {
    TaskId(data.addr() as u64)
}

static TABLE: RawWakerVTable =
    RawWakerVTable::new(|data| raw(id(data).0), |data| id(data).wake(), |data| id(data).wake(), |_| ());

thread_local! {
    static CURRENT: Cell<Option<NonNull<Executor>>> = const { Cell::new(None) };
}

/// Marks `executor` as the one that runs on this thread, for the length of `turn`.
pub(crate) fn enter<T>(executor: &Executor, turn: impl FnOnce() -> T) -> T {
    struct Reset(Option<NonNull<Executor>>);
    impl Drop for Reset {
        fn drop(&mut self) {
            CURRENT.with(|current| current.set(self.0));
        }
    }
    let _reset = Reset(CURRENT.with(|current| current.replace(Some(NonNull::from(executor)))));
    turn()
}

/// Numbers of executors; a number comes again only after all others: a waker that outlives its executor must not wake a
/// task of another one, which a seeded world would notice as a run that is not the same again.
const EXECUTORS: u32 = 1 << 24;

struct Remotes {
    next: u32,
    live: BTreeMap<u32, Arc<Remote>>,
}

static REMOTES: RwLock<Remotes> = RwLock::new(Remotes { next: 0, live: BTreeMap::new() });

/// Where other threads leave wake-ups for an executor.
pub(crate) struct Remote {
    pending: Mutex<Vec<TaskId>>,
    /// Set when the owner has been told and has not looked yet.
    told: AtomicBool,
    /// Readable when somebody called; none in a simulated world, where the world looks by itself.
    bell: Option<OwnedFd>,
}

impl Remote {
    /// Registers an executor and gives its number.
    pub(crate) fn register(bell: Option<OwnedFd>) -> (u32, Arc<Remote>) {
        let remote = Arc::new(Remote { pending: Mutex::default(), told: AtomicBool::new(false), bell });
        let mut remotes = REMOTES.write().unwrap_or_else(PoisonError::into_inner);
        assert!(remotes.live.len() < EXECUTORS as usize, "fewer than 2^24 executors live at once");
        let mut id = remotes.next;
        while remotes.live.contains_key(&id) {
            id = (id + 1) % EXECUTORS;
        }
        remotes.next = (id + 1) % EXECUTORS;
        remotes.live.insert(id, remote.clone());
        (id, remote)
    }

    pub(crate) fn unregister(id: u32) {
        REMOTES.write().unwrap_or_else(PoisonError::into_inner).live.remove(&id);
    }

    fn push(&self, task: TaskId) {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner).push(task);
        if !self.told.swap(true, Ordering::AcqRel)
            && let Some(bell) = &self.bell
        {
            let one = 1u64.to_ne_bytes();
            // SAFETY: eight readable bytes. A full counter means that the bell rings already.
            unsafe { libc::write(bell.as_raw_fd(), one.as_ptr().cast(), one.len()) };
        }
    }

    /// Moves what was left here to `to`.
    #[inline]
    pub(crate) fn drain(&self, to: &mut Vec<TaskId>) {
        if self.told.load(Ordering::Relaxed) && self.told.swap(false, Ordering::AcqRel) {
            to.append(&mut self.pending.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Whether somebody called since the last [`Remote::drain`].
    pub(crate) fn is_told(&self) -> bool {
        self.told.load(Ordering::Acquire)
    }
}

/// A non-blocking eventfd.
pub(crate) fn bell() -> std::io::Result<OwnedFd> {
    // SAFETY: no pointers; the result is checked before it becomes an owner.
    let descriptor = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
    if descriptor < 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: just made, owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}
