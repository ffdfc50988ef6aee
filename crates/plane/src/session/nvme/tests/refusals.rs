//! Who is not let in, what is not offered, and commands that are wrong in themselves.

use std::time::Duration;

use wire::nvme::admin::features::{Feature, GetFeatures, SetFeatures};
use wire::nvme::admin::identify::{Cns, Identify, IdentifyController, IdentifyNamespace, OptionalCommands};
use wire::nvme::fabrics::{self, Connect, ConnectData, ConnectResult, InvalidParameter};
use wire::nvme::io::{BlockRange, Opcode, RangeFlags};
use wire::nvme::tcp::DigestFlags;
use wire::nvme::{CNTLID_DYNAMIC, Command, CommandFlags, NqnField, SglDescriptor, SglKind, Status};

use super::bed::{BLOCK, PRIVATE, SHARED, SUBSYSTEM, play};
use super::host::{Host, Received, identity};

const CONNECT: Connect =
    Connect { recfmt: 0, qid: 0, sqsize: 31, cattr: fabrics::ConnectAttributes::empty(), kato: 0 };

#[test]
fn who_is_not_named_is_not_let_in_and_is_told_why() {
    play(|bed| async move {
        let refused = async |connect: Connect, data: ConnectData| {
            let host = Host::initialized(&bed, DigestFlags::empty()).await;
            let completion = host.connect_as(connect, &data).await;
            assert_eq!(host.next().await, Received::Closed);
            (completion.status, InvalidParameter::from_result(completion.result))
        };
        let wrong = |parameter| (Status::CONNECT_INVALID_PARAMETERS.do_not_retry(), parameter);
        let host = refused(CONNECT, identity(PRIVATE)).await;
        assert_eq!(host.0, Status::CONNECT_INVALID_HOST.do_not_retry());
        let nowhere = refused(CONNECT, identity("nqn.2026-11.internal.fels:nowhere")).await;
        assert_eq!(nowhere, wrong(InvalidParameter::SUBNQN));
        let nameless = ConnectData { hostnqn: NqnField::new("somebody"), ..identity(SUBSYSTEM) };
        assert_eq!(refused(CONNECT, nameless).await, wrong(InvalidParameter::HOSTNQN));
        let format = refused(Connect { recfmt: 1, ..CONNECT }, identity(SUBSYSTEM)).await;
        assert_eq!(format.0, Status::CONNECT_INCOMPATIBLE_FORMAT.do_not_retry());
        // The other host is let in.
        let other = NqnField::new("nqn.2014-08.com.example:other");
        let host = Host::initialized(&bed, DigestFlags::empty()).await;
        let completion = host.connect_as(CONNECT, &ConnectData { hostnqn: other, ..identity(PRIVATE) }).await;
        assert_eq!(completion.status, Status::SUCCESSFUL_COMPLETION);
    });
}

#[test]
fn an_io_queue_has_to_come_from_the_host_of_its_controller_also_after_a_reset() {
    play(|bed| async move {
        let (admin, cntlid) = Host::admin(&bed, 0).await;
        let own = ConnectData { cntlid, ..identity(SUBSYSTEM) };
        for round in 0..2 {
            for (data, parameter) in [
                (ConnectData { hostid: [8; 16], ..own }, InvalidParameter::HOSTID),
                (
                    ConnectData { hostnqn: NqnField::new("nqn.2014-08.com.example:b"), ..own },
                    InvalidParameter::HOSTNQN,
                ),
                (ConnectData { subnqn: NqnField::new(SHARED), ..own }, InvalidParameter::SUBNQN),
                (ConnectData { cntlid: cntlid + 1, ..own }, InvalidParameter::CNTLID),
                (ConnectData { cntlid: CNTLID_DYNAMIC, ..own }, InvalidParameter::CNTLID),
            ] {
                let host = Host::initialized(&bed, DigestFlags::empty()).await;
                let completion = host.connect_as(Connect { qid: 1, ..CONNECT }, &data).await;
                assert_eq!(completion.status, Status::CONNECT_INVALID_PARAMETERS.do_not_retry());
                assert_eq!(InvalidParameter::from_result(completion.result), parameter, "round {round}");
            }
            let queue = Host::io(&bed, cntlid, DigestFlags::empty()).await;
            let enabled = fabrics::ControllerConfiguration::ENABLED;
            admin.set_configuration(enabled.with_en(0)).await;
            admin.until_status(0, Duration::from_secs(1)).await;
            // Not before it is enabled.
            let early = Host::initialized(&bed, DigestFlags::empty()).await;
            let completion = early.connect_as(Connect { qid: 1, ..CONNECT }, &own).await;
            assert_eq!(completion.status, Status::COMMAND_SEQUENCE_ERROR);
            admin.set_configuration(enabled).await;
            drop(queue);
        }
    });
}

