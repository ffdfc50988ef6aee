//! What was agreed on at login is kept: how data moves, how it is cut, digests.

use wire::iscsi::{DataInFlags, SerialNumber};

use super::bed::{BLOCK, play};
use super::peer::{Scsi, next, pattern};

const KIB: usize = 1024;

#[test]
fn without_initial_r2t_data_comes_in_the_command_and_behind_it() {
    play(|bed| async move {
        let peer = bed.log_in("InitialR2T=No ImmediateData=Yes FirstBurstLength=8192").await;
        let data = pattern(1, 16 * KIB);
        let tag = peer.command(&Scsi::write(0, 32).with(&data[..4096]).unsolicited()).await;
        peer.data_out(tag, None, 0, 4096, &data[4096..8192], true).await;
        let (request, _) = next!(peer, R2t);
        assert_eq!((request.buffer_offset, request.desired_data_transfer_length), (8192, 8192));
        peer.answer(&request, &data).await;
        peer.good(tag).await;
        assert_eq!(bed.on_volume(0, 32).await, data);
    });
}
