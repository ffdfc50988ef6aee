//! What was asked of the volumes and what they answered, and the bytes that stand for each value.

mod atomic;
mod bytes;

pub use crate::checker::Value;
use crate::checker::{Contradiction, Event, Kind, Sector};
use crate::{Failure, SECTOR};

/// What an operation wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    /// The sectors' contents.
    Read,
    /// A new value.
    Write,
    /// A new value, made of one block of so many sectors.
    WriteSame {
        /// Sectors.
        block: u64,
    },
    /// Zeroes.
    Zero,
    /// To know whether these are there.
    Compare(Vec<Value>),
    /// A new value if these are there.
    CompareAndWrite(Vec<Value>),
}

/// A run of sectors of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Which volume.
    pub volume: usize,
    /// First sector.
    pub first: u64,
    /// Sectors.
    pub count: u64,
}

struct Operation {
    place: Place,
    wish: Wish,
    value: Value,
    begin: u64,
    end: Option<u64>,
    done: bool,
    durable: bool,
    session: u64,
    /// What a read or a comparison saw, from the first sector on.
    seen: Vec<Kind>,
    /// A comparison found a difference: nothing was written.
    differed: bool,
}

/// What became of a node's volumes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// The power went: what is there is what was durable, or newer.
    PowerCut,
    /// The process came and went: what was acknowledged is there.
    Restart,
    /// It was in RAM, which is empty now.
    Emptied,
    /// Nothing: sessions are at work, or will be again.
    None,
}

struct Content {
    volume: usize,
    block: Option<u64>,
}

/// A sector whose history has been judged.
struct Judged {
    events: Vec<Event>,
    found: Value,
    start: Value,
}

#[derive(Default)]
struct VolumeHistory {
    operations: Vec<Operation>,
    by_sector: Vec<Vec<u32>>,
    /// Begin and end.
    flushes: Vec<(u64, u64)>,
    /// What each sector held after the last power cut.
    start: Vec<Value>,
    /// What each sector most probably holds.
    latest: Vec<Value>,
    /// Since when nothing may be acknowledged any more.
    failed: Option<u64>,
}

/// Names an operation of a history.
#[derive(Clone, Copy, Debug)]
pub struct Id(usize, usize);

/// Everything that was done in one run.
pub struct History {
    run: u64,
    clock: u64,
    contents: Vec<Content>,
    volumes: Vec<VolumeHistory>,
    completed: u64,
}

impl History {
    /// Volumes of so many bytes, all zeroes. `run` makes the bytes differ from those of other runs.
    pub fn new(run: u64, bytes: &[u64]) -> History {
        let volume = |bytes: &u64| {
            let sectors = *bytes as usize / SECTOR;
            VolumeHistory {
                by_sector: vec![Vec::new(); sectors],
                start: vec![0; sectors],
                latest: vec![0; sectors],
                ..VolumeHistory::default()
            }
        };
        let volumes = bytes.iter().map(volume).collect();
        History { run, clock: 0, contents: Vec::new(), volumes, completed: 0 }
    }

    /// Operations that were acknowledged.
    pub fn completed(&self) -> u64 {
        self.completed
    }

    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// An operation of `session` is about to be sent.
    pub fn begin(&mut self, session: u64, place: Place, wish: Wish, durable: bool) -> Id {
        let value = match &wish {
            Wish::Read | Wish::Zero | Wish::Compare(_) => 0,
            Wish::Write | Wish::CompareAndWrite(_) => self.new_value(place.volume, None),
            Wish::WriteSame { block } => self.new_value(place.volume, Some(*block)),
        };
        let begin = self.tick();
        let volume = &mut self.volumes[place.volume];
        let number = volume.operations.len();
        for sector in place.first..place.first + place.count {
            volume.by_sector[sector as usize].push(number as u32);
        }
        volume.operations.push(Operation {
            place,
            wish,
            value,
            begin,
            end: None,
            done: false,
            durable,
            session,
            seen: Vec::new(),
            differed: false,
        });
        Id(place.volume, number)
    }

    fn new_value(&mut self, volume: usize, block: Option<u64>) -> Value {
        self.contents.push(Content { volume, block });
        self.contents.len() as Value
    }

    /// What a place most probably holds: for comparisons that succeed now and then.
    pub fn guess(&self, place: Place) -> Vec<Value> {
        let range = place.first as usize..(place.first + place.count) as usize;
        self.volumes[place.volume].latest[range].to_vec()
    }

