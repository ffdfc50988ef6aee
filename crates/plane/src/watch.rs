//! One timer for everything that a core watches: peers that hang, peers that say nothing.
//!
//! A timer for each connection would wake an idle core hundreds of times a second. What is due at about the same time
//! is looked at in the same turn, and what it sends then goes out together.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};
use std::time::Duration;

use ring::{Instant, Notify, Ring};

/// Times to look are multiples of this.
const COARSE: Duration = Duration::from_secs(1);
/// The same for what is due in less than [`SOON`].
const FINE: Duration = Duration::from_millis(100);
/// Until here a second more would be much.
const SOON: Duration = Duration::from_secs(4);
/// So much may be there before it is looked what of it has gone.
const FEW: usize = 256;

/// What is looked at now and then.
pub trait Watched {
    /// Looks at it, perhaps before it asked for that. Gives when to look again; `None` when that is over.
    fn look(&self, now: Instant) -> Option<Instant>;
}

/// What is due at one time.
type Due = Vec<Weak<dyn Watched>>;

/// What a core watches.
pub struct Watch {
    ring: Ring,
    /// By the time of the next look. What is not due is not touched: on an idle machine that costs more than the looks.
    entries: RefCell<BTreeMap<Instant, Due>>,
    /// How many there are, those that have gone included.
    count: Cell<usize>,
    /// With so many it is looked which have gone.
    full: Cell<usize>,
    /// When the next look is; `None` while nobody looks.
    next: Cell<Option<Instant>>,
    sooner: Notify,
}

impl Watch {
    /// Nothing is watched yet, and nothing costs time.
    pub fn new(ring: Ring) -> Rc<Watch> {
        let (entries, count, full) = (RefCell::default(), Cell::new(0), Cell::new(FEW));
        Rc::new(Watch { ring, entries, count, full, next: Cell::new(None), sooner: Notify::new() })
    }

    /// Looks at `watched` soon and then when it wants that, until it is gone.
    pub fn add<T: Watched + 'static>(self: &Rc<Self>, watched: &Rc<T>) {
        let due = time_to_look(self.ring.now(), Instant::ZERO);
        let watched: Weak<T> = Rc::downgrade(watched);
        self.enter(due, watched);
        if self.count.get() >= self.full.get() {
            self.forget();
        }
        match self.next.get() {
            None => {
                self.next.set(Some(due));
                self.ring.spawn_later(self.clone().run());
            }
            Some(next) if due < next => self.sooner.notify(),
            Some(_) => {}
        }
    }

    fn enter(&self, due: Instant, watched: Weak<dyn Watched>) {
        self.entries.borrow_mut().entry(due).or_default().push(watched);
        self.count.set(self.count.get() + 1);
    }

    /// What has gone keeps its memory until it is forgotten: with twice as much as was left the last time, so that it costs
    /// little however many come and go.
    fn forget(&self) {
        let mut entries = self.entries.borrow_mut();
        entries.retain(|_, due| {
            due.retain(|watched| watched.strong_count() > 0);
            !due.is_empty()
        });
        let count = entries.values().map(Vec::len).sum();
        self.count.set(count);
        self.full.set((2 * count).max(FEW));
    }

    async fn run(self: Rc<Self>) {
        loop {
            let next = self.entries.borrow().first_key_value().map(|(due, _)| *due);
            self.next.set(next);
            let Some(next) = next else { return };
            let now = self.ring.now();
            if now < next {
                self.ring.timeout(next.since(now), self.sooner.wait()).await;
            } else {
                self.look(now);
            }
        }
    }

    /// Looks at what has been due longest.
    fn look(&self, now: Instant) {
        // Taken out: a look may bring something new to watch.
        let Some((_, due)) = self.entries.borrow_mut().pop_first() else { return };
        self.count.set(self.count.get() - due.len());
        for watched in due {
            if let Some(again) = watched.upgrade().and_then(|watched| watched.look(now)) {
                self.enter(time_to_look(now, again), watched);
            }
        }
    }
}

