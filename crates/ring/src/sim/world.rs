//! The world: its clock, and the order in which its reactors take turns.

use std::cell::RefCell;
use std::fmt;
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

use super::driver::Afar;
use super::node::Node;
use super::settings::Settings;
use super::state::{State, random, seconds};
use crate::clock::Instant;
use crate::ring::{Inner, Reactor, Ring};

/// Turns in one instant after which the clock moves though somebody could go on: a core that is always busy does
/// not stop the world.
const TURNS_PER_INSTANT: u32 = 1000;

struct Shared {
    state: RefCell<State>,
    afar: Afar,
}

/// One simulated world. Clones are handles to the same one.
#[derive(Clone)]
pub struct World(Rc<Shared>);

/// Why a run ended before it was done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StallKind {
    /// Nothing is on its way and nobody sleeps: whoever waits, waits for ever.
    NothingCanGoOn,
    /// More turns and events than [`Settings::steps`].
    TooManySteps,
    /// More simulated time than [`Settings::span`].
    TooLong,
}

/// A run that did not come to its end, with what was waited for.
#[derive(Clone, Debug, thiserror::Error)]
pub struct Stall {
    /// Why.
    pub kind: StallKind,
    /// The world's seed: with the same program it replays the run.
    pub seed: u64,
    /// When, on the world's clock.
    pub at: Instant,
    /// Up to 20 operations in flight, for people.
    pub pending: Vec<String>,
}

impl fmt::Display for Stall {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.kind {
            StallKind::NothingCanGoOn => "nothing can go on",
            StallKind::TooManySteps => "too many steps",
            StallKind::TooLong => "too much simulated time",
        };
        write!(formatter, "seed {}: {what} at {}", self.seed, seconds(self.at.as_nanos()))?;
        for line in &self.pending {
            write!(formatter, "\n  {line}")?;
        }
        Ok(())
    }
}

/// What one step of a run did.
enum Step {
    Turn,
    Time,
    Nothing,
}

impl World {
    /// A world with the usual [`Settings`]. The same seed and the same program give the same run.
    pub fn new(seed: u64) -> World {
        World::with_settings(seed, Settings::default())
    }

    /// A world with other measures.
    pub fn with_settings(seed: u64, settings: Settings) -> World {
        let sector = settings.sector_bytes;
        assert!(sector.is_power_of_two() && (512..=4096).contains(&sector), "a sector of {sector} bytes");
        assert!(!settings.polls.is_empty(), "a turn polls something");
        World(Rc::new(Shared { state: RefCell::new(State::new(seed, settings)), afar: Afar::default() }))
    }

    /// What everything is drawn from.
    pub fn seed(&self) -> u64 {
        self.with(|state| state.seed)
    }

    /// The clock.
    pub fn now(&self) -> Instant {
        self.with(|state| Instant::from_nanos(state.now))
    }

    /// A hash of all that has happened: equal for equal runs.
    pub fn trace(&self) -> u64 {
        self.with(|state| state.trace())
    }

    /// Changes measures from now on.
    pub fn configure(&self, change: impl FnOnce(&mut Settings)) {
        self.with(|state| change(&mut state.settings));
    }

    /// Random numbers for the program that runs here: a source of its own for each `purpose`.
    pub fn random(&self, purpose: &str) -> fastrand::Rng {
        random(self.seed(), &format!("program {purpose}"))
    }

    /// The machine called `name`, made when it is new.
    pub fn node(&self, name: &str) -> Node {
        Node::find_or_make(self, name)
    }

    /// Lets nothing through between two nodes. What is sent meanwhile comes when they are healed.
    pub fn partition(&self, one: &Node, other: &Node) {
        self.with(|state| {
            state.note("partition", one.index() as u64, other.index() as u64);
            state.partitions.insert(pair(one, other));
        });
    }

    /// Resets every connection between two nodes, at both ends at once: what is on its way is lost. New ones can be made.
    pub fn cut(&self, one: &Node, other: &Node) {
        self.with(|state| {
            state.note("cut", one.index() as u64, other.index() as u64);
            state.cut(one.index(), other.index());
        });
    }

    /// Undoes [`World::partition`].
    pub fn heal(&self, one: &Node, other: &Node) {
        self.with(|state| {
            state.note("heal", one.index() as u64, other.index() as u64);
            state.partitions.remove(&pair(one, other));
            state.release_held();
        });
    }

