//! Log lines about peers: what a peer can cause without end is logged so often only, and the rest counted.

#[cfg(test)]
pub mod gathered;

use std::cell::Cell;
use std::time::{Duration, Instant};

use crate::limits::LOG_LINES_PER_SECOND;

thread_local! {
    static SECOND: Cell<Option<Instant>> = const { Cell::new(None) };
    static LINES: Cell<u32> = const { Cell::new(0) };
}

/// Whether one more line may be written now; and how many were not since the last time one could be.
pub fn admit() -> Option<u32> {
    let now = Instant::now();
    let fresh = SECOND.get().is_none_or(|start| now.duration_since(start) >= Duration::from_secs(1));
    if fresh {
        let suppressed = LINES.get().saturating_sub(LOG_LINES_PER_SECOND);
        SECOND.set(Some(now));
        LINES.set(1);
        return Some(suppressed);
    }
    LINES.set(LINES.get().saturating_add(1));
    (LINES.get() <= LOG_LINES_PER_SECOND).then_some(0)
}

/// Begins anew, as if no line had been written.
#[cfg(test)]
pub fn begin() {
    SECOND.set(None);
    LINES.set(0);
}

/// Warns of something that a peer did, at most [`LOG_LINES_PER_SECOND`] times a second on each core.
macro_rules! trouble {
    ($($message:tt)*) => {
        if let Some(suppressed) = $crate::log::admit() {
            if suppressed > 0 {
                tracing::warn!("{suppressed} more messages like the last ones were left out");
            }
            tracing::warn!($($message)*);
        }
    };
}
pub(crate) use trouble;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_cut_and_counted() {
        let admitted = (0..1000).filter(|_| admit().is_some()).count();
        assert_eq!(admitted, LOG_LINES_PER_SECOND as usize);
        std::thread::sleep(Duration::from_millis(1050));
        assert_eq!(admit(), Some(1000 - LOG_LINES_PER_SECOND));
    }
}
