//! Which rows a new volume gets.

use super::format::catalogue::MAX_EXTENTS;
use super::format::{Geometry, RowExtent, VolumeEntry, row_of};

/// Rows that belong to no volume.
struct Free {
    extent: RowExtent,
    /// Bytes of each.
    row_bytes: u64,
}

impl Free {
    fn bytes(&self) -> u64 {
        self.extent.rows * self.row_bytes
    }
}

/// The rows of a set that belong to no volume, in their order.
fn free_of(volumes: &[VolumeEntry], geometry: &Geometry, set: usize) -> Vec<Free> {
    let (mut at, end) = (row_of(set, 0), row_of(set, geometry.rows));
    let row_bytes = geometry.row_bytes_of(at);
    let extents = volumes.iter().flat_map(|volume| volume.extents.iter().copied());
    let mut taken: Vec<_> = extents.filter(|extent| (at..end).contains(&extent.first_row)).collect();
    taken.push(RowExtent { first_row: end, rows: 0 });
    taken.sort_unstable_by_key(|extent| extent.first_row);
    let mut free = Vec::new();
    for extent in taken {
        if extent.first_row > at {
            free.push(Free { extent: RowExtent { first_row: at, rows: extent.first_row - at }, row_bytes });
        }
        at = extent.first_row + extent.rows;
    }
    free
}

/// Rows of so many bytes that belong to no volume: the smallest run that has them all, or else the largest ones. The error is
/// how many bytes could be had.
pub(super) fn allocate(
    volumes: &[VolumeEntry],
    geometry: &Geometry,
    bytes: u64,
) -> Result<Vec<RowExtent>, u64> {
    let sets = 0..geometry.sets.count();
    let mut free: Vec<Free> = sets.flat_map(|set| free_of(volumes, geometry, set)).collect();
    if let Some(best) = free.iter().filter(|free| free.bytes() >= bytes).min_by_key(|free| free.bytes()) {
        let rows = bytes.div_ceil(best.row_bytes);
        return Ok(vec![RowExtent { first_row: best.extent.first_row, rows }]);
    }
    free.sort_unstable_by_key(|free| std::cmp::Reverse(free.bytes()));
    free.truncate(MAX_EXTENTS);
    let had: u64 = free.iter().map(Free::bytes).sum();
    if had < bytes {
        return Err(had);
    }
    let mut left = bytes;
    let mut extents = Vec::new();
    for Free { extent, row_bytes } in free {
        let rows = extent.rows.min(left.div_ceil(row_bytes));
        if rows > 0 {
            extents.push(RowExtent { first_row: extent.first_row, rows });
        }
        left = left.saturating_sub(rows * row_bytes);
    }
    Ok(extents)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::Level;

    /// 100 rows of 8 KiB, and behind them a set with 100 rows of 4 KiB.
    fn geometry(sets: usize) -> Geometry {
        let plan = Geometry::plan(Level::Raid0, 2, 4096, 4 << 20, 1, 1 << 20).unwrap();
        let geometry = Geometry { rows: 100, ..plan };
        if sets == 1 { geometry } else { geometry.extended(1).unwrap() }
    }

    fn volume(first_row: u64, rows: u64) -> VolumeEntry {
        let extents = vec![RowExtent { first_row, rows }];
        VolumeEntry {
            id: [first_row as u8 + 1; 16],
            name: format!("v{first_row}"),
            bytes: 4096,
            block_size: 512,
            extents,
        }
    }

    #[test]
    fn the_smallest_run_that_fits_is_taken() {
        let volumes = [volume(10, 10), volume(25, 5)];
        let rows = |wanted: u64| {
            let bytes: u64 = wanted * 8192 - 1;
            allocate(&volumes, &geometry(1), bytes).map(|extents| extents[0].first_row)
        };
        assert_eq!(rows(5), Ok(20));
        assert_eq!(rows(6), Ok(0));
        assert_eq!(rows(70), Ok(30));
    }

    #[test]
    fn what_no_run_has_is_put_together() {
        let volumes = [volume(10, 10), volume(25, 5)];
        let extents = allocate(&volumes, &geometry(1), 85 * 8192).unwrap();
        assert_eq!(extents.iter().map(|extent| extent.rows).sum::<u64>(), 85);
        assert_eq!(extents.len(), 3);
        assert_eq!(allocate(&volumes, &geometry(1), 85 * 8192 + 1), Err(85 * 8192));
    }

    #[test]
    fn rows_of_several_sets_have_their_own_size() {
        let volumes = [volume(10, 10), volume(25, 5), volume(row_of(1, 90), 10)];
        let geometry = geometry(2);
        let get = |bytes| allocate(&volumes, &geometry, bytes);
        let one = |first_row, rows| Ok(vec![RowExtent { first_row, rows }]);
        assert_eq!(get(70 * 8192), one(30, 70));
        assert_eq!(get(21 * 8192), one(row_of(1, 0), 42));
        let all = 85 * 8192 + 90 * 4096;
        let extents = get(all).unwrap();
        assert_eq!(extents.len(), 4);
        let bytes = extents.iter().map(|extent| extent.rows * geometry.row_bytes_of(extent.first_row));
        assert_eq!(bytes.sum::<u64>(), all);
        assert_eq!(get(all + 1), Err(all));
    }
}
