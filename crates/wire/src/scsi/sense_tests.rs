//! Both formats, read back, and bytes that nobody sent in good faith.

use proptest::prelude::*;

use super::*;

#[test]
fn fixed_format_has_the_standard_layout() {
    let sense = Sense::invalid_field(FieldPointer::cdb_bit(0x0102, 5));
    let bytes = sense.encode(SenseFormat::Fixed);
    assert_eq!(bytes.as_slice(), [0x70, 0, 5, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x24, 0, 0, 0xcd, 0x01, 0x02]);
    let bytes = Sense::miscompare(513).encode(SenseFormat::Fixed);
    assert_eq!(bytes[..8], [0xf0, 0, 0x0e, 0, 0, 2, 1, 10]);
    assert_eq!(bytes[12], 0x1d);
}

#[test]
fn descriptor_format_has_the_standard_layout() {
    let sense = Sense::lba_out_of_range(0x1_0000_0001);
    let bytes = sense.encode(SenseFormat::Descriptor);
    assert_eq!(bytes[..8], [0x72, 5, 0x21, 0, 0, 0, 0, 12]);
    assert_eq!(bytes[8..], [0, 0x0a, 0x80, 0, 0, 0, 0, 1, 0, 0, 0, 1]);
}

#[test]
fn information_beyond_32_bits_is_left_out_of_the_fixed_format() {
    let bytes = Sense::lba_out_of_range(1 << 32).encode(SenseFormat::Fixed);
    assert_eq!(bytes[0], 0x70);
    assert_eq!(Sense::decode(&bytes).unwrap().information, None);
}

#[test]
fn short_and_unknown_sense_data_are_errors() {
    assert_eq!(Sense::decode(&[]), Err(SenseError::Short(0)));
    assert_eq!(Sense::decode(&[0x70; 13]), Err(SenseError::Short(13)));
    assert_eq!(Sense::decode(&[0x72; 7]), Err(SenseError::Short(7)));
    assert_eq!(Sense::decode(&[0x7f; 18]), Err(SenseError::ResponseCode(0x7f)));
}

#[test]
fn display_names_the_code() {
    let text = Sense::invalid_field(FieldPointer::parameter(4)).to_string();
    assert_eq!(text, "IllegalRequest, INVALID FIELD IN PARAMETER LIST, parameter list byte 4");
}

fn senses() -> impl Strategy<Value = Sense> {
    let specific = prop_oneof![
        Just((2_u8, None)),
        any::<u16>().prop_map(|progress| (2, Some(SenseKeySpecific::Progress(progress)))),
        (any::<bool>(), any::<u16>(), prop::option::of(0..8_u8)).prop_map(|(in_cdb, byte, bit)| {
            (5, Some(SenseKeySpecific::Field(FieldPointer { in_cdb, byte, bit })))
        }),
    ];
    let wide = prop::option::of(any::<u64>());
    (specific, any::<u8>(), any::<u8>(), wide.clone(), wide, any::<bool>()).prop_map(
        |((key, key_specific), asc, ascq, information, command_specific, deferred)| Sense {
            key: SenseKey::from_wire(key),
            additional: AdditionalSense { asc, ascq },
            information,
            command_specific,
            key_specific,
            deferred,
        },
    )
}

proptest! {
    #[test]
    fn descriptor_format_round_trips(sense in senses()) {
        prop_assert_eq!(Sense::decode(&sense.encode(SenseFormat::Descriptor)), Ok(sense));
    }

    #[test]
    fn fixed_format_round_trips_what_it_can_carry(mut sense in senses()) {
        sense.information = sense.information.map(|value| value & 0xffff_ffff);
        // The fixed format cannot tell an absent COMMAND-SPECIFIC INFORMATION from a zero.
        sense.command_specific = sense.command_specific.map(|value| value & 0xffff_ffff | 1);
        prop_assert_eq!(Sense::decode(&sense.encode(SenseFormat::Fixed)), Ok(sense));
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..64), code in 0x6f..0x75_u8) {
        let _ = Sense::decode(&bytes);
        let mut bytes = bytes;
        if let Some(first) = bytes.first_mut() {
            *first = code;
        }
        let _ = Sense::decode(&bytes);
    }
}
