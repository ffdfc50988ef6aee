//! The state of a world: clock, events, and what every reactor has in flight.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::fd::RawFd;
use std::rc::Weak;

use super::disk::Disk;
use super::network::{Listening, Message, Stream};
use super::receive_buffers::{Hold, ReceiveBuffers};
use super::settings::{Settings, draw};
use crate::op::{OpKey, Operation};
use crate::ring::Inner;

/// Which reactor, and which of its operations.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Caller {
    pub(super) reactor: usize,
    pub(super) key: OpKey,
}

/// What happens at a point in time.
pub(super) enum Event {
    Deliver(Message),
    /// The disk operation `id` of a file is done.
    Disk {
        node: usize,
        file: usize,
        id: u64,
    },
}

/// The end of an operation, or what it has brought if it goes on (`more`), on its way to its reactor.
pub(super) struct Completion {
    pub(super) key: OpKey,
    pub(super) result: i32,
    pub(super) bytes: Vec<u8>,
    /// The receive buffer that they came in.
    pub(super) hold: Option<Hold>,
    pub(super) more: bool,
}

pub(super) struct ReactorState {
    pub(super) node: usize,
    pub(super) inner: Weak<Inner>,
    /// False once it was dropped, or its node lost it.
    pub(super) alive: bool,
    pub(super) completions: VecDeque<Completion>,
    /// It is not run before.
    pub(super) naps_until: u64,
    /// Received bytes whose completion has been seen, by the number that stands in its flags.
    pub(super) chunks: BTreeMap<u32, (Vec<u8>, Hold)>,
    pub(super) next_chunk: u32,
    pub(super) receive_buffers: ReceiveBuffers,
}

pub(super) struct NodeState {
    pub(super) name: String,
    /// Without power: nothing reaches it, nothing leaves it.
    pub(super) down: bool,
    pub(super) next_port: u16,
    pub(super) disk: Disk,
    pub(super) network_random: fastrand::Rng,
}

/// What a descriptor of a simulated process stands for.
pub(super) enum Object {
    Listening(Listening),
    Stream(Box<Stream>),
    File { node: usize, file: usize, read_only: bool, direct: bool },
}

impl Object {
    pub(super) fn node(&self) -> usize {
        match self {
            Object::Listening(listening) => listening.node,
            Object::Stream(stream) => stream.node,
            Object::File { node, .. } => *node,
        }
    }
}

struct Pending {
    operation: Operation,
    descriptor: RawFd,
    since: u64,
}

pub(super) struct State {
    pub(super) seed: u64,
    pub(super) settings: Settings,
    pub(super) now: u64,
    order: u64,
    pub(super) events: BTreeMap<(u64, u64), Event>,
    pub(super) nodes: Vec<NodeState>,
    pub(super) reactors: Vec<ReactorState>,
    pub(super) objects: BTreeMap<RawFd, Object>,
    next_descriptor: RawFd,
    pending: BTreeMap<Caller, Pending>,
    pub(super) partitions: BTreeSet<(usize, usize)>,
    /// Messages that cannot get through now, in the order in which they were sent.
    pub(super) held: Vec<Message>,
    pub(super) schedule_random: fastrand::Rng,
    pub(super) nap_random: fastrand::Rng,
    trace: u64,
}

/// A source of random numbers of its own for each purpose, so that a new use of one does not shift the others.
pub(super) fn random(seed: u64, purpose: &str) -> fastrand::Rng {
    let mixed = purpose.bytes().fold(seed ^ 0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3).rotate_left(29)
    });
    fastrand::Rng::with_seed(mixed)
}

/// A time for people.
pub(super) fn seconds(nanoseconds: u64) -> String {
    format!("{}.{:06} s", nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000 / 1000)
}

impl State {
    pub(super) fn new(seed: u64, settings: Settings) -> State {
        State {
            seed,
            settings,
            now: 0,
            order: 0,
            events: BTreeMap::new(),
            nodes: Vec::new(),
            reactors: Vec::new(),
            objects: BTreeMap::new(),
            next_descriptor: 3,
            pending: BTreeMap::new(),
            partitions: BTreeSet::new(),
            held: Vec::new(),
            schedule_random: random(seed, "schedule"),
            nap_random: random(seed, "naps"),
            trace: 0xcbf2_9ce4_8422_2325,
        }
    }

