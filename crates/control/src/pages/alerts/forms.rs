//! What people do about alerts: see to one, hear nothing of one for a while, try whether messages arrive.

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::routing::get;
use serde_json::{Value, json};

use super::super::asker::{Asker, segment};
use super::super::form::{Deed, Field, Sent, Sheet, Wrong, blank, carry_out};
use super::super::frame::{Frame, Place};
use super::super::overview::capital;
use super::super::{House, nowhere};
use crate::api::Problem;
use crate::api::alerts::{AlertList, Receiver, Tested};

/// For how long somebody may want to hear nothing: seconds, and as it is shown.
const TIMES: [(&str, &str); 6] = [
    ("1800", "half an hour"),
    ("3600", "an hour"),
    ("28800", "8 hours"),
    ("86400", "a day"),
    ("604800", "a week"),
    ("2678400", "a month"),
];

pub(super) fn routes() -> Router<House> {
    Router::new()
        .route("/alerts/{alert}/{deed}", get(ask).post(act))
        .route("/alerts/test", get(ask_test).post(test))
}

/// A form of something that is done about an alert, and what it comes to.
struct Act {
    title: String,
    sheet: Sheet,
    wish: fn(&Sent) -> Result<Value, Wrong>,
}

#[expect(clippy::unnecessary_wraps, reason = "one of several of this shape")]
fn nothing(_: &Sent) -> Result<Value, Wrong> {
    Ok(json!({}))
}

fn how_long(sent: &Sent) -> Result<Value, Wrong> {
    let seconds = sent.get("for_s").parse::<u64>();
    seconds
        .map(|seconds| json!({ "for_s": seconds }))
        .map_err(|_| vec![("for_s", "choose one of these times".to_owned())])
}

/// What is done about an alert; none of what cannot be.
fn deed(asker: &Asker, id: &str, sentence: &str, deed: &str) -> Option<Act> {
    let sheet = |button: &str, more: &str| {
        Sheet::new(asker, "/alerts", button).at_once().lead(format!("{}. {more}", capital(sentence)))
    };
    let (title, sheet, wish): (_, _, fn(&Sent) -> _) = match deed {
        "ack" => {
            let more =
                "Who sees to it says so: nobody is reminded of it any more, until it is worse or well.";
            (format!("See to {id}"), sheet("I see to it", more), nothing)
        }
        "mute" => {
            let times = TIMES.map(|(value, shown)| (value.to_owned(), shown.to_owned()));
            let more = "It stays on the page of alerts, and is on the overview again when the time is over.";
            let times = Field::one("for_s", "For how long", times.into()).required().value("3600");
            (format!("Mute {id}"), sheet("Mute it", more).field(times), how_long)
        }
        "unmute" => {
            let more = "Who is told of it hears how it is now.";
            (format!("Unmute {id}"), sheet("Unmute it", more), nothing)
        }
        _ => return None,
    };
    Some(Act { title, sheet, wish })
}

async fn prepare(house: &House, asker: &Asker, id: &str, what: &str) -> Result<(Frame, Act), Problem> {
    let frame = Frame::new(house, asker, Place::Alerts, "Alerts").await?;
    let told: AlertList = asker.get("/v1/alerts").await?;
    let alert = told.alerts.iter().find(|alert| alert.id == id);
    let act = alert.and_then(|alert| deed(asker, id, &alert.sentence, what)).ok_or_else(nowhere)?;
    Ok((Frame { title: act.title.clone(), ..frame }, act))
}

async fn ask(
    State(house): State<House>,
    asker: Asker,
    Path((id, what)): Path<(String, String)>,
) -> Result<Response, Problem> {
    let (frame, act) = prepare(&house, &asker, &id, &what).await?;
    frame.needs_operator()?;
    blank(frame, act.sheet)
}

async fn act(
    State(house): State<House>,
    asker: Asker,
    Path((id, what)): Path<(String, String)>,
    sent: Sent,
) -> Result<Response, Problem> {
    let (frame, act) = prepare(&house, &asker, &id, &what).await?;
    let path = format!("/v1/alerts/{}/{what}", segment(&id));
    let deed = (act.wish)(&sent).map(|wish| Deed::new(Method::POST, path, wish, "/alerts"));
    carry_out(&house, &asker, frame, act.sheet, &sent, deed).await
}

async fn ask_test(State(house): State<House>, asker: Asker) -> Result<Response, Problem> {
    let frame = Frame::new(&house, &asker, Place::Alerts, "Send a test message").await?;
    frame.needs_operator()?;
    let lead = "Everybody whom the configuration names gets a message that says that it is a test. This takes as long as their servers take.";
    blank(frame, Sheet::new(&asker, "/alerts", "Send it").at_once().lead(lead))
}

async fn test(State(house): State<House>, asker: Asker, sent: Sent) -> Result<Response, Problem> {
    let asker = asker.with_csrf(sent.get("csrf"));
    let Tested { receivers } = asker.send(Method::POST, "/v1/alerts/test", &json!({})).await?;
    let said: Vec<_> = receivers.iter().map(sentence).collect();
    if receivers.iter().all(|receiver| receiver.arrived) {
        return Ok(Redirect::to(&house.notes.after("/alerts", said)).into_response());
    }
    Err(Problem {
        kind: "urn:fels:undelivered".to_owned(),
        title: "Not everybody could be told".to_owned(),
        status: StatusCode::BAD_GATEWAY.as_u16(),
        detail: said.join("; "),
        hint: Some(
            "see [mail] and [[alert]] in the configuration, and the log of the mail server".to_owned(),
        ),
        fields: Box::default(),
    })
}

fn sentence(receiver: &Receiver) -> String {
    match &receiver.error {
        None => format!("{} has taken the message", receiver.to),
        Some(why) => format!("{} could not be told: {why}", receiver.to),
    }
}
