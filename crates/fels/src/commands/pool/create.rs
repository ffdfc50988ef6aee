//! `fels pool create`.

use super::picture::picture;
use super::table::{Align, row, table};
use super::{all_absolute, offline_failure, print_json, rounded, size};
use crate::message::{Failure, Message, print};
use clap::Args;
use control::offline::survival::Survival;
use control::offline::table::PoolTable;
use control::offline::{self, is_device};
use control::size::display_bytes;
use plane::pool::format::{BLOCK, DEFAULT_CATALOGUE_BLOCKS, DEFAULT_UNIT, Geometry, default_journal_bytes};
use plane::pool::{Level, MemberPlan, Place, PoolPlan, Seen};
use serde::Serialize;
use std::fmt::Write as _;
use std::path::PathBuf;

/// Make a pool of files and disks
///
/// Members have to be blank: files that are missing (made with --member-size) or empty, or files and disks with nothing but
/// zeroes at both ends. Nothing is written before all of them were looked at. Afterwards the [[pool]] table is printed that
/// the configuration of a node needs.
#[derive(Debug, Args)]
pub struct Create {
    /// Its name: lower-case letters, digits, - . and :
    name: String,

    /// How the members are arranged: single, raid0, raid1, raid10, raid5 or raid6
    #[arg(long, value_name = "LEVEL", value_parser = level)]
    raid: Level,

    /// Files and devices, in the order of their slots
    #[arg(long, value_name = "PATH", num_args = 1.., required = true)]
    members: Vec<PathBuf>,

    /// Files and devices that take the place of members that fail, by themselves
    #[arg(long = "spare", value_name = "PATH", num_args = 1..)]
    spares: Vec<PathBuf>,

    /// Size of files that are made, such as 1GiB
    #[arg(long, value_name = "SIZE", value_parser = size)]
    member_size: Option<u64>,

    /// Bytes that lie together on one member: a power of two from 4KiB to 1MiB [default: 64KiB]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    unit: Option<u64>,

    /// Keep no checksums
    #[arg(long)]
    no_integrity: bool,

    /// Show the plan, and do nothing
    #[arg(long)]
    dry_run: bool,

    /// Write JSON, for programs
    #[arg(long)]
    json: bool,
}

fn level(text: &str) -> Result<Level, String> {
    text.parse().map_err(|error: plane::pool::LevelError| error.to_string())
}

/// A member before it is one.
#[derive(Serialize)]
struct Candidate {
    slot: usize,
    place: PathBuf,
    size_bytes: u64,
    made: bool,
}

#[derive(Serialize)]
struct Report {
    done: bool,
    name: String,
    raid: String,
    size_bytes: u64,
    unit_bytes: u32,
    integrity: bool,
    members: Vec<Candidate>,
    spares: Vec<Candidate>,
    configuration: String,
}

pub fn run(arguments: &Create) -> Result<(), Failure> {
    let all: Vec<_> = arguments.members.iter().chain(&arguments.spares).cloned().collect();
    let mut members = all_absolute(&all)?;
    let unit = u32::try_from(arguments.unit.unwrap_or(DEFAULT_UNIT.into())).unwrap_or(u32::MAX);
    let seen = offline::look(&members).map_err(|error| offline_failure(&error))?;
    let mut candidates = judge(seen, arguments.member_size)?;
    let spares = members.split_off(arguments.members.len());
    let waiting = candidates.split_off(members.len());
    let smallest = candidates.iter().map(|candidate| candidate.size_bytes).min().unwrap_or(0);
    large_enough(&waiting, smallest)?;
    let geometry = plan(arguments, candidates.len(), unit, smallest)?;
    let table = PoolTable {
        name: arguments.name.clone(),
        level: arguments.raid,
        unit,
        integrity: !arguments.no_integrity,
        members: members.iter().cloned().map(Some).collect(),
        spares,
        member_bytes: arguments
            .member_size
            .filter(|_| candidates.iter().chain(&waiting).any(|candidate| candidate.made)),
    };
    // What the configuration would not take is not made.
    control::Config::parse(&table.to_string(), "the new [[pool]]")?;
    if !arguments.json {
        print(&shown(arguments, &geometry, &candidates, &waiting))?;
    }
    for candidate in candidates.iter().filter(|candidate| candidate.size_bytes > smallest) {
        let unused = rounded(candidate.size_bytes - smallest);
        Message::new(format!(
            "{unused} of {} are not used: the smallest member has {}",
            candidate.place.display(),
            rounded(smallest)
        ))
        .warn();
    }
    if !arguments.dry_run {
        make(arguments, unit, &candidates, &waiting)?;
    }
    if arguments.json {
        return print_json(&Report {
            done: !arguments.dry_run,
            name: arguments.name.clone(),
            raid: arguments.raid.to_string(),
            size_bytes: geometry.pool_bytes(),
            unit_bytes: unit,
            integrity: !arguments.no_integrity,
            members: candidates,
            spares: waiting,
            configuration: table.to_string(),
        });
    }
    if arguments.dry_run {
        return print("nothing was made: this is what would be, without --dry-run\n");
    }
    print(&format!("made; the configuration of a node needs this:\n\n{table}"))
}

