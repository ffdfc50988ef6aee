//! Events: what happened to the node, the newest first.

use askama::Template;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::response::Response;
use serde::Deserialize;

use super::asker::{Asker, segment};
use super::frame::{Frame, Place};
use super::parts::{Kind, State as Shape};
use super::{House, alerts, page};
use crate::api::{Happened, Problem};
use crate::events::Record;

/// Events of a page.
const ROWS: usize = 100;
/// Characters of what is looked for, at most.
const MAX_TEXT: usize = 64;
/// How bad events are at least: what is sent, and how it is shown.
const LEVELS: [(&str, &str); 3] =
    [("", "everything"), ("warning", "warning and critical"), ("critical", "critical alone")];

/// Which events somebody wants to see.
#[derive(Default, Deserialize)]
pub(super) struct Asked {
    before: Option<u64>,
    #[serde(default)]
    severity: String,
    #[serde(default)]
    text: String,
}

impl Asked {
    /// Within bounds, whatever was sent.
    fn plain(self) -> Asked {
        let known = LEVELS.iter().any(|(level, _)| *level == self.severity);
        Asked {
            before: self.before,
            severity: if known { self.severity } else { String::new() },
            text: self.text.trim().chars().take(MAX_TEXT).collect(),
        }
    }

    fn is_filtered(&self) -> bool {
        !self.severity.is_empty() || !self.text.is_empty()
    }

    /// What stands behind the `?` for these events before one.
    fn query(&self, before: Option<u64>) -> String {
        let before = before.map(|id| format!("before={id}"));
        let severity =
            Some(&self.severity).filter(|text| !text.is_empty()).map(|text| format!("severity={text}"));
        let text =
            Some(&self.text).filter(|text| !text.is_empty()).map(|text| format!("text={}", segment(text)));
        before.into_iter().chain(severity).chain(text).collect::<Vec<_>>().join("&")
    }

    /// The page of these events.
    fn address(&self, before: Option<u64>) -> String {
        let query = self.query(before);
        if query.is_empty() { "/events".to_owned() } else { format!("/events?{query}") }
    }
}

#[derive(Template)]
#[template(path = "events.html")]
struct Log {
    frame: Frame,
    events: Vec<Row>,
    asked: Asked,
    levels: [(&'static str, &'static str); 3],
    /// The page of those before these.
    older: Option<String>,
    /// The page of the newest ones, from that of older ones.
    newest: Option<String>,
}

/// An event as it is shown.
struct Row {
    at: String,
    name: String,
    state: Shape,
    sentence: String,
    /// Pages of what it is about.
    things: Vec<(String, String)>,
}

/// Lists what happened.
pub(super) async fn list(
    State(house): State<House>,
    asker: Asker,
    asked: Result<Query<Asked>, QueryRejection>,
) -> Result<Response, Problem> {
    let asked = asked.map(|Query(asked)| asked).unwrap_or_default().plain();
    let told: Happened = asker.get(&format!("/v1/events?limit={ROWS}&{}", asked.query(asked.before))).await?;
    let mut frame = Frame::new(&house, &asker, Place::Events, "Events").await?;
    // What is over changes no more.
    if asked.before.is_none() {
        frame.live = Some(asked.address(None));
    }
    page(&Log::of(frame, asked, told.events))
}

impl Log {
    fn of(frame: Frame, asked: Asked, events: Vec<Record>) -> Log {
        let last = events.last().map(|event| event.id).filter(|id| *id > 1 && events.len() == ROWS);
        Log {
            frame,
            older: last.map(|id| asked.address(Some(id))),
            newest: asked.before.map(|_| asked.address(None)),
            events: events.into_iter().map(row).collect(),
            levels: LEVELS,
            asked,
        }
    }
}

fn row(event: Record) -> Row {
    let state = match event.severity.as_str() {
        "info" => Shape::new(Kind::Info, "info"),
        "critical" => Shape::new(Kind::Critical, "critical"),
        _ => Shape::new(Kind::Warning, "warning"),
    };
    let field = |name: &str| event.fields.get(name).and_then(|value| value.as_str());
    let pool = field("pool").map(|name| (format!("/pools/{}", segment(name)), format!("pool {name}")));
    let volume =
        field("volume").map(|name| (format!("/volumes/{}", segment(name)), format!("volume {name}")));
    let alert = field("alert").map(|id| (alerts::address(id), format!("alert {id}")));
    Row {
        at: event.at.to_string(),
        things: pool.into_iter().chain(volume).chain(alert).collect(),
        name: event.event,
        state,
        sentence: event.sentence,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::moment::Moment;
    use monitor::event::Event;

    fn record(id: u64, event: &Event) -> Record {
        Record::new(id, Moment::from_unix(1_795_207_267), event)
    }

    fn log(asked: Asked, events: Vec<Record>) -> Log {
        Log::of(Frame::bare("Events"), asked.plain(), events)
    }

    #[test]
    fn what_others_have_named_is_text() {
        let hostile = "<script>alert(1)</script>\"><!--live events-->".to_owned();
        let events = [
            Event::VolumeDeleted { volume: hostile.clone() },
            Event::MemberFaulted {
                pool: hostile.clone(),
                slot: 1,
                place: hostile.clone(),
                cause: hostile.clone(),
            },
            Event::LoginRefused { from: hostile.clone() },
            Event::AlertMuted { alert: hostile.clone(), who: hostile.clone(), until: hostile.clone() },
        ];
        let events = events.iter().zip(1..).map(|(event, id)| record(id, event)).collect();
        let asked = Asked { before: Some(3), severity: hostile.clone(), text: hostile };
        let page = log(asked, events).render().unwrap();
        assert!(page.contains("&#60;script&#62;alert(1)"), "{page}");
        assert!(!page.contains("<script>alert"), "{page}");
        assert_eq!(page.matches("<!--live events-->").count(), 1, "a mark of parts is forged");
        assert!(page.contains("href=\"/volumes/%3Cscript%3E"), "{page}");
    }

    #[test]
    fn a_filter_stays_while_one_goes_back() {
        let event = Event::ScrubBegun { pool: "tank".into() };
        let asked = Asked { before: Some(500), severity: "warning".into(), text: " a&b ".into() };
        let full = log(asked, (0..ROWS as u64).map(|number| record(400 - number, &event)).collect());
        assert_eq!(full.older.as_deref(), Some("/events?before=301&severity=warning&text=a%26b"));
        assert_eq!(full.newest.as_deref(), Some("/events?severity=warning&text=a%26b"));
        let few = log(Asked { severity: "much".into(), ..Asked::default() }, vec![record(7, &event)]);
        assert_eq!((few.older, few.newest, few.asked.severity.as_str()), (None, None, ""));
    }
}
