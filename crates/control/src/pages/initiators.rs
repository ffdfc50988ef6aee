//! Initiators and their sessions: who uses the volumes, and how evenly by its paths.

use std::collections::BTreeMap;

use askama::Template;
use axum::extract::State;
use axum::response::Response;

use super::asker::Asker;
use super::frame::{Frame, Place};
use super::parts::{Kind, State as Shape, count};
use super::{House, page};
use crate::api::Problem;
use crate::api::model::{Initiator, Initiators, PortalList, Session};

#[derive(Template)]
#[template(path = "initiators.html")]
struct List {
    frame: Frame,
    initiators: Vec<Shown>,
    portals: Vec<Path>,
}

/// An initiator as it is shown.
struct Shown {
    name: String,
    protocol: String,
    paths: Shape,
    sessions: Vec<Row>,
}

/// A session as it is shown.
struct Row {
    id: String,
    volumes: Vec<String>,
    shard: usize,
    connections: Vec<(String, String)>,
}

/// A portal, and how many connections come by it.
struct Path {
    address: String,
    protocol: String,
    connections: usize,
    most: usize,
}

/// Lists who uses volumes now.
pub(super) async fn list(State(house): State<House>, asker: Asker) -> Result<Response, Problem> {
    let frame = Frame::new(&house, &asker, Place::Initiators, "Initiators").await?.live(&asker);
    let initiators: Initiators = asker.get("/v1/initiators").await?;
    let portals: PortalList = asker.get("/v1/portals").await?;
    page(&List {
        frame,
        initiators: initiators.initiators.iter().map(shown).collect(),
        portals: paths(&initiators, &portals),
    })
}

fn shown(initiator: &Initiator) -> Shown {
    let row = |session: &Session| Row {
        id: session.id.clone(),
        volumes: session.volumes.clone(),
        shard: session.shard,
        connections: session
            .connections
            .iter()
            .map(|one| (one.from.clone(), one.to.clone().unwrap_or_default()))
            .collect(),
    };
    Shown {
        name: initiator.name.clone(),
        protocol: initiator.protocol.clone(),
        paths: evenness(initiator),
        sessions: initiator.sessions.iter().map(row).collect(),
    }
}

/// Whether the connections of an initiator come by its portals in equal shares.
fn evenness(initiator: &Initiator) -> Shape {
    let mut by_portal: BTreeMap<&str, usize> = BTreeMap::new();
    let connections = initiator.sessions.iter().flat_map(|session| &session.connections);
    for portal in connections.filter_map(|one| one.to.as_deref()) {
        *by_portal.entry(portal).or_default() += 1;
    }
    let (least, most) = (by_portal.values().min(), by_portal.values().max());
    match (by_portal.len(), least, most) {
        (0, ..) => Shape::new(Kind::Off, "path not known"),
        (1, ..) => Shape::new(Kind::Ok, "one path"),
        (paths, least, most) if least == most => {
            Shape::new(Kind::Ok, format!("{}, even", count(paths, "path")))
        }
        (paths, Some(least), Some(most)) => Shape::new(
            Kind::Warning,
            format!("{}, uneven: {least} to {most} connections", count(paths, "path")),
        ),
        (paths, ..) => Shape::new(Kind::Ok, count(paths, "path")),
    }
}

fn paths(initiators: &Initiators, portals: &PortalList) -> Vec<Path> {
    let connections = || {
        initiators.initiators.iter().flat_map(|one| &one.sessions).flat_map(|session| &session.connections)
    };
    let by = |address: &str| connections().filter(|one| one.to.as_deref() == Some(address)).count();
    let counted: Vec<_> = portals.portals.iter().map(|portal| (portal, by(&portal.address))).collect();
    let most = |protocol: &str| {
        let same = counted.iter().filter(|(portal, _)| portal.protocol == protocol);
        same.map(|(_, connections)| *connections).max().unwrap_or(0)
    };
    let path = |(portal, connections): &(&crate::api::model::Portal, usize)| Path {
        address: portal.address.clone(),
        protocol: portal.protocol.clone(),
        connections: *connections,
        most: most(&portal.protocol).max(1),
    };
    counted.iter().map(path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::model::Connection;

    fn initiator(portals: &[&str]) -> Initiator {
        let connection = |to: &&str| Connection { from: "192.0.2.1:1".into(), to: Some((*to).to_owned()) };
        let session = |to: &&str| Session {
            id: "1".into(),
            volumes: Vec::new(),
            connections: vec![connection(to)],
            shard: 0,
            io: crate::api::model::Io::default(),
        };
        Initiator {
            protocol: "iscsi".into(),
            name: "iqn.a".into(),
            sessions: portals.iter().map(session).collect(),
        }
    }

    #[test]
    fn what_an_initiator_calls_itself_is_text() {
        let mut hostile = initiator(&["\"><img src=x>"]);
        hostile.name = "<script>alert(1)</script><!--live x-->".into();
        hostile.sessions[0].id = "'><b>".into();
        hostile.sessions[0].volumes = vec!["\"><i>".into()];
        let frame = Frame::bare("Initiators");
        let list = List { frame, initiators: vec![shown(&hostile)], portals: Vec::new() };
        let page = list.render().unwrap();
        assert!(page.contains("&#60;script&#62;alert(1)"), "{page}");
        for markup in ["<script>alert", "<!--live x", "<img src=x", "<b>", "<i>"] {
            assert!(!page.contains(markup), "{markup} is in {page}");
        }
    }

    #[test]
    fn paths_are_even_when_each_has_as_many_connections() {
        assert_eq!(evenness(&initiator(&[])).kind, Kind::Off);
        assert_eq!(evenness(&initiator(&["a"])).word, "one path");
        assert_eq!(evenness(&initiator(&["a", "b"])), Shape::new(Kind::Ok, "2 paths, even"));
        let uneven = evenness(&initiator(&["a", "a", "b"]));
        assert_eq!(
            (uneven.kind, uneven.word.as_str()),
            (Kind::Warning, "2 paths, uneven: 1 to 2 connections")
        );
    }
}
