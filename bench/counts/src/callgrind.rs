//! This program once more, under Callgrind.

use std::path::Path;
use std::process::Command;

use crate::error::Error;
use crate::meter::callgrind_options;

/// The argument by which this program knows that it runs under Callgrind.
pub const INSIDE: &str = "inside-callgrind";

/// Instructions of one operation of every path, in the order in which they are walked.
pub fn count() -> Result<Vec<(String, u64)>, Error> {
    let program = "valgrind";
    let started = |source| Error::Start { program, source };
    let folder = tempfile::tempdir().map_err(started)?;
    let out = folder.path().join("out");
    let output = Command::new(program)
        .arg("--tool=callgrind")
        .args(callgrind_options())
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(std::env::current_exe().map_err(started)?)
        .arg(INSIDE)
        .output()
        .map_err(started)?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(Error::Failed { program, said });
    }
    let said = String::from_utf8_lossy(&output.stdout);
    said.lines()
        .enumerate()
        .map(|(index, line)| {
            let path = folder.path().join(format!("out.{}", index + 1));
            let wrong = |wrong: &str| Error::Content { path: path.clone(), wrong: wrong.to_owned() };
            let (name, operations) = line.split_once(' ').ok_or_else(|| wrong("no name"))?;
            let operations: u64 = operations.parse().map_err(|_| wrong("no number of operations"))?;
            let total = total(&path)?;
            if total < operations {
                return Err(wrong(
                    "next to nothing was counted; hint: a function of `meter.rs` has another name",
                ));
            }
            Ok((name.to_owned(), (total + operations / 2) / operations))
        })
        .collect()
}

/// Instructions that one of Callgrind's files counts in all.
fn total(path: &Path) -> Result<u64, Error> {
    let text =
        std::fs::read_to_string(path).map_err(|source| Error::File { path: path.to_owned(), source })?;
    let total = text.lines().find_map(|line| line.strip_prefix("summary: "));
    let wrong = || Error::Content { path: path.to_owned(), wrong: "no summary".to_owned() };
    total.and_then(|total| total.trim().parse().ok()).ok_or_else(wrong)
}
