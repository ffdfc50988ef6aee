//! Which series there are, and in which column each of them is.

use std::collections::HashMap;

use super::format::{Era, GROUP, LAYOUTS, MAX_ERAS, MAX_SERIES, Named, Names};

/// The series, and the eras.
#[derive(Debug, Default)]
pub struct Directory {
    next_serial: u64,
    eras: Vec<Era>,
    columns: Vec<Option<Named>>,
    by_name: HashMap<String, usize>,
    /// Columns for which the archives have room.
    room: usize,
}

/// Where a new series could be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In this column, which had another series if `given_up`.
    Column {
        /// Which one.
        column: usize,
        /// Whose values were there is forgotten.
        given_up: bool,
    },
    /// In the next group, for which the archives have no room yet.
    NextGroup,
    /// Nowhere.
    None,
}

impl Directory {
    /// What the file says.
    pub fn new(names: Names) -> Self {
        let mut directory =
            Self { next_serial: names.next_serial.max(1), eras: names.eras, ..Self::default() };
        for one in names.series {
            let column = one.column as usize;
            directory.columns.resize(column + 1, None);
            directory.by_name.insert(one.name.clone(), column);
            directory.columns[column] = Some(one);
        }
        directory.room = directory.columns.len().next_multiple_of(GROUP);
        directory
    }

    /// For the file.
    pub fn names(&self) -> Names {
        let series = self.columns.iter().flatten().cloned().collect();
        Names { next_serial: self.next_serial, eras: self.eras.clone(), series }
    }

    /// Groups of columns that archives have.
    pub fn groups(&self) -> usize {
        self.room / GROUP
    }

    /// Columns that are used.
    pub fn columns(&self) -> usize {
        self.columns.len()
    }

    /// The archives have room for one group more.
    pub fn add_group(&mut self) {
        self.room += GROUP;
    }

    /// The column of a series.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// All names.
    pub fn series(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().flatten().map(|one| one.name.as_str())
    }

    /// The serial of the series in a column.
    pub fn serial(&self, column: usize) -> Option<u64> {
        self.columns.get(column)?.as_ref().map(|one| one.serial)
    }

    /// Larger than any serial.
    pub fn next_serial(&self) -> u64 {
        self.next_serial
    }

    /// A series is known at this time.
    pub fn touch(&mut self, column: usize, now_s: u64) {
        if let Some(Some(one)) = self.columns.get_mut(column) {
            one.known_s = now_s;
        }
    }

    /// Where a new series could be: a free column, or that of one which no archive remembers.
    pub fn place(&self, now_s: u64) -> Place {
        if self.columns.len() < self.room {
            return Place::Column { column: self.columns.len(), given_up: false };
        }
        if self.room < MAX_SERIES {
            return Place::NextGroup;
        }
        let forgotten_s = now_s.saturating_sub(LAYOUTS[LAYOUTS.len() - 1].span_s());
        let columns = self.columns.iter().enumerate();
        let known = columns.map(|(column, one)| (one.as_ref().map_or(0, |one| one.known_s), column));
        match known.min() {
            Some((known_s, column)) if known_s < forgotten_s => Place::Column { column, given_up: true },
            _ => Place::None,
        }
    }

    /// A new series in a column that [`Directory::place`] named.
    pub fn insert(&mut self, column: usize, name: &str, now_s: u64) {
        if column == self.columns.len() {
            self.columns.push(None);
        }
        let serial = self.next_serial;
        self.next_serial += 1;
        let one = Named { column: column as u32, serial, known_s: now_s, name: name.to_owned() };
        if let Some(old) = self.columns[column].replace(one) {
            self.by_name.remove(&old.name);
        }
        self.by_name.insert(name.to_owned(), column);
    }

    /// The era that is now.
    pub fn era(&self) -> u32 {
        self.eras.last().map_or(0, |era| era.number)
    }

    /// The clock jumped back to this time.
    pub fn begin_era(&mut self, begun_s: u64) {
        let number = self.era().saturating_add(1);
        self.eras.push(Era { number, begun_s });
        if self.eras.len() > MAX_ERAS {
            let oldest = self.eras.remove(0);
            self.eras[0].begun_s = self.eras[0].begun_s.min(oldest.begun_s);
        }
    }

    /// Until when something that was written in this era counts, in seconds since 1970; nothing of an era that is still
    /// to come.
    pub fn limit_s(&self, era: u32) -> u64 {
        if era > self.era() {
            return 0;
        }
        let later = self.eras.iter().filter(|one| one.number > era);
        later.map(|one| one.begun_s).min().unwrap_or(u64::MAX)
    }
}
