//! Residuals, sense data, refusals, discovery.

use std::net::SocketAddr;
use std::time::Duration;

use wire::iscsi::{
    DataInFlags, InitiatorPdu, LoginRequest, LogoutReason, LogoutRequest, RESERVED_TAG, RejectReason,
    ScsiCommandFlags, ScsiResponseFlags, SnackRequest, TargetPdu, TextFlags, TextRequest,
};

use super::bed::{BLOCK, Bed, OTHER_TARGET, Stage, TARGET, play};
use super::peer::{Joining, Peer, Scsi, next};
use crate::session::iscsi::login::Authentication;
use crate::session::iscsi::{IscsiOptions, Node, Targets};

async fn text(peer: &Peer, text: &[u8]) -> String {
    let request = TextRequest {
        flags: TextFlags::FINAL,
        initiator_task_tag: peer.next_tag(),
        target_transfer_tag: RESERVED_TAG,
        cmd_sn: peer.skip_cmd_sn(),
        ..TextRequest::default()
    };
    peer.send(InitiatorPdu::TextRequest(request), text).await;
    let (response, text) = next!(peer, TextResponse);
    assert!(response.flags.contains(TextFlags::FINAL));
    String::from_utf8(text).unwrap().replace('\0', " ")
}

async fn discovery(bed: &Bed) -> Peer {
    let peer = bed.connect().await;
    peer.log_in(Joining { target: None, ..Joining::default() }).await.unwrap();
    peer
}

#[test]
fn a_read_of_less_than_was_expected_tells_of_the_underflow() {
    play(|bed| async move {
        let peer = bed.log_in("").await;
        peer.command(&Scsi::read(0, 1).expecting(2000)).await;
        let (pdu, data) = next!(peer, DataIn);
        let flags = DataInFlags::FINAL | DataInFlags::STATUS | DataInFlags::UNDERFLOW;
        assert_eq!((pdu.flags, pdu.residual_count, data.len()), (flags, 2000 - 512, 512));
    });
}

#[test]
fn a_read_of_more_than_was_expected_is_cut_and_tells_of_the_overflow() {
    play(|bed| async move {
        let peer = bed.log_in("").await;
        peer.command(&Scsi::read(0, 2).expecting(700)).await;
        let (pdu, data) = next!(peer, DataIn);
        let flags = DataInFlags::FINAL | DataInFlags::STATUS | DataInFlags::OVERFLOW;
        assert_eq!((pdu.flags, pdu.residual_count, data.len()), (flags, 1024 - 700, 700));
        let tag = peer.command(&Scsi::read(0, 2).expecting(0)).await;
        let response = peer.good(tag).await;
        assert_eq!((response.flags, response.residual_count), (ScsiResponseFlags::OVERFLOW, 1024));
    });
}

#[test]
fn a_write_of_less_than_was_announced_tells_of_the_underflow() {
    play(|bed| async move {
        let peer = bed.log_in("InitialR2T=Yes").await;
        let tag = peer.command(&Scsi::write(0, 1).expecting(2048)).await;
        let (request, _) = next!(peer, R2t);
        assert_eq!(request.desired_data_transfer_length, 512, "no more than the command wants");
        peer.answer(&request, &[1; 512]).await;
        let response = peer.good(tag).await;
        assert_eq!((response.flags, response.residual_count), (ScsiResponseFlags::UNDERFLOW, 1536));
    });
}

#[test]
fn a_write_of_more_than_was_announced_tells_of_the_overflow() {
    play(|bed| async move {
        let peer = bed.log_in("").await;
        let tag = peer.command(&Scsi::write(0, 4).expecting(1024).with(&[1; 1024])).await;
        let response = peer.good(tag).await;
        assert_eq!((response.flags, response.residual_count), (ScsiResponseFlags::OVERFLOW, 1024));
        assert_eq!(bed.on_volume(0, 4).await, [[1; 1024], [0; 1024]].concat(), "as much as has come");
    });
}

#[test]
fn a_command_that_moves_data_the_other_way_than_was_announced_tells_that_none_was_moved() {
    for stage in [Stage::new, Stage::with_file] {
        stage().play(|bed| async move {
            let peer = bed.log_in("").await;
            let (read, write) = (ScsiCommandFlags::READ, ScsiCommandFlags::WRITE);
            for (command, announced) in [(Scsi::write(0, 1), read), (Scsi::read(0, 1), write)] {
                for flags in [announced, ScsiCommandFlags::empty()] {
                    let flags = flags | ScsiCommandFlags::FINAL;
                    let tag = peer.command(&Scsi { flags, ..command.clone() }).await;
                    let response = peer.good(tag).await;
                    let residual = (response.flags, response.residual_count);
                    assert_eq!(residual, (ScsiResponseFlags::OVERFLOW, 512), "{flags:?}");
                }
            }
        });
    }
}

