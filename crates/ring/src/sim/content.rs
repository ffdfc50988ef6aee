//! The bytes of one simulated file: what reads see, what is on stable media, and what lies between the two.
//!
//! A chunk that was changed and not flushed keeps every version that it has had since, oldest first. A power cut
//! chooses per sector among those versions and the stable one, which is how writes come to be kept, lost, torn and
//! reordered. Chunks are shared by reference until they are written: a version costs a chunk, a snapshot nothing.

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use super::extents::Extents;

mod lies;

/// The unit of space, in bytes: a file system's block.
pub(super) const CHUNK: usize = 4096;
const CHUNK_BYTES: u64 = CHUNK as u64;

/// No chunk is a hole.
type Chunk = Option<Rc<[u8; CHUNK]>>;
type Chunks = BTreeMap<u64, Rc<[u8; CHUNK]>>;

/// What a change puts in place.
#[derive(Clone, Copy)]
pub(super) enum Source<'a> {
    Bytes(&'a [u8]),
    /// Zeroes, the space given back.
    Hole(u64),
    /// Zeroes, the space kept or given.
    Zeroes(u64),
}

impl Source<'_> {
    fn length(self) -> u64 {
        match self {
            Source::Bytes(bytes) => bytes.len() as u64,
            Source::Hole(length) | Source::Zeroes(length) => length,
        }
    }
}

/// A chunk as it was after a change.
#[derive(Clone)]
struct Version {
    sequence: u64,
    /// What the change touched.
    part: Range<usize>,
    chunk: Chunk,
}

impl Version {
    fn touches(&self, part: &Range<usize>) -> bool {
        self.part.start < part.end && part.start < self.part.end
    }
}

/// A write that is complete.
#[derive(Clone, Copy)]
pub(super) struct Write<'a> {
    pub(super) offset: u64,
    pub(super) bytes: &'a [u8],
    pub(super) durable: bool,
    /// What a disk writes whole, in bytes.
    pub(super) sector: usize,
}

impl Write<'_> {
    pub(super) fn range(&self) -> Range<u64> {
        self.offset..self.offset + self.bytes.len() as u64
    }
}

/// How a power cut treats what was in flight.
#[derive(Clone, Copy)]
pub(super) struct Tearing {
    pub(super) sector: usize,
    /// Whether a sector itself can end up half old and half new.
    pub(super) within_sectors: bool,
}

#[derive(Clone, Default)]
pub(super) struct Content {
    current: Chunks,
    durable: Chunks,
    volatile: BTreeMap<u64, Vec<Version>>,
    length: u64,
    durable_length: u64,
    /// Lengths since the last flush, oldest first.
    lengths: Vec<(u64, u64)>,
    allocated: Extents,
    sequence: u64,
}

/// The chunks that `range` touches and the part of each, in bytes within the chunk.
fn parts(range: Range<u64>) -> impl Iterator<Item = (u64, Range<usize>)> {
    let mut at = range.start;
    std::iter::from_fn(move || {
        (at < range.end).then(|| {
            let index = at / CHUNK_BYTES;
            let end = range.end.min((index + 1) * CHUNK_BYTES);
            let part = (at - index * CHUNK_BYTES) as usize..(end - index * CHUNK_BYTES) as usize;
            at = end;
            (index, part)
        })
    })
}

/// How much of a change an accident leaves: nothing, all, or that share of its sectors.
fn share_kept(random: &mut fastrand::Rng) -> f64 {
    let some = random.f64();
    [0.0, 1.0, some][random.usize(0..3)]
}

fn put(chunks: &mut Chunks, index: u64, chunk: Chunk) {
    match chunk {
        Some(chunk) => drop(chunks.insert(index, chunk)),
        None => drop(chunks.remove(&index)),
    }
}

/// Copies a part of a chunk; holes stay holes where nothing but zeroes would come.
fn copy_part(to: &mut Chunk, from: &Chunk, part: Range<usize>) {
    if part.len() == CHUNK {
        to.clone_from(from);
        return;
    }
    match from {
        Some(from) => {
            let to = to.get_or_insert_with(|| Rc::new([0; CHUNK]));
            Rc::make_mut(to)[part.clone()].copy_from_slice(&from[part]);
        }
        None => {
            if let Some(to) = to {
                Rc::make_mut(to)[part].fill(0);
            }
        }
    }
}

impl Content {
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// The number of the last completed change: what a flush that begins now has to make durable.
    pub(super) fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Chunks that have space.
    pub(super) fn allocated(&self) -> u64 {
        self.allocated.total()
    }

    pub(super) fn has_space(&self, chunk: u64) -> bool {
        self.allocated.contains(chunk)
    }

