//! Whether a node is alive: every core is asked, and in a sentence how it is.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use monitor::metric::{Snapshot, table};
use plane::shard::Peers;

use crate::observe::Observer;

/// Asks the cores of a node.
#[derive(Clone)]
pub struct Pulse {
    peers: Peers,
    cores: usize,
    observer: Observer,
}

impl Pulse {
    pub(crate) fn new(peers: Peers, cores: usize, observer: Observer) -> Pulse {
        Pulse { peers, cores, observer }
    }

    /// The cores that do not answer in time. A core answers between two requests: what waits for a disk is not in its way, and
    /// what never ends is.
    pub fn silent(&self, patience: Duration) -> Vec<usize> {
        silent(&self.peers, self.cores, patience)
    }

    /// How the node was when it was last measured.
    pub fn sentence(&self) -> String {
        sentence(self.observer.latest())
    }
}

fn silent(peers: &Peers, cores: usize, patience: Duration) -> Vec<usize> {
    let (tell, answers) = mpsc::channel();
    for core in 0..cores {
        let tell = tell.clone();
        peers.tell(core, move |_| {
            tell.send(core).ok();
        });
    }
    drop(tell);
    let deadline = Instant::now() + patience;
    let mut silent: Vec<_> = (0..cores).collect();
    while !silent.is_empty() {
        match answers.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(core) => silent.retain(|other| *other != core),
            Err(_) => break,
        }
    }
    silent
}

fn sentence(latest: Option<Arc<Snapshot>>) -> String {
    let Some(snapshot) = latest else { return "serving".to_owned() };
    let volumes = snapshot.of(&table::VOLUME_IN_FLIGHT).count();
    let mut sentence = match volumes {
        1 => "serving 1 volume".to_owned(),
        count => format!("serving {count} volumes"),
    };
    for sample in snapshot.of(&table::POOL_STATE) {
        let word = match sample.value.number() {
            Some(state) if state >= 2.0 => "has failed",
            Some(state) if state >= 1.0 => "is not whole",
            _ => continue,
        };
        // Writing to a String does not fail.
        let _ = write!(sentence, "; pool {} {word}", sample.label("pool").unwrap_or_default());
    }
    sentence
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_that_does_not_answer_is_named() {
        let (peers, mail) = Peers::new(2);
        // Nobody takes their messages.
        assert_eq!(silent(&peers, 2, Duration::from_millis(20)), [0, 1]);
        drop(mail);
        // They are gone, and nobody waits for them.
        let begun = Instant::now();
        assert_eq!(silent(&peers, 2, Duration::from_secs(20)), [0, 1]);
        assert!(begun.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn a_core_that_hangs_is_told_from_those_that_serve() {
        let directory = tempfile::tempdir().unwrap();
        let text = "shards = 2\n[iscsi]\nlisten = [\"127.0.0.1:0\"]\n";
        std::fs::write(directory.path().join("fels.toml"), text).unwrap();
        let store = crate::Store::of_directory(directory.path()).unwrap();
        let document = store.read().unwrap();
        let node = crate::start(store, document).unwrap();
        let pulse = node.pulse();
        let long = Duration::from_secs(20);
        assert!(pulse.silent(long).is_empty());
        pulse.peers.tell(1, |_| std::thread::sleep(Duration::from_secs(2)));
        assert_eq!(pulse.silent(Duration::from_millis(300)), [1]);
        assert!(pulse.silent(long).is_empty(), "it goes on");
        node.shutdown().unwrap();
    }

    #[test]
    fn pools_are_named_that_are_not_whole() {
        let mut snapshot = Snapshot::default();
        assert_eq!(sentence(None), "serving");
        snapshot.push(&table::VOLUME_IN_FLIGHT, &["demo"], 0);
        assert_eq!(sentence(Some(Arc::new(snapshot.clone()))), "serving 1 volume");
        for (pool, state) in [("a", 0u64), ("b", 1), ("c", 2)] {
            snapshot.push(&table::POOL_STATE, &[pool], state);
        }
        let said = "serving 1 volume; pool b is not whole; pool c has failed";
        assert_eq!(sentence(Some(Arc::new(snapshot))), said);
    }
}