    /// Adds what happened to the trace.
    pub(super) fn note(&mut self, what: &str, one: u64, two: u64) {
        let words = [self.now, one, two];
        let bytes = what.bytes().chain(words.into_iter().flat_map(u64::to_le_bytes));
        self.trace =
            bytes.fold(self.trace, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    }

    pub(super) fn trace(&self) -> u64 {
        self.trace
    }

    /// Lets `event` happen at `time`, after all that was scheduled for the same time before.
    pub(super) fn schedule(&mut self, time: u64, event: Event) {
        self.order += 1;
        self.events.insert((time.max(self.now), self.order), event);
    }

    /// Moves the clock to the next event and lets it happen.
    pub(super) fn next_event(&mut self) {
        let Some(((time, _), event)) = self.events.pop_first() else { return };
        self.now = self.now.max(time);
        match event {
            Event::Deliver(message) => self.deliver(message),
            Event::Disk { node, file, id } => self.finish_disk(node, file, id),
        }
    }

    pub(super) fn next_event_time(&self) -> Option<u64> {
        self.events.first_key_value().map(|((time, _), _)| *time)
    }

    pub(super) fn add(&mut self, object: Object) -> RawFd {
        let descriptor = self.next_descriptor;
        self.next_descriptor = descriptor.checked_add(1).expect("fewer than 2^31 descriptors in a run");
        self.objects.insert(descriptor, object);
        descriptor
    }

    pub(super) fn begin(&mut self, caller: Caller, operation: Operation, descriptor: RawFd) {
        let pending = Pending { operation, descriptor, since: self.now };
        self.pending.insert(caller, pending);
    }

    pub(super) fn descriptor_of(&self, caller: Caller) -> Option<RawFd> {
        self.pending.get(&caller).map(|pending| pending.descriptor)
    }

    /// The operation has ended; its reactor sees it in its next turn.
    pub(super) fn complete(&mut self, caller: Caller, result: i32, bytes: Vec<u8>) {
        // A reactor that is gone has been told so already; one without power never hears of it.
        if self.reactors[caller.reactor].alive
            && let Some(Pending { operation, .. }) = self.pending.remove(&caller)
        {
            self.tell(caller, operation, result, bytes, false);
        }
    }

    /// The operation goes on; its reactor sees what it has brought in its next turn.
    pub(super) fn bring(&mut self, caller: Caller, result: i32, bytes: Vec<u8>) {
        if self.reactors[caller.reactor].alive
            && let Some(&Pending { operation, .. }) = self.pending.get(&caller)
        {
            self.tell(caller, operation, result, bytes, true);
        }
    }

    fn tell(&mut self, caller: Caller, operation: Operation, result: i32, bytes: Vec<u8>, more: bool) {
        self.note(if more { "bring" } else { "complete" }, caller.key.to_bits(), result as u64);
        let reactor = &mut self.reactors[caller.reactor];
        let takes_one = operation.takes_a_receive_buffer() && !bytes.is_empty();
        let hold = takes_one.then(|| reactor.receive_buffers.take());
        reactor.completions.push_back(Completion { key: caller.key, result, bytes, hold, more });
    }

    /// After its next turn a reactor may not be run for a while.
    pub(super) fn nap(&mut self, reactor: usize) {
        let (chance, span) = (self.settings.nap_chance, self.settings.nap.clone());
        if chance > 0.0 && self.nap_random.f64() < chance {
            self.reactors[reactor].naps_until = self.now + draw(&mut self.nap_random, &span);
        }
    }

    /// Keeps received bytes until their reactor asks, and gives their number, which is never 0.
    pub(super) fn keep_chunk(&mut self, reactor: usize, bytes: Vec<u8>, hold: Hold) -> u32 {
        let reactor = &mut self.reactors[reactor];
        reactor.next_chunk = reactor.next_chunk.wrapping_add(1).max(1);
        reactor.chunks.insert(reactor.next_chunk, (bytes, hold));
        reactor.next_chunk
    }

    pub(super) fn fail(&mut self, caller: Caller, errno: i32) {
        self.complete(caller, -errno, Vec::new());
    }

    /// The reactor is dropped: whatever it still has in flight ends for it. What was begun on a disk goes on there.
    pub(super) fn leave(&mut self, reactor: usize) {
        let (first, last) = (OpKey::from_bits(0), OpKey::from_bits(u64::MAX));
        let range = Caller { reactor, key: first }..=Caller { reactor, key: last };
        let callers: Vec<Caller> = self.pending.range(range).map(|(caller, _)| *caller).collect();
        for caller in callers {
            self.cancel_network(caller);
            if self.pending.remove(&caller).is_some() {
                let (key, bytes) = (caller.key, Vec::new());
                let end = Completion { key, result: -libc::ECANCELED, bytes, hold: None, more: false };
                self.reactors[reactor].completions.push_back(end);
            }
        }
        self.reactors[reactor].alive = false;
    }

    /// What is waited for, for people.
    pub(super) fn describe_pending(&self) -> Vec<String> {
        let alive = self.pending.iter().filter(|(caller, _)| self.reactors[caller.reactor].alive);
        let lines = alive.map(|(caller, pending)| {
            format!(
                "{} shard {}: {:?} on descriptor {} since {}",
                self.nodes[self.reactors[caller.reactor].node].name,
                self.shard(caller.reactor),
                pending.operation,
                pending.descriptor,
                seconds(pending.since)
            )
        });
        lines.take(20).collect()
    }

    /// The how-manieth reactor of its node this is.
    fn shard(&self, reactor: usize) -> usize {
        let node = self.reactors[reactor].node;
        self.reactors[..reactor].iter().filter(|other| other.node == node).count()
    }

    /// The node's processes end: their reactors and descriptors are gone. Gives the descriptors' objects.
    pub(super) fn take_processes(&mut self, node: usize) -> BTreeMap<RawFd, Object> {
        for reactor in self.reactors.iter_mut().filter(|reactor| reactor.node == node) {
            reactor.alive = false;
            // Nobody hears what they brought, but their operations are over: the reactor does not wait for them.
            for completion in &mut reactor.completions {
                completion.result = -libc::ECANCELED;
                completion.bytes.clear();
                completion.hold = None;
            }
        }
        let (gone, left) =
            std::mem::take(&mut self.objects).into_iter().partition(|(_, object)| object.node() == node);
        self.objects = left;
        gone
    }
}
