//! What a session holds that does nothing. All of it is touched now and then, when its peer is asked whether it is there, and on
//! a machine whose host takes memory away that is what an idle node costs.

use plane::core::Portals;
use plane::volume::Backing;
use ring::count_allocations::held_by_this_thread;
use wire::nvme::fabrics::ConnectAttributes;

use super::nvme::Queue;
use super::{Client, Initiator, Node};

/// Sessions that come at first, for what a node has once for all of them, and those that are counted.
const FIRST: u16 = 8;
const SESSIONS: u16 = 40;

/// Bytes that a node holds for each session of those that `come` by one after the other, and have been answered.
fn held_for_each<T>(come: impl Fn(&Portals, u16) -> T) -> i64 {
    let node = Node::start(Backing::Memory);
    let first: Vec<T> = (0..FIRST).map(|number| come(&node.portals, number)).collect();
    let before = node.count(held_by_this_thread);
    let sessions: Vec<T> = (0..SESSIONS).map(|number| come(&node.portals, FIRST + number)).collect();
    let held = node.count(held_by_this_thread) - before;
    drop((first, sessions));
    node.stop();
    held / i64::from(SESSIONS)
}

#[test]
fn an_iscsi_session_that_does_nothing_holds_little() {
    let held = held_for_each(|portals, number| Initiator::log_in(portals.iscsi[0], number));
    assert!((2000..4800).contains(&held), "{held} bytes");
}

#[test]
fn an_nvme_controller_that_does_nothing_holds_little() {
    let all = ConnectAttributes::empty();
    let held = held_for_each(|portals, _| Queue::of_a_controller(portals.nvme[0], all));
    assert!((3000..8000).contains(&held), "{held} bytes of two queues");
}

#[test]
fn an_nbd_connection_that_does_nothing_holds_little() {
    let held = held_for_each(|portals, _| {
        let mut client = Client::connect(portals.nbd[0], false);
        client.work(1);
        client
    });
    assert!((1000..3200).contains(&held), "{held} bytes");
}
