//! Volumes: how they are, how one connects to them, and what can be done to them.

mod forms;

use askama::Template;
use axum::Router;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::response::Response;
use axum::routing::get;
use serde::Deserialize;

use super::asker::{Asker, segment};
use super::frame::{Frame, Place};
use super::graphs::{Picture, of_volume};
use super::parts::{State as Shape, count, size};
use super::{House, page};
use crate::api::Problem;
use crate::api::model::{Initiators, PortalList, Volume, VolumeLimits, Volumes};

/// Rows of a page at most.
const ROWS: usize = 200;

pub(super) fn routes() -> Router<House> {
    Router::new().route("/volumes", get(list)).route("/volumes/{volume}", get(one)).merge(forms::routes())
}

/// A volume as it is shown.
struct Shown {
    name: String,
    alias: String,
    state: Shape,
    note: String,
    size: String,
    place: String,
    pool: Option<String>,
    limits: String,
    is_enabled: bool,
}

fn shown(volume: &Volume) -> Shown {
    let place = volume.place.clone().unwrap_or_default();
    let pool = (volume.backing == "pool").then(|| place.clone());
    Shown {
        name: volume.name.clone(),
        alias: volume.alias.clone().unwrap_or_default(),
        state: Shape::of_volume(volume.state),
        note: volume.note.clone().unwrap_or_default(),
        size: size(volume.size_bytes),
        place: match volume.backing.as_str() {
            "memory" => "main memory: gone when the node ends".to_owned(),
            "null" => "nothing: writes are forgotten".to_owned(),
            "pool" => format!("pool {place}"),
            _ => place,
        },
        pool,
        limits: limits(volume.limits),
        is_enabled: volume.state != crate::api::model::VolumeState::Disabled,
    }
}

fn limits(limits: VolumeLimits) -> String {
    let iops = limits.iops.map(|iops| format!("{iops} requests/s"));
    let rate = limits.bytes_per_s.map(|rate| format!("{}/s", size(rate)));
    let both: Vec<_> = iops.into_iter().chain(rate).collect();
    if both.is_empty() { "none".to_owned() } else { both.join(", ") }
}

#[derive(Default, Deserialize)]
struct Asked {
    #[serde(default)]
    find: String,
}

#[derive(Template)]
#[template(path = "volumes.html")]
struct List {
    frame: Frame,
    volumes: Vec<Shown>,
    find: String,
    all: usize,
    more: usize,
}

async fn list(
    State(house): State<House>,
    asker: Asker,
    asked: Result<Query<Asked>, QueryRejection>,
) -> Result<Response, Problem> {
    let frame = Frame::new(&house, &asker, Place::Volumes, "Volumes").await?;
    let Query(Asked { find }) = asked.unwrap_or(Query(Asked::default()));
    let find: String = find.trim().chars().take(64).collect();
    // What was looked for would be forgotten by a page that changes by itself.
    let frame = if find.is_empty() { frame.live(&asker) } else { frame };
    let volumes: Volumes = asker.get("/v1/volumes").await?;
    let fits = |volume: &&Volume| {
        volume.name.contains(&find) || volume.alias.as_ref().is_some_and(|alias| alias.contains(&find))
    };
    let found: Vec<_> = volumes.volumes.iter().filter(fits).collect();
    page(&List {
        frame,
        all: volumes.volumes.len(),
        more: found.len().saturating_sub(ROWS),
        volumes: found.into_iter().take(ROWS).map(shown).collect(),
        find,
    })
}

/// Somebody who uses a volume.
struct User {
    name: String,
    protocol: String,
    sessions: String,
}

