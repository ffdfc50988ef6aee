//! Task management: what is aborted is over when that is answered.

use std::time::Duration;

use wire::iscsi::{
    Immediate, InitiatorPdu, LogoutReason, LogoutRequest, Lun, SerialNumber, TargetPdu,
    TaskManagementFunction as Function, TaskManagementRequest, TaskManagementResponseCode as Code,
};

use super::bed::{BLOCK, OTHER_TARGET, Stage, play, play_with_file};
use super::peer::{Joining, Scsi, next};
use crate::limits::{SEND_QUEUE_BYTES, TRANSFER_BYTES};
use crate::session::iscsi::manage::CATCH_UP;
use crate::volume::Limits;

/// No `RefCmdSN`: none that is in the window.
const NONE: SerialNumber = SerialNumber(0);

#[test]
fn a_command_that_waits_for_data_is_aborted() {
    play(|bed| async move {
        let peer = bed.log_in("InitialR2T=Yes").await;
        let tag = peer.command(&Scsi::write(0, 1)).await;
        let (request, _) = next!(peer, R2t);
        assert_eq!(peer.managed(Function::ABORT_TASK, tag, NONE).await, Code::FUNCTION_COMPLETE);
        // Its data was on its way.
        peer.answer(&request, &[1; BLOCK]).await;
        peer.is_well().await;
        assert_eq!(bed.on_volume(0, 1).await, [0; BLOCK]);
        peer.is_ready().await;
        assert_eq!(peer.maximum().since(peer.expected()), crate::limits::COMMAND_WINDOW - 1);
    });
}

#[test]
fn a_command_held_for_its_turn_is_aborted() {
    play(|bed| async move {
        let peer = bed.log_in("").await;
        let missing = peer.skip_cmd_sn();
        let held = peer.command(&Scsi::write(0, 1).with(&[1; BLOCK])).await;
        assert_eq!(peer.managed(Function::ABORT_TASK, held, NONE).await, Code::FUNCTION_COMPLETE);
        peer.command(&Scsi::test_unit_ready().numbered(missing).tagged(99)).await;
        peer.good(99).await;
        peer.is_ready().await;
        assert_eq!(peer.maximum().since(peer.expected()), crate::limits::COMMAND_WINDOW - 1);
        assert_eq!(bed.on_volume(0, 1).await, [0; BLOCK]);
    });
}

#[test]
fn the_abort_of_a_running_write_is_answered_when_it_has_ended() {
    play_with_file(|bed| async move {
        let peer = bed.log_in("").await;
        bed.stall();
        let tag = peer.command(&Scsi::write(0, 1).with(&[1; BLOCK])).await;
        peer.manage(Function::ABORT_TASK, tag, NONE).await;
        bed.pass(Duration::from_secs(3)).await;
        peer.hears_nothing().await;
        bed.release();
        assert_eq!(next!(peer, TaskManagementResponse).0.response, Code::FUNCTION_COMPLETE);
        // What is written now cannot be overwritten by the old write any more.
        assert_eq!(peer.write(0, &[2; BLOCK]).await.status, 0);
        peer.hears_nothing().await;
        assert_eq!(bed.on_volume(0, 1).await, [2; BLOCK]);
    });
}

#[test]
fn a_read_that_waits_for_its_reader_is_aborted_at_once() {
    play(|bed| async move {
        let (deaf, other) = (bed.log_in_as(1, "").await, bed.log_in_as(2, "").await);
        for _ in 0..40 {
            deaf.command(&Scsi::read(0, 4096)).await;
        }
        bed.settle().await;
        assert_eq!(other.managed(Function::LOGICAL_UNIT_RESET, 0, NONE).await, Code::FUNCTION_COMPLETE);
    });
}

