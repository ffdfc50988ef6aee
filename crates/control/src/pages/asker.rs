//! The API, asked on behalf of a browser: with what the browser has sent, and nothing beside. A page has no rights of its own.

use std::convert::Infallible;
use std::fmt::Write as _;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::House;
use crate::api::people::model::Me;
use crate::api::{Peer, Problem};

/// Bytes of an answer of the API at most: ten thousand volumes are far fewer.
const MAX_ANSWER_BYTES: usize = 32 << 20;

/// What of a request says who asks, and from where.
const HANDED_ON: [header::HeaderName; 4] =
    [header::HOST, header::ORIGIN, header::COOKIE, header::AUTHORIZATION];

/// Somebody who asks for a page, and the API that answers him.
#[derive(Clone)]
pub(super) struct Asker {
    api: Router,
    peer: Option<Peer>,
    headers: HeaderMap,
    /// What goes with every change, from the field of his form.
    csrf: Option<String>,
    /// What he asked for.
    pub method: Method,
    /// Its path.
    pub path: String,
    /// What stands behind the `?`.
    pub query: Option<String>,
}

impl FromRequestParts<House> for Asker {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, house: &House) -> Result<Asker, Infallible> {
        Ok(Asker::of(parts, house.api.clone()))
    }
}

impl Asker {
    /// Who sent this request.
    pub fn of(parts: &Parts, api: Router) -> Asker {
        let mut headers = HeaderMap::new();
        for name in HANDED_ON {
            for value in parts.headers.get_all(&name) {
                headers.append(name.clone(), value.clone());
            }
        }
        Asker {
            api,
            peer: parts.extensions.get::<Peer>().copied(),
            headers,
            csrf: None,
            method: parts.method.clone(),
            path: parts.uri.path().to_owned(),
            query: parts.uri.query().map(str::to_owned),
        }
    }

    /// With what his form brought along.
    pub fn with_csrf(mut self, csrf: &str) -> Asker {
        self.csrf = Some(csrf.to_owned());
        self
    }

    /// From where.
    pub fn peer(&self) -> Option<Peer> {
        self.peer
    }

    /// Who he is; nothing if he has to come in first.
    pub async fn me(&self) -> Result<Option<Me>, Problem> {
        match self.get("/v1/me").await {
            Err(problem) if problem.status == StatusCode::UNAUTHORIZED.as_u16() => Ok(None),
            me => me.map(Some),
        }
    }

    /// Looks at something.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Problem> {
        read(self.answer(Method::GET, path, None).await).await
    }

    /// Changes something.
    pub async fn send<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        wish: &impl Serialize,
    ) -> Result<T, Problem> {
        read(self.sent(method, path, wish).await?).await
    }

    /// Changes something, and gives the answer with its head.
    pub async fn sent(&self, method: Method, path: &str, wish: &impl Serialize) -> Result<Response, Problem> {
        let body = serde_json::to_vec(wish).map_err(|error| inner(&error))?;
        Ok(self.answer(method, path, Some(body)).await)
    }

    async fn answer(&self, method: Method, path: &str, body: Option<Vec<u8>>) -> Response {
        let request = match self.request(method, path, body) {
            Ok(request) => request,
            Err(problem) => return problem.into_response(),
        };
        match TowerToHyperService::new(self.api.clone()).call(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }

    /// A request as he would make it.
    pub fn request(
        &self,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
    ) -> Result<Request<Body>, Problem> {
        let mut request = Request::new(Body::from(body.unwrap_or_default()));
        *request.method_mut() = method;
        *request.uri_mut() = path.parse::<Uri>().map_err(|error| inner(&error))?;
        let headers = request.headers_mut();
        headers.clone_from(&self.headers);
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(csrf) = self.csrf.as_ref().and_then(|csrf| HeaderValue::from_str(csrf).ok()) {
            headers.insert("x-csrf-token", csrf);
        }
        if let Some(peer) = self.peer {
            request.extensions_mut().insert(peer);
        }
        Ok(request)
    }
}

/// What an answer of the API says.
pub(super) async fn read<T: DeserializeOwned>(response: Response) -> Result<T, Problem> {
    let status = response.status();
    let bytes = to_bytes(response.into_body(), MAX_ANSWER_BYTES).await.map_err(|error| inner(&error))?;
    if status.is_success() {
        return serde_json::from_slice(&bytes).map_err(|error| inner(&error));
    }
    Err(serde_json::from_slice(&bytes)
        .unwrap_or_else(|error| Problem { status: status.as_u16(), ..inner(&error) }))
}

/// The API was not understood: a fault of the node itself.
fn inner(error: &dyn std::error::Error) -> Problem {
    tracing::error!("a page does not understand the API: {error}");
    Problem {
        kind: "urn:fels:page".to_owned(),
        title: "This page cannot be shown".to_owned(),
        status: StatusCode::INTERNAL_SERVER_ERROR.as_u16(),
        detail: "the node does not understand its own answer".to_owned(),
        hint: Some("see the log of the node".to_owned()),
        fields: Box::default(),
    }
}

/// A name as a part of a path.
pub(super) fn segment(name: &str) -> String {
    let mut segment = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_~.:".contains(&byte) {
            segment.push(byte.into());
        } else {
            // Writing to a String does not fail.
            let _ = write!(segment, "%{byte:02X}");
        }
    }
    // What goes up is nobody's name.
    if segment.bytes().all(|byte| byte == b'.') { segment.replace('.', "%2E") } else { segment }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stays_within_its_part_of_a_path() {
        assert_eq!(segment("db-1.old:a"), "db-1.old:a");
        assert_eq!(segment("../users"), "..%2Fusers");
        assert_eq!(segment(".."), "%2E%2E");
        assert_eq!(segment("a?b#c d%"), "a%3Fb%23c%20d%25");
        assert_eq!(segment("\u{fc}"), "%C3%BC");
    }
}
