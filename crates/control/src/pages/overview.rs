//! The overview: one look says whether all is well, and if not what to do next.

use askama::Template;
use axum::extract::State;
use axum::response::Response;

use super::asker::Asker;
use super::frame::{Frame, Place};
use super::parts::{Bar, State as Shape, count};
use super::pools::Drawn;
use super::{House, alerts, page};
use crate::api::Problem;
use crate::api::alerts::AlertList;
use crate::api::model::{Finding, Health, Initiators, Job, JobKind, Jobs, Pools, VolumeState, Volumes};

#[derive(Template)]
#[template(path = "overview.html")]
struct Overview {
    frame: Frame,
    state: Shape,
    sentence: String,
    findings: Vec<Found>,
    pools: Vec<Drawn>,
    jobs: Vec<(String, Bar)>,
    tiles: Vec<Tile>,
    /// Nothing is served yet.
    is_empty: bool,
}

/// Something to be seen to.
struct Found {
    state: Shape,
    sentence: String,
    hint: String,
    /// Where that is done.
    page: Option<(String, String)>,
}

/// A figure that leads to its page.
struct Tile {
    path: &'static str,
    name: &'static str,
    figure: String,
    text: String,
}

/// Shows how the node is.
pub(super) async fn show(State(house): State<House>, asker: Asker) -> Result<Response, Problem> {
    let frame = Frame::new(&house, &asker, Place::Overview, "Overview").await?.live(&asker);
    let pools: Pools = asker.get("/v1/pools").await?;
    let volumes: Volumes = asker.get("/v1/volumes").await?;
    let initiators: Initiators = asker.get("/v1/initiators").await?;
    let jobs: Jobs = asker.get("/v1/jobs").await?;
    let told: AlertList = asker.get("/v1/alerts").await?;
    let Some(status) = frame.status.clone() else { return Err(super::broken()) };
    let mut tiles = tiles(&pools, &volumes, &initiators, status.portals);
    tiles.push(alerts_tile(&told));
    let sentence = match (status.state, volumes.volumes.is_empty()) {
        (Health::Ok, true) => "All is well, and no volume is served yet".to_owned(),
        _ => capital(&status.sentence),
    };
    page(&Overview {
        state: Shape::of_health(status.state),
        sentence,
        findings: status.findings.into_iter().map(found).collect(),
        is_empty: volumes.volumes.is_empty(),
        pools: pools.pools.iter().map(Drawn::of).collect(),
        jobs: jobs.jobs.iter().map(job).collect(),
        tiles,
        frame,
    })
}

fn found(finding: Finding) -> Found {
    let page = match (finding.pool, finding.alert, finding.volume) {
        (Some(pool), ..) => Some((format!("/pools/{pool}"), format!("Open pool {pool}"))),
        (_, Some(id), _) => Some((alerts::address(&id), format!("Open alert {id}"))),
        (.., Some(volume)) => Some((format!("/volumes/{volume}"), format!("Open volume {volume}"))),
        (None, None, None) => None,
    };
    Found {
        state: Shape::of_health(finding.state),
        sentence: capital(&finding.sentence),
        hint: finding.hint,
        page,
    }
}

fn job(job: &Job) -> (String, Bar) {
    let what = match (job.kind, job.slot) {
        (JobKind::Rebuild, Some(slot)) => format!("Rebuilding member {slot} of pool {}", job.pool),
        (JobKind::Rebuild, None) => format!("Rebuilding pool {}", job.pool),
        (JobKind::Scrub, _) => format!("Scrubbing pool {}", job.pool),
        (JobKind::Destroy, _) => format!("Destroying volume {} on pool {}", job.volume, job.pool),
        (JobKind::Change, _) => job.title.clone(),
    };
    let bar = Bar::done(what.clone(), &job.progress);
    (what, bar)
}

fn tiles(pools: &Pools, volumes: &Volumes, initiators: &Initiators, portals: usize) -> Vec<Tile> {
    let serving = volumes.volumes.iter().filter(|volume| volume.state == VolumeState::Serving).count();
    let sessions: usize = initiators.initiators.iter().map(|one| one.sessions.len()).sum();
    let members: usize = pools.pools.iter().map(|pool| pool.members.len()).sum();
    let others = volumes.volumes.len() - serving;
    let tile = |path, name, figure: usize, text| Tile { path, name, figure: figure.to_string(), text };
    vec![
        tile(
            "/volumes",
            "Volumes served",
            serving,
            if others > 0 { format!("{others} not served") } else { String::new() },
        ),
        tile("/pools", "Pools", pools.pools.len(), count(members, "member")),
        tile("/initiators", "Initiators", initiators.initiators.len(), count(sessions, "session")),
        tile("/settings", "Portals", portals, String::new()),
    ]
}

fn alerts_tile(told: &AlertList) -> Tile {
    let is_bad = |alert: &&crate::api::alerts::Alert| matches!(alert.level.as_str(), "warning" | "critical");
    let bad: Vec<_> = told.alerts.iter().filter(is_bad).collect();
    let muted = bad.iter().filter(|alert| alert.muted_until.is_some()).count();
    let seen =
        bad.iter().filter(|alert| alert.muted_until.is_none() && alert.acknowledged_by.is_some()).count();
    let words = [(muted, "muted"), (seen, "seen to")].into_iter().filter(|(count, _)| *count > 0);
    let text = words.map(|(count, what)| format!("{count} {what}")).collect::<Vec<_>>().join(", ");
    Tile { path: "/alerts", name: "Alerts", figure: bad.len().to_string(), text }
}

/// A sentence of the API begins without a capital.
pub(super) fn capital(sentence: &str) -> String {
    let mut characters = sentence.chars();
    characters.next().map_or_else(String::new, |first| {
        // Names of pools, volumes and files stay as they are, and so do commands.
        let is_word = sentence
            .split([' ', ':'])
            .next()
            .is_some_and(|word| word != "fels" && word.bytes().all(|byte| byte.is_ascii_lowercase()));
        if is_word { first.to_uppercase().chain(characters).collect() } else { sentence.to_owned() }
    })
}
