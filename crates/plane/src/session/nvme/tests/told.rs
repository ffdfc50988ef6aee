//! What a controller tells of what happened: counters, the last errors, what it can do.

use wire::nvme::admin::log::{
    CommandEffects, EFFECTS_LENGTH, ErrorEntry, GetLogPage, LogPage, SmartLog, admin_effects, io_effects,
    read_effects,
};
use wire::nvme::admin::{Opcode as Admin, command as admin_command};
use wire::nvme::io::{BlockRange, Opcode, command};
use wire::nvme::tcp::DigestFlags;
use wire::nvme::{Command, Fuse, SglDescriptor, Status};

use super::bed::{BLOCK, BLOCKS, SUBSYSTEM, play};
use super::host::Host;
use crate::error::ErrorKind;
use crate::layers::Fault;
use crate::request::{Extent, Verb};

const DONE: Status = Status::SUCCESSFUL_COMPLETION;

async fn smart(admin: &Host) -> SmartLog {
    SmartLog::decode(admin.log(LogPage::SMART, 512, false).await.first_chunk().unwrap())
}

async fn errors(admin: &Host) -> Vec<ErrorEntry> {
    let page = admin.log(LogPage::ERROR, 16 * 64, false).await;
    let (entries, _) = page.as_chunks();
    entries.iter().map(ErrorEntry::decode).take_while(|entry| entry.error_count > 0).collect()
}

#[test]
fn counters_of_all_cores_are_summed_and_outlive_their_queues() {
    play(|bed| async move {
        let (admin, cntlid) = Host::admin(&bed, 0).await;
        let before = smart(&admin).await;
        assert_eq!(
            (before.host_read_commands, before.host_write_commands, before.data_units_read),
            (0, 0, 0)
        );
        for qid in 1..=2 {
            let host = Host::initialized(&bed, DigestFlags::empty()).await;
            host.join(SUBSYSTEM, cntlid, qid).await;
            for _ in 0..50 {
                host.blocks(Opcode::WRITE, 0, &[1; BLOCK * 16], true, Fuse::Normal).await;
                assert_eq!(host.completed().await.status, DONE);
            }
            host.read(0, 16).await;
            host.blocks(Opcode::COMPARE, 0, &[1; BLOCK * 16], true, Fuse::Normal).await;
            assert_eq!(host.completed().await.status, DONE);
        }
        let after = smart(&admin).await;
        assert_eq!((after.host_read_commands, after.host_write_commands), (4, 100));
        // Thousands of 512 bytes, rounded up.
        assert_eq!((after.data_units_read, after.data_units_written), (1, 2));
        let namespace = GetLogPage { nsid: 1, ..GetLogPage::new(LogPage::SMART, 0, 512) };
        let refused = Status::INVALID_FIELD_IN_COMMAND.do_not_retry();
        assert_eq!(admin.fetch(namespace.command(0)).await, Err(refused), "there is none for one namespace");
    });
}

#[test]
fn the_last_errors_of_every_queue_are_in_the_error_log_newest_first() {
    play(|bed| async move {
        let (admin, cntlid) = Host::admin(&bed, 0).await;
        let host = Host::io(&bed, cntlid, DigestFlags::empty()).await;
        assert!(errors(&admin).await.is_empty());
        let refused = admin.ask(admin_command(Admin::FORMAT_NVM, 0)).await;
        let cid = host.blocks(Opcode::READ, BLOCKS, &[0; BLOCK], false, Fuse::Normal).await;
        assert_eq!(host.completed().await.status, Status::LBA_OUT_OF_RANGE.do_not_retry());
        let found = errors(&admin).await;
        let [newest, oldest] = &found[..] else { panic!("{found:?}") };
        assert_eq!((newest.error_count, newest.sqid, newest.cid, newest.lba), (2, 1, cid, BLOCKS));
        assert_eq!((newest.status, newest.nsid), (Status::LBA_OUT_OF_RANGE.do_not_retry(), 1));
        assert_eq!((newest.opcode, newest.parameter_error_location), (Opcode::READ.0, 40));
        assert_eq!((oldest.error_count, oldest.sqid, oldest.cid), (1, 0, refused.cid));
        assert_eq!((oldest.opcode, oldest.status), (Admin::FORMAT_NVM.0, refused.status));
        for _ in 0..20 {
            host.ask(command(Opcode(0x55), 0, 1)).await;
        }
        let found = errors(&admin).await;
        assert_eq!((found.len(), found[0].error_count, found[15].error_count), (16, 22, 7));
        assert_eq!(smart(&admin).await.error_log_entries, 22);
    });
}

