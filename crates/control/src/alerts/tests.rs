//! What is crossed is told once to everybody who is to be told, and nothing of it is lost over restarts.

use std::io::Write as _;
use std::time::Duration;

use monitor::event::Event;
use monitor::limit::Level;
use monitor::metric::{Recent, Snapshot, table};

use super::board::{Board, MAX_WAITING, Message, Muted, Target};
use super::file::{self, Kept};
use crate::config::Config;
use crate::moment::Moment;

const TEXT: &str = r#"
[mail]
server = "127.0.0.1"
tls = "none"
from = "san1@example.org"
[[alert]]
name = "default"
mail = ["ops@example.org"]
[[alert]]
name = "pool-full"
mail = []
webhook = "http://127.0.0.1:1/hook"
"#;

/// A node whose pool is so, and which looks every ten seconds.
struct Bed {
    board: Board,
    config: Config,
    turn: u64,
}

impl Bed {
    fn new() -> Bed {
        Bed { board: Board::new(Kept::default()), config: Config::parse(TEXT, "test").unwrap(), turn: 0 }
    }

    fn now(&self) -> Moment {
        Moment::from_unix(1_795_200_000 + self.turn * 10)
    }

    fn look_at(&mut self, pools: &[&str], state: u64, usage: f64) -> Vec<Event> {
        self.turn += 1;
        let mut snapshot = Snapshot::new(self.now().unix(), Duration::from_secs(self.turn * 10));
        for &pool in pools {
            snapshot.push(&table::POOL_STATE, &[pool], state);
            snapshot.push(&table::POOL_REDUNDANCY, &[pool], 1);
            snapshot.push(&table::POOL_USAGE, &[pool], usage);
        }
        let view = Recent::new().push(snapshot);
        let (at, now) = (Duration::from_secs(self.turn * 10), self.now());
        self.board.look(&view, &self.config, at, now, "san1")
    }

    fn look(&mut self, state: u64) -> Vec<Event> {
        self.look_at(&["tank"], state, 0.5)
    }

    /// Everything that waits, as if it had arrived.
    fn sent(&mut self) -> Vec<Message> {
        let mut all = Vec::new();
        loop {
            let due = self.board.due(self.now());
            if due.is_empty() {
                return all;
            }
            for message in &due {
                self.board.delivered(message.id);
            }
            all.extend(due);
        }
    }

    /// A node that was killed and started again.
    fn killed(mut self, kept: Kept) -> Bed {
        self.board = Board::new(kept);
        self
    }

    fn level(&self, id: &str) -> Option<Level> {
        self.board.list().into_iter().find(|(one, _)| one == id).map(|(_, entry)| entry.level)
    }
}

fn subjects(messages: &[Message]) -> Vec<&str> {
    messages.iter().map(|message| message.subject.as_str()).collect()
}

#[test]
fn each_change_is_told_once_and_so_is_its_end() {
    let mut bed = Bed::new();
    assert_eq!(bed.look(0), []);
    assert_eq!(bed.sent(), [], "what is well from the beginning is no news");
    let events = bed.look(1);
    assert_eq!(events.iter().map(Event::name).collect::<Vec<_>>(), ["alert-changed"]);
    for _ in 0..5 {
        assert_eq!(bed.look(1), []);
    }
    let sent = bed.sent();
    let [message] = &sent[..] else { panic!("{sent:?}") };
    assert_eq!(message.to, Target::Mail("ops@example.org".to_owned()));
    assert!(message.subject.starts_with("[san1] warning: pool tank is degraded"), "{}", message.subject);
    assert!(message.text.contains("What to do:\n  fels pool status tank"), "{}", message.text);
    assert!(message.text.contains("fels alert ack pool-degraded:tank"), "{}", message.text);
    bed.look(0);
    let sent = bed.sent();
    assert_eq!(subjects(&sent), ["[san1] ok: pool tank is whole: all members are in sync"]);
    assert_eq!(sent[0].body["was"], "warning");
}

#[test]
fn who_is_told_is_said_by_the_limit_or_by_default() {
    let mut bed = Bed::new();
    bed.look_at(&["tank"], 1, 0.99);
    let to: Vec<_> = bed.sent().into_iter().map(|message| message.to.to_string()).collect();
    assert_eq!(to, ["ops@example.org", "webhook of pool-full"]);
}

