//! What each CDB decodes to, what is refused and where the field pointer points, and that no bytes panic.

use proptest::prelude::*;

use super::super::opcodes::OPERATIONS;
use super::*;

fn refused_at(cdb: &[u8]) -> (u16, Option<u8>) {
    match Command::decode(cdb) {
        Err(CdbError::InvalidField(pointer)) => {
            assert!(pointer.in_cdb);
            (pointer.byte, pointer.bit)
        }
        other => panic!("expected an invalid field, got {other:?}"),
    }
}

#[test]
fn six_byte_read_of_length_zero_is_256_blocks() {
    let expected = Transfer { lba: 0x1f_ffff, blocks: 256, ..Transfer::default() };
    assert_eq!(Command::decode(&[0x08, 0x1f, 0xff, 0xff, 0, 0]), Ok(Command::Read(expected)));
    let expected = Transfer { lba: 1, blocks: 3, ..Transfer::default() };
    assert_eq!(Command::decode(&[0x0a, 0, 0, 1, 3, 0]), Ok(Command::Write(expected)));
}

#[test]
fn twelve_byte_forms_have_32_bits_of_length() {
    let cdb = [0xa8, 0x18, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0];
    let expected = Transfer { lba: 256, blocks: 65536, dpo: true, fua: true };
    assert_eq!(Command::decode(&cdb), Ok(Command::Read(expected)));
}

#[test]
fn protection_fields_are_refused_because_there_is_no_protection_information() {
    for opcode in [0x28, 0x2a, 0x2e, 0x2f, 0x41] {
        for protect in 1..8_u8 {
            let (byte, bit) = refused_at(&[opcode, protect << 5, 0, 0, 0, 0, 0, 0, 1, 0]);
            assert_eq!(byte, 1);
            assert!(bit.is_some_and(|bit| bit >= 5));
        }
    }
}

#[test]
fn naca_is_refused() {
    assert_eq!(refused_at(&[0x00, 0, 0, 0, 0, 0x04]), (5, Some(2)));
}

#[test]
fn group_number_and_the_obsolete_non_volatile_bits_are_ignored() {
    assert!(Command::decode(&[0x2a, 0x02, 0, 0, 0, 0, 0x03, 0, 1, 0]).is_ok());
    assert!(Command::decode(&[0x34, 0x02, 0, 0, 0, 0, 0x03, 0, 1, 0]).is_ok());
    assert!(Command::decode(&[0x35, 0x04, 0, 0, 0, 0, 0, 0, 0, 0]).is_ok());
}

#[test]
fn byte_check_values() {
    let verify = |check: u8| Command::decode(&[0x2f, check << 1, 0, 0, 0, 0, 0, 0, 1, 0]);
    let expected = |check| Command::Verify(Verify { lba: 0, blocks: 1, dpo: false, check });
    assert_eq!(verify(0), Ok(expected(ByteCheck::Medium)));
    assert_eq!(verify(1), Ok(expected(ByteCheck::Compare)));
    assert_eq!(refused_at(&[0x2f, 0x04, 0, 0, 0, 0, 0, 0, 1, 0]), (1, Some(2)));
    assert_eq!(verify(3), Ok(expected(ByteCheck::CompareOne)));
    assert_eq!(refused_at(&[0x2e, 0x06, 0, 0, 0, 0, 0, 0, 1, 0]), (1, Some(2)));
}

#[test]
fn anchor_is_refused() {
    assert_eq!(refused_at(&[0x93, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0]), (1, Some(4)));
    assert_eq!(refused_at(&[0x42, 0x01, 0, 0, 0, 0, 0, 0, 24, 0]), (1, Some(0)));
}

#[test]
fn inquiry_page_code_needs_evpd() {
    assert_eq!(refused_at(&[0x12, 0, 0x01, 0, 96, 0]), (2, None));
    assert_eq!(
        Command::decode(&[0x12, 1, 0x83, 1, 0, 0]),
        Ok(Command::Inquiry { page: Some(0x83), allocation_length: 256 })
    );
}

#[test]
fn unknown_operation_and_unknown_service_action_differ() {
    assert_eq!(Command::decode(&[0x83; 16]), Err(CdbError::InvalidOpcode(0x83)));
    assert_eq!(refused_at(&[0x9e, 0x1f, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 32, 0, 0]), (1, Some(4)));
}

#[test]
fn a_cdb_that_is_cut_short_points_behind_its_end() {
    assert_eq!(refused_at(&[0x28, 0, 0]), (3, None));
    assert_eq!(refused_at(&[]), (0, None));
}

#[test]
fn an_iscsi_cdb_field_may_have_anything_behind_a_short_cdb() {
    assert_eq!(
        Command::decode(&[0, 0, 0, 0, 0, 0, 0xff, 0xff, 9, 9, 9, 9, 9, 9, 9, 9]),
        Ok(Command::TestUnitReady)
    );
}

