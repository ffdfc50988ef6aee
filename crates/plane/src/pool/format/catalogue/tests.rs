use proptest::prelude::*;
use proptest::sample::Index;

use super::*;
use crate::pool::format::samples::{any_catalogue, geometry, patched, reference, volume};

fn read(bytes: &[u8], volumes: u32) -> Result<Vec<VolumeEntry>, CatalogueError> {
    decode(bytes, &reference(bytes, volumes), &geometry())
}

/// A catalogue of one volume with other bytes in it, and checksums that fit.
fn with(offset: usize, field: &[u8]) -> Result<Vec<VolumeEntry>, CatalogueError> {
    let mut bytes = encode(&[volume()], &geometry()).unwrap();
    let entry = patched(&bytes[..ENTRY], CHECKSUM, offset, field);
    bytes[..ENTRY].copy_from_slice(&entry);
    read(&bytes, 1)
}

fn other(index: u8) -> VolumeEntry {
    let extents = vec![RowExtent { first_row: 20 + u64::from(index), rows: 1 }];
    VolumeEntry { id: [index + 1; 16], name: format!("v{index}"), extents, bytes: 512, ..volume() }
}

#[test]
fn damage_is_told_apart() {
    let bytes = encode(&[volume()], &geometry()).unwrap();
    let no_volume = decode(&bytes, &reference(&[], 0), &geometry());
    let reference = reference(&bytes, 1);
    let decode = |bytes: &[u8]| decode(bytes, &reference, &geometry());
    assert_eq!(decode(&bytes[..BLOCK - 1]), Err(CatalogueError::Short));
    for offset in [0, 40, 508, 600, BLOCK - 1] {
        let mut bytes = bytes.clone();
        bytes[offset] ^= 1;
        assert_eq!(decode(&bytes), Err(CatalogueError::Damaged), "{offset}");
    }
    // The whole fits, the entry does not.
    let mut torn = bytes.clone();
    torn[16] ^= 1;
    assert_eq!(read(&torn, 1), Err(CatalogueError::Damaged));
    // Blocks behind it are of no meaning, bytes of its last block are.
    assert_eq!(decode(&[&bytes[..], &[7; 100]].concat()), Ok(vec![volume()]));
    let mut behind = bytes.clone();
    behind[ENTRY] = 1;
    assert!(matches!(read(&behind, 1), Err(CatalogueError::Invalid { volume: 1, .. })));
    assert_eq!(no_volume, Ok(vec![]));
    assert_eq!(read(&bytes, u32::MAX), Err(CatalogueError::Short));
}

#[test]
fn no_volume_is_no_block() {
    assert_eq!(encode(&[], &geometry()), Ok(vec![]));
    assert_eq!(checksum(&[]), 0);
    assert_eq!([0, 1, 8, 9].map(blocks), [0, 1, 1, 2]);
}

#[test]
fn invalid_fields_are_refused() {
    let wrong: [(usize, &[u8], &str); 24] = [
        (0, &[0; 16], "no id"),
        (16, &[0; 8], "whole blocks"),
        (16, &[1], "whole blocks"),
        (18, &[7], "too small"),
        (23, &[0x80], "too small"),
        (24, &[0, 0], "block size"),
        (25, &[4], "block size"),
        (28, &[0], "its name"),
        (28, &[3], "its name"),
        (28, &[201], "its name"),
        (28, &[0xff, 0xff], "its name"),
        (32, &[0xc0], "its name"),
        (32, b"\x1b", "its name"),
        (36, b"s", "its name"),
        (30, &[0], "behind its extents"),
        (30, &[3], "an extent is empty"),
        (30, &[17], "number of its extents"),
        (30, &[0xff, 0xff], "number of its extents"),
        (232, &[1], "reserved"),
        (507, &[1], "reserved"),
        (240, &[100], "beyond the rows"),
        (247, &[0xff], "beyond the rows"),
        (248, &[0xff; 8], "beyond the rows"),
        (240, &[10], "has its rows"),
    ];
    for (offset, field, sentence) in wrong {
        let error = with(offset, field).expect_err(sentence);
        assert!(
            matches!(error, CatalogueError::Invalid { volume: 0, what } if what.contains(sentence)),
            "{offset}: {error}"
        );
    }
}

#[test]
fn volumes_are_apart() {
    let refused = |change: fn(&mut VolumeEntry)| {
        let mut second = other(0);
        change(&mut second);
        let volumes = [volume(), second];
        let error = encode(&volumes, &geometry()).unwrap_err();
        // What is read is held to the same.
        let mut bytes = vec![0; BLOCK];
        for (entry, out) in volumes.iter().zip(bytes.chunks_exact_mut(ENTRY)) {
            entry.encode(out);
        }
        assert_eq!(read(&bytes, 2), Err(error));
        error.to_string()
    };
    assert!(refused(|second| second.id = [0x70; 16]).contains("volume 1: another one has its id"));
    assert!(refused(|second| second.name = "demo".into()).contains("volume 1: another one has its name"));
    assert!(refused(|second| second.extents[0].first_row = 10).contains("another extent has its rows"));
    assert!(
        refused(|second| second.extents[0] = RowExtent { first_row: 0, rows: 4 }).contains("has its rows")
    );
    let neighbours = [RowExtent { first_row: 4, rows: 5 }, RowExtent { first_row: 2, rows: 1 }];
    let volumes = [volume(), VolumeEntry { extents: neighbours.to_vec(), ..other(0) }];
    assert!(encode(&volumes, &geometry()).is_ok());
}

#[test]
fn it_can_be_full() {
    let volumes: Vec<VolumeEntry> = (0..17).map(other).collect();
    assert_eq!(encode(&volumes, &geometry()), Err(CatalogueError::Full(16)));
    let bytes = encode(&volumes[..16], &geometry()).unwrap();
    assert_eq!(read(&bytes, 16).as_deref(), Ok(&volumes[..16]));
    assert_eq!(bytes.len(), 2 * BLOCK);
}

proptest! {
    #[test]
    fn round_trip((geometry, volumes) in any_catalogue()) {
        let bytes = encode(&volumes, &geometry).unwrap();
        let reference = reference(&bytes, volumes.len() as u32);
        prop_assert_eq!(decode(&bytes, &reference, &geometry), Ok(volumes));
    }

    #[test]
    fn mutated((geometry, volumes) in any_catalogue(), offset in any::<Index>(), field in any::<[u8; 2]>()) {
        prop_assume!(!volumes.is_empty());
        let mut bytes = encode(&volumes, &geometry).unwrap();
        let entry = patched(&bytes[..ENTRY], CHECKSUM, offset.index(CHECKSUM - 1), &field);
        bytes[..ENTRY].copy_from_slice(&entry);
        if let Ok(volumes) = decode(&bytes, &reference(&bytes, volumes.len() as u32), &geometry) {
            prop_assert_eq!(encode(&volumes, &geometry), Ok(bytes));
        }
    }

    #[test]
    fn arbitrary(bytes in prop::collection::vec(any::<u8>(), 0..2 * BLOCK), volumes in 1u32..20) {
        prop_assert!(read(&bytes, volumes).is_err());
    }
}
