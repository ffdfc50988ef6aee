//! One run of fio: started, watched, ended.

use std::io::{BufRead as _, BufReader, ErrorKind, Read, Write as _};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::is_verification;
use super::output::{Line, Snapshot, Splitter};
use crate::error::LabError;

/// Between two looks at the flag that ends a run early.
const LOOK: Duration = Duration::from_millis(50);
/// How long fio may take to end when it is asked to.
const PATIENCE: Duration = Duration::from_secs(10);
/// Sentences that are kept.
const KEPT: usize = 200;

/// fio at work; it is killed if this goes before it ends.
pub(super) struct Process {
    child: Child,
    lines: Receiver<Said>,
}

enum Said {
    Output(String),
    Error(String),
}

/// How fio ended.
#[derive(Debug)]
pub(super) struct Ended {
    status: ExitStatus,
    /// Its first sentences, from both outputs.
    pub(super) told: Vec<String>,
    /// How many of all its sentences are about a wrong block.
    pub(super) wrong: u64,
}

impl Ended {
    pub(super) fn success(&self) -> bool {
        self.status.success()
    }

    /// In words.
    pub(super) fn status(&self) -> String {
        self.status.to_string()
    }
}

fn failed(what: &str, error: &std::io::Error) -> LabError {
    LabError::Fio {
        problem: format!("fio cannot be {what}: {error}"),
        hint: "try `fio --version`".to_owned(),
    }
}

/// Hands on every line until there are no more.
fn listen(from: impl Read + Send + 'static, to: mpsc::Sender<Said>, said: fn(String) -> Said) {
    std::thread::spawn(move || {
        let mut reader = BufReader::new(from);
        let mut bytes = Vec::new();
        while reader.read_until(b'\n', &mut bytes).is_ok_and(|count| count > 0) {
            let line = String::from_utf8_lossy(&bytes).trim_end_matches('\n').to_owned();
            bytes.clear();
            if to.send(said(line)).is_err() {
                return;
            }
        }
    });
}

impl Process {
    /// Starts `program` with a job file.
    pub(super) fn start(program: &Path, job: String) -> Result<Process, LabError> {
        let mut command = Command::new(program);
        command.args(["--output-format=json+", "--status-interval=1", "--eta=never", "-"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| match error.kind() {
            ErrorKind::NotFound => LabError::Fio {
                problem: format!("there is no program {}", program.display()),
                hint: "install it: apt install fio".to_owned(),
            },
            _ => failed("started", &error),
        })?;
        let (sender, lines) = mpsc::channel();
        if let Some(output) = child.stdout.take() {
            listen(output, sender.clone(), Said::Output);
        }
        if let Some(errors) = child.stderr.take() {
            listen(errors, sender, Said::Error);
        }
        if let Some(mut input) = child.stdin.take() {
            // If fio ends before it has read everything, it says why.
            std::thread::spawn(move || input.write_all(job.as_bytes()));
        }
        Ok(Process { child, lines })
    }

    /// Hands on what fio has measured, every second, until it ends.
    pub(super) fn watch(
        mut self,
        stop: &AtomicBool,
        mut snapshot: impl FnMut(Snapshot),
    ) -> Result<Ended, LabError> {
        let (mut splitter, mut told, mut wrong) = (Splitter::default(), Vec::new(), 0);
        let mut unreadable = None;
        let mut asked: Option<Instant> = None;
        loop {
            let said = match self.lines.recv_timeout(LOOK) {
                Ok(Said::Error(line)) if line.trim().is_empty() => None,
                Ok(Said::Error(line)) => Some(line),
                Ok(Said::Output(line)) => match splitter.line(&line) {
                    Line::Document(Ok(found)) => {
                        unreadable = None;
                        snapshot(found);
                        None
                    }
                    Line::Document(Err(error)) => {
                        unreadable = Some(error);
                        None
                    }
                    Line::Said(line) => Some(line),
                    Line::Nothing => None,
                },
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            if let Some(line) = said {
                wrong += u64::from(is_verification(&line));
                if told.len() < KEPT {
                    told.push(line);
                }
            }
            if stop.load(Ordering::Relaxed) {
                self.ask(&mut asked);
            }
        }
        let status = self.child.wait().map_err(|error| failed("waited for", &error))?;
        // Only the last object counts; those before may be cut short.
        match unreadable {
            Some(error) => Err(LabError::Fio {
                problem: format!("the JSON of fio cannot be read: {error}"),
                hint: "fio 3.1 or later is needed: try `fio --version`".to_owned(),
            }),
            None => Ok(Ended { status, told, wrong }),
        }
    }

    /// Asks fio to end and to print what it has; it is killed if it does not.
    fn ask(&mut self, asked: &mut Option<Instant>) {
        match asked {
            None => {
                if let Some(pid) = Pid::from_raw(self.child.id().cast_signed()) {
                    // It may have ended meanwhile, or heard the terminal's signal already.
                    kill_process(pid, Signal::INT).ok();
                }
                *asked = Some(Instant::now());
            }
            Some(since) if since.elapsed() > PATIENCE => {
                self.child.kill().ok();
            }
            Some(_) => {}
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
