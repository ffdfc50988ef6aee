//! Answers from memory that is larger than the caches, and keeps there what is written. Its begin is fetched ahead, and
//! what is long is written past the cache, or copied to a buffer before it is sent, where Fels does so too: it is to be as
//! quick as such a server can be.

use std::collections::VecDeque;
use std::io::{self, IoSlice, Write};
use std::net::TcpStream;
use std::ops::Range;

use memmap2::{Advice, MmapMut};
use ring::{PAGE, Ways, fetch};

use super::server::Sink;
use super::{HEAD, Head, MOST, SLICES, waits};

/// The heads of all answers.
const ANSWER: [u8; HEAD] = [0; HEAD];
/// What is fetched of each page before it is wanted: the processor sees by itself that more follows.
const BEGIN: usize = 512;
/// Pages of a request of which that is fetched: more than a core can have under way.
const BEGINS: usize = 8;

/// As much memory as a volume has, and as the longest request, all of it touched, on huge pages where the machine has them.
pub(super) struct Memory {
    map: MmapMut,
    ways: &'static Ways,
    /// Whether so many bytes are copied before they are sent.
    is_copied: fn(&Ways, usize) -> bool,
}

impl Memory {
    pub(super) fn new(bytes: usize) -> io::Result<Self> {
        Self::copying(bytes, Ways::copies_before_send)
    }

    pub(super) fn copying(bytes: usize, is_copied: fn(&Ways, usize) -> bool) -> io::Result<Self> {
        let mut map = MmapMut::map_anon(bytes.max(MOST as usize))?;
        // Only advice: refusal changes nothing.
        let _refused = map.advise(Advice::HugePage);
        map.fill(0x5a);
        let ways = Ways::of_memory(map.len() as u64);
        Ok(Self { map, ways, is_copied })
    }

    /// Has the begin of what a request is about fetched.
    fn fetch(&self, place: u64, bytes: usize) {
        let pages = self.map[self.at(place, bytes)].chunks(PAGE).take(BEGINS);
        pages.for_each(|page| fetch(&page[..page.len().min(BEGIN)]));
    }

    /// Where the bytes of a place are, which are [`MOST`] at most.
    fn at(&self, place: u64, bytes: usize) -> Range<usize> {
        let places = self.map.len() / bytes.max(1);
        let from = (place % places as u64) as usize * bytes;
        from..from + bytes
    }
}

/// Answers of a connection that are not sent yet.
#[derive(Debug, Default)]
pub(super) struct Owed {
    /// With the data, where that is copied.
    answers: VecDeque<(Head, Option<Vec<u8>>)>,
    /// Bytes of the first of them that are sent.
    sent: usize,
    /// Buffers for copies, of which the last one was used last.
    spares: Vec<Vec<u8>>,
}

impl Owed {
    pub(super) fn with<'a>(&'a mut self, memory: &'a mut Memory) -> Kept<'a> {
        Kept { owed: self, memory }
    }

    /// Sends what is owed, as far as it goes.
    pub(super) fn send(&mut self, stream: &mut TcpStream, memory: &Memory) -> io::Result<()> {
        while !self.answers.is_empty() {
            let mut slices: Vec<IoSlice<'_>> = Vec::with_capacity(SLICES);
            let mut skip = self.sent;
            for (head, copy) in self.answers.iter().take(SLICES / 2) {
                let own = HEAD.min(head.answer as usize);
                let there = || &memory.map[memory.at(head.place, head.answer as usize - own)];
                let data = copy.as_deref().unwrap_or_else(there);
                let parts = [&ANSWER[skip.min(own)..own], &data[skip.saturating_sub(own)..]];
                skip = 0;
                slices.extend(parts.into_iter().filter(|part| !part.is_empty()).map(IoSlice::new));
            }
            match stream.write_vectored(&slices) {
                Ok(sent) => self.advance(sent),
                Err(error) if waits(&error) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn advance(&mut self, bytes: usize) {
        self.sent += bytes;
        while let Some((head, copy)) = self.answers.front_mut() {
            let length = head.answer as usize;
            if self.sent < length {
                return;
            }
            self.sent -= length;
            self.spares.extend(copy.take());
            self.answers.pop_front();
        }
    }
}

/// Takes requests: notes what is to be answered, and keeps what is written at its place.
pub(super) struct Kept<'a> {
    owed: &'a mut Owed,
    memory: &'a mut Memory,
}

impl Sink for Kept<'_> {
    fn asked(&mut self, head: Head) {
        let bytes = (head.answer as usize).saturating_sub(HEAD);
        let copy = (self.memory.is_copied)(self.memory.ways, bytes).then(|| {
            let mut copy = self.owed.spares.pop().unwrap_or_default();
            copy.clear();
            copy.extend_from_slice(&self.memory.map[self.memory.at(head.place, bytes)]);
            copy
        });
        if copy.is_none() {
            self.memory.fetch(head.place, bytes);
        }
        self.owed.answers.push_back((head, copy));
    }

    fn expects(&mut self, head: Head) {
        let bytes = head.follows as usize;
        if head.follows <= MOST && self.memory.ways.fetches_before_write(bytes) {
            self.memory.fetch(head.place, bytes);
        }
    }

    fn follows(&mut self, head: Head, at: usize, data: &[u8]) {
        let kept = self.memory.at(head.place, head.follows as usize);
        self.memory.ways.copy(data, &mut self.memory.map[kept][at..at + data.len()]);
    }
}