    /// Runs all reactors until `future`, a task of `reactor`, is done.
    pub fn block_on<T: 'static>(
        &self,
        reactor: &Reactor,
        future: impl Future<Output = T> + 'static,
    ) -> Result<T, Stall> {
        let result = Rc::new(RefCell::new(None));
        let store = result.clone();
        reactor.ring().spawn_later(async move {
            let value = future.await;
            store.replace(Some(value));
        });
        self.run_until(|| result.borrow().is_some())?;
        let value = result.take();
        Ok(value.expect("the run went on until there was a value"))
    }

    /// Runs all reactors until `done`, which is asked after every step.
    pub fn run_until(&self, mut done: impl FnMut() -> bool) -> Result<(), Stall> {
        let (steps, end) = self.with(|state| {
            let span = u64::try_from(state.settings.span.as_nanos()).unwrap_or(u64::MAX);
            (state.settings.steps, state.now.saturating_add(span))
        });
        let mut turns = 0;
        for _ in 0..steps {
            if done() {
                return Ok(());
            }
            match self.step(turns < TURNS_PER_INSTANT, end) {
                Ok(Step::Turn) => turns += 1,
                Ok(Step::Time) => turns = 0,
                // A busy core and no event to come.
                Ok(Step::Nothing) if turns >= TURNS_PER_INSTANT => turns = 0,
                Ok(Step::Nothing) => return Err(self.stall(StallKind::NothingCanGoOn)),
                Err(kind) => return Err(self.stall(kind)),
            }
        }
        if done() { Ok(()) } else { Err(self.stall(StallKind::TooManySteps)) }
    }

    /// Runs all reactors for a while.
    pub fn run_for(&self, span: Duration) -> Result<(), Stall> {
        let end = self.now() + span;
        let mut turns = 0;
        for _ in 0..self.with(|state| state.settings.steps) {
            match self.step(turns < TURNS_PER_INSTANT, end.as_nanos()) {
                Ok(Step::Turn) => turns += 1,
                Ok(Step::Time) => turns = 0,
                Ok(Step::Nothing) if turns >= TURNS_PER_INSTANT => turns = 0,
                Ok(Step::Nothing) | Err(_) => {
                    self.with(|state| state.now = end.as_nanos());
                    return Ok(());
                }
            }
        }
        Err(self.stall(StallKind::TooManySteps))
    }

    fn stall(&self, kind: StallKind) -> Stall {
        self.with(|state| Stall {
            kind,
            seed: state.seed,
            at: Instant::from_nanos(state.now),
            pending: state.describe_pending(),
        })
    }

    /// One turn of a reactor that can go on; or, when there is none or `turns` is false, the next event.
    fn step(&self, turns: bool, end: u64) -> Result<Step, StallKind> {
        self.close_from_afar();
        let mut ready = Vec::new();
        let mut next = None;
        self.with(|state| {
            next = state.next_event_time();
            for (index, reactor) in state.reactors.iter().enumerate().filter(|(_, reactor)| reactor.alive) {
                let Some(inner) = reactor.inner.upgrade() else { continue };
                if reactor.naps_until > state.now {
                    next = Some(next.map_or(reactor.naps_until, |next| next.min(reactor.naps_until)));
                    continue;
                }
                let deadline = inner.executor.next_deadline().map(Instant::as_nanos);
                let due = deadline.is_some_and(|deadline| deadline <= state.now);
                if let Some(deadline) = deadline
                    && !due
                {
                    next = Some(next.map_or(deadline, |next| next.min(deadline)));
                }
                if due || !reactor.completions.is_empty() || inner.executor.has_ready() {
                    ready.push((index, inner));
                }
            }
        });
        if turns && !ready.is_empty() {
            let (ring, polls) = self.choose(ready);
            simulated_turn(&ring, polls);
            return Ok(Step::Turn);
        }
        let Some(next) = next else { return Ok(Step::Nothing) };
        if next > end {
            return Err(StallKind::TooLong);
        }
        self.with(|state| {
            if state.next_event_time() == Some(next) {
                state.next_event();
            } else {
                state.now = state.now.max(next);
            }
        });
        Ok(Step::Time)
    }

    fn choose(&self, mut ready: Vec<(usize, Rc<Inner>)>) -> (Ring, usize) {
        self.with(|state| {
            let (index, inner) = ready.swap_remove(state.schedule_random.usize(0..ready.len()));
            let choice = state.settings.polls;
            let polls = choice[state.schedule_random.usize(0..choice.len())];
            state.note("turn", index as u64, polls as u64);
            state.nap(index);
            (Ring(inner), polls)
        })
    }

    /// Whether no descriptor is open on any node.
    pub fn is_empty(&self) -> bool {
        self.close_from_afar();
        self.with(|state| state.objects.is_empty())
    }

    fn close_from_afar(&self) {
        for descriptor in self.0.afar.take() {
            self.with(|state| state.close(descriptor));
        }
    }

    /// Looks into the state. Nothing that `look` calls may call back into the world.
    pub(super) fn with<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        look(&mut self.0.state.borrow_mut())
    }

    pub(super) fn afar(&self) -> Afar {
        self.0.afar.clone()
    }
}

/// The one function in which a simulated reactor does what a real one does; `bench/counts` counts its instructions by
/// this name.
#[inline(never)]
fn simulated_turn(ring: &Ring, polls: usize) {
    ring.turn(polls, || true);
}

fn pair(one: &Node, other: &Node) -> (usize, usize) {
    (one.index().min(other.index()), one.index().max(other.index()))
}
