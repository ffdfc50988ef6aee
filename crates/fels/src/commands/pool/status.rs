//! `fels pool status`.

use super::node::{self, NodeFlags};
use super::table::{Align, table};
use super::{all_absolute, offline_failure, print_json, rounded, spoken};
use crate::message::{Failure, print};
use clap::Args;
use control::api::model::{Io, Member, MemberState, Pool, PoolState, Pools, Progress};
use control::offline;
use control::offline::survey::{FoundPool, survey};
use std::fmt::Write as _;
use std::path::PathBuf;

/// Show how pools and their members are
///
/// Asks the node that runs. With --members it looks at members that no node uses, and writes nothing.
#[derive(Debug, Args)]
pub struct Status {
    /// The pool; all of them if none is named
    name: Option<String>,

    /// Members of a pool that no node uses: files and devices
    #[arg(long, value_name = "PATH", num_args = 1.., conflicts_with_all = ["data", "config"])]
    members: Vec<PathBuf>,

    /// Write JSON, for programs
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    node: NodeFlags,
}

pub fn run(arguments: &Status) -> Result<(), Failure> {
    if !arguments.members.is_empty() {
        return offline_status(arguments);
    }
    let client = arguments.node.client()?;
    let pools = match &arguments.name {
        Some(name) => vec![node::one(&client, name)?],
        None => node::all(&client)?,
    };
    if arguments.json {
        return print_json(&Pools { pools });
    }
    if pools.is_empty() {
        return print("this node has no pool: `fels pool open` makes one\n");
    }
    let texts: Vec<_> = pools.iter().map(text).collect();
    print(&texts.join("\n"))
}

/// A pool of a node that runs, for people.
pub fn text(pool: &Pool) -> String {
    let mut text = String::new();
    let mut say = |line: &str| {
        text.push_str(line);
        text.push('\n');
    };
    let (count, plural) = (pool.members.len(), if pool.members.len() == 1 { "" } else { "s" });
    say(&format!(
        "pool {}: {} of {count} member{plural}, {}, {} free",
        pool.name,
        pool.raid,
        rounded(pool.size_bytes),
        rounded(pool.free_bytes)
    ));
    say(&format!("  state    {}: {}", word(pool.state), pool.sentence));
    let checksums = if pool.integrity { "with checksums" } else { "without checksums" };
    say(&format!("  layout   units of {}, {checksums}", rounded(pool.unit_bytes.into())));
    let blocks = pool.blocks;
    say(&format!(
        "  blocks   {} wrong, {} unreadable, {} repaired, {} lost, since the node was started",
        blocks.wrong, blocks.unreadable, blocks.repaired, blocks.lost
    ));
    say(&format!("  scrub    {}", scrub(pool)));
    if let Some(io) = &pool.io {
        say(&format!(
            "  io       {} reads ({}), {} writes ({}), {} errors, since the node was started",
            io.reads,
            rounded(io.read_bytes),
            io.writes,
            rounded(io.written_bytes),
            io.errors
        ));
    }
    for spare in &pool.spares {
        say(&format!("  spare    {}", spare.place.as_deref().unwrap_or("one that is not there")));
    }
    match &pool.volumes[..] {
        [] => {}
        volumes => {
            let names: Vec<_> = volumes
                .iter()
                .take(8)
                .map(|volume| {
                    let going = if volume.destroying.is_some() { ", being destroyed" } else { "" };
                    format!("{} ({}{going})", volume.name, rounded(volume.size_bytes))
                })
                .collect();
            let more = volumes.len().saturating_sub(8);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            say(&format!("  volumes  {}{more}", names.join(", ")));
        }
    }
    text.push('\n');
    let members = pool.members.iter().map(|member| {
        let place =
            member.place.clone().unwrap_or_else(|| "unknown: it was not there at the start".to_owned());
        let count = |of: fn(&Io) -> u64| member.io.map_or_else(|| "-".to_owned(), |io| of(&io).to_string());
        let counts = [count(|io| io.reads), count(|io| io.writes), count(|io| io.errors)];
        let [slot, state] = [member.slot.to_string(), condition(member)];
        (member.set, [vec![slot, state], counts.to_vec(), vec![place]].concat())
    });
    text.push_str(&slots(&["slot", "state", "reads", "writes", "errors", "place"], members));
    text
}

/// The table of the slots below a head, with the set of each if there are several.
fn slots(head: &[&str], members: impl Iterator<Item = (usize, Vec<String>)>) -> String {
    let members: Vec<_> = members.collect();
    let has_sets = members.iter().any(|(set, _)| *set > 0);
    let with = |set: String, cells: Vec<String>| {
        if has_sets { std::iter::once(set).chain(cells).collect() } else { cells }
    };
    let mut rows = vec![with("set".to_owned(), head.iter().map(|word| (*word).to_owned()).collect())];
    rows.extend(members.into_iter().map(|(set, cells)| with(set.to_string(), cells)));
    table(2, &vec![Align::Left; rows[0].len()], &rows)
}

