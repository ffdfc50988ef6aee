//! What was measured, kept for two years in files of constant size: docs/formats/history.md.
//!
//! A kill or a power cut costs the row that was being written. What is not known is said to be unknown; it is never guessed.
//! Whoever records is the only one (`&mut`); any number may read in between.

pub mod format;
mod medium;
mod series;
mod strip;
#[cfg(test)]
mod tests;

use std::io;
use std::path::Path;

use crate::metric::Reading;
use format::{BLOCK, LAYOUTS, Layout, MAX_NAME_BYTES, MAX_SERIES, Names, NotNames, ROW_STRIDE, Row};
use medium::{Medium, Part};
use series::{Directory, Place};
use strip::{Strip, read_block};

pub use strip::Slot;

/// A clock that is back by less is waited for: seconds.
const PATIENCE_S: u64 = 60;
/// How often the times at which series were last known are written: seconds.
const NAMES_EVERY_S: u64 = 86_400;

/// Which archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Archive {
    /// 10 s, for a day.
    Day,
    /// A minute, for a week.
    Week,
    /// 5 minutes, for a month.
    Month,
    /// An hour, for two years.
    Years,
}

impl Archive {
    /// All, from the shortest slots to the longest.
    pub const ALL: [Self; 4] = [Self::Day, Self::Week, Self::Month, Self::Years];

    fn layout(self) -> &'static Layout {
        &LAYOUTS[self as usize]
    }

    /// Seconds of a slot.
    pub fn step_s(self) -> u64 {
        self.layout().step_s
    }

    /// Seconds that it remembers.
    pub fn span_s(self) -> u64 {
        self.layout().span_s()
    }
}

/// A series over some time.
#[derive(Clone, Debug, PartialEq)]
pub struct Points {
    /// When the first slot begins: seconds since 1970.
    pub begin_s: u64,
    /// Seconds of a slot.
    pub step_s: u64,
    /// One after the other.
    pub slots: Vec<Slot>,
}

/// What became of readings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// Series of which there is a value now.
    pub stored: usize,
    /// Series for which there was no room.
    pub refused: usize,
    /// A sentence with a hint, when there was no room.
    pub refusal: Option<String>,
    /// The clock is back by less than a minute: nothing was taken until it is where it was.
    pub waits: bool,
}

/// Why the history cannot be kept.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The files.
    #[error(
        "the history of metrics cannot be {action}; hint: see that its directory is writable and the disk well"
    )]
    Io {
        /// What was done.
        action: &'static str,
        /// What happened.
        source: io::Error,
    },
    /// What they hold.
    #[error(
        "the history of metrics cannot be used: of its file names, {0}; hint: move its directory away, and a new one is begun"
    )]
    Names(#[from] NotNames),
}

fn cannot(action: &'static str) -> impl FnOnce(io::Error) -> Error {
    move |source| Error::Io { action, source }
}

/// The history of a node.
pub struct History {
    medium: Box<dyn Medium>,
    directory: Directory,
    /// The open strip of every archive; empty until the first row.
    strips: Vec<Strip>,
    /// The slot of the last row.
    newest: Option<u64>,
    names_saved_s: u64,
    names_changed: bool,
}

