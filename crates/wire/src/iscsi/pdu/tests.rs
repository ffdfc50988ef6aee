use super::*;
use crate::iscsi::frame::BHS_LENGTH;
use crate::iscsi::{Isid, SerialNumber};
use proptest::prelude::*;

/// The bytes of a header with distinct values at distinct places, given as (offset, bytes).
fn header(places: &[(usize, &[u8])]) -> Bhs {
    let mut bhs = [0; BHS_LENGTH];
    for (offset, bytes) in places {
        bhs[*offset..offset + bytes.len()].copy_from_slice(bytes);
    }
    bhs
}

const TAG: (usize, &[u8]) = (16, &[0x11, 0x22, 0x33, 0x44]);
const THREE_SN: (usize, &[u8]) = (24, &[0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3]);

fn encoded(encode: impl Fn(&mut Bhs)) -> Bhs {
    // What was in the buffer before must not show through.
    let mut bhs = [0xaa; BHS_LENGTH];
    encode(&mut bhs);
    bhs
}

#[test]
fn scsi_command_as_drawn_in_11_3() {
    let mut cdb = [0; 16];
    cdb[0] = 0x2a;
    cdb[15] = 0xee;
    let command = ScsiCommand {
        immediate: Immediate(true),
        flags: ScsiCommandFlags::FINAL | ScsiCommandFlags::WRITE,
        attribute: TaskAttribute::ORDERED,
        data_segment_length: U24::saturating(0x01_0203),
        lun: Lun::from_index(5),
        initiator_task_tag: 0x1122_3344,
        expected_data_transfer_length: 0x0001_0000,
        cmd_sn: SerialNumber(1),
        exp_stat_sn: SerialNumber(2),
        cdb,
    };
    let drawn = header(&[
        (0, &[0x41, 0xa2, 0, 0, 0, 1, 2, 3, 0, 5]),
        TAG,
        (20, &[0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2]),
        (32, &cdb),
    ]);
    assert_eq!(encoded(|bhs| command.encode(bhs)), drawn);
    assert_eq!(InitiatorPdu::decode(&drawn), Ok(InitiatorPdu::ScsiCommand(command)));
}

#[test]
fn scsi_response_as_drawn_in_11_4() {
    let response = ScsiResponse {
        flags: ScsiResponseFlags::UNDERFLOW,
        response: ScsiResponseCode::COMMAND_COMPLETED_AT_TARGET,
        status: 2,
        data_segment_length: U24::saturating(20),
        initiator_task_tag: 0x1122_3344,
        snack_tag: 0,
        stat_sn: SerialNumber(1),
        exp_cmd_sn: SerialNumber(2),
        max_cmd_sn: SerialNumber(3),
        exp_data_sn: SerialNumber(4),
        bidirectional_read_residual_count: 5,
        residual_count: 6,
    };
    let drawn = header(&[
        (0, &[0x21, 0x82, 0, 2, 0, 0, 0, 20]),
        TAG,
        THREE_SN,
        (36, &[0, 0, 0, 4, 0, 0, 0, 5, 0, 0, 0, 6]),
    ]);
    assert_eq!(encoded(|bhs| response.encode(bhs)), drawn);
    assert_eq!(TargetPdu::decode(&drawn), Ok(TargetPdu::ScsiResponse(response)));
}

#[test]
fn data_pdus_as_drawn_in_11_7_and_11_8() {
    let out = DataOut {
        is_final: Final(true),
        data_segment_length: U24::saturating(512),
        lun: Lun(0),
        initiator_task_tag: 0x1122_3344,
        target_transfer_tag: RESERVED_TAG,
        exp_stat_sn: SerialNumber(2),
        data_sn: SerialNumber(7),
        buffer_offset: 0x1000,
    };
    let drawn = header(&[
        (0, &[0x05, 0x80, 0, 0, 0, 0, 2, 0]),
        TAG,
        (20, &[0xff; 4]),
        (28, &[0, 0, 0, 2]),
        (36, &[0, 0, 0, 7, 0, 0, 0x10, 0]),
    ]);
    assert_eq!(encoded(|bhs| out.encode(bhs)), drawn);
    assert_eq!(InitiatorPdu::decode(&drawn), Ok(InitiatorPdu::DataOut(out)));

    let input = DataIn {
        flags: DataInFlags::FINAL | DataInFlags::STATUS | DataInFlags::OVERFLOW,
        status: 0x18,
        data_segment_length: U24::saturating(4),
        lun: Lun(0),
        initiator_task_tag: 0x1122_3344,
        target_transfer_tag: RESERVED_TAG,
        stat_sn: SerialNumber(1),
        exp_cmd_sn: SerialNumber(2),
        max_cmd_sn: SerialNumber(3),
        data_sn: SerialNumber(4),
        buffer_offset: 5,
        residual_count: 6,
    };
    let drawn = header(&[
        (0, &[0x25, 0x85, 0, 0x18, 0, 0, 0, 4]),
        TAG,
        (20, &[0xff; 4]),
        THREE_SN,
        (36, &[0, 0, 0, 4, 0, 0, 0, 5, 0, 0, 0, 6]),
    ]);
    assert_eq!(encoded(|bhs| input.encode(bhs)), drawn);

    let r2t = R2t {
        lun: Lun::from_index(0x123),
        initiator_task_tag: 0x1122_3344,
        target_transfer_tag: 9,
        stat_sn: SerialNumber(1),
        exp_cmd_sn: SerialNumber(2),
        max_cmd_sn: SerialNumber(3),
        r2t_sn: SerialNumber(4),
        buffer_offset: 5,
        desired_data_transfer_length: 6,
    };
    let drawn = header(&[
        (0, &[0x31, 0x80]),
        (8, &[0x41, 0x23]),
        TAG,
        (20, &[0, 0, 0, 9]),
        THREE_SN,
        (36, &[0, 0, 0, 4, 0, 0, 0, 5, 0, 0, 0, 6]),
    ]);
    assert_eq!(encoded(|bhs| r2t.encode(bhs)), drawn);
}

