//! The measures of a world.

use std::ops::Range;
use std::time::Duration;

/// How fast, how cut and how broken a world is. Ranges are drawn from evenly, once per message or operation.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How long a message takes from node to node.
    pub latency: Range<Duration>,
    /// How long a message takes within a node.
    pub loopback: Range<Duration>,
    /// How probable it is that a run of bytes is cut in two wherever it may be, 0 to 1.
    pub cut: f64,
    /// Bytes that may be on their way or unread per direction of a connection before its sender has to wait.
    pub window: usize,
    /// How long a read takes.
    pub read: Range<Duration>,
    /// How long a write (or punch, zero, reserve) takes.
    pub write: Range<Duration>,
    /// How long a flush takes, and what a durable write takes in addition.
    pub flush: Range<Duration>,
    /// What a disk writes whole or not at all, in bytes: a power of two from 512 to 4096. Also the alignment that
    /// direct I/O asks for.
    pub sector_bytes: usize,
    /// Whether a sector in flight can be left half old and half new by a power cut. Off, as disks promise that
    /// it is not and on-disk formats may rely on it; on, to show that a format does not even need the promise.
    pub torn_sectors: bool,
    /// How many tasks a reactor may poll in one turn, drawn from these anew each time: few polls mix the reactors more.
    pub polls: &'static [usize],
    /// How likely a reactor is not run for a while after a turn, as its machine has something else to do.
    pub nap_chance: f64,
    /// For how long then.
    pub nap: Range<Duration>,
    /// Whether every second turn of a reactor is one in which it [works in turn](crate::Ring::is_in_lockstep) with its peer.
    pub lockstep: bool,
    /// Turns and events that one run may take.
    pub steps: u64,
    /// Simulated time that one run may take.
    pub span: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        let us = Duration::from_micros;
        Settings {
            latency: us(20)..us(300),
            loopback: us(2)..us(30),
            cut: 0.3,
            window: 256 << 10,
            read: us(30)..us(400),
            write: us(15)..us(400),
            flush: us(100)..us(3000),
            sector_bytes: 512,
            torn_sectors: false,
            polls: &[1, 7, 1024],
            nap_chance: 0.0,
            nap: us(100)..us(200_000),
            lockstep: true,
            steps: 10_000_000,
            span: Duration::from_secs(24 * 3600),
        }
    }
}

/// A time of `range`, in nanoseconds.
pub(super) fn draw(random: &mut fastrand::Rng, range: &Range<Duration>) -> u64 {
    let (start, end) = (range.start.as_nanos() as u64, range.end.as_nanos() as u64);
    if start < end { random.u64(start..end) } else { start }
}
