//! Alerts: what has crossed a limit and what people do about it, which limits hold, and who is told.

mod forms;

use std::collections::BTreeSet;

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use monitor::limit::rules::source;
use monitor::limit::words::figure;

use super::asker::{Asker, segment};
use super::frame::{Frame, Place};
use super::overview::capital;
use super::parts::{Kind, State as Shape, about, count};
use super::{House, page};
use crate::api::Problem;
use crate::api::alerts::{Alert, AlertList};
use crate::api::limits::{Limit, Limits};
use crate::moment::Moment;

pub(super) fn routes() -> Router<House> {
    Router::new().route("/alerts", get(show)).merge(forms::routes())
}

/// Where an alert stands on its page.
pub(super) fn address(id: &str) -> String {
    format!("/alerts#alert-{}", segment(id))
}

#[derive(Template)]
#[template(path = "alerts.html")]
struct Page {
    frame: Frame,
    state: Shape,
    sentence: String,
    bad: Vec<Shown>,
    well: Vec<Shown>,
    well_title: String,
    limits: Vec<Bound>,
    limits_title: String,
    receivers: Vec<String>,
    waiting: String,
}

/// An alert as it is shown.
struct Shown {
    id: String,
    /// Where its forms are.
    path: String,
    state: Shape,
    sentence: String,
    hint: String,
    since: Moment,
    lasts: String,
    value: Option<String>,
    seen_by: Option<String>,
    muted_until: Option<Moment>,
}

/// A limit as it is shown.
struct Bound {
    name: String,
    about: String,
    warning: String,
    critical: String,
    lasts: String,
    told: String,
    again: String,
}

/// Shows what is the matter.
async fn show(State(house): State<House>, asker: Asker) -> Result<Response, Problem> {
    let frame = Frame::new(&house, &asker, Place::Alerts, "Alerts").await?.live(&asker);
    let told: AlertList = asker.get("/v1/alerts").await?;
    let Limits { limits } = asker.get("/v1/alerts/limits").await?;
    page(&Page::of(frame, &told, &limits, Moment::now()))
}

impl Page {
    fn of(frame: Frame, told: &AlertList, limits: &[Limit], now: Moment) -> Page {
        let is_bad = |alert: &&Alert| matches!(alert.level.as_str(), "warning" | "critical");
        let shown = |alert: &Alert| Shown::of(alert, limits, now);
        let mut bad: Vec<_> = told.alerts.iter().filter(is_bad).map(shown).collect();
        // Those of which nobody wants to hear come last; the worst stay first.
        bad.sort_by_key(|alert| alert.muted_until.is_some());
        let well: Vec<_> = told.alerts.iter().filter(|alert| !is_bad(alert)).map(shown).collect();
        let (state, sentence) = verdict(&bad);
        let unknown = well.iter().filter(|alert| alert.state.kind == Kind::Off).count();
        let well_title = match unknown {
            0 => format!("{} well", are(well.len())),
            unknown => format!("{} well, and nobody knows about {unknown}", are(well.len() - unknown)),
        };
        Page {
            frame,
            state,
            sentence,
            bad,
            well,
            well_title,
            limits: limits.iter().map(Bound::of).collect(),
            limits_title: format!("Show {}", count(limits.len(), "limit")),
            receivers: limits
                .iter()
                .filter(|limit| limit.enabled)
                .flat_map(|limit| &limit.told)
                .collect::<BTreeSet<_>>()
                .into_iter()
                .cloned()
                .collect(),
            waiting: match told.waiting {
                0 => "No message waits for being sent.".to_owned(),
                1 => "1 message waits for being sent.".to_owned(),
                waiting => format!("{waiting} messages wait for being sent."),
            },
        }
    }
}

fn are(count: usize) -> String {
    if count == 1 { "1 is".to_owned() } else { format!("{count} are") }
}