/// When to look at what is due at `due`: a little later, together with others.
fn time_to_look(now: Instant, due: Instant) -> Instant {
    let wait = due.since(now);
    let grid = if wait < SOON { FINE } else { COARSE }.as_nanos() as u64;
    let wanted = (now + wait.max(Duration::from_nanos(1))).as_nanos();
    Instant::from_nanos(wanted.div_ceil(grid).saturating_mul(grid))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ring::sim::World;

    const SECOND: Duration = Duration::from_secs(1);

    /// Wants a look at every multiple of `every`, `left` times.
    struct Clock {
        every: Duration,
        left: Cell<u32>,
        looks: RefCell<Vec<Instant>>,
    }

    impl Clock {
        fn new(every: Duration, left: u32) -> Rc<Clock> {
            Rc::new(Clock { every, left: Cell::new(left), looks: RefCell::default() })
        }
    }

    impl Watched for Clock {
        fn look(&self, now: Instant) -> Option<Instant> {
            self.looks.borrow_mut().push(now);
            self.left.set(self.left.get() - 1);
            (self.left.get() > 0).then_some(now + self.every)
        }
    }

    #[test]
    fn looks_come_little_late_and_end() {
        let world = World::new(1);
        let reactor = world.node("node").reactor();
        let watch = Watch::new(reactor.ring().clone());
        let (slow, quick) = (Clock::new(20 * SECOND, 4), Clock::new(SECOND / 2, 8));
        let gone = Clock::new(SECOND, 100);
        watch.add(&gone);
        watch.add(&slow);
        world.run_for(3 * SECOND).unwrap();
        watch.add(&quick);
        drop(gone);
        world.run_for(90 * SECOND).unwrap();
        for clock in [&slow, &quick] {
            let looks = clock.looks.borrow();
            assert_eq!(clock.left.get(), 0);
            for pair in looks.windows(2) {
                let gap = pair[1].since(pair[0]);
                let late = if clock.every < SOON { FINE } else { COARSE };
                assert!(gap >= clock.every && gap <= clock.every + late, "{gap:?}");
            }
        }
        assert!(watch.entries.borrow().is_empty() && watch.next.get().is_none() && watch.count.get() == 0);
        let again = Clock::new(SECOND, 1);
        watch.add(&again);
        world.run_for(SECOND).unwrap();
        assert_eq!(again.looks.borrow().len(), 1, "it begins anew after everything has ended");
    }

    #[test]
    fn what_comes_and_goes_is_forgotten_long_before_it_is_due() {
        let world = World::new(1);
        let reactor = world.node("node").reactor();
        let watch = Watch::new(reactor.ring().clone());
        let stays: Vec<_> = (0..FEW).map(|_| Clock::new(3600 * SECOND, 2)).collect();
        for clock in &stays {
            watch.add(clock);
        }
        world.run_for(SECOND).unwrap();
        for _ in 0..10 * FEW {
            watch.add(&Clock::new(3600 * SECOND, 2));
            let there: usize = watch.entries.borrow().values().map(Vec::len).sum();
            assert!(there == watch.count.get() && there <= 3 * FEW, "{there}");
        }
        world.run_for(7300 * SECOND).unwrap();
        assert!(
            stays.iter().all(|clock| clock.looks.borrow().len() == 2),
            "those that stay are not forgotten"
        );
    }

    #[test]
    fn a_thousand_cost_no_more_turns_than_one() {
        let turns = |count: u32| {
            let world = World::new(1);
            let reactor = world.node("node").reactor();
            let watch = Watch::new(reactor.ring().clone());
            let clocks: Vec<_> = (0..count).map(|_| Clock::new(6 * SECOND, u32::MAX)).collect();
            for clock in &clocks {
                watch.add(clock);
                world.run_for(SECOND / 100).unwrap();
            }
            let before = reactor.ring().turns();
            world.run_for(600 * SECOND).unwrap();
            reactor.ring().turns() - before
        };
        // Looks at whole seconds at most, and a turn or two for each.
        assert!(turns(1) <= 2 * 101, "{}", turns(1));
        assert!(turns(1000) <= 2 * 601, "{}", turns(1000));
    }
}
