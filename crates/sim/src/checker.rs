//! Whether what was seen of one sector is possible: linearizable while the node ran, and no older than what was
//! durable when the power went.
//!
//! All that is possible is followed at once ("just in time" linearization): a [`Course`] is an order in which writes
//! may have come into effect. A write is given its place when its end forces that, or a read that saw it; a course in
//! which that cannot be is dropped, and when none is left the history is wrong. Values that nobody ever saw again are
//! not moved about: it makes no difference where they were.

use std::collections::BTreeSet;

/// What a sector holds: 0 for zeroes, else the number of the operation that wrote it.
pub type Value = u64;

/// Courses at once, beyond which a history is called too tangled to judge: an error, so that nobody relies on it.
const MOST_COURSES: usize = 50_000;

/// What an operation did to one sector, or saw of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// It was written, or made zero.
    Write(Value),
    /// It was `from` and was written, with nothing in between.
    Swap {
        /// What had to be there.
        from: Value,
        /// What is there then.
        to: Value,
    },
    /// It was seen to hold this.
    Is(Value),
    /// It was seen to hold something else.
    Not(Value),
}

/// An operation on one sector. Times are unique numbers in the order in which things happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    /// What.
    pub kind: Kind,
    /// When it was asked for.
    pub begin: u64,
    /// From when on it has no more effect.
    pub end: u64,
    /// It was acknowledged; else it may have been carried out or not.
    pub done: bool,
    /// Acknowledged as durable.
    pub durable: bool,
}

/// A write that came into effect.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Effect {
    /// What the sector held then.
    pub value: Value,
    /// When the operation had ended for good.
    closed: u64,
    /// Since when the course has it.
    since: u64,
}

impl Effect {
    /// Something from before the history.
    pub fn old(value: Value) -> Effect {
        Effect { value, closed: 0, since: 0 }
    }
}

/// One possible order: the last effect that is durable for certain, and what came after.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Course {
    effects: Vec<Effect>,
    /// Operations under way that have their place already.
    placed: Vec<u16>,
}

/// No order explains what was seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Contradiction {
    /// The end of this event does not fit.
    At(usize),
    /// More orders than can be followed.
    Tangled,
}

impl Course {
    /// Nothing has happened since this was there.
    pub fn from(effects: Vec<Effect>) -> Course {
        Course { effects, placed: Vec::new() }
    }

    /// The values that a power cut may leave.
    pub fn values(&self) -> impl Iterator<Item = Value> + '_ {
        self.effects.iter().map(|effect| effect.value)
    }

    fn current(&self) -> Value {
        self.effects.last().expect("a sector always holds something").value
    }

    /// Forgets what is older than the last effect that `durable` picks.
    fn keep_from(&mut self, durable: impl Fn(&Effect) -> bool) {
        if let Some(last) = self.effects.iter().rposition(durable) {
            self.effects.drain(..last);
        }
    }
}

/// The history of one sector.
pub struct Sector<'a> {
    /// Its events in the order of their begin.
    pub events: &'a [Event],
    /// Begin and end of every acknowledged flush, in the order of their ends.
    pub flushes: &'a [(u64, u64)],
    /// What was there after the power cut, when the history ends with one.
    pub left: Option<Value>,
}

enum Step {
    Begin(u16),
    End(u16),
    Flush(u64),
}

