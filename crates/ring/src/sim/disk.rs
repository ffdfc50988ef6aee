//! The simulated disk of a node: its files, what is in flight on them, and what is wrong with them.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};

use super::content::{CHUNK, Source, Tearing, Write};
use super::faults::{Fault, Faults};
use super::medium::Medium;
use super::settings::draw;
use super::state::{Caller, Event, Object, State};
use crate::file::FileOptions;
use crate::op::{Allocate, Operation};

/// The files of one node, kept while its processes come and go.
pub(super) struct Disk {
    paths: BTreeMap<PathBuf, usize>,
    pub(super) files: Vec<DiskFile>,
    /// Bytes of space in all; none without a limit.
    pub(super) capacity: Option<u64>,
    next_id: u64,
    random: fastrand::Rng,
    /// Of power cuts and other accidents.
    pub(super) fault_random: fastrand::Rng,
}

#[derive(Default)]
pub(super) struct DiskFile {
    pub(super) medium: Medium,
    in_flight: BTreeMap<u64, InFlight>,
    /// Done but for the word: the file is stalled.
    held: Vec<u64>,
    lock: Option<RawFd>,
    pub(super) faults: Faults,
}

struct InFlight {
    caller: Caller,
    operation: DiskOperation,
}

enum DiskOperation {
    Read { offset: u64, length: usize },
    Write { offset: u64, bytes: Vec<u8>, durable: bool },
    Flush { sequence: u64 },
    Allocate { mode: Allocate, offset: u64, length: u64 },
}

fn errno(code: i32) -> io::Error {
    io::Error::from_raw_os_error(code)
}

impl Disk {
    pub(super) fn new(random: fastrand::Rng, fault_random: fastrand::Rng) -> Disk {
        Disk { paths: BTreeMap::new(), files: Vec::new(), capacity: None, next_id: 0, random, fault_random }
    }

    pub(super) fn find(&self, path: &Path) -> Option<usize> {
        self.paths.get(path).copied()
    }

    pub(super) fn make(&mut self, path: &Path) -> usize {
        self.find(path).unwrap_or_else(|| {
            self.files.push(DiskFile::default());
            self.paths.insert(path.to_owned(), self.files.len() - 1);
            self.files.len() - 1
        })
    }

    /// The name goes; who has the file open keeps it.
    pub(super) fn remove(&mut self, path: &Path) -> bool {
        self.paths.remove(path).is_some()
    }

    /// Bytes that may still be given to files.
    fn room(&self) -> u64 {
        let used: u64 = self.files.iter().map(|file| file.medium.content().allocated() * CHUNK as u64).sum();
        self.capacity.map_or(u64::MAX, |capacity| capacity.saturating_sub(used))
    }

    /// How much of a range from its start can have space.
    fn fitting(&self, file: usize, offset: u64, length: u64) -> u64 {
        if self.capacity.is_none() {
            return length;
        }
        let (mut room, chunk_bytes) = (self.room(), CHUNK as u64);
        let end = offset + length;
        for chunk in offset / chunk_bytes..end.div_ceil(chunk_bytes) {
            if self.files[file].medium.content().has_space(chunk) {
                continue;
            }
            if room < chunk_bytes {
                return (chunk * chunk_bytes).saturating_sub(offset);
            }
            room -= chunk_bytes;
        }
        length
    }