#[test]
fn reads_of_one_who_does_not_read_are_not_all_answered_ahead() {
    const READS: usize = SEND_QUEUE_BYTES / TRANSFER_BYTES + 8;
    play(|bed| async move {
        let (deaf, other) = (bed.log_in_as(1, "").await, bed.log_in_as(2, "").await);
        for _ in 0..READS {
            deaf.command(&Scsi::read(0, (TRANSFER_BYTES / BLOCK) as u32)).await;
        }
        bed.settle().await;
        assert_eq!(other.managed(Function::LOGICAL_UNIT_RESET, 0, NONE).await, Code::FUNCTION_COMPLETE);
        // What was answered before the reset comes, what waited for its turn to be answered does not.
        let mut bytes = 0;
        while let Some((_, data)) = bed.ring.timeout(Duration::from_secs(1), deaf.receive()).await {
            bytes += data.len();
        }
        assert!((TRANSFER_BYTES..=SEND_QUEUE_BYTES + 2 * TRANSFER_BYTES).contains(&bytes), "{bytes} bytes");
    });
}

#[test]
fn a_command_that_has_not_come_yet_counts_as_aborted() {
    play(|bed| async move {
        let peer = bed.log_in("").await;
        let late = peer.skip_cmd_sn();
        let behind = peer.command(&Scsi::test_unit_ready()).await;
        peer.manage(Function::ABORT_TASK, 77, late).await;
        // Nothing is missing any more.
        peer.good(behind).await;
        assert_eq!(next!(peer, TaskManagementResponse).0.response, Code::FUNCTION_COMPLETE);
        peer.command(&Scsi::write(0, 1).with(&[1; BLOCK]).numbered(late).tagged(77)).await;
        peer.is_well().await;
        peer.hears_nothing().await;
        assert_eq!(bed.on_volume(0, 1).await, [0; BLOCK]);
    });
}

#[test]
fn what_never_was_is_not_found() {
    play(|bed| async move {
        let peer = bed.log_in("").await;
        // Done long ago; then one that would be behind the abort itself.
        for number in [peer.expected().minus(1), peer.cmd_sn().plus(3)] {
            assert_eq!(peer.managed(Function::ABORT_TASK, 1234, number).await, Code::TASK_DOES_NOT_EXIST);
        }
        let request = TaskManagementRequest {
            function: Function::ABORT_TASK,
            initiator_task_tag: peer.next_tag(),
            referenced_task_tag: 1234,
            cmd_sn: peer.skip_cmd_sn(),
            ref_cmd_sn: peer.cmd_sn(),
            ..TaskManagementRequest::default()
        };
        peer.send(InitiatorPdu::TaskManagementRequest(request), &[]).await;
        assert_eq!(next!(peer, TaskManagementResponse).0.response, Code::TASK_DOES_NOT_EXIST);
        peer.is_ready().await;
    });
}

#[test]
fn a_numbered_function_waits_for_its_turn() {
    play(|bed| async move {
        let peer = bed.log_in("").await;
        let missing = peer.skip_cmd_sn();
        let request = TaskManagementRequest {
            immediate: Immediate(false),
            function: Function::ABORT_TASK_SET,
            initiator_task_tag: peer.next_tag(),
            cmd_sn: peer.skip_cmd_sn(),
            ..TaskManagementRequest::default()
        };
        peer.send(InitiatorPdu::TaskManagementRequest(request), &[]).await;
        peer.hears_nothing().await;
        peer.command(&Scsi::test_unit_ready().numbered(missing).tagged(99)).await;
        peer.good(99).await;
        assert_eq!(next!(peer, TaskManagementResponse).0.response, Code::FUNCTION_COMPLETE);
        peer.is_ready().await;
        assert_eq!(peer.maximum().since(peer.expected()), crate::limits::COMMAND_WINDOW - 1);
    });
}

#[test]
fn abort_task_set_ends_what_came_before_it_in_its_own_session() {
    play_with_file(|bed| async move {
        let (peer, other) = (bed.log_in_as(1, "InitialR2T=Yes").await, bed.log_in_as(2, "").await);
        peer.command(&Scsi::write(0, 1)).await;
        next!(peer, R2t);
        bed.stall();
        peer.command(&Scsi::read(0, 1)).await;
        let theirs = other.command(&Scsi::read(0, 1)).await;
        peer.manage(Function::ABORT_TASK_SET, 0, NONE).await;
        let after = peer.command(&Scsi::test_unit_ready()).await;
        peer.good(after).await;
        peer.hears_nothing().await;
        bed.release();
        assert_eq!(next!(peer, TaskManagementResponse).0.response, Code::FUNCTION_COMPLETE);
        peer.hears_nothing().await;
        assert_eq!(next!(other, DataIn).0.initiator_task_tag, theirs, "not theirs");
        other.is_ready().await;
    });
}