#[test]
fn what_happened_is_told_before_a_read_or_write_is_done() {
    play(|bed| async move {
        let peer = bed.connect().await;
        peer.log_in(Joining::default()).await.unwrap();
        peer.command(&Scsi::write(0, 1).with(&[1; 512])).await;
        assert_eq!(peer.sense().await, (6, 0x29), "the session is new");
        assert_eq!(bed.on_volume(0, 1).await, [0; 512]);
        assert_eq!(peer.read(0, 1).await, [0; 512]);
        let another = bed.connect().await;
        another.log_in(Joining { isid: 2, ..Joining::default() }).await.unwrap();
        another.command(&Scsi::read(0, 1)).await;
        assert_eq!(another.sense().await, (6, 0x29));
        assert_eq!(another.read(0, 1).await, [0; 512]);
    });
}

#[test]
fn a_write_of_no_blocks_changes_nothing_and_tells_of_the_underflow() {
    play(|bed| async move {
        let peer = bed.log_in("").await;
        let tag = peer.command(&Scsi::write(0, 0).expecting(1024).with(&[1; 1024])).await;
        let response = peer.good(tag).await;
        assert_eq!((response.flags, response.residual_count), (ScsiResponseFlags::UNDERFLOW, 1024));
        let tag = peer.command(&Scsi::write(0, 0)).await;
        let response = peer.good(tag).await;
        assert_eq!((response.flags, response.residual_count), (ScsiResponseFlags::empty(), 0));
        assert_eq!(bed.on_volume(0, 2).await, [0; 1024]);
    });
}

#[test]
fn check_condition_brings_its_sense_data_and_all_as_the_residual() {
    play(|bed| async move {
        let peer = bed.log_in("").await;
        let tag = peer.command(&Scsi::read(u64::MAX, 8)).await;
        let (response, data) = peer.response().await;
        assert_eq!((response.initiator_task_tag, response.status), (tag, 2));
        assert_eq!((data[0], data[1], data[2] & 0x7f), (0, 18, 0x70), "SenseLength, then fixed format");
        assert_eq!((data[4] & 0xf, data[14]), (5, 0x21), "LOGICAL BLOCK ADDRESS OUT OF RANGE");
        assert_eq!((response.flags, response.residual_count), (ScsiResponseFlags::UNDERFLOW, 4096));
    });
}

#[test]
fn a_refused_write_asks_for_no_data_and_forgets_what_comes() {
    play(|bed| async move {
        let peer = bed.log_in("").await;
        let tag = peer.command(&Scsi::write(u64::MAX, 2).with(&[1; 512]).unsolicited()).await;
        peer.data_out(tag, None, 0, 512, &[1; 512], true).await;
        assert_eq!(peer.sense().await, (5, 0x21));
        peer.is_ready().await;
    });
}

#[test]
fn snack_is_refused_with_the_header_that_asked() {
    play(|bed| async move {
        let peer = bed.log_in("").await;
        let snack = SnackRequest { initiator_task_tag: 0x1234_5678, ..SnackRequest::default() };
        let sent = peer.encode(InitiatorPdu::SnackRequest(snack), &[]);
        peer.send_bytes(&sent).await;
        let (reject, header) = next!(peer, Reject);
        assert_eq!((reject.reason, reject.initiator_task_tag), (RejectReason::SNACK_REJECT, RESERVED_TAG));
        assert_eq!(header, sent, "the header comes back");
        peer.is_ready().await;
    });
}

#[test]
fn what_no_initiator_may_send_is_rejected_and_ends_the_connection() {
    for (opcode, reason) in [
        (0x1c, RejectReason::COMMAND_NOT_SUPPORTED),
        (0x21, RejectReason::COMMAND_NOT_SUPPORTED),
        (0x3f, RejectReason::COMMAND_NOT_SUPPORTED),
    ] {
        play(move |bed| async move {
            let peer = bed.log_in("").await;
            let mut bytes = [0; 48];
            bytes[0] = opcode;
            peer.send_bytes(&bytes).await;
            let last = peer.ends().await;
            assert!(matches!(last[..], [TargetPdu::Reject(reject)] if reject.reason == reason), "{last:?}");
        });
    }
}

