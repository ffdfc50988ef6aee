//! What was asked of something, in short.

use plane::Verb;
use plane::meter::{Counts, GaugeFigures};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What was asked of something, and ended. Who asks twice knows what happened in between.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Io {
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Flushes, and what gives space back or zeroes it.
    pub others: u64,
    /// Bytes that were read.
    pub read_bytes: u64,
    /// Bytes that were written.
    pub written_bytes: u64,
    /// Those that ended with an error.
    pub errors: u64,
    /// Microseconds that reads and writes took, all of them together.
    pub taken_us: u64,
    /// What has not ended yet.
    pub in_flight: u64,
}

impl Io {
    /// Of requests of each kind.
    pub(in crate::api) fn of(verbs: impl IntoIterator<Item = Counts>, in_flight: u64) -> Io {
        let verbs: Vec<Counts> = verbs.into_iter().collect();
        let verb = |verb: Verb| verbs.get(verb as usize).copied().unwrap_or_default();
        let (read, write) = (verb(Verb::Read), verb(Verb::Write));
        let requests: u64 = verbs.iter().map(|counts| counts.requests).sum();
        Io {
            reads: read.requests,
            writes: write.requests,
            others: requests - read.requests - write.requests,
            read_bytes: read.bytes,
            written_bytes: write.bytes,
            errors: verbs.iter().map(|counts| counts.errors).sum(),
            taken_us: (read.nanoseconds + write.nanoseconds) / 1000,
            in_flight,
        }
    }

    /// Of a pool or a member.
    pub(in crate::api) fn of_gauge(figures: &GaugeFigures) -> Io {
        let counts = figures.verbs.iter().map(|figures| Counts {
            requests: figures.requests,
            bytes: figures.bytes,
            errors: figures.errors,
            nanoseconds: figures.times.as_ref().map_or(0, |times| times.sum),
        });
        Io::of(counts, figures.in_flight)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_writes_and_the_rest_are_told_apart() {
        let counts = |requests, bytes, nanoseconds| Counts { requests, bytes, errors: 1, nanoseconds };
        let verbs = [counts(1, 10, 2_000), counts(2, 20, 3_500), counts(3, 0, 9_000), counts(4, 40, 0)];
        let expected = Io {
            reads: 1,
            writes: 2,
            others: 7,
            read_bytes: 10,
            written_bytes: 20,
            errors: 4,
            taken_us: 5,
            in_flight: 6,
        };
        assert_eq!(Io::of(verbs, 6), expected);
    }
}