#[derive(Template)]
#[template(path = "volume.html")]
struct One {
    frame: Frame,
    volume: Shown,
    facts: Vec<(&'static str, String)>,
    users: Vec<User>,
    connect: Vec<(String, String)>,
    pictures: Vec<Picture>,
}

async fn one(
    State(house): State<House>,
    asker: Asker,
    Path(name): Path<String>,
) -> Result<Response, Problem> {
    let volume: Volume = asker.get(&format!("/v1/volumes/{}", segment(&name))).await?;
    let frame =
        Frame::new(&house, &asker, Place::Volumes, &format!("Volume {}", volume.name)).await?.live(&asker);
    let initiators: Initiators = asker.get("/v1/initiators").await?;
    let portals: PortalList = asker.get("/v1/portals").await?;
    page(&One {
        frame,
        facts: facts(&volume),
        pictures: of_volume(&asker, &volume.name).await,
        users: users(&initiators, &volume.name),
        connect: if volume.state == crate::api::model::VolumeState::Serving {
            connect(&volume, &portals)
        } else {
            Vec::new()
        },
        volume: shown(&volume),
    })
}

fn facts(volume: &Volume) -> Vec<(&'static str, String)> {
    let list = |names: &[String], all: &str| if names.is_empty() { all.to_owned() } else { names.join(", ") };
    let mut facts = vec![
        ("Size", format!("{} ({} bytes)", size(volume.size_bytes), volume.size_bytes)),
        ("Logical blocks", format!("{} bytes", volume.block_size)),
        ("Limits", limits(volume.limits)),
        ("iSCSI target", volume.target.clone()),
        ("Initiators that may use it", list(&volume.allow, "all")),
        ("CHAP", list(&volume.chap_users, "none")),
    ];
    if let Some(subsystem) = &volume.subsystem {
        facts.push(("NVMe subsystem", subsystem.clone()));
        facts.push(("NVMe hosts that may use it", list(&volume.hosts, "all")));
    }
    facts.push((
        "NBD",
        if volume.nbd { "offered where the node serves NBD" } else { "not offered" }.to_owned(),
    ));
    facts.push(("Identity", volume.id.clone()));
    facts
}

fn users(initiators: &Initiators, volume: &str) -> Vec<User> {
    let uses = |one: &crate::api::model::Initiator| {
        one.sessions.iter().filter(|session| session.volumes.iter().any(|name| name == volume)).count()
    };
    let used = initiators.initiators.iter().map(|one| (one, uses(one))).filter(|(_, sessions)| *sessions > 0);
    let user = |(one, sessions): (&crate::api::model::Initiator, usize)| User {
        name: one.name.clone(),
        protocol: one.protocol.clone(),
        sessions: count(sessions, "session"),
    };
    used.map(user).collect()
}

/// How one connects: what each is for, and the command.
fn connect(volume: &Volume, portals: &PortalList) -> Vec<(String, String)> {
    let first = |protocol: &str| {
        portals.portals.iter().find(|portal| portal.protocol == protocol).map(|portal| portal.address.clone())
    };
    let mut ways = Vec::new();
    if let Some(portal) = first("iscsi") {
        ways.push((
            "Linux, open-iscsi".to_owned(),
            format!(
                "iscsiadm -m discovery -t sendtargets -p {portal}\niscsiadm -m node -T {} -p {portal} --login",
                volume.target
            ),
        ));
        ways.push(("qemu and libiscsi".to_owned(), format!("iscsi://{portal}/{}/0", volume.target)));
    }
    if let (Some(portal), Some(subsystem)) = (first("nvme"), &volume.subsystem)
        && let Some((address, port)) = portal.rsplit_once(':')
    {
        let address = address.trim_matches(['[', ']']);
        ways.push((
            "Linux, NVMe over TCP".to_owned(),
            format!("nvme connect -t tcp -a {address} -s {port} -n {subsystem}"),
        ));
    }
    if let (Some(portal), true) = (first("nbd"), volume.nbd) {
        if portal.starts_with('/') {
            ways.push(("NBD".to_owned(), format!("nbd+unix:///{}?socket={portal}", volume.name)));
        } else {
            ways.push(("NBD".to_owned(), format!("nbd://{portal}/{}", volume.name)));
        }
    }
    ways
}
