//! The table against itself and against what REPORT SUPPORTED OPERATION CODES says of it.

use super::*;

fn everything(_: &Operation) -> bool {
    true
}

#[test]
fn entries_of_one_operation_code_stand_together() {
    for operation in OPERATIONS {
        let same = OPERATIONS.iter().filter(|other| other.opcode == operation.opcode).count();
        assert_eq!(entries(operation.opcode).len(), same, "{}", operation.name);
    }
    assert!(entries(0xff).is_empty());
}

#[test]
fn usage_masks_have_the_length_of_the_group_and_their_service_action() {
    for operation in OPERATIONS {
        let expected = match operation.opcode >> 5 {
            0 => 6,
            1 | 2 => 10,
            4 => 16,
            5 => 12,
            group => panic!("{} is of group {group}", operation.name),
        };
        assert_eq!(operation.usage.len(), expected, "{}", operation.name);
        if let Some(action) = operation.service_action {
            assert_eq!(u16::from(operation.usage[1] & 0x1f), action, "{}", operation.name);
        }
        // NACA is not supported, and nothing else of CONTROL is used.
        assert_eq!(*operation.usage.last().unwrap(), 0, "{}", operation.name);
    }
}

#[test]
fn the_short_way_finds_what_the_long_way_finds_and_accepts() {
    let mut plain = 0;
    for opcode in 0..=u8::MAX {
        // No bit behind the operation code, and each of them.
        for bits in (7..8 * MAXIMUM_CDB_LENGTH).map(|bit| 1 << bit & !0xff) {
            let cdb = (u128::from(opcode) | bits).to_le_bytes();
            let long = find(&cdb).ok().flatten().filter(|operation| operation.check_reserved(&cdb).is_ok());
            let Some(short) = find_plain(&cdb) else { continue };
            assert!(long.is_some_and(|long| std::ptr::eq(long, short)), "{cdb:02x?}");
            plain += 1;
        }
    }
    assert!(plain > 1000, "{plain}");
    // Of operations without a service action, it misses those alone that set what is ignored.
    for operation in OPERATIONS.iter().filter(|operation| operation.service_action.is_none()) {
        let mut cdb = [0; MAXIMUM_CDB_LENGTH];
        cdb[..operation.usage.len()].copy_from_slice(operation.usage);
        assert!(find_plain(&cdb).is_some(), "{}", operation.name);
        assert!(find_plain(&cdb[..operation.usage.len() - 1]).is_none(), "{}", operation.name);
    }
}

#[test]
fn all_commands_have_one_descriptor_each() {
    for (timeouts, length) in [(false, 8), (true, 20)] {
        let mut out = Vec::new();
        report(ReportingOptions::All, timeouts, everything, &mut out).unwrap();
        assert_eq!(out.len(), 4 + OPERATIONS.len() * length);
        assert_eq!(u32::from_be_bytes(out[..4].try_into().unwrap()) as usize, out.len() - 4);
        for (descriptor, operation) in out[4..].chunks(length).zip(OPERATIONS) {
            assert_eq!(descriptor[0], operation.opcode);
            assert_eq!(descriptor[5] & 0x02 != 0, timeouts);
            assert_eq!(descriptor[5] & 0x01 != 0, operation.service_action.is_some());
        }
    }
}

#[test]
fn one_command_form_refuses_the_wrong_kind_of_operation_code() {
    let mut out = Vec::new();
    assert!(report(ReportingOptions::Opcode(0x9e), false, everything, &mut out).is_err());
    assert!(report(ReportingOptions::ServiceAction(0x28, 0), false, everything, &mut out).is_err());
    assert!(out.is_empty());
    report(ReportingOptions::Opcode(0x28), true, everything, &mut out).unwrap();
    assert_eq!(out[..4], [0, 0x83, 0, 10]);
    assert_eq!(out[4..6], [0x28, 0x18]);
    assert_eq!(out.len(), 4 + 10 + 12);
}

#[test]
fn one_command_form_says_not_supported() {
    for options in [
        ReportingOptions::Opcode(0x83),
        ReportingOptions::ServiceAction(0x9e, 0x1f),
        ReportingOptions::ServiceAction(0x83, 0),
        ReportingOptions::Either(0x28, 1),
        ReportingOptions::Either(0x9e, 0),
    ] {
        let mut out = Vec::new();
        report(options, false, everything, &mut out).unwrap();
        assert_eq!(out, [0, 1, 0, 0], "{options:?}");
    }
    let mut out = Vec::new();
    report(ReportingOptions::Either(0x9e, 0x10), false, everything, &mut out).unwrap();
    assert_eq!(out[1], 3);
}

#[test]
fn task_management_functions_have_both_lengths() {
    let mut out = Vec::new();
    report_task_management(false, &mut out);
    assert_eq!(out.len(), 4);
    out.clear();
    report_task_management(true, &mut out);
    assert_eq!((out.len(), out[3]), (16, 12));
}

#[test]
fn what_a_unit_does_not_do_is_not_reported() {
    let not_unmap = |operation: &Operation| operation.opcode != 0x42;
    let mut out = Vec::new();
    report(ReportingOptions::All, false, not_unmap, &mut out).unwrap();
    assert_eq!(out.len(), 4 + (OPERATIONS.len() - 1) * 8);
    assert!(out[4..].chunks(8).all(|descriptor| descriptor[0] != 0x42));
    out.clear();
    report(ReportingOptions::Opcode(0x42), false, not_unmap, &mut out).unwrap();
    assert_eq!(out, [0, 1, 0, 0]);
}