#[test]
fn a_login_request_after_login_ends_the_connection() {
    play(|bed| async move {
        let peer = bed.log_in("").await;
        peer.send(InitiatorPdu::LoginRequest(LoginRequest::default()), b"InitiatorName=x\0").await;
        let last = peer.ends().await;
        let reason = RejectReason::PROTOCOL_ERROR;
        assert!(matches!(last[..], [TargetPdu::Reject(reject)] if reject.reason == reason), "{last:?}");
        assert!(bed.logs.has("a login request after login"), "{}", bed.logs.all());
    });
}

#[test]
fn discovery_tells_of_all_targets_and_how_to_reach_them() {
    play(|bed| async move {
        let peer = discovery(&bed).await;
        let address = format!("TargetAddress={},1", bed.portal);
        let all = text(&peer, b"SendTargets=All\0").await;
        assert_eq!(all, format!("TargetName={TARGET} {address} TargetName={OTHER_TARGET} {address} "));
        let one = text(&peer, format!("SendTargets={OTHER_TARGET}\0").as_bytes()).await;
        assert_eq!(one, format!("TargetName={OTHER_TARGET} {address} "));
        peer.is_well().await;
        let logout = LogoutRequest {
            reason: LogoutReason::CLOSE_SESSION,
            cmd_sn: peer.skip_cmd_sn(),
            ..LogoutRequest::default()
        };
        peer.send(InitiatorPdu::LogoutRequest(logout), &[]).await;
        next!(peer, LogoutResponse);
        peer.ends().await;
    });
}

#[test]
fn a_normal_session_hears_of_its_own_target_only() {
    play(|bed| async move {
        let peer = bed.log_in("").await;
        assert!(text(&peer, b"SendTargets=\0").await.starts_with(&format!("TargetName={TARGET} ")));
        assert_eq!(text(&peer, b"SendTargets=All\0").await, "SendTargets=Reject ");
    });
}

#[test]
fn a_discovery_session_can_do_nothing_else() {
    play(|bed| async move {
        let command = discovery(&bed).await;
        command.command(&Scsi::test_unit_ready()).await;
        let data = discovery(&bed).await;
        data.data_out(1, None, 0, 0, &[0; BLOCK], true).await;
        let management = discovery(&bed).await;
        management.manage(wire::iscsi::TaskManagementFunction::TARGET_COLD_RESET, 0, 0.into()).await;
        for peer in [command, data, management] {
            let last = peer.ends().await;
            let reason = RejectReason::PROTOCOL_ERROR;
            assert!(matches!(last[..], [TargetPdu::Reject(reject)] if reject.reason == reason), "{last:?}");
        }
        assert!(bed.logs.has("a discovery session that wants more than"), "{}", bed.logs.all());
    });
}

#[test]
fn who_came_over_ipv4_to_a_portal_of_all_addresses_is_told_an_ipv4_address() {
    let never = Duration::from_secs(3600);
    let options = IscsiOptions { nop_interval: never, nop_timeout: never };
    let node = Node::new(Targets::new(Vec::new(), Authentication::None), options);
    node.set_portals(vec!["[::]:3260".parse().unwrap(), "192.0.2.7:3261".parse().unwrap()]);
    for (reached, told) in
        [("[::ffff:192.0.2.1]:3260", "192.0.2.1:3260"), ("[2001:db8::1]:3260", "[2001:db8::1]:3260")]
    {
        let told: [SocketAddr; 2] = [told.parse().unwrap(), "192.0.2.7:3261".parse().unwrap()];
        assert_eq!(node.addresses_for(reached.parse().unwrap()), told);
    }
}

#[test]
fn a_portal_on_all_addresses_of_ipv4_is_not_told_to_who_came_over_ipv6() {
    let never = Duration::from_secs(3600);
    let options = IscsiOptions { nop_interval: never, nop_timeout: never };
    let node = Node::new(Targets::new(Vec::new(), Authentication::None), options);
    let six: SocketAddr = "[2001:db8::1]:3261".parse().unwrap();
    node.set_portals(vec!["0.0.0.0:3260".parse().unwrap(), six]);
    assert_eq!(node.addresses_for(six), [six]);
}
