//! The order of commands: `CmdSN`, the window, immediate commands.

use wire::iscsi::RejectReason;

use super::bed::{play, play_with_file};
use super::peer::{FIRST, Scsi, next};
use crate::limits::COMMAND_WINDOW;

#[test]
fn commands_outside_of_the_window_are_ignored() {
    play(|bed| async move {
        let peer = bed.log_in("").await;
        assert_eq!(peer.maximum().since(peer.expected()), COMMAND_WINDOW - 1);
        let (old, far) = (peer.expected().minus(1), peer.maximum().next());
        for number in [old, far] {
            peer.command(&Scsi::test_unit_ready().numbered(number)).await;
            peer.command(&Scsi::write(0, 1).with(&[1; 512]).numbered(number)).await;
        }
        peer.is_well().await;
        peer.hears_nothing().await;
        peer.is_ready().await;
        assert_eq!(bed.on_volume(0, 1).await, [0; 512]);
    });
}

#[test]
fn a_number_that_comes_again_is_ignored() {
    play(|bed| async move {
        let peer = bed.log_in("").await;
        let number = peer.skip_cmd_sn();
        let held = peer.skip_cmd_sn();
        peer.command(&Scsi::test_unit_ready().numbered(held).tagged(50)).await;
        peer.command(&Scsi::test_unit_ready().numbered(held).tagged(51)).await;
        peer.command(&Scsi::test_unit_ready().numbered(number).tagged(52)).await;
        peer.command(&Scsi::test_unit_ready().numbered(number).tagged(53)).await;
        peer.good(52).await;
        peer.good(50).await;
        peer.hears_nothing().await;
        // Nothing of the others is kept: their tags are free.
        for tag in [51, 53] {
            peer.command(&Scsi::test_unit_ready().tagged(tag)).await;
            peer.good(tag).await;
        }
    });
}

#[test]
fn a_gap_holds_what_is_behind_it() {
    play(|bed| async move {
        let peer = bed.log_in("").await;
        let numbers: Vec<_> = (0..4).map(|_| peer.skip_cmd_sn()).collect();
        for at in [3, 1, 2] {
            peer.command(&Scsi::write(0, 1).with(&[at as u8; 512]).numbered(numbers[at]).tagged(at as u32))
                .await;
        }
        peer.hears_nothing().await;
        assert_eq!(bed.on_volume(0, 1).await, [0; 512]);
        peer.command(&Scsi::test_unit_ready().numbered(numbers[0]).tagged(0)).await;
        for tag in 0..4 {
            let response = peer.good(tag).await;
            assert!(numbers[tag as usize].precedes(response.exp_cmd_sn));
        }
        assert_eq!(bed.on_volume(0, 1).await, [3; 512]);
    });
}

#[test]
fn a_write_that_is_done_at_once_lets_go_what_is_behind_it() {
    play(|bed| async move {
        let peer = bed.log_in("").await;
        let numbers: Vec<_> = (0..3).map(|_| peer.skip_cmd_sn()).collect();
        for at in [2, 1, 0] {
            peer.command(&Scsi::write(0, 1).with(&[at as u8; 512]).numbered(numbers[at]).tagged(at as u32))
                .await;
        }
        for tag in 0..3 {
            let response = peer.good(tag).await;
            assert!(numbers[tag as usize].precedes(response.exp_cmd_sn));
        }
        peer.is_well().await;
        assert_eq!(peer.maximum().since(peer.expected()), COMMAND_WINDOW - 1, "the window is open again");
        assert_eq!(bed.on_volume(0, 1).await, [2; 512]);
    });
}

#[test]
fn the_order_holds_over_two_connections() {
    play(|bed| async move {
        let one = bed.log_in("").await;
        let two = one.join(1).await.unwrap();
        let (first, second, third) = (one.skip_cmd_sn(), one.skip_cmd_sn(), one.skip_cmd_sn());
        two.command(&Scsi::test_unit_ready().numbered(second).tagged(2)).await;
        one.command(&Scsi::test_unit_ready().numbered(third).tagged(3)).await;
        two.hears_nothing().await;
        one.command(&Scsi::test_unit_ready().numbered(first).tagged(1)).await;
        two.good(2).await;
        one.good(1).await;
        one.good(3).await;
    });
}

