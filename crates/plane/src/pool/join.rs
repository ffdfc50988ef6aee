//! Several futures at once.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use smallvec::SmallVec;

/// A list that takes no memory of its own while it is short, as it is for a small request.
pub type Several<T> = SmallVec<[T; 8]>;

/// Waits for all of them. Their values stand in their order.
pub async fn join<F: Future + Unpin>(futures: impl IntoIterator<Item = F>) -> Several<F::Output> {
    let mut futures: Several<F> = futures.into_iter().collect();
    let mut values: Several<Option<F::Output>> = futures.iter().map(|_| None).collect();
    poll_fn(|context| {
        let mut waiting = false;
        for (future, value) in futures.iter_mut().zip(&mut values) {
            if value.is_none() {
                match Pin::new(future).poll(context) {
                    Poll::Ready(ready) => *value = Some(ready),
                    Poll::Pending => waiting = true,
                }
            }
        }
        if waiting { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    values.into_iter().map(|value| value.expect("all were waited for")).collect()
}
