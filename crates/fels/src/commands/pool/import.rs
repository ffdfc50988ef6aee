//! `fels pool import`.

use super::status::found_text;
use super::{absolute, all_absolute, offline_failure, print_json};
use crate::message::{Failure, print};
use clap::Args;
use control::offline;
use control::offline::survey::{FoundPool, Survey, survey};
use control::offline::survival::hex;
use serde::Serialize;
use std::fmt::Write as _;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// Find the pools that members make, and print what a configuration needs to have them
///
/// Members are found in any order, and may be missing as far as the level allows. Nothing is written: the node that is started
/// with the printed [[pool]] table opens the pool.
#[derive(Debug, Args)]
pub struct Import {
    /// Files and devices that may be members
    #[arg(value_name = "PATH", required_unless_present = "dir")]
    members: Vec<PathBuf>,

    /// Look at all files and devices in a directory, such as /dev/disk/by-id
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,

    /// Write JSON, for programs
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Import) -> Result<(), Failure> {
    let found = find(&arguments.members, arguments.dir.as_deref())?;
    if arguments.json {
        print_json(&json(&found))?;
    } else {
        print(&text(&found))?;
    }
    if found.pools.is_empty() {
        let hint = if found.in_use.is_empty() {
            "name other files or devices, or another directory"
        } else {
            "some are in use: stop the node that has them, or ask it with `fels pool status`"
        };
        return Err(Failure::new("no member of a pool was found", Some(hint)));
    }
    if found.pools.iter().any(|pool| !pool.survival().is_whole) {
        return Err(Failure::new(
            "too many members are missing or incomplete",
            Some("bring the other members, and look again"),
        ));
    }
    Ok(())
}

/// Looks at what is named, and at what is in a directory.
pub fn find(members: &[PathBuf], directory: Option<&Path>) -> Result<Survey, Failure> {
    let mut paths = all_absolute(members)?;
    if let Some(directory) = directory {
        let more = candidates(&absolute(directory)?)?;
        let more: Vec<_> = more.into_iter().filter(|path| !paths.contains(path)).collect();
        paths.extend(more);
    }
    offline::look(&paths).map(survey).map_err(|error| offline_failure(&error))
}

/// Files and block devices of a directory, each once though it may have several names there. What else there is could hang
/// whoever opens it.
fn candidates(directory: &Path) -> Result<Vec<PathBuf>, Failure> {
    let failed = |error: std::io::Error| {
        Failure::new(
            format!("{} cannot be read: {error}", directory.display()),
            Some("name a directory with --dir"),
        )
    };
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        // A name that leads nowhere is no member.
        let Ok(metadata) = std::fs::metadata(&path) else { continue };
        if metadata.is_file() || metadata.file_type().is_block_device() {
            paths.push(path);
        }
    }
    paths.sort();
    let mut seen = Vec::new();
    paths.retain(|path| {
        let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.clone());
        let is_new = !seen.contains(&real);
        seen.push(real);
        is_new
    });
    Ok(paths)
}

fn text(found: &Survey) -> String {
    let mut parts: Vec<String> = found.pools.iter().map(pool_text).collect();
    let others = others(found);
    if !others.is_empty() {
        parts.push(others);
    }
    parts.join("\n")
}

fn pool_text(pool: &FoundPool) -> String {
    let mut text = found_text(pool);
    if pool.survival().is_whole {
        // Writing to a String does not fail.
        let _ = write!(text, "\nthe configuration of a node needs this:\n\n{}", pool.table());
    } else {
        text.push_str("\nit cannot be opened so\n");
    }
    text
}

/// What is no member of any pool.
pub fn others(found: &Survey) -> String {
    let mut text = String::new();
    for path in &found.in_use {
        let _ = writeln!(text, "not looked at: {} is in use by another process", path.display());
    }
    for (path, why) in &found.others {
        let _ = writeln!(text, "no member: {} {why}", path.display());
    }
    text
}

#[derive(Serialize)]
pub struct Report {
    pools: Vec<PoolReport>,
    in_use: Vec<PathBuf>,
    others: Vec<Other>,
}

#[derive(Serialize)]
struct PoolReport {
    name: String,
    id: String,
    raid: String,
    size_bytes: u64,
    can_be_opened: bool,
    closed_in_good_order: bool,
    sentence: String,
    volumes: usize,
    members: Vec<MemberReport>,
    unfit: Vec<Other>,
    configuration: Option<String>,
}

