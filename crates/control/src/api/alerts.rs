//! What has crossed a limit, and what people do about it.

use axum::extract::State;
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::people::model::Done;
use super::wish::{Body, Names};
use super::{Actor, Context, Problem};
use crate::alerts::{Alerts, Entry, MAX_MUTE_S};
use crate::audit::note;
use crate::moment::Moment;

/// How long something is muted without a wish: an hour.
const USUAL_MUTE_S: u64 = 3600;

/// Everything that is held against a limit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AlertList {
    /// The worst first, then by id.
    pub alerts: Vec<Alert>,
    /// Messages that wait for being sent.
    pub waiting: usize,
}

/// Something that is held against a limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Alert {
    /// By which it is known: the limit, and what it is of, such as `pool-degraded:tank`.
    pub id: String,
    /// The limit.
    pub limit: String,
    /// How it is: `unknown`, `ok`, `warning` or `critical`.
    pub level: String,
    /// Since when.
    #[schema(value_type = String, format = DateTime)]
    pub since: Moment,
    /// What is the matter: a sentence.
    pub sentence: String,
    /// What can be done about it.
    pub hint: String,
    /// The figure, in the unit of its metric.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// Who sees to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acknowledged_by: Option<String>,
    /// Until when nobody is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub muted_until: Option<Moment>,
}

/// How long nobody is to be told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MuteWish {
    /// Seconds, from 1 to 2678400 (a month); an hour where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 2_678_400)]
    pub for_s: Option<u64>,
}

/// Nothing need be said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NoWish {}

/// Who was told by a test.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Tested {
    /// Everybody whom the configuration names.
    pub receivers: Vec<Receiver>,
}

/// Somebody who was told, or could not be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Receiver {
    /// A mail address, or `webhook of NAME`.
    pub to: String,
    /// Whether it has taken the message.
    pub arrived: bool,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

fn alert((id, entry): (String, Entry)) -> Alert {
    Alert {
        id,
        limit: entry.rule,
        level: entry.level.name().to_owned(),
        since: entry.since,
        sentence: entry.sentence,
        hint: entry.hint,
        value: entry.value.filter(|value| value.is_finite()),
        acknowledged_by: entry.acknowledged.map(|seen| seen.who),
        muted_until: entry.muted.map(|muted| muted.until),
    }
}

/// Lists everything that is held against a limit, the worst first.
#[utoipa::path(get, path = "/v1/alerts", tag = "alerts", responses((status = 200, body = AlertList)))]
pub(super) async fn list(State(alerts): State<Alerts>) -> Json<AlertList> {
    let mut listed = alerts.list();
    listed.sort_by_key(|(_, entry)| std::cmp::Reverse(entry.level));
    Json(AlertList { alerts: listed.into_iter().map(alert).collect(), waiting: alerts.waiting() })
}

/// Sends a message to everybody whom the configuration names, and says whether it has arrived.
#[utoipa::path(
    post, path = "/v1/alerts/test", tag = "alerts", request_body = NoWish,
    responses(
        (status = 200, body = Tested),
        (status = 400, body = Problem, description = "The request is not understood."),
        (status = 409, body = Problem, description = "The configuration names nobody."),
        (status = 413, body = Problem, description = "The request is too large."),
        (status = 503, body = Problem, description = "It takes too long.")
    )
)]
pub(super) async fn test(
    State(context): State<Context>,
    State(alerts): State<Alerts>,
    Body(NoWish {}): Body<NoWish>,
) -> Result<Json<Tested>, Problem> {
    let state = context.administration().state();
    let tried = alerts.test(&state.running).await;
    if tried.is_empty() {
        return Err(Problem::refused("nobody is told of alerts")
            .hint("add [[alert]] with name = \"default\" and mail = [\"...\"] or webhook = \"...\" to the configuration, and [mail]"));
    }
    let receiver = |tried: crate::alerts::Tried| Receiver {
        to: tried.to,
        arrived: tried.error.is_none(),
        error: tried.error,
    };
    Ok(Json(Tested { receivers: tried.into_iter().map(receiver).collect() }))
}

