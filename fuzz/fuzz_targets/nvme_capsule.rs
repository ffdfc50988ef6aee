//! Any bytes as a command capsule: 64 bytes of command, and its data.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::nvme::admin::features::{GetFeatures, SetFeatures};
use wire::nvme::admin::identify::{self, Identify};
use wire::nvme::admin::log::{self, GetLogPage};
use wire::nvme::admin::{self, Abort};
use wire::nvme::command::{Command, DataPlace, SglDescriptor};
use wire::nvme::fabrics::{
    self, Authentication, CommandType, Connect, ConnectData, Disconnect, PropertyGet, PropertySet,
};
use wire::nvme::io::{self, BlockRange, Copy, CopyRanges, DatasetManagement, DatasetRanges};

fn fabrics_command(command: &Command, data: &[u8]) {
    match CommandType::of(command) {
        CommandType::CONNECT => {
            let connect = Connect::of(command);
            assert_eq!(Connect::of(&connect.command(1)), connect);
            let Some(data) = data.first_chunk() else { return };
            let data = ConnectData::decode(data);
            let _ = (data.subnqn.name(), data.hostnqn.name(), format!("{data:?}"));
        }
        CommandType::PROPERTY_GET => {
            let get = PropertyGet::of(command);
            assert_eq!(PropertyGet::of(&get.command(1)), get);
        }
        CommandType::PROPERTY_SET => {
            let set = PropertySet::of(command);
            assert_eq!(PropertySet::of(&set.command(1)), set);
        }
        CommandType::DISCONNECT => assert_eq!(Disconnect::of(command).recfmt, command.cdw10 as u16),
        _ => {
            let _ = Authentication::of(command);
        }
    }
}

fn admin_command(command: &Command) {
    match admin::Opcode(command.opcode) {
        admin::Opcode::IDENTIFY => {
            let identify = Identify::of(command);
            assert_eq!(Identify::of(&identify.command(1)), identify);
        }
        admin::Opcode::GET_LOG_PAGE => {
            let get = GetLogPage::of(command);
            assert_eq!(GetLogPage::of(&get.command(1)), get);
            assert!(get.length() >= 4);
        }
        admin::Opcode::SET_FEATURES => {
            let set = SetFeatures::of(command);
            assert_eq!(SetFeatures::of(&set.command(1, SglDescriptor::NOTHING)), set);
        }
        admin::Opcode::GET_FEATURES => {
            let get = GetFeatures::of(command);
            assert_eq!(GetFeatures::of(&get.command(1, SglDescriptor::NOTHING)), get);
        }
        _ => {
            let _ = Abort::of(command);
        }
    }
}

fn io_command(command: &Command, data: &[u8]) {
    match io::Opcode(command.opcode) {
        io::Opcode::DATASET_MANAGEMENT => {
            let wanted = DatasetManagement::of(command);
            if let Ok(ranges) = DatasetRanges::decode(data, wanted.ranges()) {
                assert_eq!(ranges.iter().count(), wanted.ranges());
                assert!(wanted.data_length() <= data.len());
            }
        }
        io::Opcode::COPY => {
            let Ok(copy) = Copy::of(command) else { return };
            assert_eq!(Copy::of(&copy.command(1, 1, SglDescriptor::NOTHING)), Ok(copy));
            if let Ok(ranges) = CopyRanges::decode(data, copy.ranges()) {
                assert_eq!(ranges.iter().count(), copy.ranges());
            }
        }
        opcode => {
            let range = BlockRange::of(command);
            assert!((1..=65536).contains(&range.blocks()));
            let again = range.command(opcode, command.cid, command.nsid, command.sgl);
            assert_eq!(BlockRange::of(&again), range);
        }
    }
}

/// What a controller sends, as a host reads it.
fn answers(data: &[u8]) {
    assert!(log::read_groups(data).count() <= data.len() / 32);
    let Some(page) = data.first_chunk() else { return };
    let namespace = identify::IdentifyNamespace::decode(page);
    assert!(namespace.block_size().is_none_or(u32::is_power_of_two));
    let _ = (namespace.metadata_size(), identify::IdentifyController::decode(page).in_capsule_data());
    assert!(identify::Descriptors::new(page).count() <= 1024);
    assert!(identify::read_namespace_list(page).count() <= 1024);
}

fuzz_target!(|bytes: &[u8]| {
    let Some((first, data)) = bytes.split_first_chunk() else { return };
    let command = Command::decode(first);
    let mut again = [0xaa; 64];
    command.encode(&mut again);
    assert_eq!(Command::decode(&again), command);
    let place = command.data_place(data.len() as u32);
    if let Ok(DataPlace::InCapsule { offset, length }) = place {
        let end = (offset as usize).checked_add(length as usize);
        assert!(end.is_some_and(|end| end <= data.len()));
    }
    if command.opcode == fabrics::OPCODE {
        fabrics_command(&command, data);
    } else {
        admin_command(&command);
        io_command(&command, data);
    }
    answers(data);
});
