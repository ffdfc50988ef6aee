//! Layouts of the INQUIRY answers.

use proptest::prelude::*;

use super::*;

fn standard() -> Standard<'static> {
    Standard {
        peripheral: Peripheral::DirectAccess,
        removable: false,
        vendor: "FELS",
        product: "VIRTUAL-DISK",
        revision: "0.1.0",
        target_port_groups: 0,
        third_party_copy: false,
        multiple_ports: false,
    }
}

#[test]
fn standard_data_is_padded_with_spaces_and_says_its_length() {
    let bytes = standard().encode();
    assert_eq!(bytes[4], 91);
    assert_eq!(&bytes[8..36], b"FELS    VIRTUAL-DISK    0.1.");
    let summary = StandardSummary::decode(&bytes).unwrap();
    assert_eq!((summary.qualifier, summary.device_type, summary.version), (0, 0, 6));
    let none = Standard { peripheral: Peripheral::None, ..standard() }.encode();
    let summary = StandardSummary::decode(&none).unwrap();
    assert_eq!((summary.qualifier, summary.device_type), (3, 0x1f));
    assert_eq!(StandardSummary::decode(&none[..35]), None);
}

#[test]
fn pages_say_their_length() {
    let mut out = Vec::new();
    supported_pages(&[0x00, 0x80, 0x83], &mut out);
    assert_eq!(out, [0, 0, 0, 3, 0, 0x80, 0x83]);
    out.clear();
    block_characteristics(1, &mut out);
    assert_eq!((out.len(), &out[..6]), (64, &[0, 0xb1, 0, 60, 0, 1][..]));
    out.clear();
    extended_inquiry(
        &ExtendedInquiry { volatile_cache: true, maximum_sense_length: 40, ..Default::default() },
        &mut out,
    );
    assert_eq!((out.len(), out[5], out[6], out[13]), (64, 0x01, 0x01, 40));
    out.clear();
    let provisioning = Provisioning {
        unmap: true,
        write_same_16: true,
        write_same_10: true,
        reads_zeros: true,
        kind: ProvisioningType::Thin,
    };
    provisioning.encode(&mut out);
    assert_eq!(out, [0, 0xb2, 0, 4, 0, 0xe4, 2, 0]);
}

#[test]
fn each_task_attribute_that_is_honoured_has_its_own_bit() {
    // SIMPSUP, ORDSUP, HEADSUP: SPC-5 section 7.7.7.
    for (ordered, head_of_queue, bits) in [(false, false, 1), (true, false, 3), (false, true, 5)] {
        let mut out = Vec::new();
        extended_inquiry(&ExtendedInquiry { ordered, head_of_queue, ..Default::default() }, &mut out);
        assert_eq!(out[5], bits, "ORDERED {ordered}, HEAD OF QUEUE {head_of_queue}");
    }
}

#[test]
fn designators_are_well_formed() {
    let mut out = Vec::new();
    let name = "iqn.2026-11.internal.fels:demo";
    device_identification(
        &[
            (Association::LogicalUnit, None, Designator::NaaLocal(u64::MAX)),
            (Association::LogicalUnit, None, Designator::T10Vendor { vendor: "FELS", identifier: "demo" }),
            (Association::LogicalUnit, None, Designator::Uuid([7; 16])),
            (Association::TargetDevice, Some(PROTOCOL_ISCSI), Designator::ScsiName(name)),
            (Association::TargetPort, Some(PROTOCOL_ISCSI), Designator::RelativeTargetPort(1)),
            (Association::TargetPort, Some(PROTOCOL_ISCSI), Designator::TargetPortGroup(2)),
        ],
        &mut out,
    );
    assert_eq!(usize::from(u16_at(&out, 2)), out.len() - 4);
    assert_eq!(find_naa(&out), Some(&[0x3f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff][..]));
    let mut rest = &out[4..];
    let mut kinds = Vec::new();
    while let [first, second, _, length, ..] = *rest {
        kinds.push((first, second, length));
        rest = &rest[4 + usize::from(length)..];
    }
    assert!(rest.is_empty());
    assert_eq!(
        kinds,
        [(1, 3, 8), (2, 1, 12), (1, 0x0a, 18), (0x53, 0xa8, 32), (0x51, 0x94, 4), (0x51, 0x95, 4)]
    );
}

#[test]
fn a_name_that_is_too_long_is_cut_at_a_character() {
    let name = "ü".repeat(200);
    let mut out = Vec::new();
    device_identification(&[(Association::TargetDevice, None, Designator::ScsiName(&name))], &mut out);
    assert_eq!(usize::from(out[7]), out.len() - 8);
    assert!(std::str::from_utf8(&out[8..]).is_ok());
}

proptest! {
    #[test]
    fn block_limits_round_trip(numbers in any::<[u32; 6]>(), same in any::<u64>(), small in any::<(bool, u8, u16)>()) {
        let limits = BlockLimits {
            write_same_non_zero: small.0,
            maximum_compare_and_write: small.1,
            optimal_granularity: small.2,
            maximum_transfer: numbers[0],
            optimal_transfer: numbers[1],
            maximum_prefetch: numbers[2],
            maximum_unmap: numbers[3],
            maximum_unmap_descriptors: numbers[4],
            unmap_granularity: numbers[5],
            unmap_alignment: small.0.then_some(numbers[0] >> 1),
            maximum_write_same: same,
        };
        let mut out = Vec::new();
        limits.encode(&mut out);
        prop_assert_eq!(out.len(), BLOCK_LIMITS_LENGTH);
        prop_assert_eq!(BlockLimits::decode(&out), Some(limits));
    }

    #[test]
    fn no_page_panics(mut bytes in prop::collection::vec(any::<u8>(), 0..80), code in prop_oneof![Just(0x83_u8), Just(0xb0)]) {
        if let Some(slot) = bytes.get_mut(1) {
            *slot = code;
        }
        let _ = find_naa(&bytes);
        let _ = BlockLimits::decode(&bytes);
        let _ = StandardSummary::decode(&bytes);
    }
}
