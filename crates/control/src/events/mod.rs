//! What happened to the node: told by whoever notices it, kept as `docs/formats/events.md` draws it, and handed on to those who
//! listen.
//!
//! Telling never waits. A thread of its own writes; only what is on the disk is handed on, so that nobody is told of something that the
//! log does not have, unless the disk fails.

mod flood;
mod initiators;
mod pools;
mod record;
#[cfg(test)]
mod tests;

pub use record::Record;

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use monitor::event::Event;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use self::flood::Flood;
use crate::lines::{self, Lines, Shape};
use crate::moment::Moment;

pub(crate) use initiators::event as of_initiator;
pub(crate) use pools::watch as watch_pools;

/// How it is kept: some ten thousand events.
pub(crate) const SHAPE: Shape =
    Shape { name: "events.log", old_files: 4, max_file_bytes: 1 << 20, max_waiting: 1024 };
/// Events in memory: those who listen find them there.
const MAX_RECENT: usize = 1024;
/// Events that wait for the thread that writes.
const MAX_QUEUED: usize = 4096;
/// Listeners at once: fewer than there are connections, so that they keep nobody out.
const MAX_LISTENERS: usize = 32;

/// The events of a node. All copies are of the same ones.
#[derive(Clone)]
pub struct Events(Arc<Inner>);

struct Inner {
    shared: Arc<Shared>,
    writer: Mutex<Option<(SyncSender<Told>, JoinHandle<()>)>>,
    flood: Mutex<Flood>,
    room: Arc<Semaphore>,
}

/// What is told, and when it was.
type Told = (Moment, Event);

/// What those who write and those who read have together.
struct Shared {
    directory: PathBuf,
    /// The newest ones, the oldest first.
    recent: Mutex<VecDeque<Arc<Record>>>,
    news: watch::Sender<News>,
}

/// What those who listen wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct News {
    /// The id of the newest event; 0 before there was one.
    newest: u64,
    /// Nobody is to listen any more: the node ends.
    ends: bool,
}

/// Somebody who listens; one of a bounded number.
pub struct Listener {
    news: watch::Receiver<News>,
    _room: OwnedSemaphorePermit,
}

impl Listener {
    /// The id of the newest event; 0 before there was one.
    pub fn newest(&self) -> u64 {
        self.news.borrow().newest
    }

    /// Whether nobody is to listen any more: the node ends.
    pub fn has_to_go(&self) -> bool {
        self.news.borrow().ends || self.news.has_changed().is_err()
    }

    /// Waits for an event after that one, or for the end.
    pub async fn wait(&mut self, after: u64) {
        // An error: there are no events any more, which is an end, too.
        let _ = self.news.wait_for(|news| news.newest > after || news.ends).await;
    }
}

impl Events {
    /// The events of a data directory, of which this process has the lock. Blocks.
    pub fn open(directory: &Path) -> io::Result<Events> {
        let mut recent = VecDeque::with_capacity(MAX_RECENT);
        for record in read(directory, MAX_RECENT, None, |_| true)? {
            recent.push_front(Arc::new(record));
        }
        let newest = recent.back().map_or(0, |record: &Arc<Record>| record.id);
        let mut lines = Lines::new(directory, SHAPE);
        lines.flush()?;
        let shared = Arc::new(Shared {
            directory: directory.to_owned(),
            recent: Mutex::new(recent),
            news: watch::Sender::new(News { newest, ends: false }),
        });
        let (tell, told) = sync_channel(MAX_QUEUED);
        let kept = shared.clone();
        let writer = std::thread::Builder::new()
            .name("events".to_owned())
            .spawn(move || keep(&kept, lines, newest, &told))?;
        let writer = Mutex::new(Some((tell, writer)));
        let room = Arc::new(Semaphore::new(MAX_LISTENERS));
        Ok(Events(Arc::new(Inner { shared, writer, flood: Mutex::default(), room })))
    }

