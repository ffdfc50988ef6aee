//! The one place that every request passes: it finds out who asks, and whether he may.

use axum::extract::{FromRequestParts as _, MatchedPath, RawPathParams, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use super::Problem;
use super::access::Access;
use super::actor::{Actor, Least, Peer, Who};
use super::http::{harden, misdirected};
use super::jobs::Registry;
use super::session::{looks, of_elsewhere, sent, with_csrf};
use super::ways::Table;
use crate::audit::{Entry, noting};
use crate::moment::Moment;
use crate::people::Role;
use crate::people::token::{TokenSecret, random_hex};

/// By which a request is found again, in the audit log and in the log of the node.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// What the guard looks at.
#[derive(Clone)]
pub(super) struct Guard {
    pub access: Access,
    pub table: Table,
    pub jobs: Registry,
}

/// Lets in who may, as an [`Actor`] that handlers can ask for; what changes something is entered in the audit log.
pub(super) async fn guard(State(guard): State<Guard>, request: Request, next: Next) -> Response {
    let id = random_hex::<8>().unwrap_or_default();
    let peer = request.extensions().get::<Peer>().copied();
    let mut response = admit(&guard, peer, &id, request, next).await;
    harden(peer, &mut response);
    if let Ok(id) = HeaderValue::try_from(id) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response
}

async fn admit(guard: &Guard, peer: Option<Peer>, id: &str, request: Request, next: Next) -> Response {
    let actor = match actor(&guard.access, peer, request.headers(), Moment::now()) {
        Ok(actor) => actor,
        Err(problem) => return refused(peer, problem),
    };
    let path = request.extensions().get::<MatchedPath>().cloned();
    let least = path.and_then(|path| guard.table.least(request.method(), path.as_str()));
    // Where no handler is, the answer is that there is none, whoever asks.
    let Some(least) = least else { return next.run(request).await };
    let (request, named) = named(request).await;
    let refusal = least.refusal(&actor, named.as_deref());
    let looks = looks(request.method());
    let (mut request, refusal) = match refusal {
        None if !looks => of_this_node(&actor, least, request).await,
        refusal => (request, refusal),
    };
    // What nobody was not let do is not kept: whoever reaches the node could fill the log.
    let kept = !looks && (refusal.is_none() || actor.who != Who::Nobody);
    let is_nobody = actor.who == Who::Nobody;
    let entry = kept.then(|| begun(&actor, id, &request));
    request.extensions_mut().insert(actor);
    let work = async move {
        match refusal {
            Some(problem) => refused(peer, problem),
            None => next.run(request).await,
        }
    };
    match entry {
        Some(entry) => audited(guard, is_nobody, entry, work).await,
        None => work.await,
    }
}

/// Whether a change was asked for by who came in, and not by a page of elsewhere through his browser.
async fn of_this_node(actor: &Actor, least: Least, request: Request) -> (Request, Option<Problem>) {
    let problem = match &actor.who {
        Who::Local { .. } | Who::Token { .. } => None,
        Who::Nobody | Who::Session { .. } => of_elsewhere(actor.from, request.headers()),
    };
    match (problem, &actor.who) {
        // Who comes in anew has lost what went with the session before.
        (None, Who::Session { csrf, .. }) if least != Least::Anybody => with_csrf(request, csrf).await,
        (problem, _) => (request, problem),
    }
}

/// The user that the path names.
async fn named(request: Request) -> (Request, Option<String>) {
    let (mut parts, body) = request.into_parts();
    let names = RawPathParams::from_request_parts(&mut parts, &()).await;
    let user = names.ok().and_then(|names| {
        let named = names.iter().find(|(name, _)| *name == "user");
        named.map(|(_, user)| user.to_owned())
    });
    (Request::from_parts(parts, body), user)
}

/// What is known of a change before it is made.
fn begun(actor: &Actor, id: &str, request: &Request) -> Entry {
    Entry {
        id: 0,
        at: Moment::now(),
        who: actor.to_string(),
        by: actor.by(),
        from: actor.from.to_string(),
        method: request.method().to_string(),
        path: request.uri().path().to_owned(),
        status: 0,
        request: id.to_owned(),
        steps: Vec::new(),
    }
}

/// Makes a change to its end, and enters it before it is answered, whether or not who asked for it still waits.
async fn audited(
    guard: &Guard,
    is_nobody: bool,
    entry: Entry,
    work: impl Future<Output = Response> + Send + 'static,
) -> Response {
    let access = guard.access.clone();
    if let Err(problem) = access.ready().await {
        return problem.into_response();
    }
    let job = guard.jobs.begin(format!("{} {}", entry.method, entry.path), entry.at);
    let made = tokio::spawn(async move {
        let (response, steps) = noting(work).await;
        let status = response.status();
        let refused = format!("refused with {status}: whoever asked was told why");
        job.end((!status.is_success()).then_some(refused), Moment::now());
        // Whoever tries to come in without a name that there is could fill the log.
        if is_nobody && steps.is_empty() {
            return response;
        }
        let entry = Entry { at: Moment::now(), status: response.status().as_u16(), steps, ..entry };
        match access.enter(entry).await {
            Ok(()) => response,
            Err(problem) => problem.into_response(),
        }
    });
    made.await.unwrap_or_else(|_| Problem::late("the change was not made to its end").into_response())
}

fn refused(peer: Option<Peer>, problem: Problem) -> Response {
    match peer {
        Some(Peer::Local { .. }) | None => {
            tracing::warn!("refused on the socket of the control API: {problem}");
        }
        // Anybody can ask, and the log is not his.
        Some(peer @ Peer::Remote { .. }) => tracing::debug!("refused {peer}: {problem}"),
    }
    let asks = problem.status == StatusCode::UNAUTHORIZED.as_u16();
    let mut response = problem.into_response();
    if asks {
        let how = HeaderValue::from_static("Bearer realm=\"fels\"");
        response.headers_mut().insert(header::WWW_AUTHENTICATE, how);
    }
    response
}

/// Who asks. A connection that nobody may have, and a token that is not good, are refused whatever was asked for.
fn actor(access: &Access, peer: Option<Peer>, headers: &HeaderMap, now: Moment) -> Result<Actor, Problem> {
    let from = peer.ok_or_else(|| Problem::forbidden("nobody knows who you are"))?;
    if let Peer::Local { uid } = from
        && let Some(problem) = foreign(uid, access.me())
    {
        return Err(problem);
    }
    if let Some(problem) = misdirected(from, headers) {
        return Err(problem);
    }
    if let Some(sent) = headers.get(header::AUTHORIZATION) {
        return bearer(access, from, sent, now);
    }
    let session = sent(from, headers).and_then(|secret| {
        let session = access.session(&secret, now)?;
        let role = access.people().user(&session.user)?.role;
        let (expires, csrf) = (session.ends(), secret.csrf());
        Some(Actor { who: Who::Session { user: session.user, csrf, expires }, from, role: Some(role) })
    });
    if let Some(actor) = session {
        return Ok(actor);
    }
    Ok(match from {
        Peer::Local { uid } => Actor { who: Who::Local { uid }, from, role: Some(Role::Admin) },
        Peer::Remote { is_loopback, .. } => {
            let looks = is_loopback && access.people().users().is_empty();
            Actor { who: Who::Nobody, from, role: looks.then_some(Role::Viewer) }
        }
    })
}

/// Who comes with a token: also on the socket he may no more than the token.
fn bearer(access: &Access, from: Peer, sent: &HeaderValue, now: Moment) -> Result<Actor, Problem> {
    let secret = sent.to_str().ok().and_then(|sent| {
        let (scheme, token) = sent.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| TokenSecret::read(token.trim()))?
    });
    let people = access.people();
    let Some(token) = secret.and_then(|secret| people.bearer(&secret, now)) else {
        return Err(Problem::unauthorized(
            "this token is not good: it was revoked, has expired, or never was one",
        )
        .hint("`fels token list` shows those that are, `fels token create` makes another one"));
    };
    access.note_use(token, now);
    let who = Who::Token { user: token.user.clone(), name: token.name.clone(), expires: token.expires };
    Ok(Actor { who, from, role: Some(token.role) })
}

/// Why somebody may not use the socket of the node of user `me`.
fn foreign(uid: u32, me: u32) -> Option<Problem> {
    if uid == me || uid == 0 {
        return None;
    }
    Some(
        Problem::forbidden(format!("this node belongs to user {me}, you are user {uid}"))
            .hint("run fels as that user, or as root"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_of_the_node_and_root_are_let_in_and_nobody_else() {
        assert_eq!(foreign(1000, 1000), None);
        assert_eq!(foreign(0, 1000), None);
        let refused = foreign(1001, 1000).unwrap();
        assert_eq!(
            (refused.status, refused.detail.as_str()),
            (403, "this node belongs to user 1000, you are user 1001")
        );
        assert!(refused.hint.is_some());
        assert_eq!(foreign(1000, 0).unwrap().status, 403, "a node of root is for root alone");
    }
}
