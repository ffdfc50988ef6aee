//! Several futures at once.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

/// Waits for all of them. Their values stand in their order.
pub async fn join<F: Future + Unpin>(mut futures: Vec<F>) -> Vec<F::Output> {
    let mut values: Vec<Option<F::Output>> = futures.iter().map(|_| None).collect();
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
