//! What is counted of connections, and who uses what.

use super::*;
use crate::limits::PAST_INITIATORS;

/// A connection of a core that is no shard.
fn connection(ledger: &Rc<Ledger>, portal: &Arc<Portal>, initiator: &str) -> Rc<Traffic> {
    let traffic = Traffic::of(ledger, portal);
    traffic.belongs_to(initiator);
    traffic
}

fn portal(address: &str) -> Arc<Portal> {
    Arc::new(Portal { protocol: "iscsi", address: address.to_owned() })
}

fn at(micros: u64) -> Instant {
    Instant::from_nanos(micros * 1000)
}

#[test]
fn a_connection_that_ends_takes_nothing_with_it() {
    let ledger = Rc::new(Ledger::default());
    let (one, other) = (portal("one"), portal("other"));
    ledger.know(&one);
    ledger.know(&other);
    let (first, second) = (connection(&ledger, &one, "a"), connection(&ledger, &one, "a"));
    first.prompt(Verb::Read, 4096);
    second.done(Verb::Write, 512, at(0), at(50), false);
    second.done(Verb::Write, 512, at(0), at(70), true);
    let before = ledger.figures();
    let figures = &before.portals[0];
    assert_eq!((figures.connections, before.portals[1].connections), (2, 0));
    let [read, write] = [Verb::Read, Verb::Write].map(|verb| &figures.verbs[verb as usize]);
    assert_eq!((read.requests, read.bytes, write.requests, write.bytes), (1, 4096, 2, 512));
    assert_eq!(write.times.as_ref().unwrap().sum, 120_000);
    drop(second);
    let mut after = ledger.figures();
    assert_eq!((after.portals[0].connections, &after.initiators), (1, &before.initiators));
    after.portals[0].connections = 2;
    assert_eq!(after, before);
    let again = connection(&ledger, &other, "a");
    again.prompt(Verb::Read, 1);
    let who = ("iscsi", "a".to_owned());
    let read = ledger.figures().initiators[&who][Verb::Read as usize];
    assert_eq!((read.requests, read.bytes), (2, 4097), "of both portals");
}

#[test]
fn a_portal_that_is_closed_is_told_of_until_the_last_one_has_gone() {
    let ledger = Rc::new(Ledger::default());
    let portal = portal("one");
    ledger.know(&portal);
    let last = connection(&ledger, &portal, "a");
    last.prompt(Verb::Read, 1);
    ledger.close(&portal);
    assert_eq!(ledger.figures().portals[0].connections, 1);
    drop(last);
    assert!(ledger.figures().portals.is_empty());
    ledger.know(&portal);
    assert_eq!(ledger.figures().portals[0].verbs[0].requests, 1, "opened again it goes on");
}

#[test]
fn whoever_comes_and_goes_only_so_many_are_remembered() {
    let ledger = Rc::new(Ledger::default());
    let portal = portal("one");
    for number in 0..PAST_INITIATORS + 10 {
        // Who did nothing needs no room.
        drop(connection(&ledger, &portal, &format!("idle-{number}")));
        connection(&ledger, &portal, &format!("name-{number:05}")).prompt(Verb::Read, 1);
    }
    assert_eq!(ledger.figures().initiators.len(), PAST_INITIATORS);
    let read = ledger.figures().portals[0].verbs[Verb::Read as usize].requests;
    assert_eq!(read, PAST_INITIATORS as u64 + 10, "the portal forgets nobody");
    assert!(ledger.open.borrow().is_empty());
}

#[test]
fn cores_are_added_up() {
    let portal = portal("one");
    let core = |requests: u64, initiator: &str| {
        let ledger = Rc::new(Ledger::default());
        let traffic = connection(&ledger, &portal, initiator);
        for _ in 0..requests {
            traffic.done(Verb::Write, 10, at(0), at(2), false);
        }
        ledger.figures()
    };
    let mut sum = core(3, "a");
    sum.add(core(4, "b"));
    sum.add(core(5, "a"));
    let write = &sum.portals[0].verbs[Verb::Write as usize];
    assert_eq!((sum.portals.len(), write.requests, write.bytes), (1, 12, 120));
    assert_eq!(write.times.as_ref().unwrap().buckets.iter().sum::<u64>(), 12);
    let counts: Vec<_> = sum.initiators.values().map(|verbs| verbs[1].requests).collect();
    assert_eq!(counts, [8, 4]);
}

#[test]
fn only_what_something_came_to_is_settled_and_nothing_of_it_twice() {
    let ledger = Rc::new(Ledger::default());
    let portal = portal("one");
    let [busy, idle] = ["a", "b"].map(|initiator| connection(&ledger, &portal, initiator));
    let nobodys = Traffic::of(&ledger, &portal);
    for round in 1..4 {
        busy.prompt(Verb::Write, 10);
        nobodys.prompt(Verb::Write, 1);
        assert!(busy.stirred.get() && !idle.stirred.get());
        let figures = ledger.figures();
        let write = &figures.portals[0].verbs[Verb::Write as usize];
        assert_eq!((write.requests, write.bytes), (2 * round, 11 * round));
        let of = |name: &str| figures.initiators[&("iscsi", name.to_owned())][Verb::Write as usize].bytes;
        assert_eq!((of("a"), of("b")), (10 * round, 0));
        assert!(!busy.stirred.get() && ledger.stirred.borrow().is_empty());
    }
    nobodys.belongs_to("b");
    let figures = ledger.figures();
    let write = figures.initiators[&("iscsi", "b".to_owned())][Verb::Write as usize];
    assert_eq!((write.requests, write.bytes), (3, 3), "what came before it was known whose it is");
    busy.prompt(Verb::Write, 10);
    drop(busy);
    assert!(ledger.stirred.borrow().is_empty(), "nobody has to ask for that");
}

#[test]
fn operations_are_in_flight_until_they_end() {
    let ledger = Rc::new(Ledger::default());
    let portal = portal("one");
    let traffic = connection(&ledger, &portal, "a");
    let in_flight = || ledger.figures().portals[0].in_flight;
    let (first, second) = (traffic.pending(), traffic.pending());
    assert_eq!(in_flight(), 2);
    drop(first);
    assert_eq!(in_flight(), 1);
    drop(traffic);
    assert_eq!(in_flight(), 1, "it has not ended with its connection");
    drop(second);
    assert_eq!(in_flight(), 0);
}

#[test]
fn guests_count_until_they_leave() {
    let ledger = Rc::new(Ledger::default());
    let enter = |name: &str, venue: &Venue| Guest::enter(ledger.clone(), "nvme", name, venue.clone());
    let (volume, subsystem) = (Venue::Volume(3), Venue::Subsystem("nqn".into()));
    let guests = [enter("a", &volume), enter("a", &volume), enter("b", &volume), enter("a", &subsystem)];
    let told = || -> Vec<(String, Venue, u64)> {
        let guests = ledger.guests().into_iter();
        guests.map(|(_, name, venue, sessions)| (name.to_string(), venue, sessions)).collect()
    };
    let [a, b] = ["a", "b"].map(str::to_owned);
    let all = [(a.clone(), volume.clone(), 2), (a.clone(), subsystem, 1), (b, volume.clone(), 1)];
    assert_eq!(told(), all);
    let [first, second, third, fourth] = guests;
    drop((first, third, fourth));
    assert_eq!(told(), [(a, volume, 1)]);
    drop(second);
    assert!(told().is_empty());
}
