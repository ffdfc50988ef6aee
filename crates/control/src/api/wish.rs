//! What a request brings with it, read within bounds: nothing, or JSON.

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use serde::de::DeserializeOwned;

use super::Problem;

/// Most bytes of what a request brings.
pub(super) const MAX_BODY_BYTES: usize = 64 << 10;

/// The body of a request; one without body wishes what is usual.
pub(super) struct Body<T>(pub T);

impl<T: DeserializeOwned + Default, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let kind = request.headers().get(header::CONTENT_TYPE).cloned();
        let bytes = Bytes::from_request(request, state).await.map_err(|rejection| {
            if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
                Problem::too_large(format!("a request brings at most {MAX_BODY_BYTES} bytes"))
            } else {
                Problem::bad_request("the request ended early")
            }
        })?;
        if bytes.is_empty() {
            return Ok(Body(T::default()));
        }
        // Pages of other sites can make a browser send anything else without asking.
        let is_json = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
        if !is_json {
            return Err(Problem::bad_request("what was sent is not said to be JSON")
                .hint("send it with `Content-Type: application/json`"));
        }
        serde_json::from_slice(&bytes).map(Body).map_err(|error| {
            Problem::bad_request(format!("what was sent is not as it has to be: {error}"))
                .hint("/v1/openapi.json says what each path takes")
        })
    }
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
