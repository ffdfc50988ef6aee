//! What happens to pools, found by comparing how they are with how they were a second ago. Cores need not tell anybody anything,
//! and nothing is lost that lasts: what is counted is counted on.

use std::collections::HashMap;
use std::time::Duration;

use monitor::event::Event;
use plane::pool::{Handle, MemberState, MemberStatus, Pools, Status};

use super::Events;

/// How often pools are looked at.
const INTERVAL: Duration = Duration::from_secs(1);

/// Tells what happens to pools, for as long as it is polled.
pub(crate) async fn watch(pools: Pools, events: Events) {
    let mut seen: HashMap<String, Status> = HashMap::new();
    let mut interval = tokio::time::interval(INTERVAL);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        let open = pools.list();
        // One that is opened again counts anew.
        seen.retain(|name, _| open.iter().any(|pool| pool.pool().shared().name == *name));
        for pool in open {
            let now = Handle::new(pool.pool().shared().clone()).status();
            let before = seen.get(&now.name);
            for event in happened(before, &now) {
                events.tell(event);
            }
            seen.insert(now.name.clone(), now);
        }
        pools.any().await;
    }
}

/// What happened between two looks; with the first one, what is not as it should be.
pub(super) fn happened(before: Option<&Status>, now: &Status) -> Vec<Event> {
    let mut events = Vec::new();
    let pool = || now.name.clone();
    let grown = |count: fn(&Status) -> u64| count(now).saturating_sub(before.map_or(0, count));
    for (slot, member) in now.members.iter().enumerate() {
        let was = before.and_then(|before| before.members.get(slot));
        let spares = before.map_or(&[][..], |before| &before.spares);
        let was_spare = member.place.is_some() && spares.iter().any(|spare| spare.place == member.place);
        events.extend(of_member(pool(), slot as u64, was, member, was_spare));
    }
    if now.has_failed && before.is_none_or(|before| !before.has_failed) {
        events.push(Event::PoolFailed { pool: pool() });
    }
    let (repaired, lost) = (grown(|status| status.repaired), grown(|status| status.lost));
    if repaired > 0 {
        events.push(Event::BlocksRepaired { pool: pool(), count: repaired });
    }
    if lost > 0 {
        events.push(Event::BlocksUnrepairable { pool: pool(), count: lost });
    }
    events.extend(of_scrub(pool(), before, now));
    events
}

fn of_scrub(pool: String, before: Option<&Status>, now: &Status) -> Vec<Event> {
    let (ran, begun) = before.map_or((false, 0), |before| (before.scrub.runs, before.scrub.begun));
    let is_new = now.scrub.begun > begun || (now.scrub.runs && !ran);
    let has_ended = !now.scrub.runs && (ran || is_new);
    let mut events = Vec::new();
    if is_new {
        events.push(Event::ScrubBegun { pool: pool.clone() });
    }
    if has_ended {
        let scrub = &now.scrub;
        events.push(Event::ScrubEnded { pool, bad: scrub.bad, repaired: scrub.repaired, lost: scrub.lost });
    }
    events
}

/// How a slot is, without how far it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Slot {
    InSync,
    Rebuilding,
    Out,
}

fn slot_of(member: &MemberStatus) -> Slot {
    match member.state {
        MemberState::InSync => Slot::InSync,
        MemberState::Rebuilding { .. } => Slot::Rebuilding,
        MemberState::Out => Slot::Out,
    }
}

fn of_member(
    pool: String,
    slot: u64,
    was: Option<&MemberStatus>,
    member: &MemberStatus,
    was_spare: bool,
) -> Vec<Event> {
    let place = member.place.clone().unwrap_or_default();
    let before = was.map_or(Slot::InSync, slot_of);
    let is_other = was.is_some_and(|was| was.place != member.place && member.place.is_some());
    let mut events = Vec::new();
    let now = slot_of(member);
    match (before, now) {
        (Slot::InSync | Slot::Rebuilding, Slot::Out) => {
            let cause = member.cause.map(|cause| cause.to_string()).unwrap_or_default();
            events.push(Event::MemberFaulted { pool: pool.clone(), slot, place: place.clone(), cause });
        }
        _ if now != Slot::Out && was_spare && is_other => {
            events.push(Event::SpareTookOver { pool: pool.clone(), slot, place: place.clone() });
        }
        _ if now != Slot::Out && is_other => {
            events.push(Event::MemberReplaced { pool: pool.clone(), slot, place: place.clone() });
        }
        // Nobody knows yet what comes of one that is being rebuilt at the start.
        (Slot::Out, Slot::Rebuilding | Slot::InSync) => {
            events.push(Event::MemberReturned { pool: pool.clone(), slot, place: place.clone() });
        }
        _ => {}
    }
    if now == Slot::InSync && (before != Slot::InSync || is_other) {
        events.push(Event::MemberRebuilt { pool: pool.clone(), slot });
    }
    match (was.is_some_and(|was| was.slow), member.slow) {
        (false, true) => events.push(Event::MemberSlow { pool, slot, place }),
        (true, false) if now == Slot::InSync => events.push(Event::MemberQuick { pool, slot }),
        _ => {}
    }
    events
}
