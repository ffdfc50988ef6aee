//! How a measurement goes, on stderr.

use lab::Progress;
use std::io::{IsTerminal, Write as _};

/// Seconds between two lines of progress where nobody watches.
const QUIET_S: u32 = 10;

/// One line that is written over each second on a terminal; elsewhere a line every ten seconds.
pub struct ProgressLine {
    terminal: bool,
    shown: bool,
    ends: bool,
}

impl ProgressLine {
    pub fn new() -> Self {
        Self { terminal: std::io::stderr().is_terminal(), shown: false, ends: false }
    }

    /// A line for the end of each measurement too, where nobody watches: many short ones say nothing otherwise.
    pub fn with_every_end() -> Self {
        Self { ends: true, ..Self::new() }
    }

    pub fn show(&mut self, progress: &Progress<'_>) {
        let (number, tests) = progress.number;
        let (second, seconds) = progress.seconds;
        let phase = if progress.warming { "warming up".to_owned() } else { format!("{second}/{seconds} s") };
        let text = format!(
            "[{number}/{tests}] {} {phase}: {:.0} IO/s, {:.1} MiB/s, mean {:.3} ms, p99 {:.3} ms",
            progress.test,
            progress.iops,
            progress.mib_per_s,
            progress.mean_us / 1e3,
            progress.p99_us / 1e3
        );
        let mut stderr = std::io::stderr().lock();
        // Where nobody listens any more there is nobody to tell that.
        if self.terminal {
            let _ = write!(stderr, "\r\x1b[K{text}");
            let _ = stderr.flush();
            self.shown = true;
        } else if !progress.warming && (second % QUIET_S == 0 || self.ends && second == seconds) {
            let _ = writeln!(stderr, "{text}");
        }
    }

    pub fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            let _ = write!(std::io::stderr().lock(), "\r\x1b[K");
        }
    }
}