    /// The operation was acknowledged; a read with these bytes.
    pub fn done(&mut self, id: Id, bytes: &[u8]) -> Result<(), Failure> {
        let end = self.tick();
        self.completed += 1;
        let place = self.volumes[id.0].operations[id.1].place;
        let is_read = self.volumes[id.0].operations[id.1].wish == Wish::Read;
        let read = if is_read { self.recognise_all(bytes, place)? } else { Vec::new() };
        let volume = &mut self.volumes[id.0];
        let operation = &mut volume.operations[id.1];
        operation.end = Some(end);
        operation.done = true;
        let range = place.first as usize..(place.first + place.count) as usize;
        if is_read {
            volume.latest[range].copy_from_slice(&read);
            operation.seen = read.into_iter().map(Kind::Is).collect();
            return Ok(());
        }
        if let Wish::Compare(old) = &operation.wish {
            operation.seen = old.iter().copied().map(Kind::Is).collect();
            return Ok(());
        }
        volume.latest[range].fill(operation.value);
        let begin = operation.begin;
        volume.check_fail_stop(id.0, begin)
    }

    /// The operation failed, was refused, or was aborted: it has had an effect or not, and has none from now on.
    pub fn failed(&mut self, id: Id) {
        let end = self.tick();
        self.volumes[id.0].operations[id.1].end = Some(end);
    }

    /// A comparison found a difference: in the byte at `offset`, where that was told.
    pub fn differed(&mut self, id: Id, offset: Option<u64>) -> Result<(), Failure> {
        let end = self.tick();
        let operation = &mut self.volumes[id.0].operations[id.1];
        let (Wish::Compare(old) | Wish::CompareAndWrite(old)) = &operation.wish else {
            return Err(Failure("a difference where nothing was compared".into()));
        };
        let at = match offset {
            Some(offset) => Some(offset as usize / SECTOR),
            None => (old.len() == 1).then_some(0),
        };
        if let Some(at) = at {
            let Some(differs) = old.get(at) else {
                return Err(Failure(format!("a difference in byte {offset:?}, behind what was compared")));
            };
            operation.seen = old[..at].iter().copied().map(Kind::Is).chain([Kind::Not(*differs)]).collect();
        }
        operation.differed = true;
        (operation.end, operation.done) = (Some(end), true);
        self.completed += 1;
        Ok(())
    }

    /// A flush is about to be sent; gives its begin.
    pub fn begin_flush(&mut self) -> u64 {
        self.tick()
    }

    /// It was acknowledged.
    pub fn flushed(&mut self, volume: usize, begin: u64) -> Result<(), Failure> {
        let end = self.tick();
        self.completed += 1;
        self.volumes[volume].flushes.push((begin, end));
        self.volumes[volume].check_fail_stop(volume, begin)
    }

    /// The volume said that it has failed for good: nothing that is asked for from now on may be acknowledged.
    pub fn volume_failed(&mut self, volume: usize) {
        let now = self.tick();
        self.volumes[volume].failed.get_or_insert(now);
    }

    /// Whether [`History::volume_failed`] was called since the last restart.
    pub fn has_failed(&self, volume: usize) -> bool {
        self.volumes[volume].failed.is_some()
    }

    /// A session is over for certain: the same nexus was let in again, or its controller was reset. Nothing of it may have
    /// an effect any more.
    pub fn over(&mut self, session: u64) {
        let end = self.tick();
        for operation in self.volumes.iter_mut().flat_map(|volume| &mut volume.operations) {
            if operation.session == session && operation.end.is_none() {
                operation.end = Some(end);
            }
        }
    }

    /// Every sector of a volume was read: `left`, after this fate. Judges everything since the last power cut.
    pub fn settle(&mut self, index: usize, left: &[Value], fate: Fate) -> Result<(), Failure> {
        let end = self.tick();
        let volume = &mut self.volumes[index];
        if fate == Fate::Emptied
            && let Some(sector) = left.iter().position(|value| *value != 0)
        {
            return Err(Failure(format!(
                "volume {index}, sector {sector}: fresh memory holds {}",
                left[sector]
            )));
        }
        if fate != Fate::None {
            for operation in volume.operations.iter_mut().filter(|operation| operation.end.is_none()) {
                operation.end = Some(end);
            }
            volume.failed = None;
        }
        if matches!(fate, Fate::Restart | Fate::None) {
            // What was written before may still come back when the power goes later: the history goes on.
            volume.read_back(left, end);
            self.clock = end + 2;
        }
        let volume = &mut self.volumes[index];
        volume.judge(index, left, fate)?;
        volume.check_atomicity(index)?;
        volume.latest.copy_from_slice(left);
        if matches!(fate, Fate::PowerCut | Fate::Emptied) {
            volume.start.copy_from_slice(left);
            volume.operations.clear();
            volume.flushes.clear();
            volume.by_sector.iter_mut().for_each(Vec::clear);
        }
        Ok(())
    }
}

