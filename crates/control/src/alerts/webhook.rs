//! Webhooks: a change is sent by POST, as JSON.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::{Method, Request, header};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::api::remote::{Trust, config};

/// The roots that Debian has, as most others have them.
const ROOTS: &str = "/etc/ssl/certs/ca-certificates.crt";
/// How long all of it may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// Bytes of an address.
const MAX_BYTES: usize = 2048;

/// Where something is sent. Many have a secret in their path: it is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Url {
    is_encrypted: bool,
    host: String,
    port: u16,
    path: String,
}

impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl Url {
    /// Reads `https://host:port/path`; without TLS only this machine is told. The error is the end of a sentence.
    pub fn read(text: &str) -> Result<Url, &'static str> {
        let (is_encrypted, rest) = match text.split_once("://") {
            Some(("https", rest)) => (true, rest),
            Some(("http", rest)) => (false, rest),
            _ => return Err("does not begin with https://"),
        };
        if text.len() > MAX_BYTES || !rest.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("is too long, or has characters that have to be written as %XX");
        }
        let rest = rest.split('#').next().unwrap_or_default();
        let at = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(at);
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        let usual = if is_encrypted { 443 } else { 80 };
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => {
                (host, port.parse().map_err(|_| "has a port that is no number from 0 to 65535")?)
            }
            _ => (authority, usual),
        };
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b".-:_".contains(&byte);
        if host.is_empty() || !host.bytes().all(is_host) {
            return Err("has no host, or a user in it, which is not sent");
        }
        let is_here =
            host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback());
        if !is_encrypted && !is_here {
            return Err("is without TLS: everybody on the way could read it");
        }
        Ok(Url { is_encrypted, host: host.to_owned(), port, path })
    }

    fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

/// Sends JSON; when this returns it was taken. The error is the end of a sentence, without the path.
pub(super) async fn post(url: &Url, body: &serde_json::Value) -> Result<(), String> {
    let host = &url.host;
    match tokio::time::timeout(PATIENCE, exchange(url, body, Path::new(ROOTS))).await {
        Ok(done) => done.map_err(|why| format!("{host}: {why}")),
        Err(_) => Err(format!("{host} did not answer within {} seconds", PATIENCE.as_secs())),
    }
}

async fn exchange(url: &Url, body: &serde_json::Value, roots: &Path) -> Result<(), String> {
    let said = |error: &dyn fmt::Display| error.to_string();
    let stream = TcpStream::connect((url.host.as_str(), url.port)).await.map_err(|error| said(&error))?;
    if !url.is_encrypted {
        return converse(url, body, stream).await;
    }
    let trust = Trust::Roots(roots.to_owned());
    let tls = tokio::task::spawn_blocking(move || config(&trust)).await.map_err(|error| said(&error))?;
    let tls = tls.map_err(|error| said(&error))?;
    let name = ServerName::try_from(url.host.clone()).map_err(|error| said(&error))?;
    let stream = TlsConnector::from(tls).connect(name, stream).await.map_err(|error| said(&error))?;
    converse(url, body, stream).await
}

async fn converse<S>(url: &Url, body: &serde_json::Value, stream: S) -> Result<(), String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    let bytes = serde_json::to_vec(body).map_err(|error| error.to_string())?;
    let request = Request::builder()
        .method(Method::POST)
        .uri(&url.path)
        .header(header::HOST, url.authority())
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::USER_AGENT, concat!("fels/", env!("CARGO_PKG_VERSION")))
        .header(header::CONNECTION, "close")
        .body(Full::new(Bytes::from(bytes)))
        .map_err(|error| error.to_string())?;
    let answered = sender.send_request(request);
    tokio::pin!(answered);
    let response = tokio::select! {
        answered = &mut answered => answered,
        driven = connection => match driven {
            Ok(()) => answered.await,
            Err(error) => Err(error),
        },
    };
    let status = response.map_err(|error| error.to_string())?.status();
    if status.is_success() { Ok(()) } else { Err(format!("it answers {status}")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::moment::Moment;
    use crate::tls::{self, Files};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;
    use tokio_rustls::TlsAcceptor;

    /// Takes one message with a certificate that was made in `data`, and gives what it was; nothing if the sender went away.
    async fn take(listener: TcpListener, data: &Path) -> Option<String> {
        let files = Files::made(data).expect("a certificate was made");
        let acceptor = TlsAcceptor::from(tls::server(&files).unwrap());
        let (stream, _) = listener.accept().await.unwrap();
        let mut stream = acceptor.accept(stream).await.ok()?;
        let mut bytes = vec![0; 4096];
        let mut taken = 0;
        while !bytes[..taken].ends_with(b"}") {
            taken += stream.read(&mut bytes[taken..]).await.ok().filter(|&count| count > 0)?;
        }
        stream.write_all(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n").await.ok()?;
        stream.shutdown().await.ok();
        Some(String::from_utf8_lossy(&bytes[..taken]).into_owned())
    }

    #[tokio::test]
    async fn only_a_server_whom_a_root_vouches_for_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let (own, other) = (folder.path().join("own"), folder.path().join("other"));
        for data in [&own, &other] {
            tls::make(data, &["localhost".to_owned()], Moment::now()).unwrap();
        }
        let body = serde_json::json!({ "level": "critical" });
        for (roots, is_told) in [(&own, true), (&other, false)] {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let url = format!("https://localhost:{}/s3cret", listener.local_addr().unwrap().port());
            let url = Url::read(&url).unwrap();
            let roots = Files::made(roots).unwrap().certificate;
            let (taken, sent) = tokio::join!(take(listener, &own), exchange(&url, &body, &roots));
            assert_eq!((taken.is_some(), sent.is_ok()), (is_told, is_told), "{sent:?}");
            if let Some(text) = taken {
                assert!(
                    text.starts_with("POST /s3cret HTTP/1.1") && text.ends_with(r#"{"level":"critical"}"#)
                );
            }
            assert!(sent.err().is_none_or(|why| why.contains("ertificate") && !why.contains("s3cret")));
        }
    }
}
