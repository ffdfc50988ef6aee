//! `fels volume list` and `show`.

use super::super::node::{NodeFlags, failure};
use super::super::table::{Align, row, table};
use super::super::top::text::{Rows, times};
use super::super::{print_json, rounded};
use super::{one, path_of};
use crate::message::{Failure, print};
use clap::Args;
use control::api::model::{Times, Volume, VolumeState, VolumeTime, Volumes};
use control::size::display_bytes;
use std::fmt::Write as _;

/// List the volumes and how they are
#[derive(Debug, Args)]
pub struct List {
    /// Write JSON, for programs
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    node: NodeFlags,
}

/// Show all of a volume: where its bytes live, who may use it, what it may do
#[derive(Debug, Args)]
pub struct Show {
    /// The volume
    name: String,

    /// Write JSON, for programs
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    node: NodeFlags,
}

pub fn list(arguments: &List) -> Result<(), Failure> {
    let client = arguments.node.client()?;
    let all: Volumes = client.get("/v1/volumes").map_err(|error| failure(&error))?;
    if arguments.json {
        return print_json(&all);
    }
    if all.volumes.is_empty() {
        return print("this node has no volume: fels volume create demo --size 1GiB makes one\n");
    }
    let mut rows = vec![row(["volume", "size", "state", "place", "alias"])];
    rows.extend(all.volumes.iter().map(|volume| {
        let alias = volume.alias.clone().unwrap_or_default();
        vec![
            volume.name.clone(),
            size(volume.size_bytes),
            word(volume.state).to_owned(),
            place(volume),
            alias,
        ]
    }));
    print(&table(0, &[Align::Left, Align::Right, Align::Left, Align::Left, Align::Left], &rows))
}

pub fn show(arguments: &Show) -> Result<(), Failure> {
    let client = arguments.node.client()?;
    let volume = one(&client, &arguments.name)?;
    if arguments.json {
        return print_json(&volume);
    }
    // What is not served takes no time.
    let time: Result<VolumeTime, _> = client.get(&format!("{}/time", path_of(&arguments.name)));
    let time = time.map(|told| time_text(&told.time)).unwrap_or_default();
    print(&(text(&volume) + &time))
}

/// Where the time of its requests went lately, if any was followed.
fn time_text(time: &Times) -> String {
    if time.followed == 0 {
        return String::new();
    }
    let Rows { columns, rows } = times("layer", time);
    format!(
        "  time       of its requests lately, in the mean and of the slowest hundredth\n{}",
        table(13, &columns, &rows)
    )
}

/// As it was given, where that is short.
fn size(bytes: u64) -> String {
    let exact = display_bytes(bytes);
    if exact.len() <= 8 { exact } else { rounded(bytes) }
}

fn word(state: VolumeState) -> &'static str {
    match state {
        VolumeState::Serving => "serving",
        VolumeState::Disabled => "off",
        VolumeState::Waiting => "waiting",
    }
}

fn place(volume: &Volume) -> String {
    match (volume.backing.as_str(), &volume.place) {
        ("pool", Some(pool)) => format!("pool {pool}"),
        (_, Some(place)) => place.clone(),
        ("null", None) => "nothing".to_owned(),
        (other, None) => other.to_owned(),
    }
}

fn text(volume: &Volume) -> String {
    let mut text = format!(
        "{}: {} in {}, blocks of {} bytes\n",
        volume.name,
        display_bytes(volume.size_bytes),
        place(volume),
        volume.block_size
    );
    let mut row = |label: &str, value: &str| {
        // Writing to a String does not fail.
        let _ = writeln!(text, "  {label:<10} {value}");
    };
    row(
        "state",
        &match &volume.note {
            Some(note) => format!("{}: {note}", word(volume.state)),
            None => word(volume.state).to_owned(),
        },
    );
    row("identity", &volume.id);
    if let Some(alias) = &volume.alias {
        row("alias", alias);
    }
    row("target", &format!("{}, LUN 0", volume.target));
    match &volume.chap_users[..] {
        [] => {}
        users => row("CHAP", &users.join(", ")),
    }
    row("initiators", &who(&volume.allow));
    if let Some(subsystem) = &volume.subsystem {
        let nsid = volume.nsid.map_or_else(String::new, |nsid| format!(", namespace {nsid}"));
        row("subsystem", &format!("{subsystem}{nsid}"));
        row("hosts", &who(&volume.hosts));
    }
    row("NBD", if volume.nbd { "yes, where the node serves it" } else { "no" });
    let limits = volume.limits;
    let iops = limits.iops.map(|iops| format!("{iops} requests a second"));
    let bytes = limits.bytes_per_s.map(|bytes| format!("{}/s", display_bytes(bytes)));
    let limits: Vec<_> = iops.into_iter().chain(bytes).collect();
    row("limits", &if limits.is_empty() { "none".to_owned() } else { limits.join(", ") });
    text
}

fn who(names: &[String]) -> String {
    if names.is_empty() { "all".to_owned() } else { names.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use control::api::model::VolumeLimits;

    #[test]
    fn a_volume_is_told_row_by_row() {
        let volume = Volume {
            name: "db".into(),
            id: "4677416f-58ef-81fa-8d7a-ef8a733ec9d1".into(),
            size_bytes: 1 << 30,
            block_size: 512,
            backing: "pool".into(),
            place: Some("tank".into()),
            state: VolumeState::Waiting,
            note: Some("soon".into()),
            limits: VolumeLimits { iops: Some(5000), bytes_per_s: Some(200_000_000) },
            alias: None,
            target: "iqn.x:db".into(),
            chap_users: vec!["alice".into(), "bob".into()],
            allow: Vec::new(),
            nbd: false,
            subsystem: None,
            nsid: None,
            hosts: Vec::new(),
        };
        let expected = "\
db: 1GiB in pool tank, blocks of 512 bytes
  state      waiting: soon
  identity   4677416f-58ef-81fa-8d7a-ef8a733ec9d1
  target     iqn.x:db, LUN 0
  CHAP       alice, bob
  initiators all
  NBD        no
  limits     5000 requests a second, 200MB/s
";
        assert_eq!(text(&volume), expected);
    }

    #[test]
    fn the_time_of_a_volume_is_told_where_any_is_known() {
        use control::api::model::LayerTime;
        assert_eq!(time_text(&Times::default()), "");
        let disk = LayerTime {
            layer: "disk".into(),
            mean_us: 80.0,
            mean_share: 1.0,
            slowest_us: 2500.0,
            slowest_share: 1.0,
        };
        let time = Times { followed: 3, mean_us: 80.0, slowest_us: 2500.0, layers: vec![disk] };
        let expected = [
            "  time       of its requests lately, in the mean and of the slowest hundredth",
            "             layer     mean    share  slowest    share",
            "             disk   80.0 us  100.0 %  2.50 ms  100.0 %",
            "",
        ];
        assert_eq!(time_text(&time), expected.join("\n"));
    }
}
