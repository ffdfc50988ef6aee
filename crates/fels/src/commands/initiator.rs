//! `fels initiator`: who uses the volumes.

use super::node::failure;

use super::table::{Align, row, table};
use super::user::How;
use super::{print_json, rounded};
use crate::message::{Failure, print};
use clap::{Args, Subcommand};
use control::api::model::{Initiator, Initiators, Session};

/// Tell who uses the volumes of a node
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List who uses volumes now, what he has open, and by which way he came
    List(How),
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let Command::List(how) = &arguments.command;
    let told: Initiators = how.node.client()?.get("/v1/initiators").map_err(|error| failure(&error))?;
    if how.json {
        return print_json(&told);
    }
    if told.initiators.is_empty() {
        return print("nobody is connected\n");
    }
    let mut rows = vec![row([
        "protocol",
        "initiator",
        "session",
        "volumes",
        "from",
        "to",
        "shard",
        "reads",
        "writes",
        "read",
        "written",
        "errors",
    ])];
    let sessions = |initiator: &Initiator| -> Vec<Vec<String>> {
        initiator.sessions.iter().map(|session| line(initiator, session)).collect()
    };
    rows.extend(told.initiators.iter().flat_map(sessions));
    let mut columns = [Align::Left; 12];
    columns[7..].fill(Align::Right);
    print(&table(0, &columns, &rows))
}

fn line(initiator: &Initiator, session: &Session) -> Vec<String> {
    let volumes = match &session.volumes[..] {
        [] => "(discovery)".to_owned(),
        volumes => volumes.join(", "),
    };
    let joined = |texts: Vec<&str>| texts.join(", ");
    let from = session.connections.iter().map(|connection| connection.from.as_str()).collect();
    let to = session.connections.iter().filter_map(|connection| connection.to.as_deref()).collect();
    vec![
        initiator.protocol.clone(),
        initiator.name.clone(),
        session.id.clone(),
        volumes,
        joined(from),
        joined(to),
        session.shard.to_string(),
        session.io.reads.to_string(),
        session.io.writes.to_string(),
        rounded(session.io.read_bytes),
        rounded(session.io.written_bytes),
        session.io.errors.to_string(),
    ]
}