#[test]
fn nothing_is_lost_whenever_the_node_is_killed_and_nothing_is_told_twice() {
    let mut bed = Bed::new();
    bed.look(0);
    let before = bed.board.to_keep().unwrap();
    bed.look(1);
    let after = bed.board.to_keep().unwrap();
    // Before the writing: the state of before sees the same again.
    let mut killed = bed.killed(before);
    killed.look(1);
    assert_eq!(killed.sent().len(), 1);
    // After it: the message is there, and no second one is made.
    let mut killed = killed.killed(after);
    killed.look(1);
    let sent = killed.sent();
    assert_eq!(sent.len(), 1);
    // Sent and kept as that: not sent again.
    let kept = killed.board.to_keep().unwrap();
    let mut killed = killed.killed(kept);
    killed.look(1);
    assert_eq!(killed.sent(), []);
    killed.look(0);
    assert_eq!(killed.sent().len(), 1, "its end is told, also after a start");
}

#[test]
fn what_is_kept_is_read_again() {
    let directory = tempfile::tempdir().unwrap();
    assert_eq!(file::read(directory.path()).unwrap(), Kept::default());
    let mut bed = Bed::new();
    bed.look_at(&["tank"], 1, 0.99);
    bed.board.acknowledge("pool-degraded:tank", "alice", bed.now());
    bed.board.mute("pool-full:tank", Some(Muted { who: "bob".to_owned(), until: bed.now().after(60) }));
    let kept = bed.board.to_keep().unwrap();
    file::write(directory.path(), &kept).unwrap();
    assert_eq!(file::read(directory.path()).unwrap(), kept);
    assert_eq!(bed.board.to_keep(), None, "nothing has changed since");
    let path = directory.path().join(file::ALERTS_FILE);
    for wrong in
        ["", "{}", r#"{"format":"letter","version":1,"state":{}}"#, r#"{"format":"fels alerts","version":2}"#]
    {
        std::fs::write(&path, wrong).unwrap();
        let said = file::read(directory.path()).unwrap_err().to_string();
        assert!(said.contains("; hint: "), "{said}");
    }
}

#[test]
fn the_page_draws_a_file_that_can_be_read() {
    let page = include_str!("../../../../docs/formats/alerts.md");
    let drawn = page.split("```json\n").nth(1).unwrap().split("```").next().unwrap();
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join(file::ALERTS_FILE), drawn).unwrap();
    let kept = file::read(directory.path()).unwrap();
    assert_eq!((kept.queue.len(), kept.alerts.len(), kept.next_message), (1, 1, 17));
    let written = serde_json::to_value(&kept).unwrap();
    let drawn: serde_json::Value = serde_json::from_str(drawn).unwrap();
    assert_eq!(written, drawn["state"]);
}

#[test]
fn who_acknowledges_is_not_reminded_and_others_are_once_a_day() {
    let mut bed = Bed::new();
    bed.look(1);
    assert_eq!(bed.sent().len(), 1);
    bed.turn += 24 * 360;
    bed.look(1);
    let sent = bed.sent();
    assert!(sent.len() == 1 && sent[0].subject.starts_with("[san1] still warning"), "{sent:?}");
    bed.board.acknowledge("pool-degraded:tank", "alice", bed.now());
    bed.turn += 24 * 360;
    bed.look(1);
    assert_eq!(bed.sent(), []);
    bed.look(2);
    assert_eq!(bed.sent().len(), 1, "worse is news all the same");
    bed.turn += 24 * 360;
    bed.look(2);
    assert_eq!(bed.sent().len(), 1, "and nobody has seen that yet");
}

