//! Sessions of browsers, as they come over HTTP: a cookie, and what has to go with every change.

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, header};

use super::Problem;
use super::actor::Peer;
use super::wish::MAX_BODY_BYTES;
use crate::people::sessions::SessionSecret;
use crate::people::token::Digest;

/// The cookie where nobody on the way can read or set it: browsers take it from this very host only.
const SECURE_COOKIE: &str = "__Host-fels";
/// The cookie without TLS, which is on loopback only.
const COOKIE: &str = "fels";
/// The header that goes with every change.
const CSRF_HEADER: &str = "x-csrf-token";
/// The field of a form that does so instead.
const CSRF_FIELD: &str = "csrf";

fn is_encrypted(peer: Peer) -> bool {
    matches!(peer, Peer::Remote { is_encrypted: true, .. })
}

fn set(peer: Peer, value: &str, more: &str) -> HeaderValue {
    let (name, secure) = if is_encrypted(peer) { (SECURE_COOKIE, "; Secure") } else { (COOKIE, "") };
    let text = format!("{name}={value}; Path=/; HttpOnly; SameSite=Strict{secure}{more}");
    let mut value = HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static(""));
    value.set_sensitive(true);
    value
}

/// What a browser keeps of a session, until it is closed.
pub(super) fn cookie(peer: Peer, secret: &SessionSecret) -> HeaderValue {
    set(peer, secret.expose(), "")
}

/// What makes a browser forget it.
pub(super) fn without_cookie(peer: Peer) -> HeaderValue {
    set(peer, "", "; Max-Age=0")
}

/// The session that a browser says it has. On the socket the kernel says who asks.
pub(super) fn sent(peer: Peer, headers: &HeaderMap) -> Option<SessionSecret> {
    let Peer::Remote { is_encrypted, .. } = peer else { return None };
    let wanted = if is_encrypted { SECURE_COOKIE } else { COOKIE };
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs =
        cookies.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| *name == wanted).and_then(|(_, value)| SessionSecret::read(value))
}

/// Whether a change was asked for by a page of elsewhere, as far as the browser says.
pub(super) fn of_elsewhere(peer: Peer, headers: &HeaderMap) -> Option<Problem> {
    let Peer::Remote { .. } = peer else { return None };
    let origin = headers.get(header::ORIGIN)?.to_str().unwrap_or_default();
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let same =
        origin.split_once("://").is_some_and(|(_, from)| !host.is_empty() && from.eq_ignore_ascii_case(host));
    (!same).then(|| {
        Problem::forbidden("a page of elsewhere asked for this").hint("ask from a page of the node itself")
    })
}

/// Why a change of a session is refused, unless it brings what goes with every change, in a header or in a field of its form.
pub(super) async fn with_csrf(request: Request, csrf: &Digest) -> (Request, Option<Problem>) {
    let refused = || {
        Problem::forbidden("this change did not come from a page of the node").hint(
            "send what `/v1/me` tells as `csrf` in the header X-CSRF-Token, or in the field `csrf` of a form",
        )
    };
    let is = |sent: &str| Digest::read(sent).is_some_and(|sent| sent.is(csrf));
    if let Some(sent) = request.headers().get(CSRF_HEADER) {
        let fits = sent.to_str().is_ok_and(is);
        return (request, (!fits).then(refused));
    }
    let kind = request.headers().get(header::CONTENT_TYPE);
    if !kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/x-www-form-urlencoded")) {
        return (request, Some(refused()));
    }
    let (parts, body) = request.into_parts();
    let Ok(bytes) = to_bytes(body, MAX_BODY_BYTES).await else {
        let problem = Problem::too_large(format!("a request brings at most {MAX_BODY_BYTES} bytes"));
        return (Request::from_parts(parts, Body::empty()), Some(problem));
    };
    // What is looked for has digits only, which no form writes in another way.
    let fields = bytes.split(|byte| *byte == b'&');
    let mut fields = fields.filter_map(|field| std::str::from_utf8(field).ok()?.split_once('='));
    let fits = fields.find(|(name, _)| *name == CSRF_FIELD).is_some_and(|(_, value)| is(value));
    let request = Request::from_parts(parts, Body::from(bytes));
    (request, (!fits).then(refused))
}

/// Whether a method only looks.
pub(super) fn looks(method: &Method) -> bool {
    [Method::GET, Method::HEAD].contains(method)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(is_encrypted: bool) -> Peer {
        Peer::Remote { address: "127.0.0.1:40000".parse().unwrap(), is_loopback: true, is_encrypted }
    }

    #[test]
    fn a_cookie_is_for_this_host_and_its_own_pages_alone() {
        let secret = SessionSecret::random().unwrap();
        let said = |peer| cookie(peer, &secret).to_str().unwrap().to_owned();
        assert_eq!(
            said(peer(true)),
            format!("__Host-fels={}; Path=/; HttpOnly; SameSite=Strict; Secure", secret.expose())
        );
        assert_eq!(said(peer(false)), format!("fels={}; Path=/; HttpOnly; SameSite=Strict", secret.expose()));
        assert_eq!(without_cookie(peer(false)), "fels=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0");
    }

    #[test]
    fn a_cookie_is_read_among_others_and_only_the_one_that_fits() {
        let secret = SessionSecret::random().unwrap();
        let read = |peer, cookies: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::COOKIE, HeaderValue::from_str(cookies).unwrap());
            sent(peer, &headers).map(|secret| secret.expose().to_owned())
        };
        let text = secret.expose();
        assert_eq!(read(peer(false), &format!("a=b; fels={text};c=d")).as_deref(), Some(text));
        assert_eq!(read(peer(true), &format!("__Host-fels={text}")).as_deref(), Some(text));
        assert_eq!(read(peer(true), &format!("fels={text}")), None, "set without TLS, by whomever");
        assert_eq!(read(peer(false), &format!("xfels={text}; fels=short")), None);
        assert_eq!(read(Peer::Local { uid: 1000 }, &format!("fels={text}")), None);
    }

    #[test]
    fn pages_of_elsewhere_are_known_by_their_origin() {
        let refused = |origin: Option<&str>| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, HeaderValue::from_static("localhost:8420"));
            if let Some(origin) = origin {
                headers.insert(header::ORIGIN, HeaderValue::from_str(origin).unwrap());
            }
            of_elsewhere(peer(false), &headers).is_some()
        };
        assert!(!refused(None) && !refused(Some("http://localhost:8420")));
        for origin in [
            "null",
            "",
            "http://localhost",
            "http://localhost:8421",
            "http://evil.example",
            "http://localhost:8420.evil.example",
        ] {
            assert!(refused(Some(origin)), "{origin}");
        }
    }
}