/// All of them are looked at before the first one is touched.
fn judge(seen: Vec<(PathBuf, Seen)>, member_size: Option<u64>) -> Result<Vec<Candidate>, Failure> {
    let mut candidates = Vec::with_capacity(seen.len());
    for (slot, (place, seen)) in seen.into_iter().enumerate() {
        let path = place.display().to_string();
        let not_blank = |why: String| {
            Failure::new(
                format!("{path} {why}"),
                Some(
                    "a pool is made of blank members only: name another one, or wipe it if nobody needs what is on it",
                ),
            )
        };
        let (size_bytes, made) = match seen {
            Seen::Blank { bytes } => (bytes, false),
            Seen::Missing if is_device(&place) => {
                return Err(Failure::new(
                    format!("there is no device {path}"),
                    Some("`lsblk` lists those that there are"),
                ));
            }
            Seen::Missing => match member_size {
                Some(bytes) => (bytes, true),
                None => {
                    return Err(Failure::new(
                        format!("{path} is not there, or empty"),
                        Some("correct the path, or give --member-size, with which missing files are made"),
                    ));
                }
            },
            Seen::Member(seen) => {
                let volumes = match seen.label.catalogue.volumes {
                    0 => "without volumes".to_owned(),
                    1 => "with 1 volume".to_owned(),
                    count => format!("with {count} volumes"),
                };
                return Err(not_blank(format!("is a member of the pool {}, {volumes}", seen.label.name)));
            }
            Seen::InUse => {
                return Err(Failure::new(
                    format!("{path} is in use by another process"),
                    Some("name another one; `fuser` says who has it"),
                ));
            }
            Seen::Other(why) => return Err(not_blank(why)),
        };
        candidates.push(Candidate { slot, place, size_bytes, made });
    }
    Ok(candidates)
}

/// Spares have to be as large as the smallest member, of which whole blocks are used.
fn large_enough(spares: &[Candidate], smallest: u64) -> Result<(), Failure> {
    let blocks = |bytes: u64| bytes / BLOCK as u64;
    match spares.iter().find(|spare| blocks(spare.size_bytes) < blocks(smallest)) {
        None => Ok(()),
        Some(small) => Err(Failure::new(
            format!(
                "the spare {} has {}, the smallest member {}",
                small.place.display(),
                rounded(small.size_bytes),
                rounded(smallest)
            ),
            Some("give one that is as large"),
        )),
    }
}

fn plan(arguments: &Create, count: usize, unit: u32, smallest: u64) -> Result<Geometry, Failure> {
    let slots = u16::try_from(count).unwrap_or(u16::MAX);
    let journal = default_journal_bytes(smallest);
    Geometry::plan(arguments.raid, slots, unit, smallest, DEFAULT_CATALOGUE_BLOCKS, journal).map_err(
        |error| {
            let text = error.to_string();
            match text.split_once("; hint: ") {
                Some((sentence, hint)) => Failure::new(sentence, Some(hint)),
                None => Failure::new(text, None),
            }
        },
    )
}

fn make(
    arguments: &Create,
    unit: u32,
    candidates: &[Candidate],
    spares: &[Candidate],
) -> Result<(), Failure> {
    let member = |candidate: &Candidate| MemberPlan {
        place: Place::Path(candidate.place.clone()),
        create_bytes: candidate.made.then_some(candidate.size_bytes),
        spinning: None,
    };
    let plan = PoolPlan {
        name: arguments.name.clone(),
        level: arguments.raid,
        unit,
        integrity: !arguments.no_integrity,
        members: candidates.iter().map(member).collect(),
        spares: spares.iter().map(member).collect(),
    };
    offline::create(plan).map(drop).map_err(|error| offline_failure(&error))
}

fn shown(arguments: &Create, geometry: &Geometry, candidates: &[Candidate], spares: &[Candidate]) -> String {
    let count = candidates.len();
    let plural = if count == 1 { "" } else { "s" };
    let survival = Survival::of(arguments.raid, &vec![true; count]).sentence();
    // Its first half says that all are in sync, which goes without saying.
    let may_fail = survival.split_once("; ").map_or("", |(_, end)| end);
    let checksums = if arguments.no_integrity { "without checksums" } else { "with checksums" };
    let mut text = format!(
        "pool {}: {} of {count} member{plural}, {} for volumes, units of {}, {checksums}; {may_fail}\n\n",
        arguments.name,
        arguments.raid,
        rounded(geometry.pool_bytes()),
        display_bytes(geometry.unit.into())
    );
    let mut rows = vec![row(["slot", "size", "member"])];
    let is_spare = |candidate: &Candidate| candidate.slot >= count;
    rows.extend(candidates.iter().chain(spares).map(|candidate| {
        let made = if candidate.made { " (is made)" } else { "" };
        let member = format!("{}{made}", candidate.place.display());
        let slot = if is_spare(candidate) { "spare".to_owned() } else { candidate.slot.to_string() };
        vec![slot, rounded(candidate.size_bytes), member]
    }));
    text.push_str(&table(2, &[Align::Left, Align::Right, Align::Left], &rows));
    // Writing to a String does not fail.
    let _ = write!(text, "\n{}\n", picture(arguments.raid, count));
    text
}