    /// Something happened. Never waits: more than can be written is counted and forgotten.
    pub fn tell(&self, event: Event) {
        let now = Moment::now();
        if !locked(&self.0.flood).admits(event.name(), now) {
            return;
        }
        let writer = locked(&self.0.writer);
        let Some((tell, _)) = &*writer else { return };
        if let Err(TrySendError::Full((_, event))) = tell.try_send((now, event)) {
            tracing::warn!("an event is forgotten, as too many wait for the disk: {}", event.sentence());
        }
    }

    /// Listens; `None` while too many do, and when the node ends.
    pub fn listen(&self) -> Option<Listener> {
        let room = self.0.room.clone().try_acquire_owned().ok()?;
        let listener = Listener { news: self.0.shared.news.subscribe(), _room: room };
        (!listener.has_to_go()).then_some(listener)
    }

    /// The events after one that are wanted, the oldest first, at most so many; from memory, where that has them. Blocks.
    pub fn after(&self, id: u64, limit: usize) -> io::Result<Vec<Arc<Record>>> {
        let shared = &self.0.shared;
        {
            let recent = locked(&shared.recent);
            let reaches = recent.front().is_none_or(|oldest| oldest.id <= id.saturating_add(1));
            if reaches {
                return Ok(recent.iter().filter(|record| record.id > id).take(limit).cloned().collect());
            }
        }
        let mut older = read(&shared.directory, usize::MAX, None, |record| record.id > id)?;
        older.reverse();
        older.truncate(limit);
        Ok(older.into_iter().map(Arc::new).collect())
    }

    /// The newest events that are wanted, the newest first, at most so many; only those before an id, if one is given. Blocks.
    pub fn read(
        &self,
        limit: usize,
        before: Option<u64>,
        wanted: impl Fn(&Record) -> bool,
    ) -> io::Result<Vec<Record>> {
        read(&self.0.shared.directory, limit, before, wanted)
    }

    /// Those who listen are to go: the node ends.
    pub fn dismiss(&self) {
        self.0.shared.news.send_modify(|news| news.ends = true);
    }

    /// Writes what waits, and takes no more. Blocks.
    pub fn close(&self) {
        self.dismiss();
        let writer = locked(&self.0.writer).take();
        let Some((tell, thread)) = writer else { return };
        drop(tell);
        if thread.join().is_err() {
            tracing::error!("the thread of the event log panicked");
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn read(
    directory: &Path,
    limit: usize,
    before: Option<u64>,
    wanted: impl Fn(&Record) -> bool,
) -> io::Result<Vec<Record>> {
    lines::newest(directory, &SHAPE, limit, before, |record: &Record| record.id, wanted)
}

/// Writes what is told, until nobody can tell any more.
fn keep(shared: &Shared, mut lines: Lines, mut newest: u64, told: &Receiver<Told>) {
    let mut is_written = true;
    while let Ok(first) = told.recv() {
        let mut records = Vec::new();
        for (at, event) in std::iter::once(first).chain(told.try_iter().take(MAX_RECENT - 1)) {
            newest += 1;
            records.push(Arc::new(Record::new(newest, at, &event)));
        }
        for record in &records {
            // What does not fit any more is told all the same, and lacks in the log.
            let pushed = record.line().and_then(|line| lines.push(line));
            if let (Err(error), true) = (pushed, is_written) {
                tracing::error!("an event is not kept: {error}");
            }
        }
        let written = lines.flush();
        if let (Err(error), true) = (&written, is_written) {
            tracing::error!(
                "the event log cannot be written: {error}; it is tried again with the next event"
            );
        }
        is_written = written.is_ok();
        shared.hand_on(records);
    }
}

impl Shared {
    fn hand_on(&self, records: Vec<Arc<Record>>) {
        let Some(newest) = records.last().map(|record| record.id) else { return };
        let mut recent = locked(&self.recent);
        recent.extend(records);
        let surplus = recent.len().saturating_sub(MAX_RECENT);
        recent.drain(..surplus);
        drop(recent);
        self.news.send_modify(|news| news.newest = newest);
    }
}
