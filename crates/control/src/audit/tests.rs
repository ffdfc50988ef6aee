use super::*;
use proptest::prelude::*;
use std::os::unix::fs::MetadataExt as _;

fn entry(path: &str) -> Entry {
    Entry {
        id: 0,
        at: Moment::from_unix(1_795_207_267),
        who: "alice".to_owned(),
        by: Some("token backup".to_owned()),
        from: "127.0.0.1:40312".to_owned(),
        method: "POST".to_owned(),
        path: path.to_owned(),
        status: 200,
        request: "5f3a90c1d2e4b678".to_owned(),
        steps: vec!["read all of pool tank, verify it, and repair what is wrong".to_owned()],
    }
}

fn paths(entries: &[Entry]) -> Vec<&str> {
    entries.iter().map(|entry| entry.path.as_str()).collect()
}

#[test]
fn a_line_is_as_the_page_draws_it() {
    let page = include_str!("../../../../docs/formats/audit.md");
    let line = serde_json::to_string(&Entry { id: 42, ..entry("/v1/pools/tank/scrub") }).unwrap();
    assert!(page.contains(&line), "{line}");
}

#[test]
fn what_is_entered_is_read_the_newest_first_and_after_a_start_it_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let audit = Audit::open(directory.path()).unwrap();
    assert_eq!(audit.read(10, None).unwrap(), []);
    for path in ["/1", "/2", "/3"] {
        audit.enter(entry(path)).unwrap();
    }
    let mode = std::fs::metadata(directory.path().join(SHAPE.name)).unwrap().mode();
    assert_eq!(mode & 0o7777, 0o600);
    drop(audit);
    let audit = Audit::open(directory.path()).unwrap();
    assert_eq!(audit.enter(entry("/4")).unwrap(), 4);
    assert_eq!(paths(&audit.read(10, None).unwrap()), ["/4", "/3", "/2", "/1"]);
    assert_eq!(paths(&audit.read(2, None).unwrap()), ["/4", "/3"]);
    assert_eq!(paths(&audit.read(2, Some(3)).unwrap()), ["/2", "/1"]);
    assert_eq!(paths(&audit.read(2, Some(1)).unwrap()), [""; 0]);
}

#[test]
fn files_are_bounded_and_so_is_their_number_and_ids_go_on() {
    let directory = tempfile::tempdir().unwrap();
    let bound = 2000;
    let audit = Audit::with_shape(directory.path(), Shape { max_file_bytes: bound, ..SHAPE }).unwrap();
    let count = 200;
    for number in 1..=count {
        assert_eq!(audit.enter(entry(&format!("/{number}"))).unwrap(), number);
    }
    let mut files: Vec<_> = std::fs::read_dir(directory.path())
        .unwrap()
        .map(|file| file.unwrap())
        .map(|file| (file.file_name().into_string().unwrap(), file.metadata().unwrap().len()))
        .collect();
    files.sort();
    assert_eq!(files.len(), 1 + SHAPE.old_files, "{files:?}");
    assert!(files.iter().all(|(name, bytes)| SHAPE.has(name) && *bytes <= bound), "{files:?}");
    let read = audit.read(1000, None).unwrap();
    let ids: Vec<_> = read.iter().map(|entry| entry.id).collect();
    let expected: Vec<_> = (1..=count).rev().take(ids.len()).collect();
    assert_eq!(ids, expected, "those that are left are the newest ones, without a gap");
    assert!(ids.len() > 40);
    // A number that is missing after a power cut is passed over.
    std::fs::remove_file(SHAPE.old(directory.path(), 3)).unwrap();
    assert!(audit.read(1000, None).unwrap().len() < ids.len());
    drop(audit);
    assert_eq!(Audit::open(directory.path()).unwrap().enter(entry("/next")).unwrap(), count + 1);
}

#[test]
fn a_torn_end_is_passed_over_wherever_it_is_torn() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(SHAPE.name);
    let audit = Audit::open(directory.path()).unwrap();
    audit.enter(entry("/1")).unwrap();
    let one = std::fs::metadata(&path).unwrap().len() as usize;
    audit.enter(entry("/2")).unwrap();
    let whole = std::fs::read(&path).unwrap();
    drop(audit);
    for cut in one..whole.len() {
        std::fs::write(&path, &whole[..cut]).unwrap();
        let audit = Audit::open(directory.path()).unwrap();
        // A line that lacks its line feed only says all that it was to say.
        let left = if cut == whole.len() - 1 { vec!["/2", "/1"] } else { vec!["/1"] };
        assert_eq!(paths(&audit.read(10, None).unwrap()), left, "cut at {cut}");
        audit.enter(entry("/next")).unwrap();
        let read = audit.read(10, None).unwrap();
        assert_eq!(paths(&read)[1..], left, "cut at {cut}");
        assert_eq!((read[0].path.as_str(), read[0].id), ("/next", left.len() as u64 + 1), "cut at {cut}");
    }
}

#[test]
fn what_cannot_be_written_is_kept_and_nothing_goes_on_until_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let audit = Audit::open(directory.path()).unwrap();
    audit.enter(entry("/1")).unwrap();
    // A directory in its place: what is open is given up as on any other error.
    audit.log().lines.reopen();
    let (path, away) = (directory.path().join(SHAPE.name), directory.path().join("away"));
    std::fs::rename(&path, &away).unwrap();
    std::fs::create_dir(&path).unwrap();
    assert!(audit.enter(entry("/2")).is_err());
    assert!(audit.ready().is_err());
    std::fs::remove_dir(&path).unwrap();
    std::fs::rename(&away, &path).unwrap();
    audit.ready().unwrap();
    assert_eq!(paths(&audit.read(10, None).unwrap()), ["/2", "/1"]);
}

#[test]
fn an_entry_is_bounded_whatever_was_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    let audit = Audit::open(directory.path()).unwrap();
    let steps = vec!["\u{1F600}".repeat(10_000); 100];
    audit.enter(Entry { steps, ..entry(&"/\u{e4}".repeat(10_000)) }).unwrap();
    let read = audit.read(1, None).unwrap();
    assert_eq!((read[0].path.chars().count(), read[0].steps.len()), (MAX_TEXT, MAX_STEPS));
    assert!(std::fs::metadata(directory.path().join(SHAPE.name)).unwrap().len() < 64 << 10);
}

proptest! {
    #[test]
    fn no_bytes_in_the_file_make_the_reader_fail(bytes in prop::collection::vec(any::<u8>(), 0..500)) {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join(SHAPE.name), bytes).unwrap();
        let audit = Audit::open(directory.path()).unwrap();
        audit.enter(entry("/next")).unwrap();
        prop_assert_eq!(&audit.read(10, None).unwrap()[0].path, "/next");
    }
}
