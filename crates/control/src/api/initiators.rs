//! Who uses the volumes now.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use plane::live::User;

use super::model::{Connection, Initiator, Initiators, Io, Session};
use super::{Context, Problem};
use crate::collect::Cores;

/// Lists who uses volumes now, with the sessions of each.
#[utoipa::path(
    get, path = "/v1/initiators", tag = "initiators",
    responses(
        (status = 200, body = Initiators),
        (status = 503, body = Problem, description = "The node is stopping.")
    )
)]
pub(super) async fn list(State(context): State<Context>) -> Result<Json<Initiators>, Problem> {
    let stopping = || Problem::late("the node is stopping");
    let cores = context.collector().cores().await.ok_or_else(stopping)?;
    let users = context.collector().users().await.ok_or_else(stopping)?;
    Ok(Json(Initiators { initiators: of(&cores, users) }))
}

/// By protocol, then by name.
fn of(cores: &Cores, users: Vec<User>) -> Vec<Initiator> {
    let name = |place: &usize| {
        let figures = cores.volumes.iter().find(|figures| figures.place == *place);
        figures.map(|figures| figures.name.clone())
    };
    let mut initiators: BTreeMap<(&str, String), Vec<Session>> = BTreeMap::new();
    for user in users {
        let session = Session {
            id: user.id,
            volumes: user.volumes.iter().filter_map(name).collect(),
            connections: user.connections.into_iter().map(|(from, to)| Connection { from, to }).collect(),
            shard: user.shard,
            io: Io::of(user.counts, user.in_flight as u64),
        };
        initiators.entry((user.protocol, user.initiator)).or_default().push(session);
    }
    let initiator = |((protocol, name), sessions): ((&str, String), Vec<Session>)| Initiator {
        protocol: protocol.to_owned(),
        name,
        sessions,
    };
    initiators.into_iter().map(initiator).collect()
}
