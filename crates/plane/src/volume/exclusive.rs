//! Exclusive use of an extent over all cores: what COMPARE AND WRITE and other read-change-write verbs stand on.
//!
//! The volume's owner core hands out extents, one holder for any byte; the holder then freezes the extent on every
//! core, which waits for what is in flight there. Requests of others wait, none is refused. Costs nothing as long as
//! nobody asks: one look at a flag per request.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use ring::Notify;

use crate::request::{Completion, Extent, Request};
use crate::shard::Shard;
use crate::volume::Channel;

/// The owner core's list of who holds what.
#[derive(Default)]
pub(crate) struct Owner {
    held: RefCell<Vec<(u64, Extent)>>,
    next: Cell<u64>,
    changed: Notify,
}

impl Owner {
    /// Waits for its turn; gives the token to release it with.
    async fn acquire(&self, extent: Extent) -> u64 {
        let free = || !self.held.borrow().iter().any(|(_, held)| held.overlaps(extent));
        self.changed.until(|| free().then_some(())).await;
        let token = self.next.get();
        self.next.set(token + 1);
        self.held.borrow_mut().push((token, extent));
        token
    }

    fn release(&self, token: u64) {
        self.held.borrow_mut().retain(|(held, _)| *held != token);
        self.changed.notify();
    }
}

/// Holds an extent against everybody else, on every core, until it is dropped.
pub struct Exclusive {
    channel: Rc<Channel>,
    shard: Rc<Shard>,
    extent: Extent,
    token: u64,
}

impl Exclusive {
    pub(super) async fn acquire(channel: &Rc<Channel>, shard: &Rc<Shard>, extent: Extent) -> Exclusive {
        let index = channel.index();
        let owner = index % shard.count();
        let take = move |shard: Rc<Shard>| async move { shard.volume(index).owner.acquire(extent).await };
        let token = shard.call(owner, take).await;
        let held = Exclusive { channel: channel.clone(), shard: shard.clone(), extent, token };
        for other in 0..shard.count() {
            let freeze =
                move |shard: Rc<Shard>| async move { shard.volume(index).freeze(token, extent).await };
            shard.call(other, freeze).await;
        }
        held
    }

    /// Carries out a request, which must lie within the extent.
    pub async fn submit(&self, request: Request) -> Completion {
        let inside = request.extent.offset >= self.extent.offset && request.extent.end() <= self.extent.end();
        assert!(inside || request.extent.length == 0, "a request outside of what is held");
        self.channel.submit_inside(request).await
    }
}

impl Drop for Exclusive {
    fn drop(&mut self) {
        let (index, token) = (self.channel.index(), self.token);
        // A task that the end of a shard cuts short lets go when there is nothing left to thaw.
        let tell = |other, act: fn(&Channel, u64)| {
            self.shard.tell(other, move |shard| {
                if let Some(channel) = shard.find_volume(index) {
                    act(&channel, token);
                }
            });
        };
        for other in 0..self.shard.count() {
            tell(other, Channel::thaw);
        }
        // Behind the thaws in each mailbox, so that the next holder's freeze comes after them.
        tell(index % self.shard.count(), |channel, token| channel.owner.release(token));
    }
}