    fn perform(&mut self, file: usize, operation: DiskOperation, sector: usize) -> (i32, Vec<u8>) {
        match operation {
            DiskOperation::Read { offset, length } => {
                self.files[file].read(offset, length, &mut self.fault_random)
            }
            DiskOperation::Write { offset, bytes, durable } => {
                let fitting = self.fitting(file, offset, bytes.len() as u64) as usize;
                if fitting == 0 && !bytes.is_empty() {
                    return (-libc::ENOSPC, Vec::new());
                }
                let file = &mut self.files[file];
                if file
                    .faults
                    .strike(offset, bytes.len() as u64, |fault| fault == Fault::FailWrites)
                    .is_some()
                {
                    // What a failed write leaves is old or new, sector by sector.
                    let tearing = Tearing { sector, within_sectors: false };
                    file.medium.befall(&mut self.fault_random, |content, random| {
                        content.interrupt(offset, Source::Bytes(&bytes), random, tearing, false);
                    });
                    return (-libc::EIO, Vec::new());
                }
                file.write(Write { offset, bytes: &bytes[..fitting], durable, sector });
                (fitting as i32, Vec::new())
            }
            DiskOperation::Flush { sequence } => {
                let file = &mut self.files[file];
                if file.faults.strike(0, u64::MAX, |fault| fault == Fault::FailFlushes).is_some() {
                    file.medium.change(|content| content.fail_flush(sequence));
                    return (-libc::EIO, Vec::new());
                }
                file.medium.change(|content| content.flush(sequence));
                (0, Vec::new())
            }
            DiskOperation::Allocate { mode, offset, length } => {
                (self.allocate(file, mode, offset, length, sector), Vec::new())
            }
        }
    }

    fn allocate(&mut self, file: usize, mode: Allocate, offset: u64, length: u64, sector: usize) -> i32 {
        if mode != Allocate::Punch && self.fitting(file, offset, length) < length {
            return -libc::ENOSPC;
        }
        let file = &mut self.files[file];
        let block = file.faults.device_block.max(1);
        if !offset.is_multiple_of(block) || !length.is_multiple_of(block) {
            return -libc::EINVAL;
        }
        if mode == Allocate::Reserve {
            file.medium.change(|content| content.reserve(offset..offset + length));
            return 0;
        }
        if file.faults.strike(offset, length, |fault| fault == Fault::FailWrites).is_some() {
            return -libc::EIO;
        }
        match mode {
            Allocate::Punch => file.medium.change(|content| content.punch(offset, length)),
            _ => file.medium.change(|content| content.zero(offset, length)),
        }
        file.faults.written(offset..offset + length, sector);
        0
    }

    /// The processes are gone, by `kill -9` or, with `power`, because the power is: resolves what was in flight.
    pub(super) fn interrupt(&mut self, tearing: Tearing, power: bool) {
        for file in &mut self.files {
            file.lock = None;
            file.interrupt(&mut self.fault_random, tearing, power);
        }
    }
}

impl DiskFile {
    fn read(&mut self, offset: u64, length: usize, random: &mut fastrand::Rng) -> (i32, Vec<u8>) {
        let fails = |fault| matches!(fault, Fault::FailReads | Fault::FailReadsUntilWritten);
        if self.faults.strike(offset, length as u64, fails).is_some() {
            return (-libc::EIO, Vec::new());
        }
        let mut bytes = self.medium.content().read(offset, length);
        let got = bytes.len() as u64;
        if got > 0
            && let Some((_, range)) = self.faults.strike(offset, got, |fault| fault == Fault::Misread)
        {
            let wrong = random.u64(range.start.max(offset)..range.end.min(offset + got)) - offset;
            bytes[wrong as usize] ^= 1 << random.u8(0..8);
        }
        (bytes.len() as i32, bytes)
    }

    /// A write that is acknowledged.
    fn write(&mut self, write: Write<'_>) {
        let lies = |fault| matches!(fault, Fault::DropWrites | Fault::MisdirectWrites { .. });
        let Range { start, end } = write.range();
        let landed = match self.faults.strike(start, end - start, lies) {
            None => {
                self.medium.change(|content| content.complete(write));
                start..end
            }
            Some((Fault::MisdirectWrites { distance }, _)) => self.medium.misdirect(write, distance),
            Some(_) => return self.medium.lose(write),
        };
        self.faults.written(landed, write.sector);
    }

