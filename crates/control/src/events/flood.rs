//! A bound on what one cause can fill the log with: who tries passwords all night is not to drive everything else out of it.

use std::collections::HashMap;

use crate::moment::Moment;

/// Events of one name in a minute.
const MAX_A_MINUTE: u32 = 120;

/// How many there were of each name in the minute that runs.
#[derive(Default)]
pub(super) struct Flood {
    minute: u64,
    counts: HashMap<&'static str, u32>,
}

impl Flood {
    /// Whether one more is kept.
    pub fn admits(&mut self, name: &'static str, now: Moment) -> bool {
        let minute = now.unix() / 60;
        if minute != self.minute {
            for (name, count) in self.counts.drain().filter(|(_, count)| *count > MAX_A_MINUTE) {
                tracing::warn!("{} events {name} in a minute were not kept", count - MAX_A_MINUTE);
            }
            self.minute = minute;
        }
        let count = self.counts.entry(name).or_default();
        *count = count.saturating_add(1);
        *count <= MAX_A_MINUTE
    }
}
