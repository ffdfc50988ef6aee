//! What a disk does that lies, and what one that does not would hold.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;

use super::{CHUNK, CHUNK_BYTES, Chunk, Content, Source, Write, copy_part, parts, put};

/// Whether two chunks hold the same in a part; a hole holds zeroes.
fn same(one: Option<&Rc<[u8; CHUNK]>>, other: Option<&Rc<[u8; CHUNK]>>, part: &Range<usize>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => Rc::ptr_eq(one, other) || one[part.clone()] == other[part.clone()],
        (Some(chunk), None) | (None, Some(chunk)) => chunk[part.clone()].iter().all(|byte| *byte == 0),
        (None, None) => true,
    }
}

/// The sectors of a chunk.
fn sectors(sector: usize) -> impl Iterator<Item = Range<usize>> {
    (0..CHUNK).step_by(sector).map(move |start| start..start + sector)
}

impl Content {
    /// A completed write of which nothing comes onto the disk. The file is as long as if it had: its length is kept by
    /// the file system, which does not lie.
    pub(in crate::sim) fn lose(&mut self, write: Write<'_>) {
        self.sequence += 1;
        self.lengthen(write.range().end);
        if write.durable {
            self.harden(0..0, CHUNK);
        }
    }

    /// A completed write that lands `distance` bytes away. What would lie outside of the file is lost. Gives where it
    /// landed.
    pub(in crate::sim) fn misdirect(&mut self, write: Write<'_>, distance: i64) -> Range<u64> {
        let Range { start, end } = write.range();
        let file_end = self.length.max(end);
        let shifted = |at: u64| i128::from(at) + i128::from(distance);
        let inside = |at: i128| at.clamp(0, i128::from(file_end)) as u64;
        let target = inside(shifted(start))..inside(shifted(end));
        // All of it can lie before the file's begin or behind its end.
        let skipped = (i128::from(target.start) - shifted(start)).clamp(0, i128::from(end - start)) as usize;
        let landing = &write.bytes[skipped..][..(target.end - target.start) as usize];
        self.change(target.start, Source::Bytes(landing));
        self.lengthen(end);
        if write.durable {
            self.harden(target.clone(), write.sector);
        }
        target
    }

    /// Every chunk in which the bytes at `index` are kept: what reads see, what is durable, and all in between.
    fn kept(&mut self, index: u64) -> impl Iterator<Item = &mut Rc<[u8; CHUNK]>> {
        let versions = self.volatile.get_mut(&index).into_iter().flatten();
        let kept = versions.filter_map(|version| version.chunk.as_mut());
        kept.chain(self.current.get_mut(&index)).chain(self.durable.get_mut(&index))
    }

    /// Turns one bit over wherever the byte is kept. False when there is no data.
    pub(in crate::sim) fn flip(&mut self, offset: u64, bit: u8) -> bool {
        let (index, inside) = (offset / CHUNK_BYTES, (offset % CHUNK_BYTES) as usize);
        self.kept(index).map(|chunk| Rc::make_mut(chunk)[inside] ^= 1 << (bit & 7)).count() > 0
    }

    /// Puts other bytes, none of which is what reads see now, wherever those of the range are kept. Holes become data.
    pub(in crate::sim) fn corrupt(&mut self, range: Range<u64>, random: &mut fastrand::Rng) {
        for (index, part) in parts(range) {
            let old = self.current.get(&index);
            let other = part.clone().map(|at| old.map_or(0, |chunk| chunk[at]) ^ random.u8(1..));
            let other: Vec<u8> = other.collect();
            for chunks in [&mut self.current, &mut self.durable] {
                chunks.entry(index).or_insert_with(|| Rc::new([0; CHUNK]));
            }
            for version in self.volatile.get_mut(&index).into_iter().flatten() {
                version.chunk.get_or_insert_with(|| Rc::new([0; CHUNK]));
            }
            for chunk in self.kept(index) {
                Rc::make_mut(chunk)[part.clone()].copy_from_slice(&other);
            }
            self.allocated.insert(index..index + 1);
        }
    }

    /// The power went, and `left` is what the real disk holds: of what an honest one could hold after that, this
    /// content takes in each sector what is there, and where nothing fits, the newest. Only chunks of `suspects` can
    /// differ.
    pub(in crate::sim) fn settle(&mut self, left: &Content, suspects: &BTreeSet<u64>, sector: usize) {
        self.lengths.clear();
        self.length = left.length;
        self.durable_length = left.length;
        self.trim(left.length);
        for (index, versions) in std::mem::take(&mut self.volatile) {
            let real: Chunk = left.current.get(&index).cloned();
            if !suspects.contains(&index) {
                put(&mut self.durable, index, real);
                continue;
            }
            let old: Chunk = self.durable.get(&index).cloned();
            let mut stable = old.clone();
            for part in sectors(sector) {
                let mut newer = versions.iter().rev().filter(|version| version.touches(&part)).peekable();
                let Some(newest) = newer.peek().map(|version| &version.chunk) else { continue };
                let fits = |chunk: &Chunk| same(chunk.as_ref(), real.as_ref(), &part);
                let is_possible = fits(&old) || newer.any(|version| fits(&version.chunk));
                copy_part(&mut stable, if is_possible { &real } else { newest }, part);
            }
            put(&mut self.durable, index, stable);
        }
        self.current = self.durable.clone();
        self.allocated.clone_from(&left.allocated);
    }

    /// The sectors of `suspects` in which reads of the two see different bytes, in bytes, in order, joined where they
    /// touch.
    pub(in crate::sim) fn differences(
        &self,
        other: &Content,
        suspects: &BTreeSet<u64>,
        sector: usize,
    ) -> Vec<Range<u64>> {
        let mut found: Vec<Range<u64>> = Vec::new();
        for &index in suspects {
            let (one, other) = (self.current.get(&index), other.current.get(&index));
            for part in sectors(sector).filter(|part| !same(one, other, part)) {
                let start = index * CHUNK_BYTES + part.start as u64;
                let end = (start + sector as u64).min(self.length);
                match found.last_mut() {
                    Some(last) if last.end == start => last.end = end,
                    _ => found.push(start..end),
                }
            }
        }
        found
    }

    /// What reads see now, on stable media; its next change comes after `sequence`.
    pub(in crate::sim) fn copy(&self, sequence: u64) -> Content {
        Content {
            durable: self.current.clone(),
            durable_length: self.length,
            volatile: BTreeMap::new(),
            lengths: Vec::new(),
            sequence,
            current: self.current.clone(),
            length: self.length,
            allocated: self.allocated.clone(),
        }
    }
}
