//! The limit: a bare request/response program. Nothing of Fels, but how its memory is fetched and written.
//!
//! A request is a head of 48 bytes, as an iSCSI command is, which says how many bytes follow it, how many its answer
//! has, and which place it is about. The server throws away what follows and answers from one buffer; all answers to one receive
//! are one send. What this program cannot do on a machine, no server that moves the same bytes in messages of the same
//! size can. A server with memory keeps what follows at its place, and answers from there: what is left of the limit when
//! the bytes come from somewhere. One with a file does so on a disk: what a network leaves of that.

mod client;
mod file;
mod memory;
mod server;

use std::io::{self, ErrorKind, Read};
use std::net::TcpStream;
use std::time::Duration;

use rustix::net::sockopt::set_tcp_congestion;

pub use client::drive;
pub use file::serve as serve_file;
pub use server::serve;

use crate::stats::float;

/// Bytes of a request's head, and of the head of an answer.
pub const HEAD: usize = 48;
/// Bytes that are received at once.
const RECEIVE: usize = 256 << 10;
/// Slices that are sent at once.
const SLICES: usize = 64;
/// Longest request and answer that are believed.
const MOST: u32 = 16 << 20;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Requests of 100 that are answered with data; the others bring data.
    pub read_percent: u8,
    /// At random places, or one after the other.
    pub random: bool,
    /// Bytes of data.
    pub request_bytes: u32,
    /// Requests in flight of each connection.
    pub depth: u32,
    /// Connections.
    pub sessions: u32,
}

/// When requests are asked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// Each when an answer has come; both sides may sleep.
    Closed {
        /// Look all the time instead.
        spin: bool,
    },
    /// As independent users come, so many a second on average of all connections, looking all the time.
    Open {
        /// Requests a second.
        rate: f64,
    },
}

/// What was reached.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reached {
    /// Answers that arrived.
    pub operations: u64,
    /// In so many seconds.
    pub seconds: f64,
    /// Of requests that were due at a time of their own.
    pub latency: Option<Latency>,
}

/// How long requests took, in microseconds, from when they were due.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[expect(clippy::struct_field_names, reason = "the unit comes last")]
pub struct Latency {
    /// Of all.
    pub mean_us: f64,
    /// Half of them took no longer.
    pub p50_us: f64,
    /// 99 of 100.
    pub p99_us: f64,
    /// 999 of 1000.
    pub p99_9_us: f64,
}

impl Latency {
    /// Of these; none of none.
    fn of(mut all: Vec<Duration>) -> Option<Latency> {
        all.sort_unstable();
        let us = |span: Duration| span.as_secs_f64() * 1e6;
        let at = |part: usize| all.get((all.len() * part).div_ceil(1000).max(1) - 1).copied().map(us);
        Some(Latency {
            p50_us: at(500)?,
            p99_us: at(990)?,
            p99_9_us: at(999)?,
            mean_us: us(all.iter().sum()) / float(all.len() as u64),
        })
    }
}

/// Makes a connection ready: what is sent leaves at once, and by the congestion control that carries most over the
/// loopback, where the kernel has it, whatever is the machine's own: a limit is no limit if a server passes it by choosing better.
fn make_ready(stream: &TcpStream, spin: bool) -> io::Result<()> {
    let _not_there = set_tcp_congestion(stream, "cubic");
    stream.set_nodelay(true)?;
    stream.set_nonblocking(spin)
}

/// Receives; nothing when there is nothing to be had without waiting.
fn receive(stream: &mut TcpStream, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    match stream.read(buffer) {
        Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
        Ok(received) => Ok(Some(received)),
        Err(error) if waits(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether there is nothing to be had, or no room to send, for now.
fn waits(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// The head of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Head {
    /// Bytes that follow it.
    follows: u32,
    /// Bytes of its answer, with the answer's own head.
    answer: u32,
    /// Which place it is about, counted in requests of its size; memory that has fewer begins again.
    place: u64,
}

impl Head {
    fn write(self) -> [u8; HEAD] {
        let mut bytes = [0; HEAD];
        bytes[..4].copy_from_slice(&self.follows.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.answer.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.place.to_le_bytes());
        bytes
    }

    fn read(bytes: &[u8; HEAD]) -> Self {
        let number = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let place = u64::from(number(8)) | u64::from(number(12)) << 32;
        Self { follows: number(0), answer: number(4), place }
    }
}

#[cfg(test)]
mod tests;
