//! `fels job`: what takes a while.

use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::{Args, Subcommand};
use control::api::client::Client;
use control::api::model::{Job, JobState, Jobs, Wish};

use super::node::{NodeFlags, encoded, failure};
use super::pool::status::progress;
use super::pool::wait::{Bar, stop_flag};
use super::print_json;
use super::table::{Align, row, table};
use crate::message::{Failure, print};
use std::fmt::Write as _;

/// How often the node is asked.
const ASK: Duration = Duration::from_millis(250);

/// Look at what takes a while, wait for it, or end it
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List what goes on, and how far it is
    List(List),
    /// Show all of a job
    Show(One),
    /// End a job where it is
    Cancel(One),
    /// Wait for the end of a job, with a bar; ends with 1 if it could not be done
    Wait(One),
}

#[derive(Debug, Args)]
struct List {
    /// Also what ended lately
    #[arg(long)]
    all: bool,

    /// Write JSON, for programs
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    node: NodeFlags,
}

#[derive(Debug, Args)]
struct One {
    /// What `fels job list` calls it, such as scrub:tank
    job: String,

    /// Write JSON, for programs
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    node: NodeFlags,
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.command {
        Command::List(list) => show_all(list),
        Command::Show(one) => {
            let job = ask(&one.node.client()?, &one.job)?;
            tell(&job, one.json)
        }
        Command::Cancel(one) => {
            let path = path(&one.job);
            let job = one.node.client()?.delete(&path, &Wish::default()).map_err(|error| failure(&error))?;
            tell(&job, one.json)
        }
        Command::Wait(one) => wait(one),
    }
}

fn path(job: &str) -> String {
    format!("/v1/jobs/{}", encoded(job))
}

fn ask(client: &Client, job: &str) -> Result<Job, Failure> {
    client.get(&path(job)).map_err(|error| failure(&error))
}

fn show_all(list: &List) -> Result<(), Failure> {
    let path = if list.all { "/v1/jobs?ended=true" } else { "/v1/jobs" };
    let told: Jobs = list.node.client()?.get(path).map_err(|error| failure(&error))?;
    if list.json {
        return print_json(&told);
    }
    if told.jobs.is_empty() {
        return print("nothing goes on\n");
    }
    let mut rows = vec![row(["job", "state", "progress", "begun", "does"])];
    let line = |job: &Job| row([&job.id, word(job), &far(job), &job.begun.to_string(), &job.title]);
    rows.extend(told.jobs.iter().map(line));
    print(&table(0, &[Align::Left; 5], &rows))
}

fn wait(one: &One) -> Result<(), Failure> {
    let client = one.node.client()?;
    let stop = stop_flag()?;
    let mut bar = Bar::new(&one.job);
    let mut job = ask(&client, &one.job)?;
    while job.state == JobState::Running {
        bar.show(&job.progress);
        std::thread::sleep(ASK);
        if stop.load(Ordering::Relaxed) {
            drop(bar);
            return Err(Failure::new(
                "stopped waiting",
                Some("the job goes on in the node; `fels job list` shows it"),
            ));
        }
        job = ask(&client, &one.job)?;
    }
    drop(bar);
    tell(&job, one.json)?;
    match job.state {
        JobState::Failed => Err(Failure::new(format!("{} could not be done", job.id), None)),
        JobState::Running | JobState::Done | JobState::Ended => Ok(()),
    }
}

fn tell(job: &Job, json: bool) -> Result<(), Failure> {
    if json { print_json(job) } else { print(&text(job)) }
}

fn text(job: &Job) -> String {
    let mut text = format!("{}: {}\n  {}", job.id, job.title, word(job));
    let far = far(job);
    if !far.is_empty() {
        text = text + ", " + &far;
    }
    // Writing to a String does not fail.
    let _ = write!(text, ", begun {}", job.begun);
    if let Some(ended) = job.ended {
        let _ = write!(text, ", ended {ended}");
    }
    if let Some(sentence) = &job.sentence {
        text = text + "\n  " + sentence;
    }
    text + "\n"
}

fn word(job: &Job) -> &'static str {
    match job.state {
        JobState::Running => "goes on",
        JobState::Done => "done",
        JobState::Ended => "ended early",
        JobState::Failed => "failed",
    }
}

/// How far it is; nothing where nobody knows.
fn far(job: &Job) -> String {
    if job.progress.total_bytes == 0 { String::new() } else { progress(&job.progress) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_told_with_how_it_ended() {
        let json = r#"{"id":"scrub:tank","kind":"scrub","title":"read it","state":"done","begun":"2026-11-22T03:00:00Z",
            "ended":"2026-11-22T03:10:00Z","sentence":"3 bad blocks","can_be_ended":false,"pool":"tank",
            "progress":{"done_bytes":5,"total_bytes":5}}"#;
        let mut job: Job = serde_json::from_str(json).unwrap();
        let said = "scrub:tank: read it\n  done, 100 %, begun 2026-11-22T03:00:00Z, ended 2026-11-22T03:10:00Z\n  3 bad blocks\n";
        assert_eq!(text(&job), said);
        job.progress.total_bytes = 0;
        assert_eq!(far(&job), "", "nobody knows");
    }
}
