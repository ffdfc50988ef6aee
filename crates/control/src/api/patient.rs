//! A stream whose other side has to take what it is sent, and a body that has to come, sooner or later.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use hyper::body::{Body as _, Bytes, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// How long a peer may take nothing.
const PATIENCE: Duration = Duration::from_secs(30);

/// A stream that fails when nothing can be written for [`PATIENCE`].
pub(super) struct Patient<S> {
    stream: S,
    waiting: Option<Pin<Box<Sleep>>>,
    patience: Duration,
}

impl<S> Patient<S> {
    pub fn new(stream: S) -> Patient<S> {
        Patient { stream, waiting: None, patience: PATIENCE }
    }

    /// Passes on what came of writing, unless nothing did for too long.
    fn watched<T>(&mut self, context: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.waiting = None;
            return written;
        }
        let patience = self.patience;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep(patience)));
        ready!(waiting.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watched(context, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.watched(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(context);
        self.watched(context, shut)
    }
}

/// A body that fails when it is not whole in time. What waits for it goes on to its end whether or not somebody still wants the answer, and
/// would keep the connection, which is one of few.
struct Prompt {
    body: Body,
    end: Pin<Box<Sleep>>,
}

/// The same request, whose body has to come within that time.
pub(super) fn prompt(request: Request, within: Duration) -> Request {
    if request.body().is_end_stream() {
        return request;
    }
    request.map(|body| Body::new(Prompt { body, end: Box::pin(sleep(within)) }))
}

impl hyper::body::Body for Prompt {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            return Poll::Ready(frame);
        }
        ready!(self.end.as_mut().poll(context));
        Poll::Ready(Some(Err(axum::Error::new(io::Error::from(io::ErrorKind::TimedOut)))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    #[test]
    fn who_takes_nothing_is_let_go_and_who_takes_slowly_is_not() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (near, mut far) = tokio::io::duplex(10);
            let mut near = Patient { patience: Duration::from_millis(400), ..Patient::new(near) };
            let taking = tokio::spawn(async move {
                let mut taken = [0; 10];
                for _ in 0..6 {
                    sleep(Duration::from_millis(100)).await;
                    far.read_exact(&mut taken).await.unwrap();
                }
                far
            });
            near.write_all(&[0; 60]).await.unwrap();
            let _far = taking.await.unwrap();
            let error = near.write_all(&[0; 60]).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        });
    }
}
