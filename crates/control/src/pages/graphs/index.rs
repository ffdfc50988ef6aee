//! Which graphs there are, by the kind of thing that they are of.

use askama::Template;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::response::Response;
use serde::Deserialize;

use super::super::asker::{Asker, segment};
use super::super::frame::{Frame, Place};
use super::super::{House, page};
use super::{OF_NODE, Picture, chosen, of_whom};
use crate::api::Problem;
use crate::api::model::{Graph, Graphs};

/// Things of a kind that are listed; of more one looks for a part of the name.
const MOST: usize = 50;
/// Characters of what is looked for, at most.
const MAX_TEXT: usize = 64;

#[derive(Default, Deserialize)]
pub(super) struct Asked {
    #[serde(default)]
    find: String,
}

#[derive(Template)]
#[template(path = "graphs.html")]
pub(super) struct Index {
    pub frame: Frame,
    pub find: String,
    pub pictures: Vec<Picture>,
    pub groups: Vec<Group>,
}

/// The graphs of one kind of thing.
pub(super) struct Group {
    pub title: String,
    pub id: String,
    pub subjects: Vec<Subject>,
    /// Things of that kind that are not listed.
    pub more: usize,
}

/// The graphs of one thing.
pub(super) struct Subject {
    pub name: String,
    /// Where each is, and what it shows.
    pub graphs: Vec<(String, String)>,
}

/// Lists all graphs.
pub(super) async fn list(
    State(house): State<House>,
    asker: Asker,
    asked: Result<Query<Asked>, QueryRejection>,
) -> Result<Response, Problem> {
    let Query(Asked { find }) = asked.unwrap_or(Query(Asked::default()));
    let find: String = find.trim().chars().take(MAX_TEXT).collect();
    let frame = Frame::new(&house, &asker, Place::Graphs, "Graphs").await?;
    let Graphs { graphs } = asker.get("/v1/graphs").await?;
    page(&Index::of(frame, &graphs, find))
}

impl Index {
    pub fn of(frame: Frame, graphs: &[Graph], find: String) -> Index {
        let wanted = find.to_lowercase();
        let fits = |graph: &&Graph| {
            graph.title.to_lowercase().contains(&wanted) || of_whom(graph).to_lowercase().contains(&wanted)
        };
        let mut groups: Vec<Group> = Vec::new();
        for graph in graphs.iter().filter(fits) {
            if groups.last().is_none_or(|group| group.title != graph.group) {
                let id = format!("group-{}", groups.len());
                groups.push(Group { title: graph.group.clone(), id, subjects: Vec::new(), more: 0 });
            }
            if let Some(group) = groups.last_mut() {
                group.add(graph);
            }
        }
        for group in &mut groups {
            // What is of all comes first, then by name.
            group.subjects.sort_by(|one, other| one.name.cmp(&other.name));
            group.more = group.subjects.len().saturating_sub(MOST);
            group.subjects.truncate(MOST);
        }
        // Who looks for something sees what he found first.
        let pictures = if find.is_empty() { chosen(graphs, &OF_NODE, "") } else { Vec::new() };
        Index { frame, find, pictures, groups }
    }
}

impl Group {
    fn add(&mut self, graph: &Graph) {
        let name = of_whom(graph);
        let link = (format!("/graphs/{}", segment(&graph.name)), short(graph));
        match self.subjects.iter_mut().find(|subject| subject.name == name) {
            Some(subject) => subject.graphs.push(link),
            None => self.subjects.push(Subject { name, graphs: vec![link] }),
        }
    }
}

/// `Operations of volumes` beside the name of a volume is more than is needed.
fn short(graph: &Graph) -> String {
    let title = graph.title.as_str();
    let plural = format!(" of {}", graph.group.to_lowercase());
    let is_of_members = title.strip_suffix(" of members");
    let short = title.strip_suffix(plural.as_str()).or(is_of_members).filter(|_| !graph.subject.is_empty());
    short.unwrap_or(title).to_owned()
}
