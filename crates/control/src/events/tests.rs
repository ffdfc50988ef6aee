//! What is told is kept, handed on in order, and bounded.

use super::pools::happened;
use super::*;
use monitor::event::Severity;
use plane::pool::{Level, MemberState, MemberStatus, Scrub, SpareStatus, Status};
use std::time::{Duration, Instant};

fn created(number: u64) -> Event {
    Event::VolumeCreated { volume: format!("v{number}"), bytes: number }
}

/// Waits until the newest event has that id.
fn until(events: &Events, id: u64) {
    let end = Instant::now() + Duration::from_secs(20);
    while events.0.shared.news.borrow().newest < id {
        assert!(Instant::now() < end, "event {id} does not come");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn ids(records: &[Record]) -> Vec<u64> {
    records.iter().map(|record| record.id).collect()
}

#[test]
fn a_line_is_as_the_page_draws_it() {
    let page = include_str!("../../../../docs/formats/events.md");
    let event = Event::MemberFaulted {
        pool: "tank".to_owned(),
        slot: 1,
        place: "/dev/sdb".to_owned(),
        cause: "an I/O error".to_owned(),
    };
    let line = Record::new(42, Moment::from_unix(1_795_207_267), &event).line().unwrap();
    let line = String::from_utf8(line).unwrap();
    // The order of the fields is nobody's business.
    let drawn = page.lines().find(|line| line.starts_with("{\"id\":42,")).unwrap();
    let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    assert_eq!(read(drawn), read(&line));
}

#[test]
fn what_is_told_is_kept_in_order_and_ids_go_on_after_a_start() {
    let directory = tempfile::tempdir().unwrap();
    let events = Events::open(directory.path()).unwrap();
    (1..=50).for_each(|number| events.tell(created(number)));
    until(&events, 50);
    assert_eq!(ids(&events.read(3, None, |_| true).unwrap()), [50, 49, 48]);
    assert_eq!(ids(&events.read(2, Some(10), |record| record.id % 2 == 0).unwrap()), [8, 6]);
    let after: Vec<_> = events.after(47, 100).unwrap().iter().map(|record| record.id).collect();
    assert_eq!(after, [48, 49, 50]);
    events.close();
    events.tell(created(0));
    let events = Events::open(directory.path()).unwrap();
    events.tell(Event::NodeStopping {});
    until(&events, 51);
    let read = events.read(2, None, |_| true).unwrap();
    assert_eq!((ids(&read), read[0].event.as_str()), (vec![51, 50], "node-stopping"));
    assert_eq!(read[1].fields["volume"], "v50");
    assert_eq!(events.after(0, 3).unwrap().len(), 3, "memory has them after a start, too");
}

#[test]
fn everything_that_was_handed_on_is_on_the_disk() {
    let directory = tempfile::tempdir().unwrap();
    let events = Events::open(directory.path()).unwrap();
    for number in 1..=20 {
        events.tell(created(number));
        until(&events, number);
        // As a node that is killed now would leave it.
        let left = read(directory.path(), 1, None, |_| true).unwrap();
        assert_eq!(ids(&left), [number]);
    }
}

#[test]
fn one_cause_does_not_drive_everything_else_out() {
    let mut flood = Flood::default();
    let now = Moment::from_unix(6_000);
    let admitted = (0..1000).filter(|_| flood.admits("login-refused", now)).count();
    assert_eq!(admitted, 120);
    assert!(flood.admits("member-faulted", now));
    assert!(flood.admits("login-refused", now.after(60)));
}

#[test]
fn who_listens_is_one_of_few_and_has_to_go_when_the_node_ends() {
    let directory = tempfile::tempdir().unwrap();
    let events = Events::open(directory.path()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut listeners: Vec<_> = std::iter::from_fn(|| events.listen()).take(100).collect();
    assert_eq!(listeners.len(), MAX_LISTENERS);
    drop(listeners.pop());
    let mut one = events.listen().unwrap();
    events.tell(Event::NodeStopping {});
    runtime.block_on(one.wait(0));
    assert_eq!((one.newest(), one.has_to_go()), (1, false));
    events.dismiss();
    runtime.block_on(one.wait(1));
    assert!(one.has_to_go());
    drop(one);
    assert!(events.listen().is_none());
}

#[test]
fn a_sentence_is_bounded_and_has_no_control_characters_whoever_sent_it() {
    let event = Event::UserCameIn { user: "\u{1b}[2J\n".repeat(1000), from: "a".repeat(10_000) };
    let record = Record::new(1, Moment::from_unix(0), &event);
    assert!(record.sentence.chars().count() <= 512);
    assert!(!record.sentence.chars().any(char::is_control));
    assert_eq!(record.severity(), Severity::Info);
}

fn member(place: &str, state: MemberState) -> MemberStatus {
    MemberStatus {
        place: Some(place.to_owned()),
        state,
        cause: None,
        progress: None,
        read_time: None,
        write_time: None,
        slow: false,
        set: 0,
    }
}

fn status(members: Vec<MemberStatus>) -> Status {
    Status {
        name: "tank".to_owned(),
        id: [7; 16],
        level: Level::Raid1,
        unit: 65536,
        rows: 100,
        bytes: 1 << 20,
        integrity: true,
        has_failed: false,
        members,
        spares: Vec::new(),
        wrong: 0,
        unreadable: 0,
        repaired: 0,
        lost: 0,
        scrub: Scrub::default(),
        erasing: Vec::new(),
    }
}

fn names(before: Option<&Status>, now: &Status) -> Vec<&'static str> {
    happened(before, now).iter().map(Event::name).collect()
}

#[test]
fn what_happens_to_a_pool_is_told_once() {
    let good = status(vec![member("a", MemberState::InSync), member("b", MemberState::InSync)]);
    assert_eq!(names(None, &good), [""; 0]);
    assert_eq!(names(Some(&good), &good), [""; 0]);
    let mut out = good.clone();
    out.members[1].state = MemberState::Out;
    assert_eq!(names(Some(&good), &out), ["member-faulted"]);
    assert_eq!(names(None, &out), ["member-faulted"], "also when it is so at the start");
    assert_eq!(names(Some(&out), &out), [""; 0]);
    let mut back = out.clone();
    back.members[1].state = MemberState::Rebuilding { rows: 3 };
    assert_eq!(names(Some(&out), &back), ["member-returned"]);
    let mut further = back.clone();
    further.members[1].state = MemberState::Rebuilding { rows: 50 };
    assert_eq!(names(Some(&back), &further), [""; 0]);
    assert_eq!(names(Some(&further), &good), ["member-rebuilt"]);
    // Between two looks it was out, and is back already.
    assert_eq!(names(Some(&out), &good), ["member-returned", "member-rebuilt"]);
    let mut other = back.clone();
    other.members[1].place = Some("c".to_owned());
    assert_eq!(names(Some(&out), &other), ["member-replaced"]);
    out.spares = vec![SpareStatus { id: [1; 16], place: Some("c".to_owned()) }];
    assert_eq!(names(Some(&out), &other), ["spare-took-over"]);
    let mut slow = good.clone();
    slow.members[0].slow = true;
    assert_eq!(names(Some(&good), &slow), ["member-slow"]);
    assert_eq!(names(Some(&slow), &good), ["member-quick"]);
    let mut failed = out.clone();
    failed.has_failed = true;
    assert_eq!(names(Some(&out), &failed), ["pool-failed"]);
}

#[test]
fn blocks_and_scrubs_are_told_by_what_was_counted() {
    let good = status(vec![member("a", MemberState::InSync)]);
    let mut now = good.clone();
    (now.repaired, now.lost) = (3, 1);
    let happened_now = happened(Some(&good), &now);
    assert_eq!(happened_now[0], Event::BlocksRepaired { pool: "tank".to_owned(), count: 3 });
    assert_eq!(happened_now[1], Event::BlocksUnrepairable { pool: "tank".to_owned(), count: 1 });
    let mut scrubs = good.clone();
    (scrubs.scrub.runs, scrubs.scrub.begun) = (true, 1);
    assert_eq!(names(Some(&good), &scrubs), ["scrub-begun"]);
    let mut over = scrubs.clone();
    (over.scrub.runs, over.scrub.bad, over.scrub.repaired) = (false, 2, 2);
    let ended = Event::ScrubEnded { pool: "tank".to_owned(), bad: 2, repaired: 2, lost: 0 };
    assert_eq!(happened(Some(&scrubs), &over), [ended]);
    // One that was begun and was over between two looks.
    assert_eq!(names(Some(&good), &over), ["scrub-begun", "scrub-ended"]);
    assert_eq!(names(Some(&over), &over), [""; 0]);
}