impl VolumeHistory {
    fn check_fail_stop(&self, index: usize, begin: u64) -> Result<(), Failure> {
        if self.failed.is_some_and(|failed| failed < begin) {
            let text = format!("volume {index} acknowledged a write or a flush after it had failed for good");
            return Err(Failure(text));
        }
        Ok(())
    }

    /// Judges the history of every sector by itself.
    fn judge(&self, index: usize, left: &[Value], fate: Fate) -> Result<(), Failure> {
        // Neighbours mostly have the same history and the same outcome.
        let mut last: Option<Judged> = None;
        for (sector, &found) in left.iter().enumerate() {
            let events = self.events(sector);
            let start = self.start[sector];
            if let Some(last) = &last
                && (last.events == events && last.found == found && last.start == start)
            {
                continue;
            }
            let left = (fate == Fate::PowerCut).then_some(found);
            let wrong = |what: String| Err(Failure(self.describe(index, sector, &what)));
            match (Sector { events: &events, flushes: &self.flushes, left }).check(start) {
                Ok(()) => {}
                Err(Contradiction::At(event)) => return wrong(format!("{:?} does not fit", events[event])),
                Err(Contradiction::Left) => return wrong(format!("{found} is there after the power cut")),
                Err(Contradiction::Tangled) => return wrong("too many orders are possible to judge".into()),
            }
            last = Some(Judged { events, found, start });
        }
        Ok(())
    }

    /// The whole volume was read, after `time`.
    fn read_back(&mut self, left: &[Value], time: u64) {
        let number = self.operations.len() as u32;
        self.by_sector.iter_mut().for_each(|operations| operations.push(number));
        self.operations.push(Operation {
            place: Place { volume: 0, first: 0, count: left.len() as u64 },
            wish: Wish::Read,
            value: 0,
            begin: time + 1,
            end: Some(time + 2),
            done: true,
            durable: false,
            session: u64::MAX,
            seen: left.iter().copied().map(Kind::Is).collect(),
            differed: false,
        });
    }

    /// What was done to a sector, in the order of its begin.
    fn events(&self, sector: usize) -> Vec<Event> {
        let mut events = Vec::with_capacity(self.by_sector[sector].len() + 1);
        for number in &self.by_sector[sector] {
            let operation = &self.operations[*number as usize];
            let at = sector - operation.place.first as usize;
            let kind = match &operation.wish {
                Wish::Read | Wish::Compare(_) => operation.seen.get(at).copied(),
                Wish::CompareAndWrite(_) if operation.differed => operation.seen.get(at).copied(),
                Wish::CompareAndWrite(old) => Some(Kind::Swap { from: old[at], to: operation.value }),
                Wish::Write | Wish::WriteSame { .. } | Wish::Zero => Some(Kind::Write(operation.value)),
            };
            let Some(kind) = kind else { continue };
            // What nobody knows the end of may come at any time.
            let end = operation.end.unwrap_or(u64::MAX);
            let Operation { begin, done, durable, .. } = *operation;
            events.push(Event { kind, begin, end, done, durable });
        }
        events
    }

    fn describe(&self, index: usize, sector: usize, what: &str) -> String {
        use std::fmt::Write as _;
        let mut text = format!("volume {index}, sector {sector}: {what}\n  before: ");
        let _ = write!(text, "{}\n  flushes: {:?}", self.start[sector], self.flushes);
        for number in &self.by_sector[sector] {
            let operation = &self.operations[*number as usize];
            let at = sector - operation.place.first as usize;
            let end = operation.end.unwrap_or_default();
            let answer = if operation.done { "done" } else { "no answer" };
            let fua = if operation.durable { " FUA" } else { "" };
            let wish = match &operation.wish {
                Wish::Compare(old) => format!("Compare with {}", old[at]),
                Wish::CompareAndWrite(old) => format!("CompareAndWrite from {}", old[at]),
                wish => format!("{wish:?}"),
            };
            let (first, count, value) = (operation.place.first, operation.place.count, operation.value);
            let _ = write!(text, "\n  {}..{end} {wish}{fua} {first}+{count} value {value}", operation.begin);
            let _ = write!(text, " session {} {answer} {:?}", operation.session, operation.seen.get(at));
        }
        text
    }
}