#[test]
fn authentication_reservations_and_security_are_not_offered_and_not_pretended() {
    play(|bed| async move {
        let host = Host::initialized(&bed, DigestFlags::empty()).await;
        let completion = host.connect(CONNECT, CNTLID_DYNAMIC).await;
        let result = ConnectResult::from_result(completion.result);
        assert!(!result.authentication && !result.secure_channel, "nothing is required");
        host.set_configuration(fabrics::ControllerConfiguration::ENABLED).await;
        let queue = Host::io(&bed, result.cntlid, DigestFlags::empty()).await;
        let unknown = Status::INVALID_COMMAND_OPCODE.do_not_retry();
        for kind in [fabrics::CommandType::AUTHENTICATION_SEND, fabrics::CommandType::AUTHENTICATION_RECEIVE]
        {
            let command = Command {
                opcode: fabrics::OPCODE,
                flags: CommandFlags::SGL,
                nsid: kind.0.into(),
                cdw10: 0xe900_0100,
                cdw11: 64,
                sgl: SglDescriptor::transport(64),
                ..Command::default()
            };
            assert_eq!(host.ask(command).await.status, unknown);
            assert_eq!(queue.ask(command).await.status, unknown);
        }
        let page =
            host.fetch(Identify { cns: Cns::CONTROLLER, ..Identify::default() }.command(0)).await.unwrap();
        let controller = IdentifyController::decode(page.first_chunk().unwrap());
        assert!(!controller.oncs.contains(OptionalCommands::RESERVATIONS) && controller.oacs.is_empty());
        let namespace = Identify { cns: Cns::NAMESPACE, nsid: 1, ..Identify::default() };
        let page = host.fetch(namespace.command(0)).await.unwrap();
        assert_eq!(IdentifyNamespace::decode(page.first_chunk().unwrap()).rescap, 0);
        let refused = Status::INVALID_FIELD_IN_COMMAND.do_not_retry();
        for feature in [Feature::RESERVATION_NOTIFICATION_MASK, Feature::RESERVATION_PERSISTENCE] {
            let get = GetFeatures { feature, nsid: 1, ..GetFeatures::default() };
            assert_eq!(host.ask(get.command(0, SglDescriptor::NOTHING)).await.status, refused);
            let set = SetFeatures { feature, nsid: 1, ..SetFeatures::default() };
            assert_eq!(host.ask(set.command(0, SglDescriptor::NOTHING)).await.status, refused);
        }
    });
}

#[test]
fn wrong_descriptors_and_ranges_have_the_status_that_the_standard_names() {
    play(|bed| async move {
        let (_admin, cntlid) = Host::admin(&bed, 0).await;
        let host = Host::io(&bed, cntlid, DigestFlags::empty()).await;
        let block = BLOCK as u32;
        let read = BlockRange::default().command(Opcode::READ, 0, 1, SglDescriptor::transport(block));
        let write = |sgl| BlockRange::default().command(Opcode::WRITE, 0, 1, sgl);
        let kind = |kind| SglDescriptor { kind, ..SglDescriptor::transport(block) };
        let at = |slba: u64, nlb: u16| {
            let sgl = SglDescriptor::transport((u32::from(nlb) + 1) * block);
            BlockRange { slba, nlb, ..BlockRange::default() }.command(Opcode::READ, 0, 1, sgl)
        };
        let protected = BlockRange { flags: RangeFlags::CHECK_GUARD, ..BlockRange::default() };
        let cases = [
            (Command { flags: CommandFlags(0), ..read }, Status::INVALID_FIELD_IN_COMMAND),
            (Command { flags: CommandFlags(0xc0), ..read }, Status::INVALID_FIELD_IN_COMMAND),
            (Command { flags: CommandFlags(0x43), ..read }, Status::INVALID_FIELD_IN_COMMAND),
            (Command { sgl: kind(SglKind::DATA_BLOCK), ..read }, Status::SGL_DESCRIPTOR_TYPE_INVALID),
            (Command { sgl: kind(SglKind::KEYED_DATA_BLOCK), ..read }, Status::SGL_DESCRIPTOR_TYPE_INVALID),
            (Command { sgl: kind(SglKind::LAST_SEGMENT), ..read }, Status::SGL_DESCRIPTOR_TYPE_INVALID),
            (Command { sgl: SglDescriptor::transport(block * 2), ..read }, Status::DATA_SGL_LENGTH_INVALID),
            (write(SglDescriptor::in_capsule(0, block)), Status::DATA_SGL_LENGTH_INVALID),
            (write(SglDescriptor::in_capsule(1, block)), Status::SGL_OFFSET_INVALID),
            (write(SglDescriptor::transport(block - 4)), Status::DATA_SGL_LENGTH_INVALID),
            (at(super::bed::BLOCKS, 0), Status::LBA_OUT_OF_RANGE),
            (at(super::bed::BLOCKS - 1, 1), Status::LBA_OUT_OF_RANGE),
            (at(u64::MAX, 0), Status::LBA_OUT_OF_RANGE),
            (at(0, 0x4000), Status::INVALID_FIELD_IN_COMMAND),
            (Command { nsid: 2, ..read }, Status::INVALID_NAMESPACE_OR_FORMAT),
            (Command { nsid: 0, ..read }, Status::INVALID_NAMESPACE_OR_FORMAT),
            (Command { opcode: 0x55, ..read }, Status::INVALID_COMMAND_OPCODE),
            (protected.command(Opcode::READ, 0, 1, read.sgl), Status::INVALID_PROTECTION_INFORMATION),
        ];
        for (command, status) in cases {
            assert_eq!(host.ask(command).await.status, status.do_not_retry(), "{command:?}");
        }
        assert_eq!(host.read(super::bed::BLOCKS - 1, 1).await.len(), BLOCK, "the last block is one");
    });
}
