//! The control API over TCP: where it is listened, and with which safety.

use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::path::Path;

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::Response;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::Problem;
use super::actor::Peer;
use super::listener::Listener;
use crate::config::Http;
use crate::people::store::Store;
use crate::tls::{self, Files, TlsError};

/// Why the control API is not served over TCP.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// The address cannot be listened on.
    #[error(
        "cannot listen on {address} for the control API: {source}; hint: see who listens there with `ss -ltnp`, or set another `listen` in [http]"
    )]
    Bind {
        /// Where.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// It may not be.
    #[error("{message}; hint: {hint}")]
    Exposed {
        /// Why.
        message: String,
        /// What to do.
        hint: &'static str,
    },
    /// There is no TLS.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// Why the control API may not be served there: a sentence and a hint. Beyond this machine nobody is to hear passwords, and
/// somebody is to be known by one.
pub fn exposure(portal: &SocketAddr, http: &Http, data: &Path) -> Option<(String, &'static str)> {
    if portal.ip().to_canonical().is_loopback() {
        return None;
    }
    if http.files.is_none() && Files::made(data).is_none() {
        let message = format!("{portal} can be reached from other machines, and there is no TLS");
        return Some((
            message,
            "make a certificate with `fels cert`, or give `certificate` and `key`; or listen on 127.0.0.1",
        ));
    }
    match Store::open(data) {
        Ok(store) if store.people().users().is_empty() => {
            let message =
                format!("{portal} can be reached from other machines, and there is no user with a password");
            Some((
                message,
                "start the node on 127.0.0.1 first, and make one with `fels user add NAME --role admin`",
            ))
        }
        Ok(_) => None,
        Err(error) => {
            let said = error.to_string();
            let message = said.split("; hint: ").next().unwrap_or_default().to_owned();
            Some((message, "without it nobody is known, and only 127.0.0.1 may be listened on"))
        }
    }
}

/// Opens what is listened on; in the runtime that serves it.
pub(super) fn open(http: &Http, data: &Path) -> Result<Vec<(SocketAddr, Listener)>, HttpError> {
    let files = http.files.clone().or_else(|| Files::made(data));
    let tls = files.as_ref().map(tls::server).transpose()?.map(TlsAcceptor::from);
    let open = |address: &SocketAddr| {
        if let Some((message, hint)) = exposure(address, http, data) {
            return Err(HttpError::Exposed { message, hint });
        }
        let bound = StdListener::bind(address).and_then(|listener| {
            listener.set_nonblocking(true)?;
            let address = listener.local_addr()?;
            Ok((address, TcpListener::from_std(listener)?))
        });
        let (address, listener) = bound.map_err(|source| HttpError::Bind { address: *address, source })?;
        Ok((address, Listener::Tcp { listener, tls: tls.clone() }))
    };
    http.listen.iter().map(open).collect()
}

/// Why a request that came over TCP is not heard at all. A page of elsewhere can point its own name to 127.0.0.1, and then ask as if it
/// were of here: it is known by the name that the browser sends.
pub(super) fn misdirected(peer: Peer, headers: &HeaderMap) -> Option<Problem> {
    let Peer::Remote { is_loopback: true, .. } = peer else { return None };
    let mut hosts = headers.get_all(header::HOST).iter();
    let host = match (hosts.next(), hosts.next()) {
        (Some(host), None) => host.to_str().unwrap_or_default(),
        _ => "",
    };
    let name = host.rsplit_once(':').filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
    let name = name.map_or(host, |(name, _)| name);
    let is_here = name.eq_ignore_ascii_case("localhost")
        || name
            .trim_start_matches('[')
            .trim_end_matches(']')
            .parse::<std::net::IpAddr>()
            .is_ok_and(|ip| ip.is_loopback());
    (!is_here).then(|| {
        Problem::forbidden("this address is of this machine only, and was asked for by another name")
            .hint("ask for 127.0.0.1, [::1] or localhost; for other names listen on an address that has them")
    })
}

/// What browsers are told with every answer, where a handler has not said otherwise.
pub(crate) fn harden(peer: Option<Peer>, response: &mut Response) {
    let usual = [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        (
            header::CONTENT_SECURITY_POLICY,
            "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
        ),
        (header::CACHE_CONTROL, "no-store"),
    ];
    let mut say = |name: HeaderName, value| {
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    };
    for (name, value) in usual {
        say(name, value);
    }
    // What else this machine serves as localhost need not have TLS.
    if let Some(Peer::Remote { is_encrypted: true, is_loopback: false, .. }) = peer {
        say(header::STRICT_TRANSPORT_SECURITY, "max-age=31536000");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(is_loopback: bool) -> Peer {
        Peer::Remote { address: "192.0.2.7:40000".parse().unwrap(), is_loopback, is_encrypted: true }
    }

    #[test]
    fn this_machine_is_asked_by_its_own_names_only() {
        let heard = |hosts: &[&str], is_loopback| {
            let mut headers = HeaderMap::new();
            for host in hosts {
                headers.append(header::HOST, HeaderValue::from_str(host).unwrap());
            }
            misdirected(peer(is_loopback), &headers).is_none()
        };
        for host in [
            "localhost",
            "LocalHost:8420",
            "127.0.0.1",
            "127.0.0.1:8420",
            "127.1.2.3:1",
            "[::1]",
            "[::1]:8420",
        ] {
            assert!(heard(&[host], true), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "evil.example:8420",
            "localhost.evil.example",
            "127.0.0.1.evil.example:8420",
            "192.0.2.7",
            "localhost:x",
            "[::2]:8420",
        ] {
            assert!(!heard(&[host], true), "{host}");
            assert!(heard(&[host], false), "{host}");
        }
        assert!(!heard(&[], true) && !heard(&["localhost", "evil.example"], true));
    }

    #[test]
    fn what_is_said_to_browsers_fits_how_they_came() {
        let told = |peer| {
            let mut response = Response::default();
            response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("max-age=60"));
            harden(peer, &mut response);
            response.headers().clone()
        };
        let headers = told(Some(peer(false)));
        assert_eq!(headers[header::X_CONTENT_TYPE_OPTIONS], "nosniff");
        assert!(
            headers[header::CONTENT_SECURITY_POLICY].to_str().unwrap().contains("frame-ancestors 'none'")
        );
        assert!(headers.contains_key(header::STRICT_TRANSPORT_SECURITY));
        assert_eq!(headers[header::CACHE_CONTROL], "max-age=60", "a handler knows better");
        assert!(!told(Some(peer(true))).contains_key(header::STRICT_TRANSPORT_SECURITY));
        let plain =
            Peer::Remote { address: "192.0.2.7:1".parse().unwrap(), is_loopback: false, is_encrypted: false };
        assert!(!told(Some(plain)).contains_key(header::STRICT_TRANSPORT_SECURITY));
    }
}