#[test]
fn what_the_medium_cannot_give_is_said_and_counted() {
    play(|bed| async move {
        let (admin, cntlid) = Host::admin(&bed, 0).await;
        let host = Host::io(&bed, cntlid, DigestFlags::empty()).await;
        let fault = |verb, kind| Fault { verb, extent: Extent::new(100 * BLOCK as u64, BLOCK as u64), kind };
        bed.faults.plant(fault(Verb::Read, ErrorKind::Medium));
        bed.faults.plant(fault(Verb::Write, ErrorKind::Write));
        let unreadable = Status::UNRECOVERED_READ_ERROR.do_not_retry();
        let range = |slba, nlb| BlockRange { slba, nlb, ..BlockRange::default() };
        let verify = |slba, nlb| range(slba, nlb).command(Opcode::VERIFY, 0, 1, SglDescriptor::NOTHING);
        assert_eq!(host.ask(verify(0, 99)).await.status, DONE);
        assert_eq!(host.ask(verify(0, 100)).await.status, unreadable);
        assert_eq!(host.ask(verify(101, 5000)).await.status, DONE);
        let read = range(100, 0).command(Opcode::READ, 0, 1, SglDescriptor::transport(BLOCK as u32));
        assert_eq!(host.fetch(read).await, Err(unreadable));
        host.blocks(Opcode::COMPARE, 100, &[0; BLOCK], true, Fuse::Normal).await;
        assert_eq!(host.completed().await.status, unreadable);
        host.blocks(Opcode::WRITE, 100, &[0; BLOCK], true, Fuse::Normal).await;
        assert_eq!(host.completed().await.status, Status::WRITE_FAULT.do_not_retry());
        assert_eq!(smart(&admin).await.media_errors, 4);
        bed.faults.clear();
        host.blocks(Opcode::COMPARE, 100, &[1; BLOCK], true, Fuse::Normal).await;
        assert_eq!(host.completed().await.status, Status::COMPARE_FAILURE.do_not_retry());
        assert_eq!(smart(&admin).await.media_errors, 4, "a miscompare is not the medium's");
    });
}

#[test]
fn every_command_that_is_not_in_the_effects_page_is_refused_and_every_other_is_known() {
    play(|bed| async move {
        let (admin, cntlid) = Host::admin(&bed, 0).await;
        let host = Host::io(&bed, cntlid, DigestFlags::empty()).await;
        let page = admin.log(LogPage::COMMAND_EFFECTS, EFFECTS_LENGTH as u32, false).await;
        let page = page.first_chunk().unwrap();
        let unknown = Status::INVALID_COMMAND_OPCODE.do_not_retry();
        for opcode in (0..=u8::MAX).filter(|opcode| *opcode != 0x7f) {
            // An Asynchronous Event Request is not answered.
            let waits = opcode == Admin::ASYNCHRONOUS_EVENT_REQUEST.0;
            let supported = read_effects(page, admin_effects(opcode)).contains(CommandEffects::SUPPORTED);
            if waits {
                assert!(supported);
                continue;
            }
            let command = |nsid| Command { opcode, nsid, ..admin_command(Admin::IDENTIFY, 0) };
            let known = admin.fetch(command(0)).await != Err(unknown);
            assert_eq!(known, supported, "admin opcode {opcode:#x}");
            let supported = read_effects(page, io_effects(opcode)).contains(CommandEffects::SUPPORTED);
            let known = host.fetch(command(1)).await != Err(unknown);
            assert_eq!(known, supported, "I/O opcode {opcode:#x}");
        }
        for opcode in [
            Opcode::RESERVATION_REGISTER,
            Opcode::RESERVATION_REPORT,
            Opcode::RESERVATION_ACQUIRE,
            Opcode::RESERVATION_RELEASE,
        ] {
            assert_eq!(host.ask(command(opcode, 0, 1)).await.status, unknown);
        }
    });
}