fn transfers() -> impl Strategy<Value = Transfer> {
    (any::<u64>(), any::<u32>(), any::<bool>(), any::<bool>()).prop_map(|(lba, blocks, dpo, fua)| Transfer {
        lba,
        blocks,
        dpo,
        fua,
    })
}

proptest! {
    #[test]
    fn no_bytes_panic(cdb in prop::collection::vec(any::<u8>(), 0..40)) {
        let _ = Command::decode(&cdb);
    }

    #[test]
    fn bytes_of_known_commands_do_not_panic(
        index in 0..OPERATIONS.len(),
        noise in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        let operation = &OPERATIONS[index];
        let mut cdb: Vec<u8> = noise.iter().zip(operation.usage).map(|(noise, mask)| noise & mask).collect();
        for (slot, value) in cdb.iter_mut().zip([operation.opcode]) {
            *slot = value;
        }
        if let (Some(action), Some(slot)) = (operation.service_action, cdb.get_mut(1)) {
            *slot = action as u8;
        }
        // A CDB of used bits only is refused for the value of a field, never for an operation code.
        if cdb.len() == operation.usage.len() {
            prop_assert!(!matches!(Command::decode(&cdb), Err(CdbError::InvalidOpcode(_))));
        }
    }

    #[test]
    fn transfers_round_trip(transfer in transfers()) {
        prop_assert_eq!(Command::decode(&encode::read_16(transfer)), Ok(Command::Read(transfer)));
        prop_assert_eq!(Command::decode(&encode::write_16(transfer)), Ok(Command::Write(transfer)));
        let fits = u32::try_from(transfer.lba).is_ok() && u16::try_from(transfer.blocks).is_ok();
        prop_assert_eq!(encode::read_10(transfer).is_some(), fits);
        let small = Transfer { lba: transfer.lba & 0xffff_ffff, blocks: transfer.blocks & 0xffff, ..transfer };
        let cdb = encode::read_10(small).unwrap();
        prop_assert_eq!(Command::decode(&cdb), Ok(Command::Read(small)));
        let cdb = encode::write_10(small).unwrap();
        prop_assert_eq!(Command::decode(&cdb.padded()), Ok(Command::Write(small)));
        let small = Transfer { blocks: transfer.blocks & 0xff, ..transfer };
        let cdb = encode::compare_and_write(small).unwrap();
        prop_assert_eq!(Command::decode(&cdb), Ok(Command::CompareAndWrite(small)));
    }

    #[test]
    fn other_initiator_commands_round_trip(lba in any::<u64>(), blocks in any::<u32>(), flags in 0..4_u8) {
        let same = WriteSame { lba, blocks, unmap: flags & 1 != 0, ndob: flags & 2 != 0 };
        prop_assert_eq!(Command::decode(&encode::write_same_16(same)), Ok(Command::WriteSame(same)));
        prop_assert_eq!(
            Command::decode(&encode::synchronize_cache_16(lba, blocks)),
            Ok(Command::SynchronizeCache { lba, blocks, immediate: false })
        );
        prop_assert_eq!(
            Command::decode(&encode::get_lba_status(lba, blocks)),
            Ok(Command::GetLbaStatus { lba, allocation_length: blocks })
        );
        prop_assert_eq!(
            Command::decode(&encode::unmap(lba as u16)),
            Ok(Command::Unmap { parameter_list_length: lba as u16 })
        );
        prop_assert_eq!(
            Command::decode(&encode::read_capacity_16(blocks)),
            Ok(Command::ReadCapacity16 { allocation_length: blocks })
        );
        prop_assert_eq!(
            Command::decode(&encode::report_luns(2, blocks)),
            Ok(Command::ReportLuns { select_report: 2, allocation_length: blocks })
        );
    }
}

#[test]
fn plain_initiator_commands_round_trip() {
    assert_eq!(Command::decode(&encode::test_unit_ready()), Ok(Command::TestUnitReady));
    assert_eq!(Command::decode(&encode::read_capacity_10()), Ok(Command::ReadCapacity10));
    assert_eq!(
        Command::decode(&encode::request_sense(252)),
        Ok(Command::RequestSense { descriptor: false, allocation_length: 252 })
    );
    assert_eq!(
        Command::decode(&encode::inquiry(None, 96)),
        Ok(Command::Inquiry { page: None, allocation_length: 96 })
    );
    let expected = Command::SynchronizeCache { lba: 7, blocks: 0, immediate: false };
    assert_eq!(Command::decode(&encode::synchronize_cache_10(7, 0).unwrap()), Ok(expected));
    let Ok(Command::ModeSense(sense)) = Command::decode(&encode::mode_sense_6(0x3f, 255)) else {
        panic!("MODE SENSE(6) did not decode");
    };
    assert_eq!((sense.page, sense.allocation_length, sense.ten), (0x3f, 255, false));
}
