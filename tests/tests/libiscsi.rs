//! libiscsi's conformance suite against a memory volume and a file volume.
//!
//! What each test has to do stands in `libiscsi-expected.txt`; any change of it breaks this test.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::ScopedJoinHandle;

use beds::conformance::{self, Status, Verdict, Verdicts};
use beds::{Bed, Volume};

/// Nodes at work for each kind of volume; each has a volume of its own, as the tests overwrite everything.
const WORKERS: usize = 2;
/// So many tests that hang are enough: the others would only cost their deadline too.
const TOO_MANY_HUNG: usize = 12;

/// READ (6) reaches 1 GiB, and a few tests want a volume that a single WRITE SAME cannot cover.
const SIZE: &str = "256MiB";
const BLOCKS: u32 = 256 << 11;

fn all_verdicts(volume: &Volume, tests: &[String]) -> Verdicts {
    let (next, hung) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let work = || {
        let mut node = Bed::with([volume.clone()]).portals(2).start();
        let mut verdicts = Verdicts::new();
        while let Some(test) = tests.get(next.fetch_add(1, Ordering::Relaxed)) {
            let verdict = if hung.load(Ordering::Relaxed) < TOO_MANY_HUNG {
                conformance::run(&node, "demo", BLOCKS, test)
            } else {
                Verdict { status: Status::Fail, reason: "not run: too many tests hung before".into() }
            };
            if verdict.reason.starts_with("hung") {
                hung.fetch_add(1, Ordering::Relaxed);
            }
            let verdict = if node.is_serving() {
                verdict
            } else {
                Verdict { status: Status::Fail, reason: "the node did not survive this test".into() }
            };
            // A test that failed half way leaves reservations and mode pages behind: the next one starts clean.
            if verdict.status == Status::Fail {
                node.restart();
            }
            verdicts.insert(test.clone(), verdict);
        }
        verdicts
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("a worker ends")).collect()
    })
}

#[test]
fn every_test_does_what_is_expected_of_it() {
    let tests = conformance::tests();
    let volumes = [("memory", Volume::memory("demo", SIZE)), ("file", Volume::file("demo", SIZE))];
    let [memory, file] = std::thread::scope(|scope| {
        volumes
            .each_ref()
            .map(|(_, volume)| scope.spawn(|| all_verdicts(volume, &tests)))
            .map(ScopedJoinHandle::join)
    })
    .map(|verdicts| verdicts.expect("a run ends"));

    let path = conformance::expectation_file();
    let expected = conformance::read_expectations(&std::fs::read_to_string(&path).unwrap_or_default());
    if std::env::var_os("FELS_BLESS").is_some() {
        let blessed = conformance::bless(&expected, &conformance::worse_of(&memory, &file));
        std::fs::write(&path, blessed).expect("the expectations can be written");
        return;
    }
    let differences = conformance::differences("memory", &expected, &memory)
        + &conformance::differences("file", &expected, &file);
    assert!(
        differences.is_empty(),
        "these tests did not do what libiscsi-expected.txt says:\n{differences}\
         hint: if that is wanted, FELS_BLESS=1 writes it down; then look at the reasons"
    );
}