#[test]
fn what_is_muted_is_told_when_its_time_is_over_as_it_is_then() {
    let mut bed = Bed::new();
    bed.look(0);
    let mute = |bed: &mut Bed| {
        let until = bed.now().after(25);
        assert!(bed.board.mute("pool-degraded:tank", Some(Muted { who: "alice".to_owned(), until })));
    };
    mute(&mut bed);
    bed.look(1);
    assert_eq!((bed.sent().len(), bed.level("pool-degraded:tank")), (0, Some(Level::Warning)));
    bed.look(0);
    bed.look(0);
    assert_eq!(bed.sent(), [], "it came and went");
    mute(&mut bed);
    bed.look(2);
    bed.look(2);
    assert_eq!(bed.sent(), []);
    bed.look(2);
    assert_eq!(bed.sent().len(), 1);
    assert!(!bed.board.mute("none", None) && !bed.board.acknowledge("none", "alice", bed.now()));
}

#[test]
fn a_message_is_tried_again_later_and_later_and_given_up_in_the_end() {
    let mut bed = Bed::new();
    bed.look(1);
    bed.look(0);
    let mut now = bed.now();
    let mut tries = 0;
    let mut pauses = Vec::new();
    let first = bed.board.due(now)[0].id;
    let is_given_up = loop {
        let due = bed.board.due(now);
        assert_eq!(due.len(), 1, "the second one waits for the first");
        assert_eq!(due[0].id, first);
        tries += 1;
        if bed.board.failed(first, now) {
            break true;
        }
        let next = bed.board.next_due().unwrap();
        assert!(bed.board.due(now).is_empty());
        pauses.push(next.since(now));
        now = next;
        assert!(tries < 1000);
    };
    assert!(
        is_given_up && pauses.is_sorted() && pauses[0] == 10 && pauses.last() == Some(&3600),
        "{pauses:?}"
    );
    assert!((70..90).contains(&tries), "{tries} tries in three days");
    assert_ne!(bed.board.due(now)[0].id, first);
}

#[test]
fn many_changes_at_once_are_one_message_and_the_queue_is_bounded() {
    let mut bed = Bed::new();
    let names: Vec<String> = (0..20).map(|number| format!("tank{number}")).collect();
    let pools: Vec<&str> = names.iter().map(String::as_str).collect();
    bed.look_at(&pools, 1, 0.5);
    let sent = bed.sent();
    assert_eq!(subjects(&sent), ["[san1] 20 alerts changed at once"]);
    assert_eq!(sent[0].body["changes"].as_array().unwrap().len(), 20);
    for turn in 0..2 * MAX_WAITING as u64 {
        bed.look(turn % 2);
    }
    assert_eq!(bed.board.waiting(), MAX_WAITING);
}

#[test]
fn what_is_gone_is_unknown_first_and_forgotten_then_and_a_limit_that_is_switched_off_at_once() {
    let mut bed = Bed::new();
    bed.look(1);
    bed.sent();
    for _ in 0..30 {
        bed.look_at(&[], 0, 0.0);
    }
    assert_eq!(bed.level("pool-degraded:tank"), Some(Level::Unknown));
    bed.turn += 360;
    bed.look_at(&[], 0, 0.0);
    assert_eq!(bed.level("pool-degraded:tank"), None);
    assert_eq!(bed.sent(), []);
    bed.look(1);
    assert_eq!(bed.sent().len(), 1);
    let off = format!("{TEXT}[[alert]]\nname = \"pool-degraded\"\nenabled = false\n");
    bed.config = Config::parse(&off, "test").unwrap();
    bed.look(1);
    assert_eq!(bed.level("pool-degraded:tank"), None);
}

#[test]
fn the_summary_comes_once_a_day_at_its_time() {
    let mut bed = Bed::new();
    bed.look(1);
    bed.sent();
    // The first day, in the middle of it.
    let mut days = 0;
    for hour in 0..72 {
        bed.turn += 360;
        let (now, config) = (bed.now(), bed.config.clone());
        if bed.board.is_digest_due(&config, now) {
            assert_eq!(now.unix() % 86_400 / 3600, 7, "at seven, in hour {hour}");
            bed.board.digest(&config, &[], now, "san1");
            days += 1;
        }
    }
    assert_eq!(days, 3);
    let sent = bed.sent();
    assert_eq!(sent.len(), 3);
    assert!(sent[0].text.contains("warning: pool tank is degraded"), "{}", sent[0].text);
}