fn word(state: PoolState) -> &'static str {
    match state {
        PoolState::Ok => "ok",
        PoolState::Rebuilding => "rebuilding",
        PoolState::Degraded => "degraded",
        PoolState::Failed => "failed",
    }
}

fn condition(member: &Member) -> String {
    match member.state {
        MemberState::InSync if member.slow => "in sync, slow".to_owned(),
        MemberState::InSync => "in sync".to_owned(),
        MemberState::Out => match &member.cause {
            Some(cause) => format!("out: {cause}"),
            None => "out".to_owned(),
        },
        MemberState::Rebuilding => {
            format!("rebuilding: {}", member.progress.as_ref().map_or_else(String::new, progress))
        }
    }
}

/// How far something is: `41 %, 120MiB/s, 3 min left`.
pub fn progress(progress: &Progress) -> String {
    let mut text = format!("{} %", progress.percent());
    if let Some(rate) = progress.bytes_per_s {
        // Writing to a String does not fail.
        let _ = write!(text, ", {}/s", rounded(rate));
    }
    if let Some(left) = progress.left_s {
        let _ = write!(text, ", {} left", spoken(left));
    }
    text
}

/// The scrub that runs or ran.
pub fn scrub(pool: &Pool) -> String {
    let scrub = &pool.scrub;
    if scrub.begun == 0 {
        return "none since the node was started".to_owned();
    }
    let found = if scrub.bad + scrub.uneven == 0 {
        "nothing wrong".to_owned()
    } else {
        let rows = match scrub.uneven {
            0 => String::new(),
            rows => format!(", {rows} rows made even"),
        };
        format!("{} bad blocks, {} repaired, {} lost{rows}", scrub.bad, scrub.repaired, scrub.lost)
    };
    if scrub.runs {
        format!("runs: {}; {found} so far", progress(&scrub.progress))
    } else if scrub.progress.done_bytes < scrub.progress.total_bytes {
        format!("stopped at {} %; {found}", scrub.progress.percent())
    } else {
        format!("done; {found}")
    }
}

fn offline_status(arguments: &Status) -> Result<(), Failure> {
    let members = all_absolute(&arguments.members)?;
    let seen = offline::look(&members).map_err(|error| offline_failure(&error))?;
    let found = survey(seen);
    if arguments.json {
        return print_json(&super::import::json(&found));
    }
    let mut texts: Vec<_> = found.pools.iter().map(found_text).collect();
    let others = super::import::others(&found);
    if !others.is_empty() {
        texts.push(others);
    }
    print(&texts.join("\n"))?;
    if found.pools.is_empty() {
        return Err(Failure::new(
            "no member of a pool was found",
            Some("name the files or devices of a pool"),
        ));
    }
    Ok(())
}

/// A pool that no node uses, for people.
pub fn found_text(pool: &FoundPool) -> String {
    let label = &pool.label;
    let geometry = &label.geometry;
    let count = pool.slots.len();
    let plural = if count == 1 { "" } else { "s" };
    let mut text = format!(
        "pool {}: {} of {count} member{plural}, {}; {}\n",
        label.name,
        geometry.level,
        rounded(geometry.pool_bytes()),
        pool.survival().sentence()
    );
    let closed = if label.clean {
        "closed in good order"
    } else {
        "was in use when it was left: its journal is made when it is opened"
    };
    let volumes = match (pool.volume_count(), &pool.volumes) {
        (0, _) => "none".to_owned(),
        (count, None) => format!("{count}, whose names cannot be read"),
        (_, Some(volumes)) => {
            let names = volumes.iter().map(|volume| format!("{} ({})", volume.name, rounded(volume.bytes)));
            names.collect::<Vec<_>>().join(", ")
        }
    };
    let _ = write!(text, "  journal  {closed}\n  volumes  {volumes}\n\n");
    let found = pool.slots.iter().enumerate().map(|(slot, found)| {
        let place = found.place.as_ref().map_or_else(|| "-".to_owned(), |place| place.display().to_string());
        (geometry.set_of_slot(slot), vec![slot.to_string(), found.condition(), place])
    });
    text.push_str(&slots(&["slot", "state", "place"], found));
    for place in &pool.spares {
        let _ = writeln!(text, "  spare: {}", place.display());
    }
    for (place, why) in &pool.unfit {
        let _ = writeln!(text, "  not used: {} {why}", place.display());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(slot: usize) -> Vec<String> {
        vec![slot.to_string(), "in sync".to_owned(), format!("/srv/m{slot}.img")]
    }

    #[test]
    fn sets_are_told_where_there_are_several() {
        let one = slots(&["slot", "state", "place"], (0..2).map(|slot| (0, cells(slot))));
        assert_eq!(
            one,
            "  slot  state    place\n  0     in sync  /srv/m0.img\n  1     in sync  /srv/m1.img\n"
        );
        let two = slots(&["slot", "state", "place"], (0..2).map(|slot| (slot, cells(slot))));
        assert_eq!(
            two,
            "  set  slot  state    place\n  0    0     in sync  /srv/m0.img\n  1    1     in sync  /srv/m1.img\n"
        );
    }
}
