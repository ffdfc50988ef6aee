//! Job files: sections of `key=value`, as fio reads them.

use std::path::{Path, PathBuf};

use super::Place;
use crate::error::LabError;

/// Job files within job files; fio itself stops at as many.
const MAX_DEPTH: usize = 16;
/// Bytes of a job file.
const MAX_SIZE: u64 = 1 << 20;
/// What says where to write to; it is ours to say.
const PLACES: [&str; 5] = ["uri", "filename", "filename_format", "directory", "opendir"];
/// What decides how fio reports.
const REPORTING: [&str; 4] =
    ["clat_percentiles", "lat_percentiles", "group_reporting", "unified_rw_reporting"];
/// What a job runs with that names no engine: the one that keeps `iodepth`.
const FILE_ENGINE: &str = "io_uring";

/// The lines of a job file and of all that it includes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Job {
    lines: Vec<String>,
}

/// Reads a job file and what it includes.
pub(super) fn read(path: &Path) -> Result<Job, LabError> {
    let mut lines = Vec::new();
    read_into(path, 0, &mut lines)?;
    Ok(Job { lines })
}

fn read_into(path: &Path, depth: usize, lines: &mut Vec<String>) -> Result<(), LabError> {
    let problem = |problem: String, hint: &str| LabError::Fio {
        problem: format!("job file {}: {problem}", path.display()),
        hint: hint.to_owned(),
    };
    if depth >= MAX_DEPTH {
        return Err(problem("job files include one another too deep".to_owned(), "does one include itself?"));
    }
    let size = std::fs::metadata(path).map_or(0, |metadata| metadata.len());
    if size > MAX_SIZE {
        return Err(problem(format!("{size} bytes"), "a job file has 1 MiB at most; is this one?"));
    }
    let text = std::fs::read_to_string(path)
        .map_err(|error| problem(error.to_string(), "name a job file of fio, such as database.fio"))?;
    for line in text.lines() {
        match line.trim().strip_prefix("include ") {
            Some(other) => {
                let beside = path.parent().unwrap_or(Path::new("")).join(other.trim());
                let other = if beside.exists() { beside } else { PathBuf::from(other.trim()) };
                read_into(&other, depth + 1, lines)?;
            }
            None => lines.push(line.to_owned()),
        }
    }
    Ok(())
}

/// What a line sets, if it sets something.
fn key(line: &str) -> Option<&str> {
    let line = line.trim();
    let sets = !line.is_empty() && !line.starts_with(['#', ';', '[']);
    sets.then(|| line.split('=').next().unwrap_or(line).trim())
}

impl Job {
    /// The same jobs on our target, reporting as we read it: those keys are said once, for all jobs, at the top.
    pub(super) fn for_target(&self, place: &Place) -> String {
        let names_engine = self.lines.iter().any(|line| key(line) == Some("ioengine"));
        let ours: Vec<String> = match place {
            Place::Nbd { uri } => vec!["ioengine=nbd".to_owned(), format!("uri={}", value(uri))],
            Place::Null => vec!["ioengine=null".to_owned()],
            Place::File(path) => {
                // A colon stands between two files.
                let path = value(&path.display().to_string()).replace(':', "\\:");
                let engine = (!names_engine).then(|| format!("ioengine={FILE_ENGINE}"));
                engine.into_iter().chain([format!("filename={path}")]).collect()
            }
        };
        let keeps_engine = matches!(place, Place::File(_));
        let theirs = self.lines.iter().filter(|line| {
            key(line).is_none_or(|key| {
                let engine = key == "ioengine" && !keeps_engine;
                !engine && !PLACES.contains(&key) && !REPORTING.contains(&key)
            })
        });
        // As threads, so that no job outlives fio, however that ends.
        let mut text = String::from("[global]\nthread=1\nlat_percentiles=1\nclat_percentiles=0\n");
        for line in ours.iter().chain(theirs) {
            text.push_str(line);
            text.push('\n');
        }
        text
    }
}

/// fio puts variables of the environment in place of `${NAME}`, and reads a backslash as "take the next one as it is".
fn value(text: &str) -> String {
    text.replace('$', "\\$")
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATABASE: &str = "\
# what the publication ran
[global]
ioengine=libaio
  filename = /dev/sdb
size=10g
group_reporting
[database]
rw=randrw
; of its own
uri=nbd://elsewhere/x
ioengine=sync
iodepth=16
";

    fn job(text: &str) -> Job {
        Job { lines: text.lines().map(str::to_owned).collect() }
    }

    #[test]
    fn engine_and_target_are_ours_and_the_rest_is_as_given() {
        let nbd = Place::Nbd { uri: "nbd://127.0.0.1:10809/demo".to_owned() };
        assert_eq!(
            job(DATABASE).for_target(&nbd),
            "[global]\nthread=1\nlat_percentiles=1\nclat_percentiles=0\nioengine=nbd\nuri=nbd://127.0.0.1:10809/demo\n\
             # what the publication ran\n[global]\nsize=10g\n[database]\nrw=randrw\n; of its own\niodepth=16\n"
        );
        let null = job(DATABASE).for_target(&Place::Null);
        assert!(null.contains("ioengine=null\n") && !null.contains("libaio"), "{null}");
    }

    #[test]
    fn a_file_keeps_the_engine_of_the_job() {
        let file = Place::File("/srv/a:b".into());
        let text = job(DATABASE).for_target(&file);
        assert!(text.contains("filename=/srv/a\\:b\n") && text.contains("ioengine=libaio\n"), "{text}");
        assert!(!text.contains("/dev/sdb") && !text.contains("io_uring"), "{text}");
        let text = job("[a]\nrw=read\n").for_target(&file);
        assert!(text.contains("ioengine=io_uring\n"), "{text}");
    }

    #[test]
    fn what_is_included_is_taken_in() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("one.fio"), "include two.fio\n[a]\nrw=read\n").unwrap();
        std::fs::write(path("two.fio"), "[global]\nfilename=/dev/sdb\nbs=8k\n").unwrap();
        let text = read(&path("one.fio")).unwrap().for_target(&Place::Null);
        assert!(text.ends_with("[global]\nbs=8k\n[a]\nrw=read\n"), "{text}");
        std::fs::write(path("two.fio"), "include one.fio\n").unwrap();
        let error = read(&path("one.fio")).unwrap_err().to_string();
        assert!(error.contains("too deep; hint: "), "{error}");
        let error = read(&path("none.fio")).unwrap_err().to_string();
        assert!(error.contains("none.fio: No such file") && error.contains("hint: "), "{error}");
    }
}
