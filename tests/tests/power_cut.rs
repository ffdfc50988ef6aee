//! `kill -9` of the node under a stamped writer: what was acknowledged by a flush or FUA is there afterwards.
//!
//! A killed process leaves the page cache behind, so this bed finds what the node keeps in its own memory
//! and what it tears; lost and reordered sectors of a real power cut are the simulated world's.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use beds::initiator::Initiator;
use beds::{Bed, Volume, stamp};

const ROUNDS: u32 = 50;
const WRITERS: u64 = 2;
/// 4 KiB blocks that each writer has to itself.
const BLOCKS: u64 = 1024;
const SECTORS: u64 = 8;
const BLOCK: usize = SECTORS as usize * stamp::SECTOR;
const DEPTH: usize = 16;

/// What one writer knows of its sectors: the version each must at least have, and may at most have.
struct Journal {
    first_block: u64,
    durable: Vec<u64>,
    issued: Vec<u64>,
}

enum Sent {
    Write {
        block: u64,
        version: u64,
        force_unit_access: bool,
    },
    /// With what had been acknowledged when the flush was sent.
    Flush(Vec<u64>),
}

impl Journal {
    fn new(writer: u64) -> Self {
        let sectors = (BLOCKS * SECTORS) as usize;
        Self { first_block: writer * BLOCKS, durable: vec![0; sectors], issued: vec![0; sectors] }
    }

    fn raise(versions: &mut [u64], block: u64, version: u64) {
        let from = (block * SECTORS) as usize;
        versions[from..from + SECTORS as usize].fill(version);
    }

    /// Writes until the node goes away. No block is in flight twice, so the order of its versions is known.
    fn write(&mut self, address: SocketAddr, version: &AtomicU64, flushes: &AtomicU64) -> io::Result<()> {
        let mut session = Initiator::login(address, "demo")?;
        let mut random = fastrand::Rng::new();
        let mut in_flight: HashMap<u32, Sent> = HashMap::new();
        let mut acknowledged = self.durable.clone();
        let mut buffer = [0; BLOCK];
        loop {
            while in_flight.len() < DEPTH && session.window() > 0 {
                if random.u8(..) < 6 {
                    in_flight.insert(session.send_synchronize_cache()?, Sent::Flush(acknowledged.clone()));
                    continue;
                }
                let block = random.u64(..BLOCKS);
                let busy = |sent: &Sent| matches!(sent, Sent::Write { block: other, .. } if *other == block);
                if in_flight.values().any(busy) {
                    continue;
                }
                let (version, force_unit_access) =
                    (version.fetch_add(1, Ordering::Relaxed), random.u8(..) < 16);
                Self::raise(&mut self.issued, block, version);
                let sector = (self.first_block + block) * SECTORS;
                stamp::fill(&mut buffer, sector, version);
                let tag = session.send_write(sector as u32, &buffer, force_unit_access)?;
                in_flight.insert(tag, Sent::Write { block, version, force_unit_access });
            }
            let answer = session.answer()?;
            assert_eq!(answer.status, 0, "a command failed: {answer:?}");
            match in_flight.remove(&answer.tag).expect("an answer to something sent") {
                Sent::Write { block, version, force_unit_access } => {
                    Self::raise(&mut acknowledged, block, version);
                    if force_unit_access {
                        Self::raise(&mut self.durable, block, version);
                    }
                }
                Sent::Flush(before) => {
                    flushes.fetch_add(1, Ordering::Relaxed);
                    self.durable
                        .iter_mut()
                        .zip(before)
                        .for_each(|(durable, before)| *durable = before.max(*durable));
                }
            }
        }
    }

    /// Reads everything and compares. What is there now is on the file and has to stay.
    fn verify(&mut self, address: SocketAddr) -> Vec<String> {
        let mut session = Initiator::login(address, "demo").expect("a login after the restart");
        let mut wrong = Vec::new();
        for block in 0..BLOCKS {
            let first = (self.first_block + block) * SECTORS;
            let data = session.read(first as u32, SECTORS as u16).expect("a block after the restart");
            for (index, bytes) in data.chunks_exact(stamp::SECTOR).enumerate() {
                let (sector, at) = (first + index as u64, (block * SECTORS) as usize + index);
                let (durable, issued) = (self.durable[at], self.issued[at]);
                match stamp::version(bytes, sector) {
                    Ok(version) if (durable..=issued).contains(&version) => {
                        (self.durable[at], self.issued[at]) = (version, version);
                    }
                    Ok(version) => {
                        wrong.push(format!("sector {sector}: {version}, not in {durable}..={issued}"));
                    }
                    Err(sentence) => wrong.push(sentence),
                }
            }
        }
        wrong
    }
}

#[test]
fn nothing_flushed_is_lost_over_kill_9() {
    let mut node = Bed::with([Volume::file("demo", "64MiB")]).start();
    let mut journals: Vec<Journal> = (0..WRITERS).map(Journal::new).collect();
    let (version, flushes) = (AtomicU64::new(1), AtomicU64::new(0));
    for round in 1..=ROUNDS {
        let (address, before) = (node.address(), flushes.load(Ordering::Relaxed));
        let killed = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for journal in &mut journals {
                scope.spawn(|| {
                    let end = journal
                        .write(address, &version, &flushes)
                        .expect_err("a writer only ends by an error");
                    assert!(
                        killed.load(Ordering::SeqCst),
                        "round {round}: the node failed before it was killed: {end}"
                    );
                });
            }
            let deadline = Instant::now() + Duration::from_secs(20);
            while flushes.load(Ordering::Relaxed) < before + 4 && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(2));
            }
            std::thread::sleep(Duration::from_millis(fastrand::u64(..120)));
            killed.store(true, Ordering::SeqCst);
            node.kill9();
        });
        assert!(
            flushes.load(Ordering::Relaxed) >= before + 4,
            "round {round}: hardly any flush was acknowledged"
        );
        node.restart();
        let wrong: Vec<String> = journals.iter_mut().flat_map(|journal| journal.verify(address)).collect();
        let first = wrong.iter().take(10).cloned().collect::<Vec<_>>().join("\n");
        assert!(wrong.is_empty(), "round {round}: {} sectors are wrong, the first:\n{first}", wrong.len());
    }
    println!("{ROUNDS} rounds, {} writes, {} flushes", version.into_inner(), flushes.into_inner());
}

#[test]
fn nothing_acknowledged_is_lost_over_sigterm() {
    let mut node = Bed::with([Volume::file("demo", "64MiB")]).start();
    let mut session = Initiator::login(node.address(), "demo").expect("a login");
    let mut block = [0; BLOCK];
    for sector in (0..512 * SECTORS).step_by(SECTORS as usize) {
        stamp::fill(&mut block, sector, sector + 1);
        assert_eq!(session.write(sector as u32, &block).expect("an answer").status, 0);
    }
    node.terminate();
    node.restart();
    let mut session = Initiator::login(node.address(), "demo").expect("a login after the restart");
    for sector in (0..512 * SECTORS).step_by(SECTORS as usize) {
        let data = session.read(sector as u32, SECTORS as u16).expect("a block after the restart");
        for (index, bytes) in data.chunks_exact(stamp::SECTOR).enumerate() {
            assert_eq!(stamp::version(bytes, sector + index as u64), Ok(sector + 1));
        }
    }
}