    /// Resolves what was in flight, as nobody will hear of it: see [`Disk::interrupt`].
    fn interrupt(&mut self, random: &mut fastrand::Rng, tearing: Tearing, power: bool) {
        self.held.clear();
        if power {
            self.medium.power_cut(random, tearing);
        }
        let mut operations: Vec<InFlight> = std::mem::take(&mut self.in_flight).into_values().collect();
        random.shuffle(&mut operations);
        for InFlight { operation, .. } in operations {
            let content = self.medium.content();
            let (offset, source) = match &operation {
                DiskOperation::Write { offset, bytes, .. } => (*offset, Source::Bytes(bytes)),
                DiskOperation::Allocate { mode: Allocate::Punch, offset, length } => {
                    (*offset, Source::Hole(content.inside(*offset, *length)))
                }
                DiskOperation::Allocate { mode: Allocate::Zero, offset, length } => {
                    (*offset, Source::Zeroes(content.inside(*offset, *length)))
                }
                _ => continue,
            };
            self.medium.befall(random, |content, random| {
                content.interrupt(offset, source, random, tearing, power);
            });
        }
    }
}

impl State {
    pub(super) fn tearing(&self) -> Tearing {
        Tearing { sector: self.settings.sector_bytes, within_sectors: self.settings.torn_sectors }
    }

    pub(super) fn open(&mut self, node: usize, path: &Path, options: FileOptions) -> io::Result<RawFd> {
        let disk = &mut self.nodes[node].disk;
        let file = match disk.find(path) {
            // As of a device whose node is left while it is gone itself.
            Some(file) if disk.files[file].faults.detached => return Err(errno(libc::ENXIO)),
            Some(file) => file,
            None if options.create => disk.make(path),
            None => return Err(errno(libc::ENOENT)),
        };
        self.note("open", node as u64, file as u64);
        Ok(self.add(Object::File { node, file, read_only: options.read_only, direct: options.direct }))
    }

    /// The file behind a descriptor.
    pub(super) fn file(&mut self, descriptor: RawFd) -> io::Result<&mut DiskFile> {
        match self.objects.get(&descriptor) {
            Some(&Object::File { node, file, .. }) => Ok(&mut self.nodes[node].disk.files[file]),
            _ => Err(errno(libc::EBADF)),
        }
    }

    /// The file behind a descriptor, unless it was taken away from under it.
    pub(super) fn attached_file(&mut self, descriptor: RawFd) -> io::Result<&mut DiskFile> {
        let file = self.file(descriptor)?;
        if file.faults.detached { Err(errno(libc::EIO)) } else { Ok(file) }
    }

    pub(super) fn lock(&mut self, descriptor: RawFd) -> io::Result<bool> {
        let file = self.file(descriptor)?;
        Ok(*file.lock.get_or_insert(descriptor) == descriptor)
    }

    pub(super) fn close_file(&mut self, descriptor: RawFd) {
        if let Ok(file) = self.file(descriptor)
            && file.lock == Some(descriptor)
        {
            file.lock = None;
        }
    }

    pub(super) fn set_length(&mut self, descriptor: RawFd, length: u64) -> io::Result<()> {
        if let Some(Object::File { read_only: true, .. }) = self.objects.get(&descriptor) {
            return Err(errno(libc::EINVAL));
        }
        let sector = self.settings.sector_bytes;
        let file = self.attached_file(descriptor)?;
        file.medium.change(|content| content.set_length(length));
        // What was cut off is new when it comes again.
        file.faults.written(length..u64::MAX, sector);
        self.note("set_length", descriptor as u64, length);
        Ok(())
    }