impl Sector<'_> {
    /// Follows the history from the possible courses before it.
    pub fn check(&self, start: &[Course]) -> Result<Vec<Course>, Contradiction> {
        let mut steps = Vec::with_capacity(2 * self.events.len() + self.flushes.len());
        for (index, event) in self.events.iter().enumerate() {
            steps.push((event.begin, Step::Begin(index as u16)));
            steps.push((event.end, Step::End(index as u16)));
        }
        steps.extend(self.flushes.iter().map(|(begin, end)| (*end, Step::Flush(*begin))));
        steps.sort_by_key(|(time, _)| *time);
        let (mut courses, mut pending) = (start.to_vec(), Vec::new());
        for (time, step) in steps {
            match step {
                Step::Begin(index) => {
                    pending.push(index);
                    for course in &mut courses {
                        self.look(course, &[index]);
                    }
                }
                Step::End(index) => {
                    courses = self.end(courses, &pending, index, time)?;
                    pending.retain(|other| *other != index);
                }
                Step::Flush(begin) => {
                    for course in &mut courses {
                        course.keep_from(|effect| effect.closed < begin);
                    }
                }
            }
        }
        Ok(courses)
    }

    fn event(&self, index: u16) -> &Event {
        &self.events[usize::from(index)]
    }

    /// Whether anybody saw the value of a write; who met a difference may have seen any that was begun by then.
    fn is_seen(&self, value: Value, begin: u64) -> bool {
        let sees = |event: &Event| match event.kind {
            Kind::Is(seen) | Kind::Swap { from: seen, .. } => seen == value,
            Kind::Not(_) => begin < event.end,
            Kind::Write(_) => false,
        };
        self.left == Some(value) || self.events.iter().any(sees)
    }

    /// Reads find their place as early as they can: they change nothing.
    fn look(&self, course: &mut Course, pending: &[u16]) {
        let current = course.current();
        for index in pending {
            let sees = match self.event(*index).kind {
                Kind::Is(value) => value == current,
                Kind::Not(value) => value != current,
                _ => false,
            };
            if sees && !course.placed.contains(index) {
                course.placed.push(*index);
                course.placed.sort_unstable();
            }
        }
    }

    /// The course in which the write `index` comes into effect next.
    fn place(&self, course: &Course, pending: &[u16], index: u16, time: u64) -> Option<Course> {
        let event = self.event(index);
        let value = match event.kind {
            Kind::Write(value) => value,
            Kind::Swap { from, to } if from == course.current() => to,
            _ => return None,
        };
        let mut next = course.clone();
        next.effects.push(Effect { value, closed: event.end, since: time });
        next.placed.push(index);
        next.placed.sort_unstable();
        self.look(&mut next, pending);
        Some(next)
    }

    /// Every course in which `index` has its place, from `course` on.
    fn reach(
        &self,
        course: Course,
        pending: &[u16],
        index: u16,
        time: u64,
        found: &mut BTreeSet<Course>,
    ) -> Result<(), Contradiction> {
        if course.placed.contains(&index) {
            found.insert(course);
            return if found.len() > MOST_COURSES { Err(Contradiction::Tangled) } else { Ok(()) };
        }
        for other in pending.iter().filter(|other| !course.placed.contains(other)) {
            let moves = match self.event(*other).kind {
                Kind::Write(value) => *other == index || self.is_seen(value, self.event(*other).begin),
                Kind::Swap { .. } => true,
                Kind::Is(_) | Kind::Not(_) => false,
            };
            if moves && let Some(next) = self.place(&course, pending, *other, time) {
                self.reach(next, pending, index, time, found)?;
            }
        }
        Ok(())
    }

    /// What is possible after the end of `index`.
    fn end(
        &self,
        courses: Vec<Course>,
        pending: &[u16],
        index: u16,
        time: u64,
    ) -> Result<Vec<Course>, Contradiction> {
        let event = *self.event(index);
        let mut found = BTreeSet::new();
        for course in courses {
            let unseen = match event.kind {
                Kind::Write(value) => !self.is_seen(value, event.begin),
                Kind::Swap { to, .. } if !event.done => !self.is_seen(to, event.begin),
                _ => false,
            };
            // Overwritten at once by something that came into effect after its begin: nobody can tell.
            let hidden = unseen && course.effects.iter().any(|effect| effect.since > event.begin);
            if !event.done || hidden {
                found.insert(course.clone());
            }
            if !unseen || (event.done && !hidden) {
                self.reach(course, pending, index, time, &mut found)?;
            }
        }
        let mut after = BTreeSet::new();
        for mut course in found {
            course.placed.retain(|other| *other != index);
            if event.done && event.durable {
                course.keep_from(|effect| effect.closed == event.end);
            }
            after.insert(course);
        }
        if after.is_empty() {
            Err(Contradiction::At(usize::from(index)))
        } else {
            Ok(after.into_iter().collect())
        }
    }
}

#[cfg(test)]
#[path = "checker_tests.rs"]
mod tests;
