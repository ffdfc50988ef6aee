//! Waiting for something that another task of the same core will say.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::task::{Poll, Waker};

/// Wakes those who wait. A wait may end without cause: look at the condition again.
#[derive(Default)]
pub struct Notify {
    epoch: Cell<u64>,
    waiters: RefCell<Vec<Waker>>,
}

impl Notify {
    /// Nobody waits yet.
    pub fn new() -> Notify {
        Notify::default()
    }

    /// Wakes everybody who waits now.
    pub fn notify(&self) {
        self.epoch.set(self.epoch.get().wrapping_add(1));
        let mut waiters = self.waiters.borrow_mut();
        waiters.iter().for_each(Waker::wake_by_ref);
        waiters.clear();
    }

    /// Waits for a [`Notify::notify`] after this call.
    pub fn wait(&self) -> impl Future<Output = ()> + '_ {
        let epoch = self.epoch.get();
        poll_fn(move |context| {
            if self.epoch.get() != epoch {
                return Poll::Ready(());
            }
            let mut waiters = self.waiters.borrow_mut();
            if !waiters.iter().any(|waiter| waiter.will_wake(context.waker())) {
                waiters.push(context.waker().clone());
            }
            Poll::Pending
        })
    }

    /// Waits until `condition` gives a value, looking at it again at every notification.
    pub async fn until<T>(&self, mut condition: impl FnMut() -> Option<T>) -> T {
        loop {
            if let Some(value) = condition() {
                return value;
            }
            self.wait().await;
        }
    }
}
