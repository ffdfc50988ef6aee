//! The working directory: on tmpfs, and gone at the end of every run.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::Error;

/// Volumes and sockets live here; the process id is appended.
const WORK_PREFIX: &str = "/dev/shm/fels-bench-";

/// The working directory on tmpfs; removed when this value goes away.
pub struct Work {
    /// Where it is.
    pub path: PathBuf,
}

impl Work {
    /// Makes it, and removes what runs that were killed left behind.
    pub fn make() -> Result<Self, Error> {
        remove_left_over();
        let path = PathBuf::from(format!("{WORK_PREFIX}{}", std::process::id()));
        fs::create_dir(&path).map_err(Error::io(format!("cannot make {}", path.display())))?;
        Ok(Self { path })
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            eprintln!("warning: cannot remove {}: {error}", self.path.display());
        }
    }
}

/// Removes what runs that were killed left in memory: directories of process ids that are gone.
fn remove_left_over() {
    let Ok(entries) = fs::read_dir("/dev/shm") else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        let text = path.display().to_string();
        let Some(id) = text.strip_prefix(WORK_PREFIX).and_then(|id| id.parse::<u32>().ok()) else { continue };
        if !Path::new(&format!("/proc/{id}")).exists() && fs::remove_dir_all(&path).is_ok() {
            eprintln!("removed {text}, left over by a run that was killed");
        }
    }
}