    /// Begins an operation on a file. `length`: bytes to read; `bytes`: what to write.
    pub(super) fn begin_disk(
        &mut self,
        caller: Caller,
        operation: Operation,
        descriptor: RawFd,
        length: usize,
        bytes: Vec<u8>,
    ) {
        let Some(&Object::File { node, file, read_only, direct }) = self.objects.get(&descriptor) else {
            return self.fail(caller, libc::EBADF);
        };
        if let Some(errno) = refused(
            operation,
            length.max(bytes.len()),
            read_only,
            direct.then_some(self.settings.sector_bytes),
        ) {
            return self.fail(caller, errno);
        }
        let disk = &mut self.nodes[node].disk;
        if disk.files[file].faults.detached {
            return self.fail(caller, libc::EIO);
        }
        let (read, write, flush) = (&self.settings.read, &self.settings.write, &self.settings.flush);
        let random = &mut disk.random;
        let (operation, latency) = match operation {
            Operation::Read { offset } => (DiskOperation::Read { offset, length }, draw(random, read)),
            Operation::Write { offset, durable } => {
                let more = if durable { draw(random, flush) } else { 0 };
                (DiskOperation::Write { offset, bytes, durable }, draw(random, write) + more)
            }
            Operation::Allocate { mode, offset, length } => {
                (DiskOperation::Allocate { mode, offset, length }, draw(random, write))
            }
            _ => {
                let sequence = disk.files[file].medium.content().sequence();
                (DiskOperation::Flush { sequence }, draw(random, flush))
            }
        };
        let latency = latency * u64::from(disk.files[file].faults.slowness.max(1));
        disk.next_id += 1;
        let id = disk.next_id;
        disk.files[file].in_flight.insert(id, InFlight { caller, operation });
        self.schedule(self.now + latency, Event::Disk { node, file, id });
    }

    pub(super) fn finish_disk(&mut self, node: usize, file: usize, id: u64) {
        let sector = self.settings.sector_bytes;
        let disk = &mut self.nodes[node].disk;
        let target = &mut disk.files[file];
        if target.faults.stalled {
            target.held.push(id);
            return;
        }
        // Gone when the node lost its processes meanwhile.
        let Some(InFlight { caller, operation }) = target.in_flight.remove(&id) else { return };
        let (result, bytes) = disk.perform(file, operation, sector);
        self.note("disk", id, result as u64);
        self.complete(caller, result, bytes);
    }

    /// Takes a file away with what is in flight on it, or brings it back.
    pub(super) fn set_detached(&mut self, node: usize, file: usize, detached: bool) {
        self.note(if detached { "detach" } else { "attach" }, node as u64, file as u64);
        let tearing = self.tearing();
        let disk = &mut self.nodes[node].disk;
        let target = &mut disk.files[file];
        if std::mem::replace(&mut target.faults.detached, detached) || !detached {
            return;
        }
        let callers: Vec<Caller> = target.in_flight.values().map(|one| one.caller).collect();
        target.interrupt(&mut disk.fault_random, tearing, true);
        for caller in callers {
            self.fail(caller, libc::EIO);
        }
    }

    /// Lets a file's operations go on, or stops them before their end.
    pub(super) fn stall(&mut self, node: usize, file: usize, stalled: bool) {
        let target = &mut self.nodes[node].disk.files[file];
        target.faults.stalled = stalled;
        if !stalled {
            for id in std::mem::take(&mut target.held) {
                self.schedule(self.now, Event::Disk { node, file, id });
            }
        }
    }
}

/// The error of an operation that the kernel would not even begin.
fn refused(operation: Operation, length: usize, read_only: bool, alignment: Option<usize>) -> Option<i32> {
    let (offset, length, changes) = match operation {
        Operation::Read { offset } => (offset, length as u64, false),
        Operation::Write { offset, .. } => (offset, length as u64, true),
        Operation::Allocate { offset, length, .. } => (offset, length, true),
        _ => return None,
    };
    if changes && read_only {
        return Some(libc::EBADF);
    }
    if offset.checked_add(length).is_none_or(|end| end > i64::MAX as u64) {
        return Some(libc::EFBIG);
    }
    let is_allocate = matches!(operation, Operation::Allocate { .. });
    if is_allocate {
        return (length == 0).then_some(libc::EINVAL);
    }
    let alignment = alignment.unwrap_or(1) as u64;
    (!offset.is_multiple_of(alignment) || !length.is_multiple_of(alignment)).then_some(libc::EINVAL)
}
