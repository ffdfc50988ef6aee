//! Waiting for what goes on in a node, with a bar.

use super::node;
use super::status::progress;
use crate::message::Failure;
use control::api::client::Client;
use control::api::model::{Pool, Progress};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::io::{IsTerminal, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often the node is asked.
const ASK: Duration = Duration::from_millis(250);
/// Between two lines of progress where nobody watches.
const QUIET: Duration = Duration::from_secs(10);
/// Characters of the bar.
const BAR: u64 = 30;
/// What a process ends with that a second signal stopped, as shells have it for SIGINT.
const INTERRUPTED: i32 = 130;

/// How it is with what is waited for.
pub enum Waiting {
    /// So far.
    At(Progress),
    /// It is over.
    Done,
}

/// Asks until `look` says that it is done. A signal ends the waiting, and `goes_on` says what does not end by it.
pub fn wait(
    client: &Client,
    mut pool: Pool,
    title: &str,
    goes_on: &str,
    look: impl Fn(&Pool) -> Result<Waiting, Failure>,
) -> Result<Pool, Failure> {
    let stop = stop_flag()?;
    let mut bar = Bar::new(title);
    loop {
        match look(&pool)? {
            Waiting::Done => return Ok(pool),
            Waiting::At(progress) => bar.show(&progress),
        }
        std::thread::sleep(ASK);
        if stop.load(Ordering::Relaxed) {
            drop(bar);
            return Err(Failure::new("stopped waiting", Some(goes_on)));
        }
        pool = node::one(client, &pool.name)?;
    }
}

/// The flag that the first signal sets; the second one ends the process.
pub fn stop_flag() -> Result<Arc<AtomicBool>, Failure> {
    let failed = |error| Failure::new(format!("the handlers of signals cannot be set: {error}"), None);
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        // In this order: the first signal finds it unarmed and arms it.
        signal_hook::flag::register_conditional_shutdown(signal, INTERRUPTED, stop.clone())
            .map_err(failed)?;
        signal_hook::flag::register(signal, stop.clone()).map_err(failed)?;
    }
    Ok(stop)
}

/// One line that is written over on a terminal; elsewhere a line every ten seconds.
pub struct Bar {
    title: String,
    terminal: bool,
    shown: Option<Instant>,
}

impl Bar {
    pub fn new(title: &str) -> Bar {
        Bar { title: title.to_owned(), terminal: std::io::stderr().is_terminal(), shown: None }
    }

    pub fn show(&mut self, now: &Progress) {
        let line = format!("{} {} {}", self.title, bar(now), progress(now));
        let mut stderr = std::io::stderr().lock();
        // Where nobody listens any more there is nobody to tell that.
        if self.terminal {
            let _ = write!(stderr, "\r\x1b[K{line}");
            let _ = stderr.flush();
            self.shown = Some(Instant::now());
        } else if self.shown.is_none_or(|shown| shown.elapsed() >= QUIET) {
            let _ = writeln!(stderr, "{line}");
            self.shown = Some(Instant::now());
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if self.terminal && self.shown.is_some() {
            let _ = write!(std::io::stderr().lock(), "\r\x1b[K");
        }
    }
}

fn bar(progress: &Progress) -> String {
    let full = (progress.percent() * BAR / 100) as usize;
    format!("[{}{}]", "#".repeat(full), ".".repeat(BAR as usize - full))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_is_as_full_as_what_is_done() {
        let at = |done_bytes| bar(&Progress { done_bytes, total_bytes: 100, ..Progress::default() });
        assert_eq!(at(0), "[..............................]");
        assert_eq!(at(50), "[###############...............]");
        assert_eq!(at(99), "[#############################.]");
        assert_eq!(at(100), "[##############################]");
    }
}
