//! Volumes of a pool that runs: they come, grow and go, and the power goes at any moment.

use std::time::Duration;

use proptest::prelude::*;

use super::bed::Bed;
use super::pattern;
use crate::pool::format::{CatalogueReference, Geometry, VolumeEntry, catalogue};
use crate::pool::{Level, VolumeWish};

fn add(name: &str, bytes: u64) -> VolumeWish {
    VolumeWish::Add { id: [9; 16], name: name.to_owned(), bytes, block_size: 512 }
}

fn resize(name: &str, bytes: u64) -> VolumeWish {
    VolumeWish::Resize { name: name.to_owned(), bytes }
}

fn remove(name: &str) -> VolumeWish {
    VolumeWish::Remove { name: name.to_owned() }
}

fn sizes(volumes: &[VolumeEntry]) -> Vec<(String, u64)> {
    volumes.iter().map(|volume| (volume.name.clone(), volume.bytes)).collect()
}

/// A volume that is made in the rows of one that was deleted reads as zeroes, also after a power cut.
#[test]
fn rows_of_a_deleted_volume_read_as_zeroes_for_the_next_one() {
    for (level, slots) in [(Level::Single, 1), (Level::Raid1, 2), (Level::Raid5, 3), (Level::Raid6, 4)] {
        let mut bed = Bed::new(3, level, slots, 16 << 10);
        let bytes = bed.volume;
        let secret = pattern(bytes as usize, 5);
        bed.write(0, &secret).unwrap();
        let rows = bed.volumes()[0].extents.clone();
        bed.erase_volume(0);
        bed.change_volumes(remove("demo")).unwrap();
        assert!(bed.volumes().is_empty());
        bed.change_volumes(add("next", bytes)).unwrap();
        assert_eq!(bed.volumes()[0].extents, rows, "the same rows");
        assert!(bed.read(0, bytes as usize).unwrap().iter().all(|byte| *byte == 0));
        bed.power_cut();
        bed.start().unwrap();
        assert_eq!(sizes(&bed.volumes()), [("next".to_owned(), bytes)]);
        assert!(bed.read(0, bytes as usize).unwrap().iter().all(|byte| *byte == 0));
    }
}

/// What is added by growing is behind what was there, reads as zeroes, and is kept.
#[test]
fn a_volume_that_grows_keeps_its_bytes() {
    let mut bed = Bed::new(4, Level::Raid5, 3, 16 << 10);
    let bytes = bed.volume;
    let old = pattern(bytes as usize, 1);
    bed.write(0, &old).unwrap();
    // Its neighbour leaves it no room to grow in place.
    bed.change_volumes(add("beside", 5 * bed.geometry().row_bytes())).unwrap();
    bed.change_volumes(resize("demo", bytes + 3 * bed.geometry().row_bytes() + 512)).unwrap();
    assert_eq!(bed.volumes()[0].extents.len(), 2);
    let larger = bed.volumes()[0].bytes;
    assert_eq!(bed.read(0, bytes as usize).unwrap(), old);
    assert!(bed.read(bytes, (larger - bytes) as usize).unwrap().iter().all(|byte| *byte == 0));
    bed.write(larger - 512, &[7; 512]).unwrap();
    bed.power_cut();
    bed.start().unwrap();
    assert_eq!(bed.volumes()[0].bytes, larger);
    assert_eq!(bed.read(0, bytes as usize).unwrap(), old);
    assert_eq!(bed.read(larger - 512, 512).unwrap(), [7; 512]);
    let smaller = bed.change_volumes(resize("demo", bytes)).unwrap_err();
    assert!(smaller.contains("cannot be made smaller"), "{smaller}");
    let beyond = bed.change_volumes(resize("demo", 1 << 40)).unwrap_err();
    assert!(beyond.contains("are free"), "{beyond}");
    assert!(bed.change_volumes(remove("nobody")).unwrap_err().contains("is not there"));
}

/// At any moment the catalogue is the old one or the new one, as a whole.
#[test]
fn a_cut_while_volumes_change_leaves_the_old_ones_or_the_new_ones() {
    let mut seen = (0, 0);
    for seed in 0..60 {
        let mut bed = Bed::new(seed, Level::Raid6, 4, 16 << 10);
        bed.change_volumes(add("more", bed.geometry().row_bytes())).unwrap();
        let wish = match seed % 3 {
            0 => add("third", bed.geometry().row_bytes()),
            1 => resize("more", 4 * bed.geometry().row_bytes()),
            _ => remove("more"),
        };
        let before = bed.volumes();
        let after = wish.apply(&before, &bed.geometry()).unwrap();
        bed.begin_change(wish);
        bed.world.run_for(Duration::from_micros(400 * seed)).unwrap();
        bed.power_cut();
        bed.start().unwrap();
        let found = bed.volumes();
        assert!(found == before || found == after, "seed {seed}: {found:?}");
        seen = (seen.0 + u32::from(found == before), seen.1 + u32::from(found == after));
    }
    assert!(seen.0 > 5 && seen.1 > 5, "both are met: {seen:?}");
}

fn wish() -> impl Strategy<Value = VolumeWish> {
    let name = || prop::sample::select(vec!["a", "b", "c", "d", "e"]);
    let bytes = || (1..40u64).prop_map(|units| units * 40_960);
    prop_oneof![
        (name(), bytes()).prop_map(|(name, bytes)| add(name, bytes)),
        (name(), bytes()).prop_map(|(name, bytes)| resize(name, bytes)),
        name().prop_map(remove),
    ]
}

proptest! {
    /// Whatever is wished, one after the other: the catalogue is valid, and a volume keeps the rows that it had.
    #[test]
    fn catalogues_stay_valid(wishes in prop::collection::vec(wish(), 1..60)) {
        let geometry = small();
        let mut volumes: Vec<VolumeEntry> = Vec::new();
        for (number, mut wish) in wishes.into_iter().enumerate() {
            if let VolumeWish::Add { id, name, .. } = &mut wish {
                *id = [number as u8 + 1; 16];
                if volumes.iter().any(|volume| volume.name == *name) {
                    continue;
                }
            }
            let Ok(next) = wish.apply(&volumes, &geometry) else { continue };
            let others = |list: &[VolumeEntry]| -> Vec<VolumeEntry> {
                list.iter().filter(|entry| entry.name != wish.name()).cloned().collect()
            };
            prop_assert_eq!(others(&next), others(&volumes), "nobody else is touched");
            for old in &volumes {
                let Some(new) = next.iter().find(|new| new.id == old.id) else { continue };
                let rows = |entry: &VolumeEntry| -> Vec<u64> {
                    entry.extents.iter().flat_map(|extent| extent.first_row..extent.first_row + extent.rows).collect()
                };
                prop_assert!(rows(new).starts_with(&rows(old)), "its first bytes stay where they are");
            }
            let Ok(bytes) = catalogue::encode(&next, &geometry) else { continue };
            let reference = CatalogueReference {
                generation: 1,
                volumes: next.len() as u32,
                checksum: catalogue::checksum(&bytes),
                copy: 0,
            };
            prop_assert_eq!(catalogue::decode(&bytes, &reference, &geometry), Ok(next.clone()));
            volumes = next;
        }
    }
}

/// Of a pool of three members of 4 MiB.
fn small() -> Geometry {
    let bed = Bed::new(1, Level::Raid5, 3, 16 << 10);
    bed.geometry()
}
