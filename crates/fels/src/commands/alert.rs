//! `fels alert`: what has crossed a limit, and what people do about it.

use super::node::{encoded, failure};
use super::print_json;
use super::table::{Align, row, table};
use super::user::How;
use crate::message::{Failure, print};
use clap::{Args, Subcommand};
use control::api::alerts::{Alert, AlertList, MuteWish, NoWish, Tested};
use control::api::limits;
use control::api::people::model::Done;
use control::size::parse_duration;
use std::fmt::Write as _;
use std::time::Duration;

/// Show what has crossed a limit, and say who sees to it
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    List(List),
    /// Show an alert, with what to do about it
    Show(One),
    /// Say that you see to an alert: nobody is reminded of it any more
    Ack(One),
    Mute(Mute),
    /// Let an alert be told again
    Unmute(One),
    Limits(Limits),
    Test(Test),
}

/// List alerts, the worst first
#[derive(Debug, Args)]
struct List {
    /// Also what is well, and what nobody knows about
    #[arg(short, long)]
    all: bool,

    #[command(flatten)]
    how: How,
}

// What is done with it stands above: a sentence here would replace that.
#[derive(Debug, Args)]
struct One {
    /// The alert, such as pool-degraded:tank
    alert: String,

    #[command(flatten)]
    how: How,
}

/// Tell nobody of an alert for a while
///
/// It is listed all the same. When the time is over, who is told of it hears how it is then.
#[derive(Debug, Args)]
struct Mute {
    /// The alert, such as pool-full:tank
    alert: String,

    /// For how long, such as 30m or 8h; a month at most
    #[arg(long = "for", value_name = "TIME", default_value = "1h", value_parser = duration)]
    time: Duration,

    #[command(flatten)]
    how: How,
}

/// List the limits that things are held against, and who is told
#[derive(Debug, Args)]
struct Limits {
    #[command(flatten)]
    how: How,
}

/// Send a message to everybody who would be told, and say whether it arrives
#[derive(Debug, Args)]
struct Test {
    #[command(flatten)]
    how: How,
}

fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text).map_err(|error| error.to_string())
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.command {
        Command::List(list) => run_list(list),
        Command::Show(one) => show(one),
        Command::Ack(one) => change(&one.how, &one.alert, "ack", &NoWish {}),
        Command::Mute(mute) => {
            let wish = MuteWish { for_s: Some(mute.time.as_secs()) };
            change(&mute.how, &mute.alert, "mute", &wish)
        }
        Command::Unmute(one) => change(&one.how, &one.alert, "unmute", &NoWish {}),
        Command::Limits(limits) => run_limits(&limits.how),
        Command::Test(test) => run_test(test),
    }
}

fn listed(how: &How) -> Result<AlertList, Failure> {
    how.node.client()?.get("/v1/alerts").map_err(|error| failure(&error))
}

fn is_bad(alert: &Alert) -> bool {
    matches!(alert.level.as_str(), "warning" | "critical")
}

fn run_list(list: &List) -> Result<(), Failure> {
    let mut told = listed(&list.how)?;
    let count = told.alerts.len();
    told.alerts.retain(|alert| list.all || is_bad(alert));
    if list.how.json {
        return print_json(&told);
    }
    let waiting = match told.waiting {
        0 => String::new(),
        1 => "1 message waits for being sent\n".to_owned(),
        waiting => format!("{waiting} messages wait for being sent\n"),
    };
    if told.alerts.is_empty() {
        let hint = if list.all { "" } else { "; --all shows what is looked at" };
        return print(&format!("all is well: {count} limits are kept{hint}\n{waiting}"));
    }
    let mut rows = vec![row(["level", "alert", "since", "what", ""])];
    rows.extend(told.alerts.iter().map(|alert| {
        vec![
            alert.level.clone(),
            alert.id.clone(),
            alert.since.to_string(),
            alert.sentence.clone(),
            state(alert),
        ]
    }));
    print(&format!("{}{waiting}", table(0, &[Align::Left; 5], &rows)))
}

