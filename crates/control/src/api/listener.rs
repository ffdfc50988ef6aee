//! Where requests come from: a unix socket, or TCP with or without TLS. Connections are bounded, and those that say nothing or take
//! nothing are let go.

use std::future::ready;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Extension, Request};
use axum::middleware::map_request;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::actor::Peer;
use super::patient::{Patient, prompt};

/// Connections at once; more wait to be accepted. The socket has its own, so that nobody is locked out from afar.
pub(super) const MAX_CONNECTIONS: usize = 64;
/// How long a peer may take to send the head of a request, and how long a connection may be silent between two.
const HEAD_TIME: Duration = Duration::from_secs(15);
/// How long a peer may take to agree on TLS.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);
/// How long a peer may take to send what follows the head: less than a request may take, so that he is told.
const BODY_TIME: Duration = Duration::from_secs(40);
/// Bytes of a head at most, but for what comes with one more read, and what is buffered of a body.
const MAX_HEAD_BYTES: usize = 64 << 10;
/// How long requests that are under way may go on when the node stops.
const GRACE: Duration = Duration::from_secs(2);
/// How long to pause when no connection can be accepted, as no file can be opened.
const AGAIN: Duration = Duration::from_millis(100);

/// What is listened on.
pub(super) enum Listener {
    /// For this machine.
    Unix(UnixListener),
    /// For others too.
    Tcp { listener: TcpListener, tls: Option<TlsAcceptor> },
}

/// Somebody who has come.
enum Coming {
    Unix(UnixStream),
    Tcp { stream: TcpStream, address: SocketAddr, tls: Option<TlsAcceptor> },
}

impl Listener {
    async fn accept(&self) -> io::Result<Coming> {
        match self {
            Self::Unix(listener) => listener.accept().await.map(|(stream, _)| Coming::Unix(stream)),
            Self::Tcp { listener, tls } => {
                let (stream, address) = listener.accept().await?;
                Ok(Coming::Tcp { stream, address, tls: tls.clone() })
            }
        }
    }
}

/// Serves a listener until it is stopped. All that share `room` share its connections.
pub(super) async fn serve(
    listener: Listener,
    room: Arc<Semaphore>,
    router: Router,
    mut stopped: watch::Receiver<bool>,
) {
    let mut connections = JoinSet::new();
    loop {
        let permit = tokio::select! {
            _ = stopped.wait_for(|stopped| *stopped) => break,
            permit = room.clone().acquire_owned() => permit,
        };
        let Ok(permit) = permit else { break };
        let accepted = tokio::select! {
            _ = stopped.wait_for(|stopped| *stopped) => break,
            accepted = listener.accept() => accepted,
        };
        while connections.try_join_next().is_some() {}
        match accepted {
            Ok(coming) => {
                let router = router.clone();
                connections.spawn(async move {
                    connection(coming, router).await;
                    drop(permit);
                });
            }
            Err(error) => {
                tracing::warn!("the control API cannot accept: {error}");
                tokio::time::sleep(AGAIN).await;
            }
        }
    }
    drop(listener);
    let ended = async { while connections.join_next().await.is_some() {} };
    tokio::time::timeout(GRACE, ended).await.ok();
}

async fn connection(coming: Coming, router: Router) {
    match coming {
        Coming::Unix(stream) => {
            let Ok(credentials) = stream.peer_cred() else { return };
            converse(stream, Peer::Local { uid: credentials.uid() }, router).await;
        }
        Coming::Tcp { stream, address, tls } => {
            let Ok(own) = stream.local_addr() else { return };
            let address = SocketAddr::new(address.ip().to_canonical(), address.port());
            let is_loopback = own.ip().to_canonical().is_loopback();
            let peer = Peer::Remote { address, is_loopback, is_encrypted: tls.is_some() };
            stream.set_nodelay(true).ok();
            let Some(tls) = tls else { return converse(stream, peer, router).await };
            match tokio::time::timeout(HANDSHAKE_TIME, tls.accept(stream)).await {
                Ok(Ok(stream)) => converse(stream, peer, router).await,
                Ok(Err(error)) => tracing::debug!("{address} does not agree on TLS: {error}"),
                Err(_) => tracing::debug!("{address} does not go on with TLS"),
            }
        }
    }
}

async fn converse<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(stream: S, peer: Peer, router: Router) {
    converse_within(stream, peer, router, BODY_TIME).await;
}

/// The same, with a peer who may take so long to send the body of a request.
async fn converse_within<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    peer: Peer,
    router: Router,
    body_time: Duration,
) {
    let router = router.layer(map_request(move |request: Request| ready(prompt(request, body_time))));
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        // Who has said all that he wants may close his side and still be answered.
        .half_close(true)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(
            TokioIo::new(Patient::new(stream)),
            TowerToHyperService::new(router.layer(Extension(peer))),
        )
        .await;
    if let Err(error) = served {
        tracing::debug!("a connection of the control API ended: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Bytes;
    use axum::routing::post;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    /// As a change does, whoever waits for it: it reads what was sent to its end.
    async fn change(request: Request) -> String {
        let reading = tokio::spawn(async move {
            use axum::extract::FromRequest as _;
            Bytes::from_request(request, &()).await.map_or(0, |bytes| bytes.len())
        });
        reading.await.map_or_else(|_| String::new(), |bytes| format!("{bytes} bytes came"))
    }

    /// What somebody is answered who announces ten bytes and sends these, and then only listens.
    async fn answer(sent: &str) -> Option<String> {
        let (near, mut far) = tokio::io::duplex(4096);
        let peer =
            Peer::Remote { address: ([127, 0, 0, 1], 1).into(), is_loopback: true, is_encrypted: false };
        let router = Router::new().route("/", post(change));
        let served = tokio::spawn(converse_within(near, peer, router, Duration::from_millis(300)));
        let head = "POST / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: 10\r\n\r\n";
        far.write_all(format!("{head}{sent}").as_bytes()).await.unwrap();
        let mut answer = String::new();
        let heard = tokio::time::timeout(Duration::from_secs(10), far.read_to_string(&mut answer)).await;
        served.abort();
        heard.ok().map(|_| answer)
    }

    #[tokio::test]
    async fn who_does_not_send_what_he_announced_does_not_keep_his_connection() {
        let whole = answer("0123456789").await.expect("an answer");
        assert!(whole.contains("10 bytes came"), "{whole}");
        for part in ["", "01234"] {
            let answer = answer(part).await.expect("the connection is kept for ever");
            assert!(answer.contains("\r\n\r\n0 bytes came"), "{answer}");
        }
    }
}
