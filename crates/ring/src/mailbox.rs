//! Messages between cores: any thread sends, one task of one ring receives.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

struct State<T> {
    messages: VecDeque<T>,
    receiver: Option<Waker>,
    receiver_gone: bool,
    senders: usize,
}

struct Mailbox<T>(Mutex<State<T>>);

impl<T> Mailbox<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes a mailbox. Its messages are few and rare: what is per request stays on its core.
pub fn mailbox<T: Send>() -> (Sender<T>, Receiver<T>) {
    let state = State { messages: VecDeque::new(), receiver: None, receiver_gone: false, senders: 1 };
    let shared = Arc::new(Mailbox(Mutex::new(state)));
    (Sender(shared.clone()), Receiver(shared))
}

/// Where messages are put in.
pub struct Sender<T: Send>(Arc<Mailbox<T>>);

impl<T: Send> Sender<T> {
    /// Leaves a message. Gives it back when nobody will ever take it.
    pub fn send(&self, message: T) -> Result<(), T> {
        let mut state = self.0.lock();
        if state.receiver_gone {
            return Err(message);
        }
        state.messages.push_back(message);
        let waker = state.receiver.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
        Ok(())
    }
}

impl<T: Send> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.0.lock().senders += 1;
        Sender(self.0.clone())
    }
}

impl<T: Send> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.senders -= 1;
        let waker = if state.senders == 0 { state.receiver.take() } else { None };
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// Where messages are taken out.
pub struct Receiver<T: Send>(Arc<Mailbox<T>>);

impl<T: Send> Receiver<T> {
    /// The next message; `None` when all senders are gone.
    pub async fn receive(&mut self) -> Option<T> {
        poll_fn(|context| {
            let mut state = self.0.lock();
            match state.messages.pop_front() {
                Some(message) => Poll::Ready(Some(message)),
                None if state.senders == 0 => Poll::Ready(None),
                None => {
                    state.receiver = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }
}

impl<T: Send> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.receiver_gone = true;
        let left = std::mem::take(&mut state.messages);
        drop(state);
        drop(left);
    }
}