#[test]
fn limits_of_ones_own_are_kept_too() {
    let mut bed = Bed::new();
    let own = format!(
        "{TEXT}[[alert]]\nname = \"half\"\nmetric = \"fels_pool_usage_ratio\"\nlabels = {{ pool = \"tank\" }}\nwarning = 0.5\nfor = \"20s\"\n"
    );
    bed.config = Config::parse(&own, "test").unwrap();
    for _ in 0..4 {
        bed.look_at(&["tank", "other"], 0, 0.6);
    }
    let sent = bed.sent();
    assert_eq!(subjects(&sent), ["[san1] warning: Usage of pools of pool tank: 60.0 %, above 50.0 %"]);
    assert_eq!(bed.level("half:other"), None);
}

/// Who acknowledged an alert was told that it is so though it could not be kept: a restart would have forgotten it.
#[test]
fn an_acknowledgement_that_cannot_be_kept_is_not_confirmed() {
    let mut bed = Bed::new();
    for _ in 0..40 {
        bed.look(1);
    }
    let kept = bed.board.to_keep().unwrap();
    let id = kept.alerts.keys().next().unwrap().clone();
    let directory = tempfile::tempdir().unwrap();
    file::write(directory.path(), &kept).unwrap();
    let events = crate::events::Events::open(directory.path()).unwrap();
    let alerts = super::Alerts::open(directory.path(), events.clone()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    assert!(runtime.block_on(alerts.acknowledge(&id, "alice")).unwrap());
    assert!(!runtime.block_on(alerts.acknowledge("no such", "alice")).unwrap());
    // Nothing can be renamed to what is a directory.
    let path = directory.path().join(file::ALERTS_FILE);
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    assert!(runtime.block_on(alerts.unmute(&id, "alice")).is_err());
    std::fs::remove_dir(&path).unwrap();
    assert!(runtime.block_on(alerts.unmute(&id, "alice")).unwrap(), "and it is tried again");
    assert!(file::read(directory.path()).unwrap().alerts[&id].acknowledged.is_some());
    events.close();
}

/// What waited for a mail server that was away became more than the file may have: the node did not start any more.
#[test]
fn whatever_waits_can_be_read_again() {
    let mut bed = Bed::new();
    let names: Vec<String> = (0..300).map(|number| format!("tank-{number:055}")).collect();
    let pools: Vec<&str> = names.iter().map(String::as_str).collect();
    for turn in 0..150 {
        bed.look_at(&pools, 1 + turn % 2, 0.5);
    }
    assert_eq!(bed.board.waiting(), 150);
    let directory = tempfile::tempdir().unwrap();
    let kept = bed.board.to_keep().unwrap();
    file::write(directory.path(), &kept).unwrap();
    assert_eq!(file::read(directory.path()).unwrap(), kept);
    let sent = bed.sent();
    assert_eq!(sent[0].subject, "[san1] 300 alerts changed at once");
    assert!(sent[0].text.ends_with("\nand 280 more: fels alert list --all\n"), "{}", sent[0].text);
    assert_eq!(
        (sent[0].body["more"].as_u64(), sent[0].body["changes"].as_array().unwrap().len()),
        (Some(280), 20)
    );
}

/// A clock that had been years ahead for a moment ended all summaries and reminders, and what was to be tried again waited for it.
#[test]
fn a_clock_that_was_ahead_silences_nothing() {
    let mut bed = Bed::new();
    bed.turn = 10 * 365 * 24 * 360;
    bed.look(1);
    let first = bed.board.due(bed.now())[0].id;
    assert!(!bed.board.failed(first, bed.now()));
    let (now, config) = (bed.now(), bed.config.clone());
    bed.board.digest(&config, &[], now, "san1");
    // It is set right, and the node is started again.
    let kept = bed.board.to_keep().unwrap();
    bed.turn = 0;
    assert_eq!(bed.board.due(bed.now()).first().map(|message| message.id), Some(first));
    bed = bed.killed(kept);
    bed.look(1);
    bed.sent();
    bed.turn += 24 * 360;
    bed.look(1);
    let sent = bed.sent();
    assert!(sent.len() == 1 && sent[0].subject.starts_with("[san1] still warning"), "{sent:?}");
    let mut days = 0;
    for _ in 0..48 {
        bed.turn += 360;
        let now = bed.now();
        if bed.board.is_digest_due(&config, now) {
            bed.board.digest(&config, &[], now, "san1");
            days += 1;
        }
    }
    assert_eq!(days, 3);
}

/// A volume that was idle for a minute turned the sentence of its warning to `nobody knows about volume-latency of it`, and so the reminder and the summary.
#[test]
fn what_is_said_of_an_alert_stays_while_there_is_no_figure_for_a_moment() {
    for nothing in [f64::NAN, f64::INFINITY] {
        let mut bed = Bed::new();
        let own = format!(
            "{TEXT}[[alert]]\nname = \"half\"\nmetric = \"fels_pool_usage_ratio\"\nwarning = 0.5\nfor = \"20s\"\n"
        );
        bed.config = Config::parse(&own, "test").unwrap();
        for _ in 0..4 {
            bed.look_at(&["tank"], 0, 0.6);
        }
        bed.sent();
        bed.look_at(&["tank"], 0, nothing);
        let (_, entry) = bed.board.list().into_iter().find(|(id, _)| id == "half:tank").unwrap();
        assert_eq!((entry.level, entry.value), (Level::Warning, Some(0.6)));
        assert_eq!(entry.sentence, "Usage of pools of pool tank: 60.0 %, above 50.0 %");
        for _ in 0..13 {
            bed.look_at(&["tank"], 0, nothing);
        }
        let (_, entry) = bed.board.list().into_iter().find(|(id, _)| id == "half:tank").unwrap();
        assert_eq!((entry.level, entry.value), (Level::Unknown, None));
        assert!(entry.sentence.starts_with("nobody knows about half of pool tank"), "{}", entry.sentence);
    }
}

/// Who had acknowledged an alert was reminded of it each day all the same once there had been no figures for a while, as after a restart.
#[test]
fn an_acknowledgement_outlasts_that_nobody_knows() {
    let mut bed = Bed::new();
    bed.look(1);
    bed.board.acknowledge("pool-degraded:tank", "alice", bed.now());
    let acknowledged =
        |bed: &Bed| bed.board.list().into_iter().any(|(_, entry)| entry.acknowledged.is_some());
    for _ in 0..20 {
        bed.look_at(&[], 0, 0.0);
    }
    assert_eq!((bed.level("pool-degraded:tank"), acknowledged(&bed)), (Some(Level::Unknown), true));
    bed.look(1);
    assert_eq!((bed.level("pool-degraded:tank"), acknowledged(&bed)), (Some(Level::Warning), true));
    // Worse is news, also from there.
    for _ in 0..20 {
        bed.look_at(&[], 0, 0.0);
    }
    bed.look(2);
    assert_eq!((bed.level("pool-degraded:tank"), acknowledged(&bed)), (Some(Level::Critical), false));
}

/// Receivers were tried one after another: where two did not answer the API gave up, and nobody was told which of them it is.
#[test]
fn a_receiver_that_does_not_answer_keeps_no_other_from_being_tried() {
    let names = ["default", "pool-full", "pool-degraded", "member-smart", "member-temperature"];
    let slow = Duration::from_millis(800);
    let section = |name: &&str| {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            let (mut peer, _) = listener.accept().unwrap();
            std::thread::sleep(slow);
            peer.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").unwrap();
            // What was sent is read to its end, so that the answer is not lost to a reset.
            peer.shutdown(std::net::Shutdown::Write).unwrap();
            std::io::copy(&mut peer, &mut std::io::sink()).ok();
        });
        format!("[[alert]]\nname = \"{name}\"\nwebhook = \"http://{address}/\"\n")
    };
    let config = Config::parse(&names.iter().map(section).collect::<String>(), "test").unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let begun = std::time::Instant::now();
    let tried = runtime.block_on(super::deliver::test(&config, "san1"));
    let told: Vec<_> = tried.iter().map(|tried| (tried.to.as_str(), tried.error.as_deref())).collect();
    assert_eq!(told.len(), names.len());
    assert!(told.iter().all(|(_, error)| error.is_none()), "{told:?}");
    assert_eq!(told[0].0, "webhook of default", "in the same order as ever");
    assert!(begun.elapsed() < 3 * slow, "{:?}", begun.elapsed());
}
