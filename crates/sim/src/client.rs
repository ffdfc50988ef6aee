//! A machine with initiators.

use std::time::Duration;

use lab::initiator::iscsi::Wishes;
use lab::initiator::{OpenError, OpenOptions, Session};
use lab::target::{IscsiTarget, NbdAddress, NbdTarget, NvmeTarget, Target};
use ring::sim::{Node, World};
use ring::{Reactor, Ring};

use crate::node::Server;
use crate::transport::Transport;

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

    /// How session `session` of this machine gets to a volume. The same number is the same nexus again, for iSCSI; the
    /// others know of no such thing.
    pub fn connector(
        &self,
        server: &Server,
        transport: Transport,
        volume: usize,
        portal: usize,
        session: u64,
    ) -> Connector {
        let plan = &server.volumes()[volume];
        let (host, port) = (server.machine().address().to_string(), transport.ports()[portal % 2]);
        let target = match transport {
            Transport::Iscsi => Target::Iscsi(IscsiTarget {
                host,
                port,
                name: plan.target(),
                lun: 0,
                chap: None,
                mutual: None,
            }),
            Transport::Nvme => {
                Target::Nvme(NvmeTarget { host, port, name: plan.nqn(), nsid: server.nsid(volume) })
            }
            Transport::Nbd => {
                Target::Nbd(NbdTarget { address: NbdAddress::Inet { host, port }, export: plan.name.clone() })
            }
        };
        let options = OpenOptions {
            session_id: session,
            initiator_name: format!("iqn.2026-11.internal.fels:client-{}", self.number),
            host_nqn: format!("nqn.2026-11.internal.fels:client-{}", self.number),
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

    /// Draws digests, flow control, the depth of the queue and the way in which data is sent.
    #[must_use]
    pub fn varied(mut self, random: &mut fastrand::Rng) -> Connector {
        self.options.header_digest = random.bool();
        self.options.data_digest = random.bool();
        self.options.without_flow_control = random.bool();
        self.options.depth = random.u32(2..16);
        // As the bursts of iSCSI, and not at the borders of anything.
        self.options.data_pdu = (512 << random.u32(0..10)) + 4 * random.u32(0..128);
        let first_burst = 512 << random.u32(0..10);
        self.options.wishes = Wishes {
            immediate_data: random.bool(),
            initial_r2t: random.bool(),
            first_burst,
            max_burst: first_burst << random.u32(0..3),
        };
        // Over NVMe/TCP what goes along with a command is as much as over iSCSI; the rest is asked for.
        self.options.in_capsule = if self.options.wishes.immediate_data { first_burst } else { 0 };
        self
    }

    /// Logs in, connects, or shakes hands.
    pub async fn connect(&self) -> Result<Session, OpenError> {
        Session::open(&self.ring, &self.target, &self.options).await
    }
}
