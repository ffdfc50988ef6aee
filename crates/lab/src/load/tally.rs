//! What happened in a span of time.

use hdrhistogram::Histogram;

/// Latencies above this count as this, in nanoseconds.
const LONGEST_NS: u64 = 600_000_000_000;
/// Significant digits of a latency.
const DIGITS: u8 = 3;

/// A histogram of latencies in nanoseconds.
pub fn latencies() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST_NS, DIGITS).expect("the bounds are constants")
}

/// Operations of one kind.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Operations.
    pub operations: u64,
    /// Bytes.
    pub bytes: u64,
    /// Their latencies in nanoseconds.
    pub latency_ns: Histogram<u64>,
}

impl Default for Tally {
    fn default() -> Self {
        Tally { operations: 0, bytes: 0, latency_ns: latencies() }
    }
}

impl Tally {
    /// One more.
    #[inline]
    pub fn add(&mut self, bytes: u64, latency_ns: u64) {
        self.operations += 1;
        self.bytes += bytes;
        self.latency_ns.saturating_record(latency_ns);
    }

    /// Those of another span or thread.
    pub fn merge(&mut self, other: &Tally) {
        self.operations += other.operations;
        self.bytes += other.bytes;
        self.latency_ns.add(&other.latency_ns).expect("all histograms have the same bounds");
    }
}

/// All operations of a span of time.
#[derive(Clone, Debug, Default)]
pub struct Tallies {
    /// Reads.
    pub reads: Tally,
    /// Writes.
    pub writes: Tally,
    /// Flushes; they are not part of IO/s.
    pub flushes: Tally,
}

impl Tallies {
    /// Those of another span or thread.
    pub fn merge(&mut self, other: &Tallies) {
        self.reads.merge(&other.reads);
        self.writes.merge(&other.writes);
        self.flushes.merge(&other.flushes);
    }

    /// Reads and writes.
    pub fn operations(&self) -> u64 {
        self.reads.operations + self.writes.operations
    }

    /// Of reads and writes.
    pub fn bytes(&self) -> u64 {
        self.reads.bytes + self.writes.bytes
    }

    /// Of reads and writes together.
    pub fn latency_ns(&self) -> Histogram<u64> {
        let mut both = self.reads.latency_ns.clone();
        both.add(&self.writes.latency_ns).expect("all histograms have the same bounds");
        both
    }
}
