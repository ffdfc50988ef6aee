//! A stamped writer that remembers what it may expect to read after the node was cut off.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::initiator::Initiator;
use crate::stamp;

/// 4 KiB blocks that each writer has to itself.
const BLOCKS: u64 = 1024;
const SECTORS: u64 = 8;
const BLOCK: usize = SECTORS as usize * stamp::SECTOR;
const DEPTH: usize = 16;

/// What one writer knows of its sectors: the version each must at least have, and may at most have.
pub struct Journal {
    first_block: u64,
    durable: Vec<u64>,
    acknowledged: Vec<u64>,
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
    /// The journal of writer number `writer`; each has 4 MiB of the volume `demo` to itself.
    pub fn new(writer: u64) -> Self {
        let sectors = (BLOCKS * SECTORS) as usize;
        let never = vec![0; sectors];
        let first_block = writer * BLOCKS;
        Self { first_block, durable: never.clone(), acknowledged: never.clone(), issued: never }
    }

    fn raise(versions: &mut [u64], block: u64, version: u64) {
        let from = (block * SECTORS) as usize;
        versions[from..from + SECTORS as usize].fill(version);
    }

    /// Writes with numbers from `version` and counts `flushes` until the node goes away; the error says how.
    /// No block is in flight twice, so the order of its versions is known.
    pub fn write(
        &mut self,
        address: SocketAddr,
        version: &AtomicU64,
        flushes: &AtomicU64,
    ) -> Result<Infallible, io::Error> {
        let mut session = Initiator::login(address, "demo")?;
        let mut random = fastrand::Rng::new();
        let mut in_flight: HashMap<u32, Sent> = HashMap::new();
        let mut buffer = [0; BLOCK];
        loop {
            while in_flight.len() < DEPTH && session.window() > 0 {
                if random.u8(..) < 6 {
                    in_flight
                        .insert(session.send_synchronize_cache()?, Sent::Flush(self.acknowledged.clone()));
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
            if answer.status != 0 {
                return Err(io::Error::other(format!("a command failed: {answer:?}")));
            }
            match in_flight.remove(&answer.tag).expect("an answer to something sent") {
                Sent::Write { block, version, force_unit_access } => {
                    Self::raise(&mut self.acknowledged, block, version);
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

    /// The node has ended in an orderly way: everything acknowledged has to be there, flushed or not.
    pub fn expect_everything_acknowledged(&mut self) {
        self.durable.clone_from(&self.acknowledged);
    }

    /// Reads everything and compares, one sentence for each wrong sector. What is there now is on the file and has to stay.
    pub fn verify(&mut self, address: SocketAddr) -> Vec<String> {
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
                        self.acknowledged[at] = version;
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
