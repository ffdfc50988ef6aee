//! Limits that are watched, and people who are told: what is crossed becomes a message, which is kept until it has arrived
//! (`docs/formats/alerts.md`).
//!
//! `board` is the state machine: figures in, events and messages out, no I/O. `file` keeps it as a whole, so that what is wrong, what was
//! told and what waits are of one moment, also after a crash. `engine` feeds and empties it; `mail` and `webhook` are the ways out.

pub mod board;
mod deliver;
mod engine;
pub mod file;
mod mail;
mod said;
mod smart;
#[cfg(test)]
mod tests;
pub mod webhook;

pub use board::{Acknowledged, Board, Entry, Muted};
pub(crate) use engine::run;
pub(crate) use smart::Disks;
pub use smart::{Health, read as read_smart};

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use monitor::event::Event;
use tokio::sync::Notify;

use crate::config::Config;
use crate::events::Events;
use crate::moment::Moment;
use file::AlertsError;

/// The longest that something is muted: a month.
pub const MAX_MUTE_S: u64 = 31 * 24 * 60 * 60;

/// The alerts of a node that runs. All copies are of the same ones.
#[derive(Clone)]
pub struct Alerts(Arc<Inner>);

struct Inner {
    directory: PathBuf,
    /// By which the node is known to people.
    node: String,
    board: Mutex<Board>,
    /// Whose change is being kept: no older state is to be written over a newer one.
    keeps: tokio::sync::Mutex<()>,
    events: Events,
    /// Something waits for being sent.
    waiting: Notify,
}

/// Where a test message has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tried {
    /// A mail address, or `webhook of NAME`.
    pub to: String,
    /// Why it did not arrive.
    pub error: Option<String>,
}

impl Alerts {
    /// As the data directory has them, of which this process has the lock. Blocks.
    pub fn open(directory: &Path, events: Events) -> Result<Alerts, AlertsError> {
        let kept = file::read(directory)?;
        let node = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let board = Mutex::new(Board::new(kept));
        Ok(Alerts(Arc::new(Inner {
            directory: directory.to_owned(),
            node,
            board,
            keeps: tokio::sync::Mutex::default(),
            events,
            waiting: Notify::new(),
        })))
    }

    fn board(&self) -> MutexGuard<'_, Board> {
        self.0.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All things that are held against a limit, by their ids.
    pub fn list(&self) -> Vec<(String, Entry)> {
        self.board().list()
    }

    /// Messages that wait for being sent.
    pub fn waiting(&self) -> usize {
        self.board().waiting()
    }

    /// Changes the board, keeps it, and tells what happened. An error: it is so, and is not kept, which is tried again; a restart
    /// before that would forget it.
    async fn change<T>(&self, work: impl FnOnce(&mut Board) -> (T, Vec<Event>)) -> std::io::Result<T> {
        let turn = self.0.keeps.lock().await;
        let (done, events, kept) = {
            let mut board = self.board();
            let (done, events) = work(&mut board);
            (done, events, board.to_keep())
        };
        let mut result = Ok(done);
        if let Some(kept) = kept {
            let directory = self.0.directory.clone();
            let written = tokio::task::spawn_blocking(move || file::write(&directory, &kept)).await;
            if let Err(error) = written.unwrap_or_else(|error| Err(std::io::Error::other(error))) {
                self.board().keep_again();
                tracing::error!("alerts cannot be kept: {error}; it is tried again");
                result = Err(error);
            }
            self.0.waiting.notify_one();
        }
        drop(turn);
        for event in events {
            self.0.events.tell(event);
        }
        result
    }

    /// Notes that somebody sees to it; false if there is no such alert.
    pub async fn acknowledge(&self, id: &str, who: &str) -> std::io::Result<bool> {
        let now = Moment::now();
        let event = || Event::AlertAcknowledged { alert: id.to_owned(), who: who.to_owned() };
        self.change(|board| {
            let there = board.acknowledge(id, who, now);
            (there, there.then(event).into_iter().collect())
        })
        .await
    }

    /// Tells nobody of it until then; false if there is no such alert.
    pub async fn mute(&self, id: &str, who: &str, until: Moment) -> std::io::Result<bool> {
        let event =
            || Event::AlertMuted { alert: id.to_owned(), who: who.to_owned(), until: until.to_string() };
        self.change(|board| {
            let there = board.mute(id, Some(Muted { who: who.to_owned(), until }));
            (there, there.then(event).into_iter().collect())
        })
        .await
    }

    /// Lets it be told again; false if there is no such alert.
    pub async fn unmute(&self, id: &str, who: &str) -> std::io::Result<bool> {
        let event = || Event::AlertUnmuted { alert: id.to_owned(), who: who.to_owned() };
        self.change(|board| {
            let there = board.mute(id, None);
            (there, there.then(event).into_iter().collect())
        })
        .await
    }

    /// Sends a message to everybody who could be told, and says what came of it.
    pub async fn test(&self, config: &Config) -> Vec<Tried> {
        deliver::test(config, &self.0.node).await
    }
}
