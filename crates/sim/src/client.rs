//! A machine with initiators.

use std::time::Duration;

use lab::initiator::iscsi::Wishes;
use lab::initiator::{IscsiSession, OpenError, OpenOptions, Session};
use lab::target::{IscsiTarget, Target};
use ring::sim::{Node, World};
use ring::{Reactor, Ring};

use crate::node::Server;

/// How long a command may take before its connection is given up.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// A client machine with its reactor.
pub struct Client {
    machine: Node,
    reactor: Reactor,
    number: u64,
}

impl Client {
    /// Switches machine `number` on.
    pub fn new(world: &World, number: u64) -> Client {
        let machine = world.node(&format!("client {number}"));
        let reactor = machine.reactor();
        Client { machine, reactor, number }
    }

    /// The machine, for accidents.
    pub fn machine(&self) -> &Node {
        &self.machine
    }

    /// Its reactor.
    pub fn reactor(&self) -> &Reactor {
        &self.reactor
    }

    /// `kill -9` of its process, or with `power` the end of its power; then it comes again, with nothing running.
    pub fn reboot(&mut self, power: bool) {
        if power {
            self.machine.power_cut();
        } else {
            self.machine.kill();
        }
        self.reactor = self.machine.reactor();
    }

    /// How session `session` of this machine gets to a volume. The same number is the same nexus again.
    pub fn connector(&self, server: &Server, volume: usize, portal: usize, session: u64) -> Connector {
        let target = Target::Iscsi(IscsiTarget {
            host: server.machine().address().to_string(),
            port: server.ports()[portal % server.ports().len()],
            name: server.volumes()[volume].target(),
            lun: 0,
            chap: None,
            mutual: None,
        });
        let options = OpenOptions {
            session_id: session,
            initiator_name: format!("iqn.2026-11.internal.fels:client-{}", self.number),
            timeout: PATIENCE,
            ..OpenOptions::default()
        };
        Connector { ring: self.reactor.ring().clone(), target, options }
    }
}

/// Opens sessions of one nexus.
#[derive(Clone)]
pub struct Connector {
    ring: Ring,
    target: Target,
    options: OpenOptions,
}

impl Connector {
    /// The reactor on which its sessions live.
    pub fn ring(&self) -> &Ring {
        &self.ring
    }

    /// Draws digests and the way in which data is sent.
    #[must_use]
    pub fn varied(mut self, random: &mut fastrand::Rng) -> Connector {
        self.options.header_digest = random.bool();
        self.options.data_digest = random.bool();
        let first_burst = 512 << random.u32(0..10);
        self.options.wishes = Wishes {
            immediate_data: random.bool(),
            initial_r2t: random.bool(),
            first_burst,
            max_burst: first_burst << random.u32(0..3),
        };
        self
    }

    /// Logs in.
    pub async fn connect(&self) -> Result<IscsiSession, OpenError> {
        match Session::open(&self.ring, &self.target, &self.options).await? {
            Session::Iscsi(session) => Ok(session),
            _ => unreachable!("the target is an iSCSI one"),
        }
    }
}
