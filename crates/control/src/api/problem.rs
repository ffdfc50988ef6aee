//! Why something was not done: problem details (RFC 9457) with a hint.

use axum::Json;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use plane::pool::{AdmitError, Assembled, Refusal};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use utoipa::ToSchema;

use crate::administration::ChangeError;
use crate::config::{ConfigError, ConfigErrors};
use crate::store::document::EditError;

/// What somebody is told whose wish is not fulfilled, as `application/problem+json`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize, ToSchema)]
#[error("{detail}")]
pub struct Problem {
    /// Which kind of problem it is: `urn:fels:` and a word.
    #[serde(rename = "type")]
    pub kind: String,
    /// The kind in words.
    pub title: String,
    /// The status of HTTP.
    pub status: u16,
    /// What happened: a sentence.
    pub detail: String,
    /// What can be done about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// What is wrong with each field of what was sent, where that is known.
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    #[schema(value_type = Vec<WrongField>)]
    pub fields: Box<[WrongField]>,
}

/// What is wrong with a field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WrongField {
    /// Its path: `size` of a volume, `volume.demo.size` of a configuration. None of a text that is no TOML.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// The line of the configuration, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// What is wrong: a sentence.
    pub detail: String,
    /// What can be done about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Problem {
    fn new(status: StatusCode, kind: &str, title: &str, detail: impl Into<String>) -> Problem {
        Problem {
            kind: format!("urn:fels:{kind}"),
            title: title.to_owned(),
            status: status.as_u16(),
            detail: detail.into(),
            hint: None,
            fields: Box::default(),
        }
    }

    /// With what can be done about it.
    #[must_use]
    pub(super) fn hint(mut self, hint: impl Into<String>) -> Problem {
        self.hint = Some(hint.into());
        self
    }

    /// Of one field of what was sent.
    #[must_use]
    pub(super) fn at(mut self, field: &str) -> Problem {
        let (detail, hint) = (self.detail.clone(), self.hint.clone());
        self.fields = [WrongField { field: Some(field.to_owned()), line: None, detail, hint }].into();
        self
    }

    /// From an error of the layers below, whose text ends with its hint.
    pub(super) fn conflict(error: &dyn std::error::Error) -> Problem {
        let text = error.to_string();
        match text.split_once("; hint: ") {
            Some((detail, hint)) => Problem::refused(detail).hint(hint),
            None => Problem::refused(text),
        }
    }

    /// It cannot be done as things are.
    pub(super) fn refused(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::CONFLICT, "conflict", "That cannot be done now", detail)
    }

    /// What was sent makes no sense.
    pub(super) fn bad_request(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, "bad-request", "The request is not understood", detail)
    }

    /// There is no such thing.
    pub(super) fn not_found(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::NOT_FOUND, "not-found", "There is no such thing", detail)
    }

    /// It is there, and takes other methods.
    pub(super) fn method(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method", "That cannot be done to it", detail)
    }

    /// More was sent than is read.
    pub(super) fn too_large(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", "The request is too large", detail)
    }

    /// Nobody knows who asks.
    pub(super) fn unauthorized(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", "Nobody knows who you are", detail)
    }

    /// It was meant for something that is another by now.
    fn stale(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::PRECONDITION_FAILED, "stale", "It is another one by now", detail)
    }

    /// Who asks may not.
    pub(super) fn forbidden(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::FORBIDDEN, "forbidden", "That is not allowed", detail)
    }

    /// It was tried too often.
    pub(super) fn too_many(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::TOO_MANY_REQUESTS, "too-many", "That was tried too often", detail)
    }

    /// The node cannot do it now, whoever asks.
    pub(super) fn unavailable(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", "The node cannot do that now", detail)
    }

    /// Whether nobody knows the end of what was asked for.
    pub(super) fn is_late(&self) -> bool {
        self.status == StatusCode::SERVICE_UNAVAILABLE.as_u16()
    }

    /// It was asked for, and did not happen in time.
    pub(super) fn late(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "late", "The node did not answer in time", detail)
            .hint("see the log of the node, and `fels pool status`")
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let kind = [(header::CONTENT_TYPE, "application/problem+json")];
        let mut response = (status, kind, Json(&self)).into_response();
        // Pages tell it to people in another way.
        response.extensions_mut().insert(self);
        response
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Problem {
        let problem = Problem::conflict(&refusal);
        match refusal {
            Refusal::NoSlot { .. } => {
                let hint = problem.hint.unwrap_or_default();
                Problem::not_found(problem.detail).hint(hint)
            }
            _ => problem,
        }
    }
}

impl From<AdmitError> for Problem {
    fn from(error: AdmitError) -> Problem {
        match error {
            AdmitError::Refused(refusal) => refusal.into(),
            error => Problem::conflict(&error),
        }
    }
}

impl From<ChangeError> for Problem {
    fn from(error: ChangeError) -> Problem {
        let (detail, hint) = (error.to_string(), error.hint());
        let problem = match &error {
            ChangeError::Stale { .. } => Problem::stale(detail),
            ChangeError::Edit(EditError::Missing { .. }) => Problem::not_found(detail),
            ChangeError::Wrong { errors, fields } => {
                let detail = errors.errors().first().map_or(detail, |error| error.message.clone());
                Problem { fields: wrong_fields(errors, fields), ..Problem::bad_request(detail) }
            }
            _ => Problem::refused(detail),
        };
        Problem { hint, ..problem }
    }
}

/// What is wrong with a configuration, by field.
fn wrong_fields(errors: &ConfigErrors, fields: &[Option<String>]) -> Box<[WrongField]> {
    let wrong = |(error, field): (&ConfigError, &Option<String>)| WrongField {
        field: field.clone(),
        line: error.location.as_ref().map(|place| place.line),
        detail: error.message.clone(),
        hint: error.hint.clone(),
    };
    errors.errors().iter().zip(fields).map(wrong).collect()
}

/// There is no pool of that name.
pub(super) fn no_pool(name: &str, pools: &[Arc<Assembled>]) -> Problem {
    // As long as a name can be; more of what somebody sent is of no use to him.
    let shown: String = name.chars().take(64).collect();
    let names: Vec<_> = pools.iter().take(16).map(|pool| pool.pool().shared().name.clone()).collect();
    let problem = Problem::not_found(format!("this node has no pool {shown}"));
    if names.is_empty() {
        return problem.hint("it has none: add a section [[pool]] to its configuration");
    }
    problem.hint(format!("it has {}", names.join(", ")))
}