#[test]
fn login_as_drawn_in_11_12_and_11_13() {
    let request = LoginRequest {
        immediate: Immediate(true),
        flags: LoginFlags::TRANSIT,
        transit: LoginTransit::new(LoginStage::LoginOperationalNegotiation, LoginStage::FullFeaturePhase),
        version_max: 0,
        version_min: 0,
        data_segment_length: U24::saturating(258),
        isid: Isid([0x80, 1, 2, 3, 4, 5]),
        tsih: 0x0607,
        initiator_task_tag: 0x1122_3344,
        cid: 0x0809,
        cmd_sn: SerialNumber(1),
        exp_stat_sn: SerialNumber(2),
    };
    let drawn = header(&[
        (0, &[0x43, 0x87, 0, 0, 0, 0, 1, 2, 0x80, 1, 2, 3, 4, 5, 6, 7]),
        TAG,
        (20, &[8, 9, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2]),
    ]);
    assert_eq!(encoded(|bhs| request.encode(bhs)), drawn);
    assert_eq!(InitiatorPdu::decode(&drawn), Ok(InitiatorPdu::LoginRequest(request)));

    let response = LoginResponse {
        flags: LoginFlags::CONTINUE,
        transit: LoginTransit::new(LoginStage::SecurityNegotiation, LoginStage::LoginOperationalNegotiation),
        status: LoginStatus::AUTHENTICATION_FAILURE,
        isid: request.isid,
        tsih: 1,
        initiator_task_tag: 0x1122_3344,
        stat_sn: SerialNumber(1),
        exp_cmd_sn: SerialNumber(2),
        max_cmd_sn: SerialNumber(3),
        ..LoginResponse::default()
    };
    let drawn = header(&[
        (0, &[0x23, 0x41, 0, 0, 0, 0, 0, 0, 0x80, 1, 2, 3, 4, 5, 0, 1]),
        TAG,
        THREE_SN,
        (36, &[2, 1]),
    ]);
    assert_eq!(encoded(|bhs| response.encode(bhs)), drawn);
    assert_eq!((response.status.class(), response.status.detail()), (2, 1));
}

#[test]
fn task_management_and_logout_as_drawn() {
    let request = TaskManagementRequest {
        immediate: Immediate(true),
        function: TaskManagementFunction::LOGICAL_UNIT_RESET,
        initiator_task_tag: 0x1122_3344,
        referenced_task_tag: RESERVED_TAG,
        ref_cmd_sn: SerialNumber(3),
        exp_data_sn: SerialNumber(4),
        ..TaskManagementRequest::default()
    };
    let drawn = header(&[(0, &[0x42, 0x85]), TAG, (20, &[0xff; 4]), (32, &[0, 0, 0, 3, 0, 0, 0, 4])]);
    assert_eq!(encoded(|bhs| request.encode(bhs)), drawn);

    let response = LogoutResponse {
        response: LogoutResponseCode::CID_NOT_FOUND,
        initiator_task_tag: 0x1122_3344,
        stat_sn: SerialNumber(1),
        exp_cmd_sn: SerialNumber(2),
        max_cmd_sn: SerialNumber(3),
        time2wait_s: 2,
        time2retain_s: 20,
    };
    let drawn = header(&[(0, &[0x26, 0x80, 1]), TAG, THREE_SN, (40, &[0, 2, 0, 20])]);
    assert_eq!(encoded(|bhs| response.encode(bhs)), drawn);
}

