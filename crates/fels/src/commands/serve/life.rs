//! Signs of life for the service manager, as long as the cores of the node answer.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use control::Node;
use control::pulse::Pulse;

use crate::notify::Manager;

/// How often it is told how the node is, where it wants no signs of life.
const USUAL: Duration = Duration::from_secs(10);
/// Signs of life in the time that it waits for one: one that is late is no end.
const SIGNS: u32 = 3;

/// The service manager, as long as the node serves.
pub struct Life {
    /// Dropped to end it.
    goes_on: Sender<()>,
    thread: JoinHandle<Manager>,
}

impl Life {
    /// Tells that the node serves, and then how it is; nothing where nobody wants to know.
    pub fn begin(node: &Node) -> Option<Life> {
        let manager = Manager::of_this_process()?;
        let pulse = node.pulse();
        manager.tell(&format!("READY=1\nSTATUS={}", pulse.sentence()));
        let (goes_on, ended) = mpsc::channel::<()>();
        let every = manager.watchdog.map_or(USUAL, |watchdog| watchdog / SIGNS);
        let thread = std::thread::Builder::new().name("life".to_owned()).spawn(move || {
            while ended.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                manager.tell(&sign(&pulse, every));
            }
            manager
        });
        // Without the thread the watchdog starts the node again and again: better told at once.
        let thread = thread.map_err(|error| tracing::error!("no thread for signs of life: {error}")).ok()?;
        Some(Life { goes_on, thread })
    }

    /// Tells that the node ends.
    pub fn end(self) {
        drop(self.goes_on);
        if let Ok(manager) = self.thread.join() {
            manager.tell("STOPPING=1\nSTATUS=what is in flight is drained");
        }
    }
}

/// A sign of life, if every core gave one.
fn sign(pulse: &Pulse, patience: Duration) -> String {
    let silent = pulse.silent(patience);
    if silent.is_empty() {
        return format!("WATCHDOG=1\nSTATUS={}", pulse.sentence());
    }
    let names = silent.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    tracing::error!("cores that do not answer: {names}");
    format!("STATUS=cores that do not answer: {names}")
}