#[test]
fn a_set_is_cleared_and_units_are_reset_over_all_sessions_and_others_are_told() {
    for (function, ours, theirs) in [
        (Function::CLEAR_TASK_SET, None, 0x2f),
        (Function::LOGICAL_UNIT_RESET, Some(0x29), 0x29),
        (Function::TARGET_WARM_RESET, Some(0x29), 0x29),
    ] {
        play_with_file(move |bed| async move {
            let (peer, other) = (bed.log_in_as(1, "").await, bed.log_in_as(2, "").await);
            assert_ne!(
                bed.session(peer.tsih()).unwrap().0,
                bed.session(other.tsih()).unwrap().0,
                "on two cores"
            );
            bed.stall();
            peer.command(&Scsi::write(0, 1).with(&[1; BLOCK])).await;
            other.command(&Scsi::write(1, 1).with(&[2; BLOCK])).await;
            other.is_well().await;
            peer.manage(function, 0, NONE).await;
            bed.pass(Duration::from_secs(1)).await;
            peer.hears_nothing().await;
            bed.release();
            assert_eq!(next!(peer, TaskManagementResponse).0.response, Code::FUNCTION_COMPLETE);
            match ours {
                Some(additional) => peer.take_attention(additional).await,
                None => peer.is_ready().await,
            }
            other.hears_nothing().await;
            other.take_attention(theirs).await;
            other.is_ready().await;
        });
    }
}

#[test]
fn a_unit_named_in_the_other_form_is_the_same_unit() {
    play(|bed| async move {
        let (peer, other) = (bed.log_in_as(1, "InitialR2T=Yes").await, bed.log_in_as(2, "").await);
        // LUN 0 in flat space addressing.
        let flat = Scsi { lun: Lun(0x4000 << 48), ..Scsi::write(0, 1) };
        let tag = peer.command(&flat).await;
        let (request, _) = next!(peer, R2t);
        assert_eq!(other.managed(Function::LOGICAL_UNIT_RESET, 0, NONE).await, Code::FUNCTION_COMPLETE);
        peer.answer(&request, &[1; BLOCK]).await;
        peer.is_well().await;
        assert_eq!(bed.on_volume(0, 1).await, [0; BLOCK]);
        let again = peer.managed(Function::ABORT_TASK, tag, NONE).await;
        assert_eq!(again, Code::TASK_DOES_NOT_EXIST);
    });
}

#[test]
fn a_cold_reset_is_answered_and_ends_all_sessions_of_the_target() {
    play(|bed| async move {
        let (peer, other) = (bed.log_in_as(1, "").await, bed.log_in_as(2, "").await);
        let elsewhere = bed.connect().await;
        elsewhere
            .log_in(Joining { isid: 3, target: Some(OTHER_TARGET), ..Joining::default() })
            .await
            .unwrap();
        assert_eq!(peer.managed(Function::TARGET_COLD_RESET, 0, NONE).await, Code::FUNCTION_COMPLETE);
        peer.ends().await;
        other.ends().await;
        elsewhere.is_well().await;
    });
}

#[test]
fn functions_for_a_unit_that_is_not_there_are_refused() {
    play(|bed| async move {
        let peer = bed.log_in("InitialR2T=Yes").await;
        let tag = peer.command(&Scsi::write(0, 1)).await;
        let (data, _) = next!(peer, R2t);
        for function in [
            Function::ABORT_TASK,
            Function::ABORT_TASK_SET,
            Function::CLEAR_TASK_SET,
            Function::LOGICAL_UNIT_RESET,
            Function::QUERY_TASK,
        ] {
            let request = TaskManagementRequest {
                immediate: Immediate(true),
                function,
                lun: Lun::from_index(3),
                initiator_task_tag: peer.next_tag(),
                referenced_task_tag: tag,
                cmd_sn: peer.cmd_sn(),
                ..TaskManagementRequest::default()
            };
            peer.send(InitiatorPdu::TaskManagementRequest(request), &[]).await;
            assert_eq!(next!(peer, TaskManagementResponse).0.response, Code::LUN_DOES_NOT_EXIST);
        }
        peer.answer(&data, &[1; BLOCK]).await;
        peer.good(tag).await;
    });
}