#[test]
fn notices_as_drawn_in_11_9_and_11_17() {
    let message = AsyncMessage {
        initiator_task_tag: RESERVED_TAG,
        stat_sn: SerialNumber(1),
        exp_cmd_sn: SerialNumber(2),
        max_cmd_sn: SerialNumber(3),
        event: AsyncEvent::LOGOUT_REQUESTED,
        parameter3: 10,
        ..AsyncMessage::default()
    };
    let drawn = header(&[(0, &[0x32, 0x80]), (16, &[0xff; 4]), THREE_SN, (36, &[1, 0, 0, 0, 0, 0, 0, 10])]);
    assert_eq!(encoded(|bhs| message.encode(bhs)), drawn);

    let reject = Reject {
        reason: RejectReason::PROTOCOL_ERROR,
        data_segment_length: U24::saturating(48),
        initiator_task_tag: RESERVED_TAG,
        stat_sn: SerialNumber(1),
        exp_cmd_sn: SerialNumber(2),
        max_cmd_sn: SerialNumber(3),
        data_sn: SerialNumber(0),
    };
    let drawn = header(&[(0, &[0x3f, 0x80, 4, 0, 0, 0, 0, 48]), (16, &[0xff; 4]), THREE_SN]);
    assert_eq!(encoded(|bhs| reject.encode(bhs)), drawn);
}

#[test]
fn opcodes_are_total() {
    for byte in 0..=255u8 {
        let bhs = header(&[(0, &[byte])]);
        match Opcode::of(&bhs) {
            Ok(opcode) => {
                assert_eq!(opcode as u8, byte & 0x3f);
                assert!(Opcode::ALL.contains(&opcode));
                assert_eq!(InitiatorPdu::decode(&bhs).is_ok(), opcode.is_request());
                assert_eq!(TargetPdu::decode(&bhs).is_ok(), !opcode.is_request());
            }
            Err(UnknownOpcode(unknown)) => {
                assert_eq!(unknown, byte & 0x3f);
                assert!(Opcode::ALL.iter().all(|&opcode| opcode as u8 != unknown));
            }
        }
    }
}

#[test]
fn luns_of_one_level() {
    for index in [0, 1, 255, 256, 0x3fff] {
        assert_eq!(Lun::from_index(index).index(), Some(index));
    }
    for foreign in [1, 0x0100_0000_0000_0000, 0x8000_0000_0000_0000, 0x4001_0001_0000_0000] {
        assert_eq!(Lun(foreign).index(), None, "{foreign:#x}");
    }
}

#[test]
fn codes_show_their_names() {
    assert_eq!(format!("{:?}", TaskManagementFunction::ABORT_TASK), "ABORT_TASK");
    assert_eq!(format!("{:?}", TaskManagementFunction(99)), "TaskManagementFunction(0x63)");
    assert_eq!(LoginStatus::NOT_FOUND.to_string(), "NOT_FOUND");
    assert_eq!(LoginStatus(0x0999).to_string(), "LoginStatus(0x0999)");
}

#[test]
fn long_lengths_saturate() {
    assert_eq!(U24::saturating(1 << 24), U24::MAX);
    assert_eq!(U24::saturating(7).get(), 7);
}

proptest! {
    /// A decoded header, encoded and decoded again, is the same: no field is lost or moved, and any
    /// bytes can be decoded.
    #[test]
    fn any_header_round_trips(mut bytes: [u8; 16], more: [u8; 32], opcode in 0usize..18) {
        bytes[0] = bytes[0] & 0x40 | Opcode::ALL[opcode] as u8;
        let mut bhs = [0; BHS_LENGTH];
        bhs[..16].copy_from_slice(&bytes);
        bhs[16..].copy_from_slice(&more);
        let mut again = [0xaa; BHS_LENGTH];
        if let Ok(pdu) = InitiatorPdu::decode(&bhs) {
            pdu.encode(&mut again);
            prop_assert_eq!(InitiatorPdu::decode(&again), Ok(pdu));
        } else {
            let pdu = TargetPdu::decode(&bhs).unwrap();
            pdu.encode(&mut again);
            prop_assert_eq!(TargetPdu::decode(&again), Ok(pdu));
        }
        // What is not reserved is kept bit for bit: encoding only ever clears bits, except those of
        // byte 1 that the standard fixes to one.
        for (offset, (&before, &after)) in bhs.iter().zip(&again).enumerate() {
            let fixed = if offset == 1 { 0x80 } else { 0 };
            prop_assert_eq!(after & !before & !fixed, 0, "byte {}", offset);
        }
    }
}
