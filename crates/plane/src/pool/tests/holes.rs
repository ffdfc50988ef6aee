//! What a pool says of blocks that were never written.

use super::bed::Bed;
use crate::disk::Disk;
use crate::pool::Level;
use crate::request::Extent;

/// The table of a member that is out is not there: its entries look as if nothing was ever written, and what lies on the
/// others is no hole. NBD answered reads of such blocks with holes.
#[test]
fn blocks_of_a_member_that_is_out_are_no_holes() {
    for (level, slots) in [(Level::Raid1, 2), (Level::Raid10, 4), (Level::Raid5, 4), (Level::Raid6, 5)] {
        for slot in 0..slots {
            let mut bed = Bed::new(11, level, slots, 16 << 10);
            let bytes = vec![0x37; bed.volume as usize / 2];
            bed.write(0, &bytes).unwrap();
            bed.settle();
            let behind = Extent::new(bed.volume - 4096, 4096);
            assert!(!bed.disk().allocation(behind).unwrap().mapped, "{level}: nothing was written there");
            bed.kill();
            bed.machine.detach(&bed.path(slot));
            bed.start().unwrap();
            let (mut offset, end) = (0, bytes.len() as u64);
            while offset < end {
                let run = bed.disk().allocation(Extent::new(offset, end - offset)).unwrap();
                assert!(run.mapped, "{level} without {slot}: a hole at {offset}");
                offset += run.length;
            }
        }
    }
}
