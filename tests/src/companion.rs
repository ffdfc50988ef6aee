//! A well-behaved session that goes on while others misbehave.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::initiator::Initiator;
use crate::{nvme, stamp};

/// Sectors of 512 bytes that each command of the companion moves.
const SECTORS: u64 = 8;
/// Blocks it uses, from the start of the volume.
const BLOCKS: u64 = 256;

/// A session at work in its own thread: it writes stamped blocks and reads them back.
pub struct Companion {
    stop: Arc<AtomicBool>,
    work: JoinHandle<Diary>,
}

/// What a companion went through.
#[derive(Debug, Default)]
pub struct Diary {
    /// Commands that were answered well.
    pub commands: u64,
    /// The longest time a command took.
    pub slowest: Duration,
    /// What went wrong and ended its work.
    pub failure: Option<String>,
}

impl Companion {
    /// Logs in to `volume`, which is the companion's alone, by iSCSI and starts to work.
    pub fn start(address: SocketAddr, volume: &str) -> Self {
        let mut session = Initiator::login(address, volume).expect("the companion's login");
        Self::work(move |sector, block| {
            let answer = session.write(sector as u32, block)?;
            if answer.status != 0 {
                return Err(io::Error::other(format!("a write ended with {answer:?}")));
            }
            session.read(sector as u32, SECTORS as u16)
        })
    }

    /// The same by NVMe/TCP.
    pub fn start_nvme(address: SocketAddr, volume: &str) -> Self {
        let (admin, controller) = nvme::Queue::admin(address, volume).expect("the companion's controller");
        let queue = nvme::Queue::io(address, volume, controller, 1, 32);
        let mut queue = queue.expect("the companion's queue");
        Self::work(move |sector, block| {
            // The controller ends with its admin queue.
            let _admin = &admin;
            queue.write(sector, block)?;
            queue.read(sector, block.len())
        })
    }

    /// Starts to work; `write_and_read` writes a block to a sector and gives what is there then.
    fn work(mut write_and_read: impl FnMut(u64, &[u8]) -> io::Result<Vec<u8>> + Send + 'static) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let work = std::thread::spawn(move || {
            let mut diary = Diary::default();
            let mut version = 0;
            while !stopped.load(Ordering::Relaxed) && diary.failure.is_none() {
                version += 1;
                let started = Instant::now();
                diary.failure = write_stamped(&mut write_and_read, version).err();
                diary.slowest = diary.slowest.max(started.elapsed());
                diary.commands += 2;
                std::thread::sleep(Duration::from_millis(1));
            }
            diary
        });
        Self { stop, work }
    }

    /// Ends the work; panics if anything went wrong or a write and its read took longer than `limit`.
    pub fn undisturbed(self, limit: Duration) -> Diary {
        // A short misbehaviour leaves no time to see its consequences.
        std::thread::sleep(Duration::from_millis(500));
        self.stop.store(true, Ordering::Relaxed);
        let diary = self.work.join().expect("the companion ends");
        println!("the companion: {diary:?}");
        assert!(diary.failure.is_none(), "the well-behaved session was disturbed: {diary:?}");
        assert!(diary.slowest < limit, "the well-behaved session was held up: {diary:?}");
        assert!(diary.commands > 10, "the well-behaved session hardly ran: {diary:?}");
        diary
    }
}

fn write_stamped(
    write_and_read: &mut impl FnMut(u64, &[u8]) -> io::Result<Vec<u8>>,
    version: u64,
) -> Result<(), String> {
    let sector = (version % BLOCKS) * SECTORS;
    let mut block = [0; SECTORS as usize * stamp::SECTOR];
    stamp::fill(&mut block, sector, version);
    let back = write_and_read(sector, &block).map_err(|error| error.to_string())?;
    if back == block { Ok(()) } else { Err(format!("block {sector} read back differs")) }
}
