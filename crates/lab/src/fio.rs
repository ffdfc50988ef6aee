//! The real fio on one of our targets: its job file, its figures, our tables.
//!
//! fio reads the job file from its standard input, with the engine and the target put in its place ([`job`]); it prints
//! JSON every second, with the histograms of all latencies ([`output`]), from which the same report is made as
//! from the lab's own loads ([`figures`]).

mod figures;
mod job;
mod output;
mod process;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::LabError;
use crate::initiator::{Geometry, OpenOptions};
use crate::report::{self, Host, Report};
use crate::run::{self, Progress};
use crate::target::{NbdAddress, NbdTarget, Target};
use figures::Figures;
use process::{Ended, Process};

/// Sentences of fio that are shown.
const TOLD: usize = 10;

/// What fio is to do.
#[derive(Clone, Debug)]
pub struct FioOptions {
    /// Its job file; it is only read.
    pub job_file: PathBuf,
    /// An NBD export, a file or a device, or nothing.
    pub target: Target,
    /// The program, such as `fio`.
    pub program: PathBuf,
}

/// Runs fio to its end; `progress` is called once a second. When `stop` becomes true, fio is asked to end, and the report has
/// what it had measured.
pub fn fio(
    options: &FioOptions,
    mut progress: impl FnMut(&Progress<'_>),
    stop: &AtomicBool,
) -> Result<Report, LabError> {
    let place = place(&options.target)?;
    let job = job::read(&options.job_file)?.for_target(&place);
    // The lab says better than fio why a target cannot be opened, and knows its size.
    let geometry = run::probe(&options.target, &OpenOptions::default())?;
    let mut figures = Figures::default();
    let process = Process::start(&options.program, job)?;
    let ended = process.watch(stop, |snapshot| {
        if let Some(second) = figures.take(snapshot) {
            progress(&second.progress());
        }
    })?;
    let interrupted = stop.load(Ordering::Relaxed);
    report(options, &figures, &ended, geometry, interrupted)
}

/// What stands in the job file instead of what stood there.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    /// The NBD engine.
    Nbd {
        /// What libnbd connects to.
        uri: String,
    },
    /// The engine of the job, on a file or device.
    File(PathBuf),
    /// The null engine.
    Null,
}

fn place(target: &Target) -> Result<Place, LabError> {
    let cannot = |protocol: &str, other: &str| LabError::Fio {
        problem: format!("fio has no initiator for {protocol}"),
        hint: format!(
            "give the NBD export of the same volume (nbd://host:port/export), {other}, \
             or measure with `fels lab run`"
        ),
    };
    match target {
        Target::Iscsi(_) => Err(cannot("iSCSI", "or file:/dev/sdX after `iscsiadm --login`")),
        Target::Nvme(_) => Err(cannot("NVMe/TCP", "or file:/dev/nvmeXnY after `nvme connect`")),
        Target::Nbd(target) => Ok(Place::Nbd { uri: uri(target) }),
        Target::File(path) => Ok(Place::File(path.clone())),
        Target::Pool(_) => Err(cannot("pools in this process", "of a node that serves one")),
        Target::Null => Ok(Place::Null),
    }
}

/// As the NBD project writes addresses, in which %XX stands for odd bytes.
fn uri(target: &NbdTarget) -> String {
    let export = percent(target.export.as_bytes());
    match &target.address {
        NbdAddress::Inet { host, port } if host.contains(':') => format!("nbd://[{host}]:{port}/{export}"),
        NbdAddress::Inet { host, port } => format!("nbd://{host}:{port}/{export}"),
        NbdAddress::Unix(path) => {
            use std::os::unix::ffi::OsStrExt as _;
            format!("nbd+unix:///{export}?socket={}", percent(path.as_os_str().as_bytes()))
        }
    }
}

fn percent(bytes: &[u8]) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/:".contains(&byte);
    let one = |&byte: &u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    bytes.iter().map(one).collect()
}

fn report(
    options: &FioOptions,
    figures: &Figures,
    ended: &Ended,
    geometry: Geometry,
    interrupted: bool,
) -> Result<Report, LabError> {
    let mut tests = figures.tests(&geometry);
    let wrong: Vec<String> = ended.told.iter().filter(|line| is_verification(line)).cloned().collect();
    let told = || ended.told.iter().filter(|line| !is_verification(line)).take(TOLD).cloned();
    let measured = tests.iter().any(|test| test.total.operations + test.flushes.operations > 0);
    if !measured && wrong.is_empty() && !interrupted {
        let words: Vec<_> = told().collect();
        let words = if words.is_empty() { "it gave no reason".to_owned() } else { words.join("; ") };
        return Err(LabError::Fio {
            problem: format!("fio ({}) measured nothing: {words}", ended.status()),
            hint: format!(
                "look at {}; `fio --cmdhelp=all` lists what a job may say",
                options.job_file.display()
            ),
        });
    }
    blame(&mut tests, ended.wrong, wrong);
    // What fio says after Ctrl-C is what it was asked to do.
    let unblamed = tests.iter().all(|test| test.errors + test.findings.count == 0);
    if let Some(test) = tests.first_mut().filter(|_| !interrupted && !ended.success() && unblamed) {
        test.errors = 1;
    }
    if let Some(test) = tests.iter_mut().find(|test| test.errors > 0) {
        test.error_texts = told().collect();
        test.error_texts.push(format!("fio: {}", ended.status()));
    }
    report::flag_identical_tests(&mut tests);
    Ok(Report {
        schema: report::SCHEMA,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ended_unix_s: run::unix_s(),
        host: Host::this(),
        target: options.target.to_string(),
        measured_by: Some(format!("{}, job file {}", figures.version(), options.job_file.display())),
        profile: None,
        interrupted,
        tests,
    })
}

/// `verify: bad magic header ...`, `crc32c: verify failed at file ...` and their like.
fn is_verification(line: &str) -> bool {
    line.starts_with("verify:") || line.contains(": verify failed at ")
}

/// Puts what fio found wrong with the test that failed for it. fio does not say which job a sentence is about.
fn blame(tests: &mut [report::TestReport], count: u64, texts: Vec<String>) {
    let counted: u64 = tests.iter().map(|test| test.findings.count).sum();
    if count == 0 && counted == 0 {
        return;
    }
    let found = tests.iter().position(|test| test.findings.count > 0).unwrap_or(0);
    if let Some(test) = tests.get_mut(found) {
        // A sentence for each wrong block, unless a job was told to count and say nothing.
        test.findings.count += count.saturating_sub(counted);
        test.wrong_texts = texts.into_iter().take(TOLD).collect();
        test.verified_by.get_or_insert_with(|| "fio".to_owned());
    }
}

#[cfg(test)]
mod tests;
