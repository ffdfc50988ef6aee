//! Whether what was seen of one sector is possible: linearizable while the node ran, and no older than what was
//! durable when the power went.
//!
//! All that is possible is followed at once ("just in time" linearization, after Wing and Gong, and Lowe): a [`Course`]
//! is what an order in which writes may have come into effect has led to. A write is given its place when its end forces
//! that, or a read that saw it; a course in which that cannot be is dropped, and when none is left the history is wrong.
//! Values that nobody ever saw again are not moved about: it makes no difference where they were. Courses that differ
//! only in what can make no difference any more are one.

use std::collections::BTreeSet;

/// What a sector holds: 0 for zeroes, else the number of the operation that wrote it.
pub type Value = u64;

/// Courses at once, beyond which a history is called too tangled to judge: an error, so that nobody relies on it.
const MOST_COURSES: usize = 50_000;

/// Some value that the power cut did not leave.
const SOME: Value = Value::MAX;

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
struct Effect {
    /// What the sector held then.
    value: Value,
    /// When the operation had ended for good.
    closed: u64,
    /// When the course had the last write before it, or it, that did not care what was there.
    overwritten: u64,
}

/// What one possible order has led to.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Course {
    /// The last effect, and what a power cut could leave in its place: effects from the last one that is durable for
    /// certain.
    effects: Vec<Effect>,
    /// Operations under way that have their place already.
    placed: Vec<u16>,
}

/// No order explains what was seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Contradiction {
    /// The end of this event does not fit.
    At(usize),
    /// What the power cut left does not.
    Left,
    /// More orders than can be followed.
    Tangled,
}

impl Course {
    fn current(&self) -> Effect {
        *self.effects.last().expect("a sector always holds something")
    }

    /// Forgets what is older than the last effect that `durable` picks.
    fn keep_from(&mut self, durable: impl Fn(&Effect) -> bool) {
        if let Some(last) = self.effects.iter().rposition(durable) {
            self.effects.drain(..last);
        }
    }

