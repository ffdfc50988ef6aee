//! People: users and tokens, and who asks.

pub(super) mod login;
pub mod model;
pub(super) mod setup;
pub(super) mod tokens;
pub(super) mod users;

use axum::Extension;
use axum::Json;

use super::{Actor, Problem, Who};
use crate::people::Refusal;
use crate::people::password::HashError;
use crate::people::store::StoreError;
use model::Me;

/// Tells who asks, and what he may.
#[utoipa::path(get, path = "/v1/me", tag = "people", responses((status = 200, body = Me)))]
pub(super) async fn me(Extension(actor): Extension<Actor>) -> Json<Me> {
    let expires = match &actor.who {
        Who::Token { expires, .. } | Who::Session { expires, .. } => Some(*expires),
        Who::Nobody | Who::Local { .. } => None,
    };
    Json(Me {
        who: actor.to_string(),
        user: actor.user().map(str::to_owned),
        by: actor.by(),
        role: actor.role,
        csrf: match &actor.who {
            Who::Session { csrf, .. } => Some(csrf.to_string()),
            _ => None,
        },
        expires,
    })
}

/// There is no such user.
fn no_user(name: &str) -> Problem {
    Problem::from(Refusal::NoUser { name: name.chars().take(64).collect() })
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Problem {
        let text = refusal.to_string();
        let (detail, hint) = text.split_once("; hint: ").unwrap_or((&text, ""));
        let problem = if refusal.is_missing() {
            Problem::not_found(detail)
        } else if refusal.is_senseless() {
            Problem::bad_request(detail)
        } else {
            Problem::refused(detail)
        };
        let problem = problem.hint(hint);
        match refusal.field() {
            Some(field) => problem.at(field),
            None => problem,
        }
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Problem {
        match error {
            StoreError::Refused(refusal) => refusal.into(),
            error @ StoreError::Write(..) => unavailable(&error),
        }
    }
}

impl From<HashError> for Problem {
    fn from(error: HashError) -> Problem {
        unavailable(&error)
    }
}

fn unavailable(error: &dyn std::error::Error) -> Problem {
    let text = error.to_string();
    tracing::error!("{text}");
    let (detail, hint) = text.split_once("; hint: ").unwrap_or((&text, "see the log of the node"));
    Problem::unavailable(detail).hint(hint)
}
