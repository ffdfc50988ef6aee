use proptest::prelude::*;

use super::any_command;
use crate::nvme::admin::event::Event;
use crate::nvme::admin::features::{Feature, GetFeatures, Select, SetFeatures};
use crate::nvme::admin::identify::{Cns, Csi, Identify};
use crate::nvme::admin::log::{GetLogPage, LogPage};
use crate::nvme::admin::{self, Abort};
use crate::nvme::command::{Command, CommandFlags, DataPlace, Fuse, SglDescriptor, SglKind};
use crate::nvme::completion::Completion;
use crate::nvme::fabrics::{
    CommandType, Connect, ConnectAttributes, ConnectResult, Disconnect, InvalidParameter, Property,
    PropertyGet, PropertySet, PropertySize,
};
use crate::nvme::io::{
    BlockRange, Copy, CopyRange, CopyRanges, DatasetAttributes, DatasetManagement, DatasetRange,
    DatasetRanges, Opcode, RangeFlags,
};
use crate::nvme::status::{Status, StatusCodeType};

fn over_the_wire(command: Command) -> Command {
    let mut bytes = [0xff; 64];
    command.encode(&mut bytes);
    Command::decode(&bytes)
}

#[test]
fn a_connect_lies_where_the_standard_says() {
    let connect = Connect {
        recfmt: 0,
        qid: 1,
        sqsize: 127,
        cattr: ConnectAttributes::DISABLE_SQ_FLOW_CONTROL,
        kato: 5000,
    };
    let mut bytes = [0; 64];
    connect.command(9).encode(&mut bytes);
    assert_eq!(bytes[..5], [0x7f, 0x40, 9, 0, 1]);
    assert_eq!(bytes[24..40], [0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 1]);
    assert_eq!(bytes[40..52], [0, 0, 1, 0, 127, 0, 4, 0, 0x88, 0x13, 0, 0]);
    let command = Command::decode(&bytes);
    assert_eq!(CommandType::of(&command), CommandType::CONNECT);
    assert_eq!(Connect::of(&command), connect);
}

#[test]
fn fabrics_commands_round_trip() {
    let get = PropertyGet { size: PropertySize::EIGHT, offset: Property::CAP };
    assert_eq!(PropertyGet::of(&over_the_wire(get.command(1))), get);
    let set = PropertySet { size: PropertySize::FOUR, offset: Property::CC, value: 0x46_0001 };
    assert_eq!(PropertySet::of(&over_the_wire(set.command(1))), set);
    let disconnect = Disconnect { recfmt: 1 };
    assert_eq!(Disconnect::of(&over_the_wire(disconnect.command(1))), disconnect);
    for parameter in [InvalidParameter::QID, InvalidParameter::HOSTNQN] {
        assert_eq!(InvalidParameter::from_result(parameter.result()), parameter);
    }
    assert_eq!(InvalidParameter::SUBNQN.result(), 0x1_0100);
    let result = ConnectResult { cntlid: 7, authentication: true, secure_channel: false };
    assert_eq!((result.result(), ConnectResult::from_result(0x2_0007)), (0x2_0007, result));
}

#[test]
fn a_status_has_its_parts() {
    let status = Status::LBA_OUT_OF_RANGE.do_not_retry().with_more().with_retry_delay(2);
    assert_eq!(status.0, 0x80 | 1 << 14 | 1 << 13 | 2 << 11);
    assert_eq!((status.code(), status.code_type()), (0x80, StatusCodeType::Generic));
    assert!(status.is_final() && status.more() && status.retry_delay() == 2 && !status.is_success());
    assert_eq!(status.plain(), Status::LBA_OUT_OF_RANGE);
    assert_eq!(Status::from_wire(status.to_wire()), status);
    assert_eq!(Status::COMPARE_FAILURE.0, 0x285);
    assert_eq!(Status::COMPARE_FAILURE.to_string(), "status 0x2/0x85 COMPARE_FAILURE");
    assert!(Status::SUCCESSFUL_COMPLETION.is_success() && !Status::WRITE_FAULT.is_success());
    let mut bytes = [0xff; 16];
    Completion { result: 0x0102, sqhd: 3, cid: 4, status }.encode(&mut bytes);
    assert_eq!(bytes, [2, 1, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0xe1]);
}

