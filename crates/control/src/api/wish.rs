//! What a request brings with it, read within bounds: nothing, or JSON.

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use serde::de::DeserializeOwned;

use super::Problem;
use crate::store::Version;

/// Most bytes of what a request brings.
pub(super) const MAX_BODY_BYTES: usize = 64 << 10;

/// The body of a request; one without body wishes what is usual.
/// Of `MAX` bytes at most: its route has to let as many in.
pub(super) struct Body<T, const MAX: usize = MAX_BODY_BYTES>(pub T);

impl<T: DeserializeOwned + Default, S: Send + Sync, const MAX: usize> FromRequest<S> for Body<T, MAX> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        Ok(Body(read(request, state, MAX).await?.unwrap_or_default()))
    }
}

/// The body of a request that has to have one.
pub(super) struct Sent<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Sent<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let nothing = || {
            Problem::bad_request("nothing was sent, and this needs something")
                .hint("/v1/openapi.json says what each path takes")
        };
        read(request, state, MAX_BODY_BYTES).await?.map(Sent).ok_or_else(nothing)
    }
}

/// What was sent, if anything. `most`: so many bytes its way lets in.
async fn read<T: DeserializeOwned, S: Send + Sync>(
    request: Request,
    state: &S,
    most: usize,
) -> Result<Option<T>, Problem> {
    let kind = request.headers().get(header::CONTENT_TYPE).cloned();
    let bytes = Bytes::from_request(request, state).await.map_err(|rejection| {
        if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
            Problem::too_large(format!("this request brings at most {most} bytes"))
        } else {
            Problem::bad_request("the request ended early")
        }
    })?;
    if bytes.is_empty() {
        return Ok(None);
    }
    // Pages of other sites can make a browser send anything else without asking.
    let is_json = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
    if !is_json {
        return Err(Problem::bad_request("what was sent is not said to be JSON")
            .hint("send it with `Content-Type: application/json`"));
    }
    serde_json::from_slice(&bytes).map(Some).map_err(|error| {
        Problem::bad_request(format!("what was sent is not as it has to be: {error}"))
            .hint("/v1/openapi.json says what each path takes")
    })
}

/// The names in the path of a request.
pub(super) struct Names<T>(pub T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Names<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match Path::from_request_parts(parts, state).await {
            Ok(Path(names)) => Ok(Names(names)),
            Err(_) => Err(Problem::bad_request("a name in the path is not UTF-8")),
        }
    }
}

/// What stands behind the path of a request.
pub(super) struct Asked<T>(pub T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Asked<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match Query::from_request_parts(parts, state).await {
            Ok(Query(asked)) => Ok(Asked(asked)),
            Err(_) => Err(Problem::bad_request("what stands behind the `?` is not as it has to be")
                .hint("/v1/openapi.json says what each path takes")),
        }
    }
}

/// The version that a change is meant for: in its body, or as `If-Match`.
pub(super) fn version(headers: &HeaderMap, given: Option<&str>) -> Result<Option<Version>, Problem> {
    let header = headers.get(header::IF_MATCH).map(|value| value.to_str().unwrap_or_default().trim());
    let header = header.filter(|text| *text != "*");
    let text = given.or_else(|| header.map(|text| text.trim_matches('"')));
    let wrong = |_| {
        Problem::bad_request("the version is none")
            .hint("give the `version`, or the ETag, that came with what was looked at")
    };
    text.map(|text| text.parse().map_err(wrong)).transpose()
}
