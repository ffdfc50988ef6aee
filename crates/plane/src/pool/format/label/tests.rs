use proptest::prelude::*;
use proptest::sample::Index;

use super::*;
use crate::pool::format::samples::{MEMBERS, any_label, label, patched};
use crate::pool::format::{Cause, SlotState};

fn with(offset: usize, field: &[u8]) -> Result<Label, LabelError> {
    Label::decode(&patched(&label().encode(), CHECKSUM, offset, field))
}

#[test]
fn what_is_not_a_label_is_told_apart() {
    let bytes = label().encode();
    assert_eq!(Label::decode(&bytes[..BLOCK - 1]), Err(LabelError::NotALabel));
    assert_eq!(Label::decode(&[]), Err(LabelError::NotALabel));
    assert_eq!(with(0, b"felsPool"), Err(LabelError::NotALabel));
    assert_eq!(with(8, &[2]), Err(LabelError::Version(2)));
    // Of another version nothing else is looked at.
    assert_eq!(with(8, &[2, 0, 0, 0, 1, 0, 0, 0]), Err(LabelError::Version(2)));
    assert_eq!(with(15, &[0x80]), Err(LabelError::Features(0x8000_0000)));
    assert!(LabelError::Version(2).to_string().contains("hint: "));
    let behind = [&bytes[..], &[1; 10]].concat();
    assert_eq!(Label::decode(&behind), Ok(label()));
}

/// Each byte of the block means something or is zero.
#[test]
fn every_byte_is_looked_at() {
    let bytes = label().encode();
    for offset in 0..BLOCK {
        let flipped = bytes[offset] ^ 0x10;
        let mut torn = bytes;
        torn[offset] = flipped;
        let expected = if offset < 8 { LabelError::NotALabel } else { LabelError::Damaged };
        assert_eq!(Label::decode(&torn), Err(expected), "{offset}");
        if offset < CHECKSUM {
            assert_ne!(with(offset, &[flipped]), Ok(label()), "byte {offset} is not looked at");
        }
    }
    for offset in RESERVED.into_iter().flatten().chain(SCRUB..SCRUB_END) {
        assert_eq!(with(offset, &[1]), Err(LabelError::Invalid("a reserved byte is not zero")), "{offset}");
    }
}

#[test]
fn invalid_fields_are_refused() {
    let slot = |index: usize, offset: usize| SLOTS + index * slot::BYTES + offset;
    let wrong: Vec<(usize, &[u8], &str)> = vec![
        (16, &[0; 16], "pool has no id"),
        (48, &[0; 8], "generation is zero"),
        (48, &[5], "catalogue is newer"),
        (56, &[4, 0], "own slot"),
        (56, &[0, 0], "own slot"),
        (56, &[0xff, 0xff], "among the spares"),
        (32, &[0xa9], "own slot"),
        (58, &[6], "the level"),
        (58, &[0], "so many slots"),
        (59, &[2], "the end"),
        (60, &[6, 0], "a slot"),
        (62, &[7, 0], "a flag"),
        (63, &[0x80], "a flag"),
        (64, &[1], "the unit"),
        (72, &[49], "the cursor"),
        (81, &[0x40], "in the tail"),
        (160, &[17], "no room"),
        (168, &[2], "the copy"),
        (169, &[0], "the name"),
        (169, &[3], "the name"),
        (169, &[65], "the name"),
        (176, &[0xff], "the name"),
        (176, b"\n", "the name"),
        (180, b"s", "the name"),
        (slot(4, 0), &[1], "beyond the last"),
        (slot(63, 47), &[1], "beyond the last"),
        (slot(0, 0), &[0; 16], "without a member is in sync"),
        (slot(0, 0), &MEMBERS[1], "there twice"),
        (slot(0, 16), &[0], "the state"),
        (slot(0, 16), &[4], "the state"),
        (slot(0, 17), &[1], "does not have"),
        (slot(0, 18), &[1], "does not have"),
        (slot(0, 24), &[1], "does not have"),
        (slot(0, 32), &[1], "does not have"),
        (slot(0, 40), &[1], "does not have"),
        (slot(0, 41), &[1], "does not have"),
        (slot(2, 17), &[7], "the cause"),
        (slot(2, 24), &[0], "when a slot went out"),
        (slot(2, 24), &[8], "when a slot went out"),
        (slot(2, 32), &[1], "does not have"),
        (slot(3, 0), &[0; 16], "without a member is rebuilt"),
        (slot(3, 17), &[1], "does not have"),
        (slot(3, 24), &[0], "when a slot went out"),
        (slot(3, 32), &[101], "the cursor"),
        (slot(3, 40), &[2], "does not have"),
        (SPARES, &MEMBERS[0], "there twice"),
        (SPARES + 16, &[0xb0; 16], "there twice"),
        (SPARES + 32, &[1; 16], "a gap"),
    ];
    for (offset, field, sentence) in wrong {
        let error = with(offset, field).expect_err(sentence);
        assert!(matches!(error, LabelError::Invalid(what) if what.contains(sentence)), "{offset}: {error}");
    }
}