#[test]
fn data_is_where_the_descriptor_says_or_refused() {
    let with = |sgl| Command { flags: CommandFlags::SGL, sgl, ..Command::default() };
    let inside = with(SglDescriptor::in_capsule(16, 48));
    assert_eq!(inside.data_place(64), Ok(DataPlace::InCapsule { offset: 16, length: 48 }));
    assert_eq!(inside.data_place(63), Err(Status::DATA_SGL_LENGTH_INVALID.do_not_retry()));
    assert_eq!(inside.data_place(15), Err(Status::SGL_OFFSET_INVALID.do_not_retry()));
    let far = with(SglDescriptor::in_capsule(u64::MAX, 1));
    assert_eq!(far.data_place(64), Err(Status::SGL_OFFSET_INVALID.do_not_retry()));
    let long = with(SglDescriptor::in_capsule(1, u32::MAX));
    assert_eq!(long.data_place(64), Err(Status::DATA_SGL_LENGTH_INVALID.do_not_retry()));
    assert_eq!(
        with(SglDescriptor::transport(8192)).data_place(0),
        Ok(DataPlace::CommandBuffer { length: 8192 })
    );
    for kind in [SglKind::DATA_BLOCK, SglKind::SEGMENT, SglKind::KEYED_DATA_BLOCK, SglKind(0xff)] {
        let command = with(SglDescriptor { address: 0, length: 1, kind });
        assert_eq!(command.data_place(64), Err(Status::SGL_DESCRIPTOR_TYPE_INVALID.do_not_retry()));
    }
    let prp = Command { flags: CommandFlags(0), ..inside };
    assert_eq!(prp.data_place(64), Err(Status::INVALID_FIELD_IN_COMMAND.do_not_retry()));
}

#[test]
fn a_read_lies_where_the_standard_says() {
    let range = BlockRange {
        slba: 0x1_0000_0002,
        nlb: 7,
        flags: RangeFlags::FORCE_UNIT_ACCESS | RangeFlags::LIMITED_RETRY,
        dtype: 0,
    };
    let command = range.command(Opcode::READ, 5, 1, SglDescriptor::transport(4096));
    assert_eq!((command.opcode, command.cdw10, command.cdw11, command.cdw12), (2, 2, 1, 0xc000_0007));
    assert_eq!(BlockRange::without_protection(&over_the_wire(command)), Ok(range));
    assert_eq!(range.blocks(), 8);
    for flag in RangeFlags::PROTECTION {
        let command = Command { cdw12: command.cdw12 | flag.bits(), ..command };
        let refused = Err(Status::INVALID_PROTECTION_INFORMATION.do_not_retry());
        assert_eq!(BlockRange::without_protection(&command), refused);
    }
    let zeroes = BlockRange { flags: RangeFlags::DEALLOCATE, ..range };
    let command = zeroes.command(Opcode::WRITE_ZEROES, 5, 1, SglDescriptor::NOTHING);
    assert_eq!(command.cdw12, 0x0200_0007);
    assert_eq!(BlockRange::without_protection(&command), Ok(zeroes));
    assert_eq!(CommandFlags::SGL.with_fuse(Fuse::Second).fuse(), Fuse::Second);
}

#[test]
fn ranges_are_read_in_order_and_have_to_be_there() {
    let command = DatasetManagement { nr: 1, attributes: DatasetAttributes::DEALLOCATE };
    assert_eq!((command.ranges(), command.data_length()), (2, 32));
    assert_eq!(DatasetManagement::of(&over_the_wire(command.command(1, 1, SglDescriptor::NOTHING))), command);
    let ranges = [
        DatasetRange { attributes: 0, length: 8, slba: 16 },
        DatasetRange { attributes: 1, length: u32::MAX, slba: u64::MAX },
    ];
    let mut data = [0; 32];
    for (chunk, range) in data.as_chunks_mut().0.iter_mut().zip(&ranges) {
        range.encode(chunk);
    }
    assert!(DatasetRanges::decode(&data, 2).unwrap().iter().eq(ranges));
    assert_eq!(DatasetRanges::decode(&data[..31], 2), Err(Status::DATA_SGL_LENGTH_INVALID.do_not_retry()));

    let source = CopyRange { slba: 3, nlb: 4, elbt: 0, elbat: 0, elbatm: 0 };
    let mut data = [0xff; 32];
    source.encode(&mut data);
    assert_eq!((data[8], data[16]), (3, 4));
    assert!(CopyRanges::decode(&data, 1).unwrap().iter().eq([source]));
    assert!(CopyRanges::decode(&data, 2).is_err());
}