/// Something was done; the audit log says the same.
fn done(step: String) -> Json<Done> {
    note(step.clone());
    Json(Done { steps: vec![step] })
}

/// It is so until the next start, and perhaps for longer: who asked has to know that nobody can promise it.
#[expect(clippy::needless_pass_by_value, reason = "map_err gives it away")]
fn not_kept(error: std::io::Error) -> Problem {
    Problem::unavailable(format!("that cannot be kept now: {error}"))
        .hint("look at the data directory of the node: it is tried again with the next look")
}

fn missing(id: &str) -> Problem {
    let shown: String = id.chars().take(64).collect();
    Problem::not_found(format!("there is no alert {shown}")).hint("`fels alert list --all` shows all of them")
}

/// Says that somebody sees to an alert: nobody is reminded of it any more.
#[utoipa::path(
    post, path = "/v1/alerts/{alert}/ack", tag = "alerts", params(("alert" = String, Path, description = "Its id.")),
    request_body = NoWish,
    responses(
        (status = 200, body = Done),
        (status = 400, body = Problem, description = "The request is not understood."),
        (status = 404, body = Problem, description = "There is no such alert."),
        (status = 413, body = Problem, description = "The request is too large."),
        (status = 503, body = Problem, description = "It cannot be kept.")
    )
)]
pub(super) async fn acknowledge(
    State(alerts): State<Alerts>,
    Extension(actor): Extension<Actor>,
    Names(id): Names<String>,
    Body(NoWish {}): Body<NoWish>,
) -> Result<Json<Done>, Problem> {
    let who = actor.to_string();
    if alerts.acknowledge(&id, &who).await.map_err(not_kept)? {
        return Ok(done(format!("{who} sees to {id}: nobody is reminded of it any more")));
    }
    Err(missing(&id))
}

/// Tells nobody of an alert for a while; it is listed all the same.
#[utoipa::path(
    post, path = "/v1/alerts/{alert}/mute", tag = "alerts", params(("alert" = String, Path, description = "Its id.")),
    request_body = MuteWish,
    responses(
        (status = 200, body = Done),
        (status = 400, body = Problem, description = "The request is not understood."),
        (status = 404, body = Problem, description = "There is no such alert."),
        (status = 413, body = Problem, description = "The request is too large."),
        (status = 503, body = Problem, description = "It cannot be kept.")
    )
)]
pub(super) async fn mute(
    State(alerts): State<Alerts>,
    Extension(actor): Extension<Actor>,
    Names(id): Names<String>,
    Body(wish): Body<MuteWish>,
) -> Result<Json<Done>, Problem> {
    let seconds = wish.for_s.unwrap_or(USUAL_MUTE_S);
    if !(1..=MAX_MUTE_S).contains(&seconds) {
        return Err(Problem::bad_request("that is no time to be silent for").hint(format!(
            "`for_s` takes 1 to {MAX_MUTE_S} seconds; `enabled = false` in its [[alert]] is for ever"
        )));
    }
    let until = Moment::now().after(seconds);
    if alerts.mute(&id, &actor.to_string(), until).await.map_err(not_kept)? {
        return Ok(done(format!("nobody is told of {id} until {until}")));
    }
    Err(missing(&id))
}

/// Lets an alert be told again.
#[utoipa::path(
    post, path = "/v1/alerts/{alert}/unmute", tag = "alerts", params(("alert" = String, Path, description = "Its id.")),
    request_body = NoWish,
    responses(
        (status = 200, body = Done),
        (status = 400, body = Problem, description = "The request is not understood."),
        (status = 404, body = Problem, description = "There is no such alert."),
        (status = 413, body = Problem, description = "The request is too large."),
        (status = 503, body = Problem, description = "It cannot be kept.")
    )
)]
pub(super) async fn unmute(
    State(alerts): State<Alerts>,
    Extension(actor): Extension<Actor>,
    Names(id): Names<String>,
    Body(NoWish {}): Body<NoWish>,
) -> Result<Json<Done>, Problem> {
    if alerts.unmute(&id, &actor.to_string()).await.map_err(not_kept)? {
        return Ok(done(format!("{id} is told again")));
    }
    Err(missing(&id))
}
