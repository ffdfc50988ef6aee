//! What the lab measured, kept beside the node: the folder `lab/` of the data directory, into which `fels lab ... --keep` puts what its
//! `--json` writes, and which the dashboard shows (`docs/formats/data-directory.md`).
//!
//! Whatever else lies there is passed over. Nothing is read but plain files whose names are plain, and of those no more than a bound.

mod report;
#[cfg(test)]
mod tests;

use std::fs::{File, Metadata};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Gid, Mode, OFlags, Uid, fchown, mkdirat, openat, unlinkat};

use crate::moment::Moment;

pub use report::{Cell, Host, Report, Row, Second, Spread, Summary, Test};

/// The name of the folder in the data directory.
pub const REPORTS_DIRECTORY: &str = "lab";
/// Reports that are listed at most, the newest ones.
const MAX_LISTED: usize = 100;
/// Bytes that are read for a list at most: what comes after them is not listed.
const MAX_LISTED_BYTES: u64 = 64 << 20;
/// Names in the folder that are looked at; it is for reports alone.
const MAX_NAMES: usize = 10_000;
/// Bytes of a report at most: hours of many tests, second by second.
pub const MAX_REPORT_BYTES: u64 = 8 << 20;
/// Characters of a name at most.
const MAX_NAME: usize = 128;
/// As every report is called in the end.
const ENDING: &str = ".json";

/// A report in the folder.
#[derive(Debug)]
pub struct Kept {
    /// Its name.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// What it says, or why that is not known.
    pub report: Result<Report, String>,
}

/// Whether a file could be a report by its name: letters, digits and `. _ -`, none of these first.
fn is_name(name: &str) -> bool {
    name.len() <= MAX_NAME
        && name.ends_with(ENDING)
        && name.starts_with(|first: char| first.is_ascii_alphanumeric())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

/// The reports of a data directory, the newest first, and how many older ones are not listed. Blocks.
pub fn list(data: &Path) -> io::Result<(Vec<Kept>, usize)> {
    let folder = data.join(REPORTS_DIRECTORY);
    let entries = match std::fs::read_dir(&folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((Vec::new(), 0)),
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries.take(MAX_NAMES) {
        let entry = entry?;
        let Some(name) = entry.file_name().to_str().filter(|name| is_name(name)).map(str::to_owned) else {
            continue;
        };
        // Of a link the link itself is looked at, which is no file.
        if let Ok(known) = entry.metadata()
            && known.is_file()
        {
            found.push((known.mtime(), name, known.len().min(MAX_REPORT_BYTES)));
        }
    }
    found.sort_by(|one, other| other.cmp(one));
    let mut bytes = 0;
    let listed = found.iter().take(MAX_LISTED).take_while(|(.., length)| {
        bytes += length;
        bytes <= MAX_LISTED_BYTES
    });
    let listed = listed.count();
    let left_out = found.len() - listed;
    found.truncate(listed);
    let kept = |(_, name, _): (i64, String, u64)| {
        let text = read(data, &name)?;
        let report = text.as_deref().map_or_else(|| Err(too_large()), Report::read);
        Ok(Kept { bytes: text.map_or(0, |text| text.len() as u64), report, name })
    };
    // One that has gone meanwhile is not there.
    let listed = found.into_iter().map(kept).filter(|kept: &io::Result<Kept>| !is_gone(kept));
    Ok((listed.collect::<io::Result<_>>()?, left_out))
}

fn is_gone<T>(result: &io::Result<T>) -> bool {
    result.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

fn too_large() -> String {
    format!("it has more than {} MiB", MAX_REPORT_BYTES >> 20)
}

/// The text of a report; none of one that is too large. One that is not there, or is no plain file with a plain name, is not found. Blocks.
pub fn read(data: &Path, name: &str) -> io::Result<Option<Vec<u8>>> {
    let path = data.join(REPORTS_DIRECTORY).join(name);
    if !is_name(name) || !std::fs::symlink_metadata(&path)?.is_file() {
        return Err(io::ErrorKind::NotFound.into());
    }
    let mut text = Vec::new();
    File::open(&path)?.take(MAX_REPORT_BYTES + 1).read_to_end(&mut text)?;
    Ok((text.len() as u64 <= MAX_REPORT_BYTES).then_some(text))
}

/// Puts a report into the folder of a data directory, for its owner alone, and says where it is. Two of one moment have two names. Blocks.
pub fn keep(data: &Path, what: &str, ended: Moment, text: &str) -> io::Result<PathBuf> {
    if text.len() as u64 > MAX_REPORT_BYTES {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, too_large()));
    }
    let home = File::open(data)?;
    let owner = home.metadata()?;
    match mkdirat(&home, REPORTS_DIRECTORY, Mode::from_raw_mode(0o700)) {
        Ok(()) => give(&open(&home, REPORTS_DIRECTORY, OFlags::DIRECTORY)?, &owner)?,
        Err(rustix::io::Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    // Whoever else may write there is not to send root elsewhere.
    let folder = open(&home, REPORTS_DIRECTORY, OFlags::DIRECTORY)?;
    for number in 1..100 {
        let name = file_name(what, ended, number);
        let file = match open(&folder, &name, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            file => file?,
        };
        let written = write(file, &owner, text).and_then(|()| folder.sync_all());
        if let Err(error) = written {
            // Half a report is none.
            let _ = unlinkat(&folder, &name, AtFlags::empty());
            return Err(error);
        }
        return Ok(data.join(REPORTS_DIRECTORY).join(name));
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

fn open(folder: &File, name: &str, how: OFlags) -> io::Result<File> {
    let mode = Mode::from_raw_mode(0o600);
    Ok(openat(folder, name, how | OFlags::NOFOLLOW | OFlags::CLOEXEC, mode).map(File::from)?)
}

fn write(mut file: File, owner: &Metadata, text: &str) -> io::Result<()> {
    give(&file, owner)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// The node is to read it, whoever measured.
fn give(file: &File, owner: &Metadata) -> io::Result<()> {
    let has = file.metadata()?;
    if (has.uid(), has.gid()) == (owner.uid(), owner.gid()) {
        return Ok(());
    }
    Ok(fchown(file, Some(Uid::from_raw(owner.uid())), Some(Gid::from_raw(owner.gid())))?)
}

/// When and what: `2026-11-20T20-41-07Z-vmware.json`.
fn file_name(what: &str, ended: Moment, number: u32) -> String {
    let plain = |sign: char| if sign.is_ascii_alphanumeric() { sign } else { '-' };
    let what: String = what.chars().take(48).map(plain).collect();
    let ended = ended.to_string().replace(':', "-");
    let again = if number > 1 { format!("-{number}") } else { String::new() };
    format!("{ended}-{what}{again}{ENDING}")
}