#[test]
fn tasks_can_be_asked_for_but_not_reassigned() {
    play(|bed| async move {
        let peer = bed.log_in("InitialR2T=Yes").await;
        assert_eq!(peer.managed(Function::QUERY_TASK_SET, 0, NONE).await, Code::FUNCTION_COMPLETE);
        let tag = peer.command(&Scsi::write(0, 1)).await;
        let (request, _) = next!(peer, R2t);
        for (function, task, code) in [
            (Function::QUERY_TASK, tag, Code::FUNCTION_SUCCEEDED),
            (Function::QUERY_TASK, tag + 1000, Code::FUNCTION_COMPLETE),
            (Function::QUERY_TASK_SET, 0, Code::FUNCTION_SUCCEEDED),
            (Function::TASK_REASSIGN, tag, Code::TASK_REASSIGNMENT_NOT_SUPPORTED),
            (Function::CLEAR_ACA, 0, Code::FUNCTION_NOT_SUPPORTED),
            (Function(99), 0, Code::FUNCTION_NOT_SUPPORTED),
        ] {
            assert_eq!(peer.managed(function, task, NONE).await, code, "{function:?}");
        }
        peer.answer(&request, &[1; BLOCK]).await;
        peer.good(tag).await;
    });
}

#[test]
fn what_an_aborted_read_still_waits_for_is_not_taken_for_a_later_command_in_its_place() {
    /// A place has had so many commands when the tags of its R2Ts repeat.
    const ROUND: u32 = 128;
    play(|bed| async move {
        let deaf = bed.log_in("InitialR2T=Yes ImmediateData=No").await;
        let other = deaf.join(1).await.unwrap();
        let read = Scsi::read(0, (TRANSFER_BYTES / BLOCK) as u32);
        let mut tags = Vec::new();
        for _ in 0..4 {
            tags.push(deaf.command(&read).await);
        }
        bed.settle().await;
        // The last one waits until what is before it has been taken.
        assert_eq!(other.managed(Function::ABORT_TASK, tags[3], NONE).await, Code::FUNCTION_COMPLETE);
        for _ in 1..ROUND {
            other.is_ready().await;
        }
        let tag = other.command(&Scsi::write(0, 1)).await;
        let (request, _) = next!(other, R2t);
        // Now that the connection goes nothing waits for it any more.
        let logout = LogoutRequest {
            immediate: Immediate(true),
            reason: LogoutReason::CLOSE_CONNECTION,
            initiator_task_tag: other.next_tag(),
            cid: deaf.cid.get(),
            cmd_sn: other.cmd_sn(),
            ..LogoutRequest::default()
        };
        other.send(InitiatorPdu::LogoutRequest(logout), &[]).await;
        next!(other, LogoutResponse);
        other.hears_nothing().await;
        other.answer(&request, &[1; BLOCK]).await;
        other.good(tag).await;
        assert_eq!(bed.on_volume(0, 1).await, [1; BLOCK]);
    });
}

