//! Reads and writes of the lab's initiators, together with the node that answers them. What a figure here has beyond that of
//! a batch of the node alone is the lab's, but for its choice of places and its histograms.

use std::rc::Rc;

use lab::Target;
use lab::initiator::{OpenOptions, Session};
use ring::{Buffer, Shared};

use super::node::{EXPORT, Node, SUBSYSTEM, TARGET};
use super::{BATCH, BYTES, REQUESTS, offset};

pub fn measure() {
    let node = Node::start();
    let portals = &node.portals;
    for (protocol, address) in [
        ("iscsi", format!("iscsi://{}/{TARGET}/0", portals.iscsi[0])),
        ("nvme", format!("nvme://{}/{SUBSYSTEM}/1", portals.nvme[0])),
        ("nbd", format!("nbd://{}/{EXPORT}", portals.nbd[0])),
    ] {
        let target: Target = address.parse().expect("it is an address");
        let ring = node.peer.ring().clone();
        let session = node.run(async move { Session::open(&ring, &target, &OpenOptions::default()).await });
        let session = Rc::new(session.expect("the node lets it in"));
        let data = Buffer::zeroed(BYTES).share();
        for (verb, data) in [("write", Some(data)), ("read", None)] {
            let name = format!("lab-with-{protocol}-{verb}");
            crate::meter::measure(&name, REQUESTS, |requests| {
                drive(&node, &session, data.as_ref(), requests);
            });
        }
    }
}

/// So many requests, a batch of them at any time.
fn drive(node: &Node, session: &Rc<Session>, data: Option<&Shared>, requests: u64) {
    let tasks: Vec<_> = (0..BATCH)
        .map(|first| {
            let (session, data) = (session.clone(), data.cloned());
            async move {
                for number in (first..requests).step_by(BATCH as usize) {
                    let operation = match &data {
                        Some(data) => session.write(offset(number), data.clone(), false),
                        None => session.read_unseen(offset(number), BYTES),
                    };
                    operation.await.expect("the node does what it is asked to");
                }
            }
        })
        .collect();
    node.run_all(tasks);
}