impl History {
    /// Opens the files in a directory, which is made when it is missing. Whoever calls has the node's data directory locked.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let directory = medium::Directory::open(path).map_err(cannot("opened"))?;
        Self::on(Box::new(directory))
    }

    fn on(mut medium: Box<dyn Medium>) -> Result<Self, Error> {
        let names = medium.names().map_err(cannot("read"))?;
        let names_are_new = names.is_none();
        let names = names.map(|bytes| Names::decode(&bytes)).transpose()?.unwrap_or_default();
        let directory = Directory::new(names);
        let journal_bytes = LAYOUTS[0].slots as u64 * ROW_STRIDE as u64;
        if names_are_new {
            medium.check_room(journal_bytes).map_err(cannot("begun"))?;
        }
        medium.reserve(Part::Journal, journal_bytes).map_err(cannot("opened"))?;
        let mut history = Self {
            medium,
            directory,
            strips: Vec::new(),
            newest: None,
            names_saved_s: 0,
            names_changed: false,
        };
        history.recover().map_err(cannot("read"))?;
        Ok(history)
    }

    /// Makes the open strips of what the journal and the archives have.
    fn recover(&mut self) -> io::Result<()> {
        let rows = self.rows()?;
        self.newest = rows.iter().map(|row| row.slot).max();
        let Some(newest) = self.newest else { return Ok(()) };
        self.open_strips(newest)?;
        let open = self.strips[0].number;
        for row in rows.iter().filter(|row| LAYOUTS[0].strip(row.slot) == open) {
            for (column, value) in row.values.iter().enumerate() {
                if self.directory.serial(column).is_some_and(|serial| serial < row.watermark) {
                    self.strips[0].set(column, row.slot, Slot::of(*value));
                }
            }
        }
        for number in 1..LAYOUTS.len() {
            self.recover_folded(number, newest * LAYOUTS[0].step_s)?;
        }
        Ok(())
    }

    /// The rows of the journal that count.
    fn rows(&self) -> io::Result<Vec<Row>> {
        let mut rows = Vec::new();
        let mut bytes = vec![0; ROW_STRIDE];
        for place in 0..LAYOUTS[0].slots as u64 {
            self.medium.read(Part::Journal, Row::offset(place), &mut bytes)?;
            rows.extend(Row::decode(&bytes).filter(|row| {
                let end_s = row.slot.checked_add(1).and_then(|next| next.checked_mul(LAYOUTS[0].step_s));
                Row::offset(row.slot) == Row::offset(place)
                    && end_s.is_some_and(|end_s| end_s <= self.directory.limit_s(row.era))
            }));
        }
        Ok(rows)
    }

    /// Opens the strips in which a slot of 10 s is, with what the files have of them.
    fn open_strips(&mut self, slot: u64) -> io::Result<()> {
        let time_s = slot * LAYOUTS[0].step_s;
        let open = |layout: &'static Layout| {
            let number = layout.strip(time_s / layout.step_s);
            Strip::load(layout, number, &*self.medium, &self.directory)
        };
        self.strips = LAYOUTS.iter().map(open).collect::<io::Result<_>>()?;
        Ok(())
    }

    /// Folds what the archive before has into the open strip, up to the slot in which `now_s` is.
    fn recover_folded(&mut self, number: usize, now_s: u64) -> io::Result<()> {
        let layout = &LAYOUTS[number];
        let finer = &LAYOUTS[number - 1];
        let ratio = layout.step_s / finer.step_s;
        let (first, end) = (layout.first(self.strips[number].number), now_s / layout.step_s);
        let mut source: Option<Strip> = None;
        for slot in first..end {
            let wanted = finer.strip(slot * ratio);
            if source.as_ref().is_none_or(|strip| strip.number != wanted) {
                let open = &self.strips[number - 1];
                source = Some(if open.number == wanted {
                    open.clone()
                } else {
                    Strip::load(finer, wanted, &*self.medium, &self.directory)?
                });
            }
            let Some(source) = &source else { continue };
            fold(source, &mut self.strips[number], slot, self.directory.columns());
        }
        Ok(())
    }

    /// Takes the readings of an interval. What is no finite number is unknown. A second row for the same 10 s replaces
    /// the first.
    ///
    /// An error means that the row is not on stable media; it is tried again with the next.
    pub fn record(&mut self, unix_s: u64, readings: &[Reading]) -> Result<Recorded, Error> {
        // The clocks of this century, and all sums below fit.
        let unix_s = unix_s.min(u64::from(u32::MAX) << 8);
        let slot = unix_s / LAYOUTS[0].step_s;
        let back = self.newest.filter(|newest| slot < *newest);
        if back.is_some_and(|newest| (newest - slot) * LAYOUTS[0].step_s < PATIENCE_S) {
            return Ok(Recorded { waits: true, ..Recorded::default() });
        }
        let mut recorded = Recorded::default();
        let values = self.place(unix_s, readings, &mut recorded);
        if back.is_some() {
            self.directory.begin_era(slot * LAYOUTS[0].step_s);
            self.names_changed = true;
        }
        self.save_names(unix_s).map_err(cannot("written"))?;
        if back.is_some() || self.strips.is_empty() {
            self.turn_to(slot).map_err(cannot("read"))?;
        }
        self.advance(slot).map_err(cannot("written"))?;
        for (column, value) in values.iter().enumerate() {
            self.strips[0].set(column, slot, Slot::of(*value));
        }
        self.newest = Some(slot);
        let (era, watermark) = (self.directory.era(), self.directory.next_serial());
        let row = Row { era, slot, watermark, values }.encode();
        let written = self.medium.write(Part::Journal, Row::offset(slot), &row);
        written.and_then(|()| self.medium.sync(Part::Journal)).map_err(cannot("written"))?;
        Ok(recorded)
    }

    /// The value of every column.
    fn place(&mut self, unix_s: u64, readings: &[Reading], recorded: &mut Recorded) -> Vec<f32> {
        let mut values = vec![f32::NAN; self.directory.columns()];
        let mut is_full = false;
        for reading in readings {
            let value = reading.value as f32;
            if !value.is_finite() {
                continue;
            }
            let name = reading.series.as_str();
            let mut column = self.directory.column(name);
            if column.is_none() && name.len() > MAX_NAME_BYTES {
                recorded.refusal = Some(format!(
                    "the history cannot keep a series whose name has {} bytes, {MAX_NAME_BYTES} at most; \
                     hint: choose shorter names",
                    name.len()
                ));
            } else if column.is_none() && !is_full {
                column = self.add(name, unix_s, recorded);
                // Asked once a row: it is the same for all.
                is_full = column.is_none();
            }
            let Some(column) = column else {
                recorded.refused += 1;
                continue;
            };
            self.directory.touch(column, unix_s);
            values.resize(values.len().max(column + 1), f32::NAN);
            values[column] = value;
            recorded.stored += 1;
        }
        values
    }

    /// A column for a new series.
    fn add(&mut self, name: &str, unix_s: u64, recorded: &mut Recorded) -> Option<usize> {
        let mut place = self.directory.place(unix_s);
        if place == Place::NextGroup {
            match self.add_group() {
                Ok(()) => place = self.directory.place(unix_s),
                Err(error) => {
                    recorded.refusal = Some(format!(
                        "the history has no room on the disk for {name}: {error}; hint: free some, a series takes 518 KB"
                    ));
                    return None;
                }
            }
        }
        let Place::Column { column, given_up } = place else {
            recorded.refusal = Some(format!(
                "the history has no room for {name}: {MAX_SERIES} series have been known in the last two years; \
                 hint: measure fewer things"
            ));
            return None;
        };
        if given_up {
            for strip in &mut self.strips {
                strip.clear_column(column);
            }
        }
        self.directory.insert(column, name, unix_s);
        self.names_changed = true;
        Some(column)
    }

    fn add_group(&mut self) -> io::Result<()> {
        // All of it or nothing.
        let group = LAYOUTS.iter().map(|layout| layout.file_bytes(1)).sum();
        self.medium.check_room(group)?;
        for layout in &LAYOUTS {
            let bytes = layout.file_bytes(self.directory.groups() + 1);
            self.medium.reserve(Part::Archive(layout.number), bytes)?;
        }
        self.directory.add_group();
        Ok(())
    }

    /// Before anything refers to new series or a new era they are on stable media.
    fn save_names(&mut self, unix_s: u64) -> io::Result<()> {
        if self.names_changed || unix_s.abs_diff(self.names_saved_s) >= NAMES_EVERY_S {
            self.names_changed = true;
            self.medium.replace_names(&self.directory.names().encode())?;
            self.names_changed = false;
            self.names_saved_s = unix_s;
        }
        Ok(())
    }

    /// Goes on at a slot that is not after the last one: with what is still true of its strips.
    fn turn_to(&mut self, slot: u64) -> io::Result<()> {
        let time_s = slot * LAYOUTS[0].step_s;
        let mut strips = Vec::with_capacity(LAYOUTS.len());
        for layout in &LAYOUTS {
            let number = layout.strip(time_s / layout.step_s);
            let open = self.strips.iter().find(|open| open.layout == layout && open.number == number);
            strips.push(match open {
                Some(open) => {
                    let mut open = open.clone();
                    open.clear_after(time_s);
                    open
                }
                None => Strip::load(layout, number, &*self.medium, &self.directory)?,
            });
        }
        self.strips = strips;
        self.newest = None;
        Ok(())
    }

    /// Time goes on to a slot: what is complete is folded, and strips that end are written.
    fn advance(&mut self, slot: u64) -> io::Result<()> {
        let time_s = slot * LAYOUTS[0].step_s;
        if let Some(newest) = self.newest {
            let last_s = newest * LAYOUTS[0].step_s;
            for number in 1..LAYOUTS.len() {
                let step_s = LAYOUTS[number].step_s;
                if time_s / step_s > last_s / step_s {
                    let (finer, coarser) = self.strips.split_at_mut(number);
                    let columns = self.directory.columns();
                    fold(&finer[number - 1], &mut coarser[0], last_s / step_s, columns);
                }
            }
        }
        let layouts_of_next = |strip: &Strip| strip.layout.strip(time_s / strip.layout.step_s);
        // Sealed all, and only then opened: if one cannot be written, all are tried again.
        for strip in self.strips.iter().filter(|strip| layouts_of_next(strip) != strip.number) {
            strip.seal(&mut *self.medium, &self.directory)?;
        }
        for strip in &mut self.strips {
            let next = layouts_of_next(strip);
            if next != strip.number {
                *strip = Strip::fresh(strip.layout, next);
            }
        }
        Ok(())
    }

    /// The names of all series, in no order that means anything.
    pub fn series(&self) -> impl Iterator<Item = &str> {
        self.directory.series()
    }

    /// When the last row was taken: seconds since 1970, a multiple of 10.
    pub fn newest_s(&self) -> Option<u64> {
        self.newest.map(|slot| slot * LAYOUTS[0].step_s)
    }

    /// What an archive knows of a series from one time to another, both in seconds since 1970. It gives whole slots,
    /// as far as the archive reaches, and none that is still being filled; nothing of a series that is not there.
    pub fn read(
        &self,
        series: &str,
        archive: Archive,
        from_s: u64,
        to_s: u64,
    ) -> Result<Option<Points>, Error> {
        let layout = archive.layout();
        let Some(column) = self.directory.column(series) else { return Ok(None) };
        let now_s = self.newest_s().unwrap_or(0);
        // A row of 10 s is complete as soon as it is there.
        let complete = if layout.number == 0 { now_s / layout.step_s + 1 } else { now_s / layout.step_s };
        let end = to_s.div_ceil(layout.step_s).min(complete);
        let oldest = complete.saturating_sub(layout.strips * layout.slots as u64);
        let begin = (from_s / layout.step_s).max(oldest).min(end);
        let mut slots = Vec::with_capacity((end - begin) as usize);
        let mut slot = begin;
        while slot < end {
            let strip = layout.strip(slot);
            let next = layout.first(strip + 1).min(end);
            let values = self.read_strip(layout, strip, column).map_err(cannot("read"))?;
            let first = layout.first(strip);
            slots.extend_from_slice(&values[(slot - first) as usize..(next - first) as usize]);
            slot = next;
        }
        Ok(Some(Points { begin_s: begin * layout.step_s, step_s: layout.step_s, slots }))
    }

    /// A column of a strip, open or in the file.
    fn read_strip(&self, layout: &'static Layout, number: u64, column: usize) -> io::Result<Vec<Slot>> {
        if let Some(open) = self.strips.iter().find(|open| open.layout == layout && open.number == number) {
            let first = layout.first(number);
            return Ok((first..first + layout.slots as u64).map(|slot| open.get(column, slot)).collect());
        }
        let mut bytes = [0; BLOCK];
        let offset = layout.offset(column / format::GROUP, number) + (column % format::GROUP * BLOCK) as u64;
        self.medium.read(Part::Archive(layout.number), offset, &mut bytes)?;
        Ok(read_block(layout, number, column, &bytes, &self.directory))
    }
}

/// Makes one slot of the slots of the archive before. What is known already and has no slots any more stays.
fn fold(finer: &Strip, coarser: &mut Strip, slot: u64, columns: usize) {
    let ratio = coarser.layout.step_s / finer.layout.step_s;
    for column in 0..columns {
        let folded = Slot::fold((slot * ratio..(slot + 1) * ratio).map(|slot| finer.get(column, slot)));
        if folded.is_known() {
            coarser.set(column, slot, folded);
        }
    }
}