#[test]
#[should_panic(expected = "cannot be read: the label is not valid: the number of slots")]
fn what_would_be_refused_is_not_written() {
    let mut label = label();
    label.slots.pop();
    let _ = label.encode();
}

#[test]
fn too_many_spares_and_long_names_are_refused() {
    let spares = (1..=17).map(|byte| [byte; 16]).collect();
    assert!(Label { spares, ..label() }.check().is_err());
    assert!(Label { name: "x".repeat(65), ..label() }.check().is_err());
    assert!(Label { name: "x".repeat(64), ..label() }.check().is_ok());
}

#[test]
fn a_scrub_is_there_when_its_feature_says_so() {
    let scrub = Some(ScrubPlace { row: 0, bad: 0, repaired: 0, lost: 0, uneven: 0 });
    assert_eq!(with(12, &[1]), Ok(Label { scrub, ..label() }), "one that has just begun");
    assert!(matches!(with(12, &[9]), Err(LabelError::Features(8))));
    assert_eq!(with(12, &[2]), Err(LabelError::Invalid("where bitmap and table lie")));
    let beyond = Some(ScrubPlace { row: 101, bad: 0, repaired: 0, lost: 0, uneven: 0 });
    assert!(Label { scrub: beyond, ..label() }.check().is_err());
}

#[test]
fn sets_are_as_the_page_has_them() {
    let plan = Geometry::plan(Level::Raid10, 4, 4096, 4 << 20, 1, 1 << 20).unwrap();
    let geometry = plan.extended(2).unwrap().extended(6).unwrap();
    let slots = (0..12).map(|slot| Slot { member: [slot + 1; 16], state: SlotState::InSync }).collect();
    let catalogue = CatalogueReference { generation: 0, volumes: 0, checksum: 0, copy: 0 };
    let label = Label {
        geometry,
        slots,
        catalogue,
        spares: Vec::new(),
        member: [2; 16],
        scrub: Some(ScrubPlace { row: 2 << 48 | 3, bad: 0, repaired: 0, lost: 0, uneven: 0 }),
        ..label()
    };
    let bytes = label.encode();
    assert_eq!((&bytes[12..16], &bytes[60..62]), (&[5, 0, 0, 0][..], &[12, 0][..]));
    assert_eq!(bytes[240..256], [4, 2, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bytes[3584..3592], [3, 0, 0, 0, 0, 0, 2, 0]);
    assert_eq!(Label::decode(&bytes), Ok(label));
    for (offset, field) in [
        (12, &[1][..]),
        (240, &[0]),
        (240, &[12, 0]),
        (240, &[2, 4, 6]),
        (240, &[4, 3, 5]),
        (240, &[4, 2, 5]),
        (240, &[4, 2, 6, 2]),
        (240, &[4, 2, 6, 0, 1]),
        (240, &[255; 16]),
        (3590, &[3]),
    ] {
        let changed = patched(&bytes, CHECKSUM, offset, field);
        assert!(matches!(Label::decode(&changed), Err(LabelError::Invalid(_))), "{offset}: {field:?}");
    }
}

#[test]
fn causes_are_words() {
    let out = SlotState::Out { cause: Cause::Administrator, since: 1 };
    assert!(
        matches!(out, SlotState::Out { cause, .. } if cause.to_string() == "taken out by an administrator")
    );
}

proptest! {
    #[test]
    fn round_trip(label in any_label()) {
        prop_assert_eq!(Label::decode(&label.encode()), Ok(label));
    }

    /// With a checksum that fits whatever stands there: no panic, and what is taken is what would be written.
    #[test]
    fn mutated(label in any_label(), changes in prop::collection::vec((any::<Index>(), any::<u8>()), 1..4)) {
        let mut bytes = label.encode().to_vec();
        for (offset, byte) in changes {
            bytes = patched(&bytes, CHECKSUM, offset.index(CHECKSUM), &[byte]);
        }
        if let Ok(label) = Label::decode(&bytes) {
            prop_assert_eq!(&label.encode()[..], &bytes);
        }
    }

    #[test]
    fn arbitrary(mut bytes in prop::collection::vec(any::<u8>(), 0..=BLOCK + 1), fits in any::<bool>()) {
        if fits && bytes.len() >= 16 {
            put(&mut bytes, 0, &MAGIC);
            put(&mut bytes, 8, &[1, 0, 0, 0, 0, 0, 0, 0]);
            bytes.resize(BLOCK, 0);
            bytes = patched(&bytes, CHECKSUM, 0, &[]);
        }
        prop_assert!(Label::decode(&bytes).is_err());
    }
}
