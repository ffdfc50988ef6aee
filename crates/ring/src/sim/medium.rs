//! What a file holds, beside what it would hold if its disk had never lied.
//!
//! The second content is made when the first lie strikes. From then on every honest change, and every accident, befalls
//! both alike: what differs is what the lies have done and nothing has put right.

use std::collections::BTreeSet;
use std::ops::Range;

use super::content::{CHUNK, Content, Tearing, Write};

#[derive(Default)]
pub(super) struct Medium {
    content: Content,
    honest: Option<Box<Honest>>,
}

struct Honest {
    content: Content,
    /// Chunks that a lie has touched: no other ones can differ.
    suspects: BTreeSet<u64>,
}

impl Medium {
    /// What is there.
    pub(super) fn content(&self) -> &Content {
        &self.content
    }

    /// An honest change.
    pub(super) fn change(&mut self, change: impl Fn(&mut Content)) {
        change(&mut self.content);
        if let Some(honest) = &mut self.honest {
            change(&mut honest.content);
        }
    }

    /// An accident that draws what it does, whatever the bytes are: the same for both.
    pub(super) fn befall(
        &mut self,
        random: &mut fastrand::Rng,
        accident: impl Fn(&mut Content, &mut fastrand::Rng),
    ) {
        if let Some(honest) = &mut self.honest {
            accident(&mut honest.content, &mut random.clone());
        }
        accident(&mut self.content, random);
    }

    /// The power goes. Of a sector that was changed and not flushed an honest disk could hold several versions: it is
    /// damaged when it holds none of them.
    pub(super) fn power_cut(&mut self, random: &mut fastrand::Rng, tearing: Tearing) {
        self.content.power_cut(random, tearing);
        if let Some(honest) = &mut self.honest {
            honest.content.settle(&self.content, &honest.suspects, tearing.sector);
        }
    }

    /// Makes the honest content when there is none, and remembers where it is going to differ.
    fn suspect(&mut self, range: Range<u64>) -> &mut Content {
        let honest = self.honest.get_or_insert_with(|| {
            Box::new(Honest { content: self.content.clone(), suspects: BTreeSet::new() })
        });
        let chunk = CHUNK as u64;
        honest.suspects.extend(range.start / chunk..range.end.div_ceil(chunk));
        &mut honest.content
    }

    /// A write that never happens.
    pub(super) fn lose(&mut self, write: Write<'_>) {
        self.suspect(write.range()).complete(write);
        self.content.lose(write);
    }

    /// A write that lands `distance` bytes away. Gives where.
    pub(super) fn misdirect(&mut self, write: Write<'_>, distance: i64) -> Range<u64> {
        self.suspect(write.range()).complete(write);
        let target = self.content.misdirect(write, distance);
        self.suspect(target.clone());
        target
    }

    pub(super) fn flip(&mut self, offset: u64, bit: u8) -> bool {
        self.suspect(offset..offset + 1);
        self.content.flip(offset, bit)
    }

    /// Other bytes in a range, as far as it lies within the file. Gives that part.
    pub(super) fn corrupt(&mut self, range: Range<u64>, random: &mut fastrand::Rng) -> Range<u64> {
        let end = range.end.min(self.content.length());
        let range = range.start.min(end)..end;
        self.suspect(range.clone());
        self.content.corrupt(range.clone(), random);
        range
    }

    /// The sectors that are wrong, in bytes.
    pub(super) fn damage(&self, sector: usize) -> Vec<Range<u64>> {
        self.honest.as_ref().map_or_else(Vec::new, |honest| {
            self.content.differences(&honest.content, &honest.suspects, sector)
        })
    }

    /// What reads see now, and what is wrong with it, on stable media: for a file whose last change was `sequence`.
    pub(super) fn copy(&self, sequence: u64) -> Medium {
        let honest = self.honest.as_ref().map(|honest| {
            let content = honest.content.copy(sequence);
            Box::new(Honest { content, suspects: honest.suspects.clone() })
        });
        Medium { content: self.content.copy(sequence), honest }
    }
}