#[test]
fn a_copy_without_protection_information() {
    let copy = Copy { sdlba: 1 << 40, nr: 3, desfmt: 0, force_unit_access: true, limited_retry: false };
    let command = over_the_wire(copy.command(1, 1, SglDescriptor::transport(128)));
    assert_eq!(command.cdw12, 0x4000_0003);
    assert_eq!((Copy::of(&command), copy.data_length()), (Ok(copy), 128));
    for (bits, status) in [
        (1 << 12, Status::INVALID_PROTECTION_INFORMATION),
        (1 << 24, Status::INVALID_PROTECTION_INFORMATION),
        (1 << 29, Status::INVALID_PROTECTION_INFORMATION),
        (1 << 20, Status::INVALID_FIELD_IN_COMMAND),
    ] {
        let command = Command { cdw12: command.cdw12 | bits, ..command };
        assert_eq!(Copy::of(&command), Err(status.do_not_retry()));
    }
}

#[test]
fn admin_commands_round_trip() {
    let identify = Identify {
        nsid: 1,
        cns: Cns::COMMAND_SET_NAMESPACE,
        cntid: 2,
        cns_specific: 3,
        csi: Csi::ZONED,
        uuid_index: 4,
    };
    assert_eq!(Identify::of(&over_the_wire(identify.command(1))), identify);
    assert_eq!((identify.command(1).cdw10, identify.command(1).cdw11), (0x0002_0005, 0x0200_0003));

    let log = GetLogPage {
        nsid: 1,
        specific: 3,
        retain_event: true,
        numd: 0x0123_4567,
        specific_identifier: 9,
        offset_is_index: true,
        csi: 2,
        uuid_index: 5,
        ..GetLogPage::new(LogPage::DISCOVERY, 1 << 33, 4)
    };
    assert_eq!(GetLogPage::of(&over_the_wire(log.command(1))), log);
    assert_eq!((log.command(1).cdw10, log.command(1).cdw11), (0x4567_8370, 0x0009_0123));
    assert_eq!(GetLogPage::new(LogPage::SMART, 0, 512).length(), 512);

    let set = SetFeatures {
        nsid: 0,
        feature: Feature::NUMBER_OF_QUEUES,
        save: true,
        value: 0x0003_0003,
        more: [1, 2, 3, 4],
    };
    assert_eq!(SetFeatures::of(&over_the_wire(set.command(1, SglDescriptor::NOTHING))), set);
    let get = GetFeatures { nsid: 0, feature: Feature::KEEP_ALIVE_TIMER, select: Select::DEFAULT, value: 7 };
    assert_eq!(GetFeatures::of(&over_the_wire(get.command(1, SglDescriptor::NOTHING))), get);

    let abort = Abort { sqid: 1, cid: 77 };
    assert_eq!(Abort::of(&over_the_wire(abort.command(1))), abort);
    assert!(Abort::was_aborted(Abort::result(true)) && !Abort::was_aborted(Abort::result(false)));
    assert_eq!(admin::keep_alive(3).opcode, 0x18);
    assert_eq!(admin::asynchronous_event_request(3).opcode, 0x0c);
    assert_eq!(Event::DISCOVERY_LOG_PAGE_CHANGE.result(), 0x0070_f002);
    assert_eq!(Event::from_result(0x000c_0302), Event::ANA_CHANGE);
}

proptest! {
    #[test]
    fn any_command_is_decoded_and_encoded_again(command in any_command(), capsule in any::<u32>()) {
        prop_assert_eq!(over_the_wire(command), command);
        if let Ok(DataPlace::InCapsule { offset, length }) = command.data_place(capsule) {
            prop_assert!(u64::from(offset) + u64::from(length) <= u64::from(capsule));
        }
        let range = BlockRange::of(&command);
        let again = range.command(Opcode(command.opcode), command.cid, command.nsid, command.sgl);
        prop_assert_eq!(BlockRange::of(&again), range);
        let get = GetLogPage::of(&command);
        prop_assert_eq!(GetLogPage::of(&get.command(0)), get);
        let connect = Connect::of(&command);
        prop_assert_eq!(Connect::of(&connect.command(0)), connect);
        let identify = Identify::of(&command);
        prop_assert_eq!(Identify::of(&identify.command(0)), identify);
        if let Ok(copy) = Copy::of(&command) {
            prop_assert_eq!(Copy::of(&copy.command(0, 1, command.sgl)), Ok(copy));
        }
    }

    #[test]
    fn any_completion_is_decoded_and_encoded_again(bytes in any::<[u8; 16]>()) {
        let completion = Completion::decode(&bytes);
        let mut again = [0; 16];
        completion.encode(&mut again);
        prop_assert_eq!(Completion::decode(&again), completion);
    }
}
