//! Volumes that nobody has any more, and whose rows are being given back: who they are, and how far that is.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::format::VolumeEntry;

/// How far the bytes of a volume are given back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Erasure {
    /// The volume.
    pub volume: String,
    /// Bytes that were given back.
    pub done_bytes: u64,
    /// All that it has.
    pub total_bytes: u64,
}

struct Entry {
    volume: String,
    total_bytes: u64,
    done_bytes: Arc<AtomicU64>,
}

/// Those of a pool.
#[derive(Default)]
pub(super) struct Erasing(Mutex<Vec<Entry>>);

impl Erasing {
    fn entries(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more, from now on; where is counted how far it is. `None`: it is one already.
    pub(super) fn begin(&self, volume: &VolumeEntry) -> Option<Arc<AtomicU64>> {
        let mut entries = self.entries();
        if entries.iter().any(|entry| entry.volume == volume.name) {
            return None;
        }
        let done_bytes = Arc::new(AtomicU64::new(0));
        let entry =
            Entry { volume: volume.name.clone(), total_bytes: volume.bytes, done_bytes: done_bytes.clone() };
        entries.push(entry);
        Some(done_bytes)
    }

    /// It is over, however it ended.
    pub(super) fn end(&self, volume: &str) {
        self.entries().retain(|entry| entry.volume != volume);
    }

    /// How far all of them are.
    pub(super) fn list(&self) -> Vec<Erasure> {
        let told = |entry: &Entry| Erasure {
            volume: entry.volume.clone(),
            done_bytes: entry.done_bytes.load(Ordering::Relaxed),
            total_bytes: entry.total_bytes,
        };
        self.entries().iter().map(told).collect()
    }
}
