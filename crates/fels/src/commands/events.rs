//! `fels events`: what happened to a node.

use super::node::{encoded, failure};
use super::print_json;
use super::table::{Align, row, table};
use super::user::How;
use crate::message::{Failure, print};
use clap::Args;
use control::api::Happened;
use control::api::client::ClientError;
use control::events::Record;
use std::io::Write as _;
use std::ops::ControlFlow;
use std::time::Duration;

/// How long to wait before a stream that broke is asked for again.
const AGAIN: Duration = Duration::from_secs(1);

/// Show what happened to a node: pools, volumes, logins, alerts
#[derive(Debug, Args)]
pub struct Arguments {
    /// How many events at most, the newest
    #[arg(long, value_name = "COUNT", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=1000))]
    limit: u64,

    /// Only those before the one with this number
    #[arg(long, value_name = "ID", conflicts_with = "follow")]
    before: Option<u64>,

    /// Only those that are as bad at least: info, warning or critical
    #[arg(long, value_name = "LEVEL", value_parser = ["info", "warning", "critical"])]
    severity: Option<String>,

    /// Only those of this name, such as member-faulted
    #[arg(long, value_name = "NAME")]
    event: Option<String>,

    /// Go on with what happens from now on, until interrupted
    #[arg(short, long)]
    follow: bool,

    #[command(flatten)]
    how: How,
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut filter = String::new();
    for (key, value) in [("severity", &arguments.severity), ("event", &arguments.event)] {
        filter.extend(value.iter().map(|value| format!("&{key}={}", encoded(value))));
    }
    let before = arguments.before.map_or_else(String::new, |before| format!("&before={before}"));
    let client = arguments.how.node.client()?;
    let look = |path: &str| client.get::<Happened>(path).map_err(|error| failure(&error));
    let newest_of = |told: &Happened| told.events.first().map_or(0, |record| record.id);
    // What is followed goes on behind this, also where nothing of it was there yet: until the stream begins, and each time it broke, things happen.
    let newest = if arguments.follow { newest_of(&look("/v1/events?limit=1")?) } else { 0 };
    let told = look(&format!("/v1/events?limit={}{before}{filter}", arguments.limit))?;
    if !arguments.follow {
        return show(&told, arguments.how.json);
    }
    let mut last = newest.max(newest_of(&told));
    for record in told.events.iter().rev() {
        if tell(record, arguments.how.json).is_break() {
            return Ok(());
        }
    }
    loop {
        let path = format!("/v1/events/stream?after={last}{filter}");
        let listened = client.listen(&path, |data| {
            let Ok(record) = serde_json::from_str::<Record>(data) else { return ControlFlow::Continue(()) };
            last = record.id;
            tell(&record, arguments.how.json)
        });
        match listened {
            Ok(ControlFlow::Break(())) => return Ok(()),
            // It ends once in a while, and when the node stops.
            Ok(ControlFlow::Continue(())) | Err(ClientError::Silent | ClientError::Io(_)) => {
                std::thread::sleep(AGAIN);
            }
            Err(error) => return Err(failure(&error)),
        }
    }
}

fn show(told: &Happened, json: bool) -> Result<(), Failure> {
    if json {
        return print_json(told);
    }
    if told.events.is_empty() {
        return print("nothing like that has happened\n");
    }
    let mut rows = vec![row(["id", "at", "severity", "event", "what"])];
    // As they happened: the newest is where the eye is.
    rows.extend(told.events.iter().rev().map(cells));
    let columns = [Align::Right, Align::Left, Align::Left, Align::Left, Align::Left];
    print(&table(0, &columns, &rows))
}

fn cells(record: &Record) -> Vec<String> {
    vec![
        record.id.to_string(),
        record.at.to_string(),
        record.severity.clone(),
        record.event.clone(),
        record.sentence.clone(),
    ]
}

/// One event, as soon as it is there: a line of text, or of JSON. Breaks off when nobody reads any more.
fn tell(record: &Record, json: bool) -> ControlFlow<()> {
    let line = match serde_json::to_string(record) {
        Ok(line) if json => line,
        _ => format!("{}  {:8}  {}", record.at, record.severity, record.sentence),
    };
    let mut stdout = std::io::stdout().lock();
    match writeln!(stdout, "{line}").and_then(|()| stdout.flush()) {
        Ok(()) => ControlFlow::Continue(()),
        Err(_) => ControlFlow::Break(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use std::io::{BufRead as _, BufReader};

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    /// What happened between the look and the stream, and while a stream that broke was asked for again, was told by nobody where nothing of what is asked
    /// for had happened before.
    #[test]
    fn what_happens_before_the_stream_begins_is_asked_for() {
        let directory = tempfile::tempdir().unwrap();
        let listener = std::os::unix::net::UnixListener::bind(directory.path().join("fels.sock")).unwrap();
        // Seven things happened to this node, none of them is of that name, and it has no streams.
        let node = std::thread::spawn(move || {
            loop {
                let (mut peer, _) = listener.accept().unwrap();
                let mut lines = BufReader::new(peer.try_clone().unwrap()).lines().map(Result::unwrap);
                let first = lines.next().unwrap();
                lines.find(String::is_empty).unwrap();
                let record = r#"{"id":7,"at":"2026-11-20T20:41:07Z","event":"login","severity":"info","sentence":"x","fields":{}}"#;
                let (status, body) = match &first {
                    first if first.contains("/stream") => ("404 Not Found", String::new()),
                    first if first.contains("event=") => ("200 OK", r#"{"events":[]}"#.to_owned()),
                    _ => ("200 OK", format!("{{\"events\":[{record}]}}")),
                };
                let length = body.len();
                write!(
                    peer,
                    "HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
                )
                .unwrap();
                if first.contains("/stream") {
                    return first;
                }
            }
        });
        let data = directory.path().to_str().unwrap();
        let line = Line::parse_from(["events", "--follow", "--event", "member-faulted", "--data", data]);
        assert!(run(&line.arguments).is_err());
        let asked = node.join().unwrap();
        assert!(asked.contains("after=7&event=member-faulted"), "{asked}");
    }
}
