//! After a crash of a target: is everything there that it had acknowledged as durable?

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ring::{Buffer, Reactor, Ring};

use super::measure::run_id;
use crate::error::LabError;
use crate::initiator::{OpenOptions, Session};
use crate::journal::{self, Head, Record};
use crate::ledger::Findings;
use crate::stamp::{self, Expectation, Wrong};
use crate::target::Target;

/// Bytes read at once.
const PIECE: u64 = 256 << 10;

/// What is checked against what.
#[derive(Clone, Debug)]
pub struct VerifyOptions {
    /// The target that was written to.
    pub target: Target,
    /// What `--journal` wrote.
    pub journal: PathBuf,
    /// How the session is opened.
    pub open: OpenOptions,
}

/// What was found.
#[derive(Clone, Debug, serde::Serialize)]
pub struct VerifyReport {
    /// Bytes read.
    pub bytes: u64,
    /// Blocks that had to hold a durable generation.
    pub durable_blocks: u64,
    /// Of those, blocks with a newer generation than the durable one: written, not flushed, and there.
    pub newer_blocks: u64,
    /// Wrong blocks.
    pub findings: Findings,
    /// Ended before everything was read.
    pub interrupted: bool,
}

/// Checks every place that the journal speaks of.
pub fn verify_journal(options: &VerifyOptions, stop: &Arc<AtomicBool>) -> Result<VerifyReport, LabError> {
    let reactor = Reactor::new(&ring::Options::default())?;
    let (ring, options, stop) = (reactor.ring().clone(), options.clone(), stop.clone());
    reactor.block_on(async move {
        let path = &options.journal;
        let record = journal::read(&ring, path)
            .await
            .map_err(|source| LabError::Journal { path: path.clone(), source })?;
        let open = OpenOptions { session_id: run_id(), ..options.open };
        let session = Session::open(&ring, &options.target, &open)
            .await
            .map_err(|source| LabError::Open { target: options.target.to_string(), source })?;
        let report = check(&ring, &session, &record, &options.target, &stop).await;
        session.close().await;
        report
    })
}

async fn check(
    ring: &Ring,
    session: &Session,
    record: &Record,
    target: &Target,
    stop: &AtomicBool,
) -> Result<VerifyReport, LabError> {
    let Head { block_size, slot_size, offset, slots, .. } = record.head;
    let geometry = session.geometry();
    let end = offset + slots * u64::from(slot_size);
    if geometry.block_size != block_size || geometry.size < end {
        return Err(LabError::Job {
            problem: format!(
                "the journal is about {end} bytes in blocks of {block_size}, the target has {} in blocks of {}",
                geometry.size, geometry.block_size
            ),
            hint: "give the target that the journal was written with".to_owned(),
        });
    }
    let mut report = VerifyReport {
        bytes: 0,
        durable_blocks: 0,
        newer_blocks: 0,
        findings: Findings::default(),
        interrupted: false,
    };
    let most = PIECE.min(u64::from(geometry.maximum_transfer)) / u64::from(slot_size);
    let at_once = most.max(1);
    let mut slot = 0;
    while slot < slots {
        if stop.load(Ordering::Relaxed) {
            report.interrupted = true;
            break;
        }
        let count = at_once.min(slots - slot);
        let length = count * u64::from(slot_size);
        let place = offset + slot * u64::from(slot_size);
        let (result, buffer) = session.read(place, Buffer::new(length as usize)).await;
        result.map_err(|source| LabError::Io { target: target.to_string(), source })?;
        for (slot, data) in (slot..).zip(buffer.chunks_exact(slot_size as usize)) {
            check_slot(record, slot, data, &mut report);
        }
        report.bytes += length;
        slot += count;
        ring.next_turn().await;
    }
    Ok(report)
}

fn check_slot(record: &Record, slot: u64, data: &[u8], report: &mut VerifyReport) {
    let head = &record.head;
    let durable = record.durable.get(&slot).copied().unwrap_or(0);
    let first = (head.offset + slot * u64::from(head.slot_size)) / u64::from(head.block_size);
    for (number, block) in (first..).zip(data.chunks_exact(head.block_size as usize)) {
        let expected = Expectation { run: head.run, block: number, oldest: durable, newest: u64::MAX };
        report.durable_blocks += u64::from(durable > 0);
        match stamp::check(block, &expected) {
            Ok(generation) => report.newer_blocks += u64::from(durable > 0 && generation > durable),
            // Where nothing was durable, only another block's data is a fault.
            Err(wrong) if durable > 0 || matches!(wrong, Wrong::Misdirected { .. }) => {
                report.findings.add(number, durable, wrong);
            }
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::Journal;

    fn verify(spoil: impl FnOnce(&mut Vec<u8>)) -> VerifyReport {
        let directory = tempfile::tempdir().unwrap();
        let volume = directory.path().join("volume");
        let path = directory.path().join("journal");
        let mut bytes = vec![0; 1 << 20];
        for (number, block) in bytes.chunks_exact_mut(512).enumerate().take(1024) {
            stamp::stamp(block, 9, number as u64, if number < 8 { 3 } else { 2 });
        }
        spoil(&mut bytes);
        std::fs::write(&volume, bytes).unwrap();
        let reactor = Reactor::new(&ring::Options::default()).unwrap();
        let (ring, ours) = (reactor.ring().clone(), path.clone());
        reactor.block_on(async move {
            let head = Head { run: 9, block_size: 512, slot_size: 4096, offset: 0, slots: 256 };
            let journal = Journal::create(&ring, &ours, &head).await.unwrap();
            (0..128).for_each(|slot| journal.note(slot, 2));
            journal.write().await.unwrap();
        });
        let options =
            VerifyOptions { target: Target::File(volume), journal: path, open: OpenOptions::default() };
        verify_journal(&options, &Arc::default()).unwrap()
    }

    #[test]
    fn a_whole_volume_is_right() {
        let report = verify(|_| ());
        assert_eq!((report.durable_blocks, report.newer_blocks, report.findings.count), (1024, 8, 0));
    }

    #[test]
    fn every_wrong_block_is_named() {
        let report = verify(|bytes| {
            bytes[512 * 20..512 * 21].fill(0);
            stamp::stamp(&mut bytes[512 * 30..512 * 31], 9, 30, 1);
            stamp::stamp(&mut bytes[512 * 1500..512 * 1501], 9, 7, 2);
            bytes[512 * 1600..512 * 1601].fill(7);
        });
        let found: Vec<_> = report.findings.first.iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "block 20: expected generation 2, found zeroes",
                "block 30: expected generation 2, found generation 1 (a lost write)",
                "block 1500: expected generation 0, found data of block 7, generation 2 (a misdirected write)",
            ]
        );
    }
}
