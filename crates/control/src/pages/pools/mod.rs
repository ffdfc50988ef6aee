//! Pools: how they are, drawn as they are, and what can be done to them.

mod forms;

use askama::Template;
use axum::Router;
use axum::extract::{Path, State};
use axum::response::Response;
use axum::routing::get;

use super::asker::{Asker, segment};
use super::frame::{Frame, Place};
use super::graphs::{Picture, of_pool};
use super::parts::{Bar, Kind, State as Shape, count, size};
use super::{House, page};
use crate::api::Problem;
use crate::api::model::{Member, MemberState, Pool, Pools, Scrub, Spare};

pub(super) fn routes() -> Router<House> {
    Router::new().route("/pools", get(list)).route("/pools/{pool}", get(one)).merge(forms::routes())
}

/// A pool as it is drawn.
pub(super) struct Drawn {
    pub name: String,
    pub state: Shape,
    pub sentence: String,
    pub raid: String,
    pub room: Bar,
    pub sets: Vec<Vec<Disk>>,
    pub spares: Vec<Waiting>,
    pub members: String,
}

/// A member as it is drawn.
pub(super) struct Disk {
    pub slot: usize,
    pub state: Shape,
    /// The last part of its place.
    pub name: String,
    pub place: String,
    pub role: String,
    pub cause: String,
    pub bar: Option<Bar>,
    pub times: String,
    pub is_out: bool,
}

/// A spare as it is drawn.
pub(super) struct Waiting {
    pub id: String,
    pub state: Shape,
    pub name: String,
    pub place: String,
}

impl Drawn {
    pub fn of(pool: &Pool) -> Drawn {
        let mut sets: Vec<Vec<Disk>> = Vec::new();
        for member in &pool.members {
            while sets.len() <= member.set {
                sets.push(Vec::new());
            }
            sets[member.set].push(disk(pool, member));
        }
        Drawn {
            name: pool.name.clone(),
            state: Shape::of_pool(pool.state),
            sentence: super::overview::capital(&pool.sentence),
            raid: pool.raid.clone(),
            room: Bar::taken(
                format!("Room of pool {}", pool.name),
                pool.size_bytes.saturating_sub(pool.free_bytes),
                pool.size_bytes,
            ),
            sets,
            spares: pool.spares.iter().map(waiting).collect(),
            members: count(pool.members.len(), "member"),
        }
    }
}

fn disk(pool: &Pool, member: &Member) -> Disk {
    let place = member.place.clone().unwrap_or_default();
    let micros = |name: &str, time: Option<u64>| time.map(|time| format!("{name} {time} µs"));
    let times = [micros("reads", member.read_us), micros("writes", member.write_us)];
    Disk {
        slot: member.slot,
        state: Shape::of_member(member.state, member.slow),
        name: last(&place),
        place,
        role: role(pool, member),
        cause: member.cause.clone().unwrap_or_default(),
        bar: member
            .progress
            .filter(|_| member.state == MemberState::Rebuilding)
            .map(|progress| Bar::done(format!("Rebuilding of member {}", member.slot), &progress)),
        times: times.into_iter().flatten().collect::<Vec<_>>().join(", "),
        is_out: member.state == MemberState::Out,
    }
}

/// What a member is for its pool.
fn role(pool: &Pool, member: &Member) -> String {
    match pool.raid.as_str() {
        "raid1" => "copy".to_owned(),
        "raid10" => {
            let first = pool.members.iter().position(|other| other.set == member.set).unwrap_or(0);
            let pair = (member.slot - first.min(member.slot)) / 2;
            format!("copy in pair {pair}")
        }
        "raid5" => "data and parity".to_owned(),
        "raid6" => "data and double parity".to_owned(),
        _ => "data".to_owned(),
    }
}

fn waiting(spare: &Spare) -> Waiting {
    let place = spare.place.clone().unwrap_or_default();
    let state = if spare.place.is_some() {
        Shape::new(Kind::Ok, "spare")
    } else {
        Shape::new(Kind::Warning, "missing")
    };
    Waiting { id: spare.id.clone(), state, name: last(&place), place }
}

/// The last part of a path: what tells disks apart.
fn last(place: &str) -> String {
    place.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or("nobody knows where").to_owned()
}

#[derive(Template)]
#[template(path = "pools.html")]
struct List {
    frame: Frame,
    pools: Vec<Drawn>,
}

async fn list(State(house): State<House>, asker: Asker) -> Result<Response, Problem> {
    let frame = Frame::new(&house, &asker, Place::Pools, "Pools").await?.live(&asker);
    let pools: Pools = asker.get("/v1/pools").await?;
    page(&List { frame, pools: pools.pools.iter().map(Drawn::of).collect() })
}

#[derive(Template)]
#[template(path = "pool.html")]
struct One {
    frame: Frame,
    drawn: Drawn,
    facts: Vec<(&'static str, String)>,
    volumes: Vec<(String, String)>,
    scrub: Option<Bar>,
    scrubbed: String,
    can_spare: bool,
    can_extend: bool,
    pictures: Vec<Picture>,
}

async fn one(
    State(house): State<House>,
    asker: Asker,
    Path(name): Path<String>,
) -> Result<Response, Problem> {
    let pool: Pool = asker.get(&format!("/v1/pools/{}", segment(&name))).await?;
    let frame = Frame::new(&house, &asker, Place::Pools, &format!("Pool {}", pool.name)).await?.live(&asker);
    let progress = Bar::done(format!("Scrub of pool {}", pool.name), &pool.scrub.progress);
    page(&One {
        frame,
        drawn: Drawn::of(&pool),
        facts: facts(&pool),
        pictures: of_pool(&asker, &pool.name).await,
        volumes: pool
            .volumes
            .iter()
            .filter(|volume| volume.destroying.is_none())
            .map(|volume| (volume.name.clone(), size(volume.size_bytes)))
            .collect(),
        scrub: pool.scrub.runs.then_some(progress),
        scrubbed: scrubbed(&pool.scrub),
        can_spare: !["single", "raid0"].contains(&pool.raid.as_str()),
        can_extend: ["raid0", "raid1", "raid10"].contains(&pool.raid.as_str()),
    })
}

fn facts(pool: &Pool) -> Vec<(&'static str, String)> {
    let blocks = &pool.blocks;
    let yes = |is: bool| if is { "every block, verified at every read" } else { "none" }.to_owned();
    vec![
        ("Arrangement", format!("{} of {}", pool.raid, count(pool.members.len(), "member"))),
        ("Unit", size(pool.unit_bytes.into())),
        ("Checksums", yes(pool.integrity)),
        ("Of each member", size(pool.member_bytes)),
        ("Wrong blocks", blocks.wrong.to_string()),
        ("Unreadable blocks", blocks.unreadable.to_string()),
        ("Repaired blocks", blocks.repaired.to_string()),
        ("Lost blocks", blocks.lost.to_string()),
        ("Identity", pool.id.clone()),
    ]
}

fn scrubbed(scrub: &Scrub) -> String {
    if scrub.begun == 0 {
        return "No scrub since the node was started.".to_owned();
    }
    let Scrub { bad, repaired, lost, uneven, .. } = scrub;
    let verb = if scrub.runs { "So far" } else { "The last scrub" };
    format!("{verb}: {bad} blocks bad, {repaired} repaired, {lost} lost, {uneven} uneven rows made even.")
}
