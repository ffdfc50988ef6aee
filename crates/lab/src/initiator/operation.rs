//! A read or write under way, without a future of its own for each layer: a lab that moves results from one to the next is
//! slower than the servers that it measures.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use ring::PooledFuture;

use super::error::IoError;
use super::null::Turn;
use super::table::{Connection, Finished, Pending};
use super::{iscsi, nbd, nvme};

/// A read or write that was begun. It goes on when nobody waits for it any more.
#[must_use = "nobody else hears of its end"]
pub struct Operation<'a>(Way<'a>);

enum Way<'a> {
    Iscsi(Sent<'a, iscsi::Owner>),
    Nbd(Sent<'a, nbd::Owner>),
    Nvme(Sent<'a, nvme::Owner>),
    /// Of nothing.
    Null(Turn),
    /// Whatever takes longer.
    Later(PooledFuture<'a, Result<(), IoError>>),
}

impl<'a> Operation<'a> {
    pub(super) fn iscsi(owner: &'a iscsi::Owner, pending: Pending<iscsi::Inner>) -> Operation<'a> {
        Operation(Way::Iscsi(Sent { owner, pending }))
    }

    pub(super) fn nbd(owner: &'a nbd::Owner, pending: Pending<nbd::Inner>) -> Operation<'a> {
        Operation(Way::Nbd(Sent { owner, pending }))
    }

    pub(super) fn nvme(owner: &'a nvme::Owner, pending: Pending<nvme::Queue>) -> Operation<'a> {
        Operation(Way::Nvme(Sent { owner, pending }))
    }

    pub(super) fn nothing() -> Operation<'a> {
        Operation(Way::Null(Turn::default()))
    }

    pub(super) fn later(future: impl Future<Output = Result<(), IoError>> + 'a) -> Operation<'a> {
        Operation(Way::Later(PooledFuture::future(future)))
    }
}

/// What knows how to go on after a command that did not do what it was to do.
pub(super) trait Owner {
    type Connection: Connection;

    /// Sends it again if that makes sense.
    async fn again(
        &self,
        finished: Finished<<Self::Connection as Connection>::Request>,
    ) -> Result<(), IoError>;
}

/// A command under way.
struct Sent<'a, O: Owner> {
    owner: &'a O,
    pending: Pending<O::Connection>,
}

impl<'a, O: Owner> Sent<'a, O> {
    /// How it has ended; or what is done because it has not ended well.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<(), PooledFuture<'a, Result<(), IoError>>>> {
        let owner = self.owner;
        let done = ready!(self.pending.poll_done(context));
        Poll::Ready(done.map_err(|finished| PooledFuture::future(owner.again(*finished))))
    }
}

impl Future for Operation<'_> {
    type Output = Result<(), IoError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let ended = match &mut self.0 {
            Way::Iscsi(sent) => sent.poll(context),
            Way::Nbd(sent) => sent.poll(context),
            Way::Nvme(sent) => sent.poll(context),
            Way::Null(turn) => return Pin::new(turn).poll(context).map(Ok),
            Way::Later(future) => return Pin::new(future).poll(context),
        };
        let Err(again) = ready!(ended) else { return Poll::Ready(Ok(())) };
        self.0 = Way::Later(again);
        self.poll(context)
    }
}
