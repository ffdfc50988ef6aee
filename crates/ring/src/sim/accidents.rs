//! What befalls the disk of a node: errors, lies, and files that go away.
//!
//! A lie strikes an operation at its end. What is in flight when its process or the power goes is resolved as any other.

use std::ops::Range;
use std::path::Path;

use super::faults::{Fault, Plant};
use super::node::Node;

impl Node {
    /// Reads that touch `bytes` of the file fail with EIO.
    pub fn fail_reads(&self, path: &Path, bytes: Range<u64>) {
        self.plant(path, Fault::FailReads, bytes, None);
    }

    /// Reads that touch a sector of `bytes` of the file fail with EIO until it is written whole, or punched, or zeroed, as
    /// sectors do that a disk cannot read any more and gives another place to when they are written. Sectors that a power
    /// cut takes the write from again stay readable; what was in flight then has mended nothing.
    pub fn fail_reads_until_written(&self, path: &Path, bytes: Range<u64>) {
        self.with_file(path, |file, sector| {
            let sector = sector as u64;
            let end = bytes.end.min(i64::MAX as u64).div_ceil(sector) * sector;
            let bytes = bytes.start / sector * sector..end;
            file.faults.plant(Fault::FailReadsUntilWritten, bytes, None);
        });
    }

    /// The next `count` reads that touch `bytes` of the file give one bit of them wrong. The disk holds what it should.
    pub fn misread(&self, path: &Path, bytes: Range<u64>, count: u32) {
        self.plant(path, Fault::Misread, bytes, Some(count));
    }

    /// Writes, punches and zeroings that touch `bytes` of the file fail with EIO.
    pub fn fail_writes(&self, path: &Path, bytes: Range<u64>) {
        self.plant(path, Fault::FailWrites, bytes, None);
    }

    /// The next `count` writes that touch `bytes` of the file are acknowledged, durable ones and their flushes too, and
    /// nothing of them happens, but that the file is as long as it should be. Punches and zeroings are honest.
    pub fn drop_writes(&self, path: &Path, bytes: Range<u64>, count: u32) {
        self.plant(path, Fault::DropWrites, bytes, Some(count));
    }

    /// The next `count` writes that touch `bytes` of the file are acknowledged and land `distance` bytes, whole sectors,
    /// from where they belong. What would land outside of the file is lost.
    pub fn misdirect_writes(&self, path: &Path, bytes: Range<u64>, distance: i64, count: u32) {
        self.with_file(path, |file, sector| {
            assert!(distance % sector as i64 == 0, "{distance} bytes are no whole sectors");
            file.faults.plant(Fault::MisdirectWrites { distance }, bytes, Some(count));
        });
    }

    /// Flushes of the file fail with EIO. As on Linux, what they should have made durable then reads well, is not
    /// flushed by later ones, and is gone after a power cut.
    pub fn fail_flushes(&self, path: &Path) {
        self.plant(path, Fault::FailFlushes, 0..u64::MAX, None);
    }

    /// Ends the faults of operations that were planted in the file, whether they have struck or not. What they have done
    /// stays: see [`Node::damage`].
    pub fn repair(&self, path: &Path) {
        self.with_file(path, |file, _| file.faults.end());
    }

    /// Turns over one bit of the file at `offset`, as a disk does that lies. False when there is a hole.
    pub fn flip_bit(&self, path: &Path, offset: u64, bit: u8) -> bool {
        self.with_file(path, |file, _| {
            let flipped = file.medium.flip(offset, bit);
            if flipped {
                file.faults.done(Fault::FlipBit { bit: bit & 7 }, offset..offset + 1);
            }
            flipped
        })
    }

    /// Puts other bytes in the place of `bytes` of the file, as far as it reaches, as a disk does that lies: none is what
    /// it was, all are durable, and holes become data.
    pub fn corrupt(&self, path: &Path, bytes: Range<u64>) {
        self.world().with(|state| {
            let disk = &mut state.nodes[self.index()].disk;
            let file = disk.make(path);
            let file = &mut disk.files[file];
            let bytes = file.medium.corrupt(bytes, &mut disk.fault_random);
            file.faults.done(Fault::Corrupt, bytes);
        });
    }

    /// What was planted in the file, oldest first, with what has come of it: none when there is no such file.
    pub fn planted(&self, path: &Path) -> Vec<Plant> {
        self.look(path, |file, _| file.faults.plants.clone()).unwrap_or_default()
    }

    /// The sectors of the file in which reads see other bytes than an honest disk would give, without those that cannot
    /// be read: in bytes, in order, joined where they touch, the last one cut at the end of the file.
    ///
    /// That is what dropped writes left stale, both ends of misdirected ones, flipped bits and corrupted ranges, until an
    /// honest change goes over them; a lie that leaves the right bytes by chance is none. After a power cut an honest disk
    /// could hold one of several versions of a sector that was not flushed: it is damaged if it holds none of them, and
    /// then until it is changed, whatever it held before.
    pub fn damage(&self, path: &Path) -> Vec<Range<u64>> {
        self.look(path, |file, sector| file.medium.damage(sector)).unwrap_or_default()
    }

    /// The file is gone, as a disk that is pulled out: what is in flight on it, and all operations that begin, end with
    /// EIO, also by descriptors that are open (only their locks still work), and it is opened with ENXIO, until
    /// [`Node::attach`]. What it held and was not flushed, or in flight, is kept or lost as in a power cut.
    pub fn detach(&self, path: &Path) {
        self.set_detached(path, true);
    }

    /// Undoes [`Node::detach`]: descriptors that are still open work again.
    pub fn attach(&self, path: &Path) {
        self.set_detached(path, false);
    }

    fn set_detached(&self, path: &Path, detached: bool) {
        self.world().with(|state| {
            let file = state.nodes[self.index()].disk.make(path);
            state.set_detached(self.index(), file, detached);
        });
    }

    /// Operations on the file that begin from now on take `factor` times as long as usual; 1 is the usual.
    pub fn slow_down(&self, path: &Path, factor: u32) {
        self.with_file(path, |file, _| file.faults.slowness = factor);
    }

    /// The file is a device from now on, with logical blocks of `block` bytes: as of Linux's, punches and zeroings of parts of
    /// blocks are refused with EINVAL.
    pub fn make_device(&self, path: &Path, block: u64) {
        self.with_file(path, |file, _| file.faults.device_block = block);
    }

    /// Operations on the file do not end until [`Node::release`].
    pub fn stall(&self, path: &Path) {
        self.set_stalled(path, true);
    }

    /// Undoes [`Node::stall`].
    pub fn release(&self, path: &Path) {
        self.set_stalled(path, false);
    }

    fn set_stalled(&self, path: &Path, stalled: bool) {
        self.world().with(|state| {
            let file = state.nodes[self.index()].disk.make(path);
            state.stall(self.index(), file, stalled);
        });
    }

    fn plant(&self, path: &Path, fault: Fault, bytes: Range<u64>, left: Option<u32>) {
        self.with_file(path, |file, _| file.faults.plant(fault, bytes, left));
    }
}
