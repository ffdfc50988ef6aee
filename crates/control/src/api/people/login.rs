//! Coming in with a password, from a browser, and going.

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Json};
use monitor::event::Event;

use super::super::session::{cookie, sent, without_cookie};
use super::super::wish::Sent;
use super::super::{Access, Actor, Problem, Who};
use super::model::{CameIn, Done, Login};
use super::users::done;
use crate::audit::note;
use crate::events::Events;
use crate::moment::Moment;
use crate::people::check_user_name;
use crate::people::password::Password;
use crate::people::sessions::SessionSecret;

/// Comes in with a password: the answer sets a cookie, and tells what has to go with every change.
#[utoipa::path(
    post, path = "/v1/login", tag = "people", request_body = Login,
    responses(
        (status = 200, body = CameIn),
        (status = 400, body = Problem, description = "The request is not understood."),
        (status = 401, body = Problem, description = "There is no such user, or that is not his password."),
        (status = 413, body = Problem, description = "The request is too large."),
        (status = 429, body = Problem, description = "That was tried too often; `Retry-After` says when it can be again."),
        (status = 503, body = Problem, description = "The node cannot do it now.")
    )
)]
pub(in super::super) async fn login(
    State(access): State<Access>,
    State(events): State<Events>,
    Extension(actor): Extension<Actor>,
    Sent(wish): Sent<Login>,
) -> Result<Response, Problem> {
    let now = Moment::now();
    let name = check_user_name(&wish.name).is_ok().then_some(wish.name.as_str());
    let from = || actor.from.host();
    if let Err(wait) = access.attempt(&actor, name, now) {
        events.tell(Event::LoginLocked { from: from() });
        return Ok(too_often(wait));
    }
    let user = access.people().user(&wish.name).cloned();
    let kept = user.as_ref().map(|user| user.password.clone());
    let good = access.hashing().verify(Password::said(wish.password), kept).await?;
    let Some(user) = user.filter(|_| good) else {
        // Only a name that there is: others are what somebody typed into the wrong field.
        if let Some(name) = name.filter(|name| access.people().user(name).is_some()) {
            note(format!("a wrong password for {name}"));
        }
        events.tell(Event::LoginRefused { from: from() });
        return Err(Problem::unauthorized("there is no such user, or that is not his password")
            .hint("an admin can give you another password: `fels user password NAME`"));
    };
    let secret = SessionSecret::random()
        .map_err(|error| Problem::unavailable(format!("no random bytes for a session: {error}")))?;
    // Between the two he may have been removed, or given another password.
    if access.people().user(&user.name).is_none_or(|there| there.password != user.password) {
        return Err(
            Problem::unauthorized("that is not your password any more").hint("come in with the new one")
        );
    }
    access.succeeded(&actor, &user.name);
    let session = access.begin(&secret, &user.name, now);
    note(format!("{} came in", user.name));
    events.tell(Event::UserCameIn { user: user.name.clone(), from: from() });
    let (name, csrf) = (user.name, secret.csrf().to_string());
    let body = Json(CameIn { user: name, role: user.role, csrf, expires: session.ends() });
    Ok(([(header::SET_COOKIE, cookie(actor.from, &secret))], body).into_response())
}

/// Ends the session that the cookie is of.
#[utoipa::path(
    post, path = "/v1/logout", tag = "people",
    responses((status = 200, body = Done), (status = 503, body = Problem, description = "It cannot be kept."))
)]
pub(in super::super) async fn logout(
    State(access): State<Access>,
    Extension(actor): Extension<Actor>,
    headers: HeaderMap,
) -> Response {
    let there = matches!(actor.who, Who::Session { .. })
        && sent(actor.from, &headers).is_some_and(|secret| access.end(&secret));
    let said = if there {
        done(format!("{actor} went"))
    } else {
        Json(Done { steps: vec!["there is no session: nothing to end".to_owned()] })
    };
    ([(header::SET_COOKIE, without_cookie(actor.from))], said).into_response()
}

fn too_often(wait: u64) -> Response {
    let problem = Problem::too_many(format!("that was tried too often: the next time in {wait} seconds"))
        .hint("wait; on the machine of the node itself no password is needed");
    let after = HeaderValue::from(wait);
    debug_assert_eq!(problem.status, StatusCode::TOO_MANY_REQUESTS.as_u16());
    ([(header::RETRY_AFTER, after)], problem).into_response()
}
