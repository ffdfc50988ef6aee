//! The history in the data directory, for one who writes and many who read. A node serves without it too.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use monitor::history::{Archive, Error, History, Points};
use monitor::metric::Reading;

/// The history, if it can be had.
pub struct Kept {
    path: PathBuf,
    state: RwLock<State>,
}

#[derive(Default)]
struct State {
    history: Option<History>,
    /// What it lacks was said already.
    is_lacking: bool,
}

impl Kept {
    /// In this directory, which is made with the first readings.
    pub(super) fn new(path: PathBuf) -> Kept {
        Kept { path, state: RwLock::default() }
    }

    /// Adds the readings of an interval. Where that is not possible it is said once, and tried again with the next.
    pub(super) fn record(&self, unix_s: u64, readings: &[Reading]) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let lacks = state.take(&self.path, unix_s, readings);
        match (&lacks, state.is_lacking) {
            (Some(why), false) => tracing::warn!("{why}"),
            (None, true) => tracing::info!("the history of metrics is kept again"),
            _ => {}
        }
        state.is_lacking = lacks.is_some();
    }

    fn read_state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The names of all series, as [`monitor::metric::Sample::series`] writes them, in no order that means anything.
    pub fn series(&self) -> Vec<String> {
        let state = self.read_state();
        state.history.iter().flat_map(History::series).map(str::to_owned).collect()
    }

    /// When something was kept last: seconds since 1970, a multiple of 10.
    pub fn newest_s(&self) -> Option<u64> {
        self.read_state().history.as_ref()?.newest_s()
    }

    /// What an archive knows of a series over some time, in seconds since 1970: as [`History::read`]. `None` of a series that is not
    /// there, and where there is no history.
    pub fn read(&self, series: &str, archive: Archive, time_s: Range<u64>) -> Result<Option<Points>, Error> {
        let state = self.read_state();
        let Some(history) = &state.history else { return Ok(None) };
        history.read(series, archive, time_s.start, time_s.end)
    }
}

impl State {
    /// What could not be kept: a sentence with a hint.
    fn take(&mut self, path: &std::path::Path, unix_s: u64, readings: &[Reading]) -> Option<String> {
        let history = match &mut self.history {
            Some(history) => history,
            none => match History::open(path) {
                Ok(history) => none.insert(history),
                Err(error) => return Some(sentence(&error)),
            },
        };
        match history.record(unix_s, readings) {
            Ok(recorded) => recorded.refusal,
            Err(error) => Some(sentence(&error)),
        }
    }
}

/// With what the system said of it.
fn sentence(error: &Error) -> String {
    match error {
        Error::Io { source, .. } => {
            let said = error.to_string();
            let (message, hint) = said.split_once("; hint: ").unwrap_or((&said, ""));
            format!("{message}: {source}; hint: {hint}")
        }
        Error::Names(_) => error.to_string(),
    }
}