    /// What reads see, up to the end of the file.
    pub(super) fn read(&self, offset: u64, length: usize) -> Vec<u8> {
        let end = offset.saturating_add(length as u64).min(self.length);
        let mut bytes = Vec::with_capacity(end.saturating_sub(offset) as usize);
        for (index, part) in parts(offset..end) {
            match self.current.get(&index) {
                Some(chunk) => bytes.extend_from_slice(&chunk[part]),
                None => bytes.resize(bytes.len() + part.len(), 0),
            }
        }
        bytes
    }

    /// Puts bytes in place, which makes the file longer where they end behind it.
    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) {
        self.change(offset, Source::Bytes(bytes));
        if !bytes.is_empty() {
            self.lengthen(offset + bytes.len() as u64);
        }
    }

    fn lengthen(&mut self, end: u64) {
        if end > self.length {
            self.length = end;
            self.lengths.push((self.sequence, end));
        }
    }

    /// A completed write, on stable media when it was asked to be.
    pub(super) fn complete(&mut self, write: Write<'_>) {
        self.write(write.offset, write.bytes);
        if write.durable {
            self.harden(write.range(), write.sector);
        }
    }

    /// How much of a range lies within the file, in bytes.
    pub(super) fn inside(&self, offset: u64, length: u64) -> u64 {
        length.min(self.length.saturating_sub(offset))
    }

    /// The range reads as zeroes and has no space.
    pub(super) fn punch(&mut self, offset: u64, length: u64) {
        self.change(offset, Source::Hole(self.inside(offset, length)));
    }

    /// The range reads as zeroes and has space.
    pub(super) fn zero(&mut self, offset: u64, length: u64) {
        self.change(offset, Source::Zeroes(self.inside(offset, length)));
    }

    fn change(&mut self, offset: u64, source: Source<'_>) {
        self.sequence += 1;
        let range = offset..offset + source.length();
        let mut taken = 0;
        for (index, part) in parts(range) {
            let old = self.current.get(&index).cloned();
            let mut new = old.clone();
            let whole = part.len() == CHUNK;
            match source {
                Source::Bytes(bytes) => {
                    let bytes = &bytes[taken..taken + part.len()];
                    taken += part.len();
                    let chunk = new.get_or_insert_with(|| Rc::new([0; CHUNK]));
                    Rc::make_mut(chunk)[part.clone()].copy_from_slice(bytes);
                    self.allocated.insert(index..index + 1);
                }
                Source::Hole(_) | Source::Zeroes(_) => copy_part(&mut new, &None, part.clone()),
            }
            match source {
                Source::Hole(_) if whole => self.allocated.remove(index..index + 1),
                Source::Zeroes(_) => self.allocated.insert(index..index + 1),
                _ => {}
            }
            if old.is_none() && new.is_none() {
                continue;
            }
            put(&mut self.current, index, new.clone());
            let version = Version { sequence: self.sequence, part, chunk: new };
            self.volatile.entry(index).or_default().push(version);
        }
    }

    /// Gives space to a range without a change of what reads see.
    pub(super) fn reserve(&mut self, range: Range<u64>) {
        self.allocated.insert(range.start / CHUNK_BYTES..range.end.div_ceil(CHUNK_BYTES));
    }

    /// What a durable write touched is on stable media now, and nothing older can come back in its place.
    fn harden(&mut self, range: Range<u64>, sector: usize) {
        let sector = sector as u64;
        let range = range.start / sector * sector..range.end.div_ceil(sector) * sector;
        for (index, part) in parts(range) {
            let current = self.current.get(&index).cloned();
            let mut stable = self.durable.get(&index).cloned();
            copy_part(&mut stable, &current, part.clone());
            put(&mut self.durable, index, stable);
            if part.len() == CHUNK {
                self.volatile.remove(&index);
                continue;
            }
            for version in self.volatile.get_mut(&index).into_iter().flatten() {
                copy_part(&mut version.chunk, &current, part.clone());
            }
        }
        self.durable_length = self.length;
        self.lengths.clear();
    }

    /// A flush that began at `sequence` has completed: what was complete then is on stable media.
    pub(super) fn flush(&mut self, sequence: u64) {
        let durable = &mut self.durable;
        self.volatile.retain(|&index, versions| {
            let flushed = versions.iter().take_while(|version| version.sequence <= sequence).count();
            if flushed > 0 {
                let mut stable = durable.get(&index).cloned();
                for version in versions.drain(..flushed) {
                    copy_part(&mut stable, &version.chunk, version.part);
                }
                put(durable, index, stable);
            }
            !versions.is_empty()
        });
        let flushed = self.lengths.iter().take_while(|(at, _)| *at <= sequence).count();
        if let Some((_, length)) = self.lengths.drain(..flushed).next_back() {
            self.durable_length = length;
        }
    }

    /// Everything is on stable media.
    pub(super) fn flush_all(&mut self) {
        self.flush(self.sequence);
    }

    /// A flush has failed: what it should have made durable reads well and never will be, as on Linux.
    pub(super) fn fail_flush(&mut self, sequence: u64) {
        self.volatile.retain(|_, versions| {
            versions.retain(|version| version.sequence > sequence);
            !versions.is_empty()
        });
        self.lengths.retain(|(at, _)| *at > sequence);
    }

    /// A longer file may be short again after a power cut; a cut one is cut for good.
    pub(super) fn set_length(&mut self, length: u64) {
        self.sequence += 1;
        if length < self.length {
            self.trim(length);
            self.durable_length = self.durable_length.min(length);
            self.lengths.retain(|(_, at)| *at <= length);
        } else if length > self.length {
            self.lengths.push((self.sequence, length));
        }
        self.length = length;
    }

    /// Forgets, in every version, what lies at or behind `length`.
    fn trim(&mut self, length: u64) {
        let keep = length.div_ceil(CHUNK_BYTES);
        let inside = (length % CHUNK_BYTES) as usize;
        for chunks in [&mut self.current, &mut self.durable] {
            chunks.split_off(&keep);
            if inside > 0
                && let Some(last) = chunks.get_mut(&(keep - 1))
            {
                Rc::make_mut(last)[inside..].fill(0);
            }
        }
        self.volatile.split_off(&keep);
        if inside > 0 {
            for version in self.volatile.get_mut(&(keep - 1)).into_iter().flatten() {
                copy_part(&mut version.chunk, &None, inside..CHUNK);
            }
        }
        self.allocated.remove(keep..u64::MAX);
    }

    /// The first run of data at or after `offset`.
    pub(super) fn data_after(&self, offset: u64) -> Option<Range<u64>> {
        let (&first, _) = self.current.range(offset / CHUNK_BYTES..).next()?;
        let mut end = first + 1;
        while self.current.contains_key(&end) {
            end += 1;
        }
        let run = (first * CHUNK_BYTES).max(offset)..(end * CHUNK_BYTES).min(self.length);
        (!run.is_empty()).then_some(run)
    }

    /// The power goes: of each sector that was changed and not flushed, one of its versions is what is left.
    pub(super) fn power_cut(&mut self, random: &mut fastrand::Rng, tearing: Tearing) {
        let mut fates = BTreeMap::new();
        let mut is_kept = |sequence: u64, random: &mut fastrand::Rng| {
            let share = *fates.entry(sequence).or_insert_with(|| share_kept(random));
            random.f64() < share
        };
        for (index, versions) in std::mem::take(&mut self.volatile) {
            let mut left = self.durable.get(&index).cloned();
            for start in (0..CHUNK).step_by(tearing.sector) {
                let sector = start..start + tearing.sector;
                let mut newest_first = versions.iter().rev().filter(|version| version.touches(&sector));
                if let Some(version) = newest_first.find(|version| is_kept(version.sequence, random)) {
                    copy_part(&mut left, &version.chunk, sector);
                }
            }
            put(&mut self.durable, index, left);
        }
        let lengths = std::mem::take(&mut self.lengths);
        if let Some((_, length)) = lengths.iter().rev().find(|(sequence, _)| is_kept(*sequence, random)) {
            self.durable_length = *length;
        }
        self.length = self.durable_length;
        let length = self.length;
        self.trim(length);
        self.current = self.durable.clone();
        for &index in self.current.keys() {
            self.allocated.insert(index..index + 1);
        }
    }

    /// A change was in flight when its process or the power went: all, nothing, or some sectors of it are there.
    /// `stable`: it is the power that went, so what is left is on stable media.
    pub(super) fn interrupt(
        &mut self,
        offset: u64,
        source: Source<'_>,
        random: &mut fastrand::Rng,
        tearing: Tearing,
        stable: bool,
    ) {
        let end = offset + source.length();
        let share = share_kept(random);
        let sector = tearing.sector as u64;
        let mut at = offset;
        while at < end {
            let mut next = ((at / sector + 1) * sector).min(end);
            let after = next;
            if random.f64() < share {
                if tearing.within_sectors && random.bool() {
                    next = random.u64(at..next);
                }
                match source {
                    Source::Bytes(bytes) => {
                        let piece = &bytes[(at - offset) as usize..(next - offset) as usize];
                        self.write(at, piece);
                    }
                    Source::Hole(_) => self.punch(at, next - at),
                    Source::Zeroes(_) => self.zero(at, next - at),
                }
            }
            at = after;
        }
        if stable {
            self.flush_all();
        }
    }
}
