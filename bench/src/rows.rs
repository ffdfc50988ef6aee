//! The rows of the comparison.

use serde::Serialize;

use crate::error::Error;

/// What the requests of a row are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Load {
    /// Reads at random 512-byte boundaries, by `iscsi-perf`, for a given time.
    RandomRead,
    /// Reads one after the other, by `iscsi-perf`, for a given time.
    SequentialRead,
    /// Writes that jump through the whole volume by a fixed stride, by `qemu-img bench`, of a given count.
    ///
    /// `iscsi-perf` cannot write and `qemu-img bench` has no random offsets. A stride near the golden
    /// section of the volume visits every block once before it comes back, and neighbours in time are
    /// far apart in space, which is what a random write is to a target.
    ScatteredWrite,
    /// Writes one after the other, by `qemu-img bench`, of a given count.
    SequentialWrite,
}

/// One row: the same load for every target.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Row {
    /// The name under which the row is asked for and reported.
    pub name: &'static str,
    /// What the requests are.
    pub load: Load,
    /// Bytes of each request.
    pub request_bytes: u32,
    /// Requests in flight of each session.
    pub depth: u32,
    /// Sessions, each one a process of the client.
    pub sessions: u32,
}

impl Row {
    /// The program that makes this load.
    pub fn client(&self) -> &'static str {
        match self.load {
            Load::RandomRead | Load::SequentialRead => "iscsi-perf",
            Load::ScatteredWrite | Load::SequentialWrite => "qemu-img bench",
        }
    }

    /// Requests in flight of all sessions.
    pub fn in_flight(&self) -> u32 {
        self.depth * self.sessions
    }
}

const fn row(name: &'static str, load: Load, request_bytes: u32, depth: u32, sessions: u32) -> Row {
    Row { name, load, request_bytes, depth, sessions }
}

/// Every row, in the order of the report.
pub const ROWS: &[Row] = &[
    row("read-4k-random-d32", Load::RandomRead, 4096, 32, 1),
    row("write-4k-scattered-d32", Load::ScatteredWrite, 4096, 32, 1),
    row("read-8k-random-d32", Load::RandomRead, 8192, 32, 1),
    row("write-8k-scattered-d32", Load::ScatteredWrite, 8192, 32, 1),
    row("read-128k-sequential-d32", Load::SequentialRead, 131_072, 32, 1),
    row("write-128k-sequential-d32", Load::SequentialWrite, 131_072, 32, 1),
    row("read-4k-random-d1", Load::RandomRead, 4096, 1, 1),
    row("write-4k-scattered-d1", Load::ScatteredWrite, 4096, 1, 1),
    row("read-4k-random-4x32", Load::RandomRead, 4096, 32, 4),
];

/// The rows whose names contain one of `wanted`; all when nothing is wanted.
pub fn select(wanted: &[String]) -> Result<Vec<Row>, Error> {
    for want in wanted {
        if !ROWS.iter().any(|row| row.name.contains(want.as_str())) {
            return Err(Error::Options(format!("no row is called '{want}'")));
        }
    }
    let chosen = |row: &&Row| wanted.is_empty() || wanted.iter().any(|want| row.name.contains(want.as_str()));
    Ok(ROWS.iter().filter(chosen).copied().collect())
}

/// The stride of scattered writes in a volume of `volume_bytes`: near the golden section, and an odd
/// number of requests, so that it visits every request-sized block of a power of two.
pub fn scatter_stride(volume_bytes: u64, request_bytes: u32) -> u64 {
    let request = u64::from(request_bytes);
    let requests = volume_bytes / request;
    // qemu-img takes the stride as a positive 32-bit integer.
    let golden = (requests * 618 / 1000).min(u64::from(i32::MAX as u32) / request);
    let odd = if golden % 2 == 0 { golden.saturating_sub(1) } else { golden };
    odd.max(1) * request
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stride_visits_every_block() {
        for (volume, request) in [(64 << 20, 4096), (64 << 20, 8192)] {
            let stride = scatter_stride(volume, request);
            let requests = volume / u64::from(request);
            let mut seen = vec![false; usize::try_from(requests).unwrap()];
            let mut offset = 0;
            for _ in 0..requests {
                seen[usize::try_from(offset / u64::from(request)).unwrap()] = true;
                offset = (offset + stride) % volume;
            }
            assert!(seen.iter().all(|&visited| visited));
        }
    }

    #[test]
    fn stride_fits_qemu_for_large_volumes() {
        for size_mib in [2048_u64, 4096, 1_048_576] {
            let stride = scatter_stride(size_mib << 20, 4096);
            assert!(i32::try_from(stride).is_ok());
            assert_eq!(stride % 4096, 0);
        }
    }

    #[test]
    fn an_unknown_row_is_refused() {
        assert!(select(&["no-such-row".to_owned()]).is_err());
        assert_eq!(select(&["d1".to_owned()]).unwrap().len(), 2);
        assert_eq!(select(&[]).unwrap().len(), ROWS.len());
    }

    #[test]
    fn names_are_unique() {
        for (index, row) in ROWS.iter().enumerate() {
            assert!(ROWS[..index].iter().all(|other| other.name != row.name));
        }
    }
}