    /// A write that nobody saw came right before another one, which came after its begin and did not care. It leaves no
    /// trace but that nothing older is left once it is durable.
    fn hide(&mut self, event: &Event, value: Value) {
        if let Some(at) = self.effects.iter().position(|effect| effect.overwritten > event.begin) {
            let overwritten = self.effects[at].overwritten;
            self.effects.insert(at, Effect { value, closed: event.end, overwritten });
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
    /// Follows the history of a sector that held `start` for certain.
    pub fn check(&self, start: Value) -> Result<(), Contradiction> {
        let mut steps = Vec::with_capacity(2 * self.events.len() + self.flushes.len());
        for (index, event) in self.events.iter().enumerate() {
            steps.push((event.begin, Step::Begin(index as u16)));
            steps.push((event.end, Step::End(index as u16)));
        }
        steps.extend(self.flushes.iter().map(|(begin, end)| (*end, Step::Flush(*begin))));
        steps.sort_by_key(|(time, _)| *time);
        let first = Effect { value: start, closed: 0, overwritten: 0 };
        let mut courses = vec![Course { effects: vec![first], placed: Vec::new() }];
        let mut pending = Vec::new();
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
        let Some(left) = self.left else { return Ok(()) };
        let possible = |course: &Course| course.effects.iter().any(|effect| effect.value == left);
        if courses.iter().any(possible) { Ok(()) } else { Err(Contradiction::Left) }
    }

    /// Forgets what can make no difference any more. Of effects before the last one only that counts whose value the
    /// power cut left, and of those behind it only when they are durable; times count only against the begins of
    /// operations under way.
    fn simplify(&self, course: &mut Course, pending: &[u16]) {
        let begins = pending.iter().map(|index| self.event(*index).begin);
        let coarse = |time: u64| begins.clone().filter(|begin| *begin < time).max().unwrap_or(0) + 1;
        let current = course.current();
        let left = course.effects.iter().rposition(|effect| Some(effect.value) == self.left);
        match left {
            Some(at) if at + 1 < course.effects.len() => {
                course.effects.drain(..at);
                course.effects[0].overwritten = coarse(course.effects[0].overwritten);
                course.effects[0].closed = 0;
                let last = course.effects.len() - 1;
                let between = &mut course.effects[1..last];
                for effect in between.iter_mut() {
                    *effect = Effect { value: SOME, overwritten: u64::MAX, ..*effect };
                }
                between.sort_unstable();
                course.effects[last].overwritten = coarse(current.overwritten);
            }
            _ => {
                course.effects.clear();
                course.effects.push(Effect {
                    closed: 0,
                    overwritten: coarse(current.overwritten),
                    ..current
                });
            }
        }
    }

    fn event(&self, index: u16) -> &Event {
        &self.events[usize::from(index)]
    }

    /// Whether anybody can have seen the value of a write that was begun at `begin`: whoever met a difference may have seen any.
    fn is_seen(&self, value: Value, begin: u64) -> bool {
        let sees = |event: &Event| match event.kind {
            Kind::Is(seen) | Kind::Swap { from: seen, .. } => seen == value,
            Kind::Not(_) => true,
            Kind::Write(_) => false,
        };
        self.left == Some(value) || self.events.iter().any(|event| begin < event.end && sees(event))
    }

    /// Reads find their place as early as they can: they change nothing.
    fn look(&self, course: &mut Course, pending: &[u16]) {
        let current = course.current().value;
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
        let current = course.current();
        let (value, overwritten) = match event.kind {
            Kind::Write(value) => (value, time),
            Kind::Swap { from, to } if from == current.value => (to, current.overwritten),
            _ => return None,
        };
        let mut next = course.clone();
        next.effects.push(Effect { value, closed: event.end, overwritten });
        next.placed.push(index);
        next.placed.sort_unstable();
        self.look(&mut next, pending);
        Some(next)
    }

    /// Every course in which `index` has its place, from `courses` on.
    fn reach(
        &self,
        mut courses: Vec<Course>,
        pending: &[u16],
        index: u16,
        time: u64,
        found: &mut BTreeSet<Course>,
    ) -> Result<(), Contradiction> {
        let mut known: BTreeSet<Course> = courses.iter().cloned().collect();
        while let Some(course) = courses.pop() {
            if course.placed.contains(&index) {
                found.insert(course);
                continue;
            }
            for other in pending.iter().filter(|other| !course.placed.contains(other)) {
                let moves = match self.event(*other).kind {
                    Kind::Write(value) => *other == index || self.is_seen(value, self.event(*other).begin),
                    Kind::Swap { .. } => true,
                    Kind::Is(_) | Kind::Not(_) => false,
                };
                if moves && let Some(mut next) = self.place(&course, pending, *other, time) {
                    self.simplify(&mut next, pending);
                    if known.insert(next.clone()) {
                        courses.push(next);
                    }
                }
            }
            if known.len() > MOST_COURSES {
                return Err(Contradiction::Tangled);
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
        let unseen = match event.kind {
            Kind::Write(value) => (!self.is_seen(value, event.begin)).then_some(value),
            Kind::Swap { to, .. } if !event.done => (!self.is_seen(to, event.begin)).then_some(to),
            _ => None,
        };
        let (mut found, mut open) = (BTreeSet::new(), Vec::new());
        for course in courses {
            // Overwritten at once by something that came into effect after its begin: nobody can tell.
            let hidden = unseen.filter(|_| course.current().overwritten > event.begin);
            if !event.done {
                found.insert(course.clone());
            } else if let Some(value) = hidden {
                let mut hiding = course.clone();
                hiding.hide(&event, value);
                found.insert(hiding);
            }
            if unseen.is_none() || (event.done && hidden.is_none()) {
                open.push(course);
            }
        }
        self.reach(open, pending, index, time, &mut found)?;
        let left: Vec<u16> = pending.iter().copied().filter(|other| *other != index).collect();
        let mut after = BTreeSet::new();
        for mut course in found {
            course.placed.retain(|other| *other != index);
            if event.done && event.durable {
                course.keep_from(|effect| effect.closed == event.end);
            }
            self.simplify(&mut course, &left);
            after.insert(course);
        }
        match after.len() {
            0 => Err(Contradiction::At(usize::from(index))),
            MOST_COURSES.. => Err(Contradiction::Tangled),
            _ => Ok(after.into_iter().collect()),
        }
    }
}

#[cfg(test)]
#[path = "checker_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "checker_properties.rs"]
mod properties;