/// What people have done about it.
fn state(alert: &Alert) -> String {
    match (&alert.acknowledged_by, alert.muted_until) {
        (Some(who), _) => format!("{who} sees to it"),
        (None, Some(until)) => format!("muted until {until}"),
        (None, None) => String::new(),
    }
}

fn show(one: &One) -> Result<(), Failure> {
    let told = listed(&one.how)?;
    let alert = told.alerts.into_iter().find(|alert| alert.id == one.alert).ok_or_else(|| {
        Failure::new(
            format!("there is no alert {}", one.alert),
            Some("`fels alert list --all` shows all of them"),
        )
    })?;
    if one.how.json {
        return print_json(&alert);
    }
    let mut text = format!("{}: {}\nsince {}\n", alert.level, alert.sentence, alert.since);
    // Writing to a String does not fail.
    if let Some(value) = alert.value {
        let _ = writeln!(text, "figure {value}");
    }
    let state = state(&alert);
    if !state.is_empty() {
        let _ = writeln!(text, "{state}");
    }
    if is_bad(&alert) && !alert.hint.is_empty() {
        let _ = writeln!(text, "hint: {}", alert.hint);
    }
    print(&text)
}

fn change(how: &How, id: &str, what: &str, wish: &impl serde::Serialize) -> Result<(), Failure> {
    let path = format!("/v1/alerts/{}/{what}", encoded(id));
    let done: Done = how.node.client()?.post(&path, wish).map_err(|error| failure(&error))?;
    if how.json {
        return print_json(&done);
    }
    print(&done.steps.iter().fold(String::new(), |steps, step| steps + step + "\n"))
}

fn run_limits(how: &How) -> Result<(), Failure> {
    let told: limits::Limits =
        how.node.client()?.get("/v1/alerts/limits").map_err(|error| failure(&error))?;
    if how.json {
        return print_json(&told);
    }
    let mut rows = vec![row(["limit", "warning", "critical", "for", "told", "what"])];
    rows.extend(told.limits.iter().map(|limit| {
        let name = if limit.enabled { limit.name.clone() } else { format!("{} (off)", limit.name) };
        let what = limit.about.clone().or_else(|| limit.metric.clone()).unwrap_or_default();
        let who = if limit.told.is_empty() { "nobody".to_owned() } else { limit.told.join(", ") };
        let time = format!("{} s", limit.raise_after_s);
        vec![name, bound(limit, limit.warning), bound(limit, limit.critical), time, who, what]
    }));
    let hint = "[[alert]] in the configuration changes them, and says who is told\n";
    print(&format!("{}{hint}", table(0, &[Align::Left; 6], &rows)))
}

/// From where on it is bad, such as `>= 0.92`.
fn bound(limit: &limits::Limit, value: Option<f64>) -> String {
    let side = if limit.when == "below" { "<=" } else { ">=" };
    value.map_or_else(String::new, |value| format!("{side} {value}"))
}

fn run_test(test: &Test) -> Result<(), Failure> {
    let client = test.how.node.client()?;
    let told: Tested = client.post("/v1/alerts/test", &NoWish {}).map_err(|error| failure(&error))?;
    if test.how.json {
        print_json(&told)?;
    } else {
        for receiver in &told.receivers {
            match &receiver.error {
                None => print(&format!("{} has taken the message\n", receiver.to))?,
                Some(why) => print(&format!("{} could not be told: {why}\n", receiver.to))?,
            }
        }
    }
    let lost = told.receivers.iter().filter(|receiver| !receiver.arrived).count();
    if lost == 0 {
        return Ok(());
    }
    Err(Failure::new(
        format!("{lost} of {} could not be told", told.receivers.len()),
        Some("see [mail] and [[alert]] in the configuration, and the log of the mail server"),
    ))
}
