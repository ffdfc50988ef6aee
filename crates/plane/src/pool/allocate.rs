//! Which rows a new volume gets.

use super::format::catalogue::MAX_EXTENTS;
use super::format::{RowExtent, VolumeEntry};

/// So many rows that belong to no volume: the smallest run that has them all, or else the largest ones. The error is how many
/// could be had.
pub(super) fn allocate(volumes: &[VolumeEntry], rows: u64, wanted: u64) -> Result<Vec<RowExtent>, u64> {
    let mut taken: Vec<RowExtent> =
        volumes.iter().flat_map(|volume| volume.extents.iter().copied()).collect();
    taken.sort_unstable_by_key(|extent| extent.first_row);
    let mut free = Vec::new();
    let mut at = 0;
    for extent in taken {
        if extent.first_row > at {
            free.push(RowExtent { first_row: at, rows: extent.first_row - at });
        }
        at = extent.first_row + extent.rows;
    }
    if at < rows {
        free.push(RowExtent { first_row: at, rows: rows - at });
    }
    if let Some(best) = free.iter().filter(|extent| extent.rows >= wanted).min_by_key(|extent| extent.rows) {
        return Ok(vec![RowExtent { first_row: best.first_row, rows: wanted }]);
    }
    free.sort_unstable_by_key(|extent| std::cmp::Reverse(extent.rows));
    free.truncate(MAX_EXTENTS);
    let had: u64 = free.iter().map(|extent| extent.rows).sum();
    if had < wanted {
        return Err(had);
    }
    let mut left = wanted;
    let mut extents = Vec::new();
    for extent in free {
        let rows = extent.rows.min(left);
        if rows > 0 {
            extents.push(RowExtent { first_row: extent.first_row, rows });
        }
        left -= rows;
    }
    Ok(extents)
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let rows = |wanted| allocate(&volumes, 100, wanted).map(|extents| extents[0].first_row);
        assert_eq!(rows(5), Ok(20));
        assert_eq!(rows(6), Ok(0));
        assert_eq!(rows(70), Ok(30));
    }

    #[test]
    fn what_no_run_has_is_put_together() {
        let volumes = [volume(10, 10), volume(25, 5)];
        let extents = allocate(&volumes, 100, 85).unwrap();
        assert_eq!(extents.iter().map(|extent| extent.rows).sum::<u64>(), 85);
        assert_eq!(extents.len(), 3);
        assert_eq!(allocate(&volumes, 100, 86), Err(85));
    }
}