/// All of them at one look.
fn verdict(bad: &[Shown]) -> (Shape, String) {
    let of = |kind: Kind| {
        bad.iter().filter(|alert| alert.muted_until.is_none() && alert.state.kind == kind).count()
    };
    let muted = bad.iter().filter(|alert| alert.muted_until.is_some()).count();
    let (critical, warning) = (of(Kind::Critical), of(Kind::Warning));
    let state = match (critical, warning) {
        (0, 0) if muted > 0 => Shape::new(Kind::Off, "muted"),
        (0, 0) => Shape::new(Kind::Ok, "well"),
        (0, _) => Shape::new(Kind::Warning, "warning"),
        _ => Shape::new(Kind::Critical, "critical"),
    };
    let kinds = [(critical, "critical"), (warning, "to be seen to"), (muted, "muted")];
    let kinds: Vec<_> = kinds.into_iter().filter(|(count, _)| *count > 0).collect();
    let verb = |count: usize| if count == 1 { "is" } else { "are" };
    let sentence = match kinds[..] {
        [] => "No limit is crossed".to_owned(),
        [(all, what)] => format!("{} {} {what}", count(all, "alert"), verb(all)),
        _ => {
            let words = kinds.iter().map(|(some, what)| format!("{some} {} {what}", verb(*some)));
            format!("{}: {}", count(bad.len(), "alert"), words.collect::<Vec<_>>().join(", "))
        }
    };
    (state, sentence)
}

fn shape(level: &str) -> Shape {
    match level {
        "ok" => Shape::new(Kind::Ok, "ok"),
        "warning" => Shape::new(Kind::Warning, "warning"),
        "critical" => Shape::new(Kind::Critical, "critical"),
        _ => Shape::new(Kind::Off, "unknown"),
    }
}

impl Shown {
    fn of(alert: &Alert, limits: &[Limit], now: Moment) -> Shown {
        let limit = limits.iter().find(|limit| limit.name == alert.limit);
        Shown {
            id: alert.id.clone(),
            path: format!("/alerts/{}", segment(&alert.id)),
            state: shape(&alert.level),
            sentence: capital(&alert.sentence),
            hint: alert.hint.clone(),
            since: alert.since,
            lasts: about(now.since(alert.since)),
            value: alert.value.and_then(|value| in_words(limit?, value)),
            seen_by: alert.acknowledged_by.clone(),
            muted_until: alert.muted_until,
        }
    }
}

/// A figure in the unit of its limit; none of what follows from several metrics, of which the sentence says more.
fn in_words(limit: &Limit, value: f64) -> Option<String> {
    let source = source(limit.metric.as_ref()?).ok()?;
    let text = figure(source.family(), value);
    let (number, unit) = text.split_once(' ').unwrap_or((&text, ""));
    // `57.000` says no more than `57`.
    let short =
        if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number };
    Some(format!("{short} {unit}").trim_end().to_owned())
}

impl Bound {
    fn of(limit: &Limit) -> Bound {
        let side = if limit.when == "above" { "from" } else { "down to" };
        let bound = |value: Option<f64>| match value {
            Some(value) => format!("{side} {}", in_words(limit, value).unwrap_or_else(|| value.to_string())),
            None => "never".to_owned(),
        };
        let labels: Vec<_> = limit.labels.iter().map(|(label, value)| format!("{label} {value}")).collect();
        let own = || {
            let of = if labels.is_empty() { String::new() } else { format!(" of {}", labels.join(", ")) };
            format!("{}{of}", limit.metric.as_deref().unwrap_or("A figure"))
        };
        let lasts = |seconds: u64| if seconds == 0 { "at once".to_owned() } else { about(seconds) };
        Bound {
            name: limit.name.clone(),
            about: limit.about.clone().unwrap_or_else(own),
            warning: if limit.enabled { bound(limit.warning) } else { "not looked at".to_owned() },
            critical: if limit.enabled { bound(limit.critical) } else { "not looked at".to_owned() },
            lasts: lasts(limit.raise_after_s),
            told: if limit.told.is_empty() { "nobody".to_owned() } else { limit.told.join(", ") },
            again: limit
                .remind_s
                .map_or_else(|| "never".to_owned(), |every| format!("every {}", about(every))),
        }
    }
}

#[cfg(test)]
mod tests;
