//! How a connection begins, and what is said when it begins wrongly.

use std::time::Duration;

use wire::nvme::fabrics::{Connect, ConnectAttributes, InvalidParameter};
use wire::nvme::tcp::{DigestFlags, FatalError, ICReq};
use wire::nvme::{CNTLID_DYNAMIC, Status};

use super::bed::{Bed, play};
use super::host::{Host, Received};

async fn refused(bed: &Bed, change: impl FnOnce(&mut [u8; 128]), error: FatalError) {
    let host = Host::open(bed).await;
    let mut bytes = [0; 128];
    ICReq::new(0, DigestFlags::empty(), 0).encode(&mut bytes);
    change(&mut bytes);
    host.send(&bytes).await;
    assert_eq!(host.next().await, Received::Terminated(error));
    assert_eq!(host.next().await, Received::Closed);
}

#[test]
fn a_wrong_first_pdu_is_answered_with_the_status_that_the_standard_names() {
    play(|bed| async move {
        refused(&bed, |bytes| bytes[8] = 1, FatalError::unsupported(8)).await;
        refused(&bed, |bytes| bytes[10] = 32, FatalError::field(10)).await;
        refused(&bed, |bytes| bytes[2] = 127, FatalError::field(2)).await;
        refused(&bed, |bytes| bytes[4] = 129, FatalError::field(4)).await;
        refused(&bed, |bytes| bytes[0] = 9, FatalError::field(0)).await;
        let capsule = |bytes: &mut [u8; 128]| bytes[..8].copy_from_slice(&[4, 0, 72, 0, 72, 0, 0, 0]);
        refused(&bed, capsule, FatalError::SEQUENCE).await;
    });
}

#[test]
fn a_connect_that_names_what_is_not_there_is_told_which_field_is_wrong() {
    play(|bed| async move {
        let refused = async |connect: Connect, cntlid, parameter: InvalidParameter| {
            let host = Host::initialized(&bed, DigestFlags::empty()).await;
            let completion = host.connect(connect, cntlid).await;
            assert_eq!(completion.status, Status::CONNECT_INVALID_PARAMETERS.do_not_retry());
            assert_eq!(InvalidParameter::from_result(completion.result), parameter);
            assert_eq!(host.next().await, Received::Closed);
        };
        let (_admin, cntlid) = Host::admin(&bed, 0).await;
        let good = Connect { sqsize: 31, ..Connect::default() };
        refused(Connect { sqsize: 0, ..good }, CNTLID_DYNAMIC, InvalidParameter::SQSIZE).await;
        refused(Connect { sqsize: 1024, ..good }, CNTLID_DYNAMIC, InvalidParameter::SQSIZE).await;
        refused(good, cntlid, InvalidParameter::CNTLID).await;
        refused(Connect { qid: 1, ..good }, cntlid + 1, InvalidParameter::CNTLID).await;
        refused(Connect { qid: 4711, ..good }, cntlid, InvalidParameter::QID).await;
        let _queue = Host::io(&bed, cntlid, DigestFlags::empty()).await;
        for _ in 0..3 {
            // Who is refused does not free the number of the one who has it.
            refused(Connect { qid: 1, ..good }, cntlid, InvalidParameter::QID).await;
        }
    });
}

#[test]
fn a_host_that_does_without_flow_control_is_told_that_the_controller_does_too() {
    play(|bed| async move {
        let host = Host::initialized(&bed, DigestFlags::empty()).await;
        let cattr = ConnectAttributes::DISABLE_SQ_FLOW_CONTROL;
        let connect = Connect { sqsize: 31, cattr, ..Connect::default() };
        assert_eq!(host.connect(connect, CNTLID_DYNAMIC).await.sqhd, u16::MAX);
    });
}

#[test]
fn hosts_with_one_queue_each_are_spread_evenly_over_the_cores() {
    play(|bed| async move {
        let queues = || -> Vec<usize> { bed.cores.iter().map(|core| core.nvme.queues().len()).collect() };
        let mut hosts = Vec::new();
        for count in 1..=8 {
            let (before, (admin, cntlid)) = (queues(), Host::admin(&bed, 0).await);
            let queue = Host::io(&bed, cntlid, DigestFlags::empty()).await;
            let now = queues();
            assert!(now[0].abs_diff(now[1]) <= 1, "{now:?} after {count} hosts");
            hosts.push((usize::from(now[1] > before[1]), admin, queue));
        }
        // Those of one core go; the next ones fill it again.
        hosts.retain(|(core, _, _)| *core == 0);
        bed.pass(Duration::from_secs(1)).await;
        assert_eq!(queues(), [4, 0]);
        for _ in 0..4 {
            let (admin, cntlid) = Host::admin(&bed, 0).await;
            hosts.push((1, admin, Host::io(&bed, cntlid, DigestFlags::empty()).await));
        }
        assert_eq!(queues(), [4, 4]);
    });
}
