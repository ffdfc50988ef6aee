//! How a measurement goes, on stderr.

use std::io::{IsTerminal, Write as _};
use std::time::{Duration, Instant};

use lab::{Phase, Progress};

/// Seconds between two lines of progress where nobody watches.
const QUIET_S: u32 = 10;

/// One line that is written over each second on a terminal; elsewhere a line every ten seconds.
pub struct ProgressLine {
    terminal: bool,
    shown: bool,
    ends: bool,
    /// When something last was, where nobody watches.
    told: Instant,
}

impl ProgressLine {
    pub fn new() -> Self {
        Self { terminal: std::io::stderr().is_terminal(), shown: false, ends: false, told: Instant::now() }
    }

    /// A line for the end of each measurement too, where nobody watches: many short ones say nothing otherwise.
    pub fn with_every_end() -> Self {
        Self { ends: true, ..Self::new() }
    }

    pub fn show(&mut self, progress: &Progress<'_>) {
        let (number, tests) = progress.number;
        let (second, seconds) = progress.seconds;
        let phase = match progress.phase {
            Phase::Filling(percent) => format!("waits: the pool is filled, {percent} %"),
            Phase::WarmingUp => format!("warming up: {}", figures(progress)),
            Phase::Measuring => format!("{second}/{seconds} s: {}", figures(progress)),
        };
        let text = format!("[{number}/{tests}] {} {phase}", progress.test);
        let mut stderr = std::io::stderr().lock();
        // Where nobody listens any more there is nobody to tell that.
        if self.terminal {
            let _ = write!(stderr, "\r\x1b[K{text}");
            let _ = stderr.flush();
            self.shown = true;
        } else if self.is_due(progress) {
            let _ = writeln!(stderr, "{text}");
            self.told = Instant::now();
        }
    }

    /// Where nobody watches.
    fn is_due(&self, progress: &Progress<'_>) -> bool {
        let (second, seconds) = progress.seconds;
        match progress.phase {
            Phase::Filling(_) => self.told.elapsed() >= Duration::from_secs(QUIET_S.into()),
            Phase::WarmingUp => false,
            Phase::Measuring => second.is_multiple_of(QUIET_S) || self.ends && second == seconds,
        }
    }

    pub fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            let _ = write!(std::io::stderr().lock(), "\r\x1b[K");
        }
    }
}

fn figures(progress: &Progress<'_>) -> String {
    format!(
        "{:.0} IO/s, {:.1} MiB/s, mean {:.3} ms, p99 {:.3} ms",
        progress.iops,
        progress.mib_per_s,
        progress.mean_us / 1e3,
        progress.p99_us / 1e3
    )
}