#[test]
fn the_window_closes_with_commands_under_way_and_opens_as_they_end() {
    play_with_file(|bed| async move {
        let peer = bed.log_in("").await;
        bed.stall();
        let window = COMMAND_WINDOW;
        for lba in 0..window {
            peer.command(&Scsi::read(lba.into(), 1)).await;
        }
        peer.is_well().await;
        assert_eq!(peer.expected(), peer.maximum().next(), "closed");
        let beyond = peer.cmd_sn();
        peer.command(&Scsi::test_unit_ready().numbered(beyond).tagged(9999)).await;
        peer.is_well().await;
        bed.release();
        for _ in 0..window {
            next!(peer, DataIn);
        }
        peer.hears_nothing().await;
        // The last Data-In was made before its own place was free.
        peer.is_ready().await;
        assert_eq!(peer.maximum().since(peer.expected()), window - 1, "open again");
    });
}

#[test]
fn what_could_be_done_at_once_is_ignored_while_the_window_is_closed() {
    play(|bed| async move {
        let peer = bed.log_in("InitialR2T=Yes ImmediateData=No").await;
        peer.write(0, &[1; 512]).await;
        let mut requests = Vec::new();
        for lba in 0..COMMAND_WINDOW {
            peer.command(&Scsi::write(lba.into(), 1)).await;
            requests.push(next!(peer, R2t).0);
        }
        peer.is_well().await;
        assert_eq!(peer.expected(), peer.maximum().next(), "closed");
        let beyond = peer.cmd_sn();
        peer.command(&Scsi::read(0, 1).numbered(beyond).tagged(9999)).await;
        peer.is_well().await;
        peer.hears_nothing().await;
        for request in &requests {
            peer.data_out(request.initiator_task_tag, Some(request), 0, 0, &[1; 512], true).await;
            peer.good(request.initiator_task_tag).await;
        }
        peer.is_ready().await;
        assert_eq!(peer.maximum().since(peer.expected()), COMMAND_WINDOW - 1, "open again");
    });
}

#[test]
fn immediate_commands_wait_for_nobody_and_take_no_number() {
    play(|bed| async move {
        let peer = bed.log_in("").await;
        let missing = peer.skip_cmd_sn();
        let held = peer.command(&Scsi::test_unit_ready()).await;
        let (expected, maximum) = (peer.expected(), peer.maximum());
        let tag = peer.command(&Scsi::test_unit_ready().immediate()).await;
        peer.good(tag).await;
        assert_eq!((peer.expected(), peer.maximum()), (expected, maximum));
        peer.command(&Scsi::test_unit_ready().numbered(missing).tagged(99)).await;
        peer.good(99).await;
        peer.good(held).await;
        assert_eq!(peer.expected().since(expected), 2);
        assert_eq!(peer.maximum().since(maximum), 2);
    });
}

#[test]
fn pings_are_numbered_too() {
    play(|bed| async move {
        let peer = bed.log_in("").await;
        let missing = peer.skip_cmd_sn();
        let tag = peer.ping(b"in turn", false).await;
        peer.hears_nothing().await;
        peer.command(&Scsi::test_unit_ready().numbered(missing).tagged(99)).await;
        peer.good(99).await;
        let (nop, data) = next!(peer, NopIn);
        assert_eq!((nop.initiator_task_tag, &data[..]), (tag, &b"in turn"[..]));
        assert_eq!(nop.exp_cmd_sn.since(FIRST.into()), 3);
    });
}

#[test]
fn a_tag_in_use_is_rejected_and_its_number_does_not_block_the_rest() {
    play(|bed| async move {
        let peer = bed.log_in("InitialR2T=Yes").await;
        let tag = peer.command(&Scsi::write(0, 1)).await;
        let (request, _) = next!(peer, R2t);
        peer.command(&Scsi::test_unit_ready().tagged(tag)).await;
        let (reject, header) = next!(peer, Reject);
        assert_eq!((reject.reason, header.len()), (RejectReason::TASK_IN_PROGRESS, 48));
        peer.is_ready().await;
        peer.answer(&request, &[1; 512]).await;
        peer.good(tag).await;
    });
}