#[derive(Serialize)]
struct MemberReport {
    slot: usize,
    place: Option<PathBuf>,
    condition: String,
}

#[derive(Serialize)]
struct Other {
    place: PathBuf,
    why: String,
}

/// The same for programs.
pub fn json(found: &Survey) -> Report {
    let others = |list: &[(PathBuf, String)]| -> Vec<Other> {
        list.iter().map(|(place, why)| Other { place: place.clone(), why: why.clone() }).collect()
    };
    let pool = |pool: &FoundPool| {
        let survival = pool.survival();
        let slot = |(slot, found): (usize, &offline::survey::FoundSlot)| MemberReport {
            slot,
            place: found.place.clone(),
            condition: found.condition(),
        };
        PoolReport {
            name: pool.label.name.clone(),
            id: hex(&pool.label.pool),
            raid: pool.label.geometry.level.to_string(),
            size_bytes: pool.label.geometry.pool_bytes(),
            can_be_opened: survival.is_whole,
            closed_in_good_order: pool.label.clean,
            sentence: survival.sentence(),
            volumes: pool.volume_count(),
            members: pool.slots.iter().enumerate().map(slot).collect(),
            unfit: others(&pool.unfit),
            configuration: survival.is_whole.then(|| pool.table().to_string()),
        }
    };
    Report {
        pools: found.pools.iter().map(pool).collect(),
        in_use: found.in_use.clone(),
        others: others(&found.others),
    }
}

/// Members of a pool that a command works on, without a node.
#[derive(Debug, Args)]
pub struct Where {
    /// Its members: files and devices
    #[arg(long, value_name = "PATH", num_args = 1.., required_unless_present = "dir")]
    members: Vec<PathBuf>,

    /// Look for its members in a directory
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl Where {
    /// Whether a member is named, and not only found in the directory.
    pub fn names(&self, path: &Path) -> bool {
        self.members.iter().any(|member| std::path::absolute(member).is_ok_and(|member| member == path))
    }

    /// The pool of that name; refused where one that was named belongs to another, or is in use.
    pub fn pool(&self, name: &str) -> Result<FoundPool, Failure> {
        let named = all_absolute(&self.members)?;
        let found = find(&self.members, self.dir.as_deref())?;
        if let Some(path) = found.in_use.first().filter(|path| self.dir.is_none() || named.contains(path)) {
            return Err(Failure::new(
                format!("{} is in use by another process", path.display()),
                Some("stop the node that has it, and try again"),
            ));
        }
        if let Some((path, why)) = found.others.iter().find(|(path, _)| named.contains(path)) {
            return Err(Failure::new(
                format!("{} {why}", path.display()),
                Some("name members of the pool only"),
            ));
        }
        let mut wanted = None;
        for pool in found.pools {
            if pool.label.name != name {
                if let Some(path) = pool.found().iter().find(|path| named.contains(path)) {
                    return Err(Failure::new(
                        format!(
                            "{} is a member of the pool {}, not of {name}",
                            path.display(),
                            pool.label.name
                        ),
                        Some("name members of one pool only"),
                    ));
                }
                continue;
            }
            if wanted.replace(pool).is_some() {
                return Err(Failure::new(
                    format!("these members belong to two pools that are called {name}"),
                    Some(
                        "name the members of one of them; `fels pool import` shows which ones belong together",
                    ),
                ));
            }
        }
        // A node may be using the pool without the ones that were found: opened by themselves they would be a half of their own.
        if let (Some(pool), Some(path)) = (&wanted, found.in_use.first())
            && pool.slots.iter().any(|slot| slot.place.is_none())
        {
            return Err(Failure::new(
                format!(
                    "not all members of pool {name} were found, and {} is in use by another process",
                    path.display()
                ),
                Some("stop the node that has it; if that has another pool, name the members with --members"),
            ));
        }
        let hint = if found.in_use.is_empty() {
            "`fels pool import` says which pools there are"
        } else {
            "some members there are in use: stop the node that has them"
        };
        wanted.ok_or_else(|| Failure::new(format!("no member of a pool {name} was found"), Some(hint)))
    }
}