#[test]
fn what_is_numbered_behind_the_clearing_of_a_task_set_is_carried_out() {
    play(|bed| async move {
        let peer = bed.log_in("InitialR2T=Yes").await;
        let cleared = peer.command(&Scsi::write(0, 1)).await;
        next!(peer, R2t);
        let number = peer.skip_cmd_sn();
        // Early, as it may be on another connection.
        let behind = peer.command(&Scsi::write(1, 1).with(&[2; BLOCK])).await;
        peer.is_well().await;
        let request = TaskManagementRequest {
            function: Function::CLEAR_TASK_SET,
            initiator_task_tag: peer.next_tag(),
            cmd_sn: number,
            ..TaskManagementRequest::default()
        };
        peer.send(InitiatorPdu::TaskManagementRequest(request), &[]).await;
        for _ in 0..2 {
            match peer.receive().await {
                (TargetPdu::ScsiResponse(response), _) => {
                    assert_eq!((response.initiator_task_tag, response.status), (behind, 0));
                }
                (TargetPdu::TaskManagementResponse(response), _) => {
                    assert_eq!(response.response, Code::FUNCTION_COMPLETE);
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(peer.managed(Function::QUERY_TASK, cleared, NONE).await, Code::FUNCTION_COMPLETE);
        assert_eq!(bed.on_volume(0, 2).await, [[0; BLOCK], [2; BLOCK]].concat());
    });
}

#[test]
fn an_immediate_function_is_answered_after_what_was_numbered_before_it() {
    for function in [Function::ABORT_TASK_SET, Function::CLEAR_TASK_SET, Function::LOGICAL_UNIT_RESET] {
        play(move |bed| async move {
            let one = bed.log_in("").await;
            let two = one.join(1).await.unwrap();
            // On its way on the other connection.
            let late = one.skip_cmd_sn();
            one.manage(function, 0, NONE).await;
            one.hears_nothing().await;
            two.command(&Scsi::write(0, 1).with(&[1; BLOCK]).numbered(late).tagged(77)).await;
            two.good(77).await;
            assert_eq!(next!(one, TaskManagementResponse).0.response, Code::FUNCTION_COMPLETE);
            assert_eq!(bed.on_volume(0, 1).await, [1; BLOCK]);
            // What may not have been sent yet, because the window has no room for it, is not waited for.
            let far = one.maximum().plus(2);
            let request = TaskManagementRequest {
                immediate: Immediate(true),
                function,
                initiator_task_tag: one.next_tag(),
                cmd_sn: far,
                ..TaskManagementRequest::default()
            };
            let (first, last) = (one.cmd_sn(), one.maximum());
            one.send(InitiatorPdu::TaskManagementRequest(request), &[]).await;
            let mut number = first;
            while number.precedes_or_equals(last) {
                let nop = Scsi { lun: Lun::from_index(3), ..Scsi::test_unit_ready() };
                one.command(&nop.numbered(number).tagged(1000 + number.0)).await;
                assert_eq!(one.sense().await, (5, 0x25));
                number = number.next();
            }
            assert_eq!(next!(one, TaskManagementResponse).0.response, Code::FUNCTION_COMPLETE);
        });
    }
}

#[test]
fn a_function_does_not_wait_for_ever_for_a_number_that_never_comes() {
    play(|bed| async move {
        let peer = bed.log_in("InitialR2T=Yes").await;
        let tag = peer.command(&Scsi::write(0, 1)).await;
        let (request, _) = next!(peer, R2t);
        let never = peer.skip_cmd_sn();
        peer.manage(Function::LOGICAL_UNIT_RESET, 0, NONE).await;
        bed.pass(CATCH_UP * 2).await;
        assert_eq!(next!(peer, TaskManagementResponse).0.response, Code::FUNCTION_REJECTED);
        // Nothing was done, and all goes on.
        peer.answer(&request, &[1; BLOCK]).await;
        peer.good(tag).await;
        peer.command(&Scsi::test_unit_ready().numbered(never).tagged(99)).await;
        peer.good(99).await;
        assert_eq!(peer.managed(Function::LOGICAL_UNIT_RESET, 0, NONE).await, Code::FUNCTION_COMPLETE);
        peer.take_attention(0x29).await;
    });
}

#[test]
fn what_waits_within_a_limit_is_aborted_at_once() {
    let limits = Limits { iops: Some(1), bytes_per_second: None };
    let stage = Stage { limits, ..Stage::new() };
    stage.play(|bed| async move {
        let peer = bed.log_in("").await;
        let mut tags = Vec::new();
        for lba in 0..60 {
            tags.push(peer.command(&Scsi::write(lba, 1).with(&[1; BLOCK])).await);
        }
        peer.good(tags[0]).await;
        assert_eq!(peer.managed(Function::LOGICAL_UNIT_RESET, 0, NONE).await, Code::FUNCTION_COMPLETE);
        peer.take_attention(0x29).await;
        // What was not carried out does not count, and never comes.
        assert_eq!(peer.write(50, &[2; BLOCK]).await.status, 0);
        bed.pass(Duration::from_secs(70)).await;
        assert_eq!(bed.on_volume(50, 2).await, [[2; BLOCK], [0; BLOCK]].concat());
    });
}
