//! The simulated network: ordered byte streams between nodes, cut, delayed, stalled and reset.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::RawFd;

use super::settings::draw;
use super::state::{Caller, Event, Object, State};
use crate::op::Operation;

/// Connections that a listener holds before they are accepted.
const BACKLOG: usize = 4096;
/// The first port that is given to who asks for none.
pub(super) const FIRST_PORT: u16 = 32768;

pub(super) struct Listening {
    pub(super) node: usize,
    address: SocketAddr,
    accepts: VecDeque<Caller>,
    arrived: VecDeque<RawFd>,
}

struct Receive {
    caller: Caller,
    limit: usize,
    /// It goes on when it has brought something.
    stands: bool,
    takes_a_buffer: bool,
}

struct Sending {
    caller: Caller,
    bytes: Vec<u8>,
    sent: usize,
}

/// One end of a connection.
pub(super) struct Stream {
    pub(super) node: usize,
    local: SocketAddr,
    remote: Option<SocketAddr>,
    /// The other end, once it is known.
    peer: Option<(usize, RawFd)>,
    connecting: Option<Caller>,
    inbox: VecDeque<u8>,
    receives: VecDeque<Receive>,
    sends: VecDeque<Sending>,
    /// Bytes sent that the peer has not read.
    unread: usize,
    /// When the last message on its way from here arrives: none overtakes it.
    last_arrival: u64,
    /// The peer sends nothing more.
    peer_finished: bool,
    /// Shut down on this side.
    shut: bool,
    reset: bool,
    /// Told once, to the next receive.
    error: Option<i32>,
}

impl Stream {
    fn new(node: usize, local: SocketAddr, remote: Option<SocketAddr>) -> Stream {
        Stream {
            node,
            local,
            remote,
            peer: None,
            connecting: None,
            inbox: VecDeque::new(),
            receives: VecDeque::new(),
            sends: VecDeque::new(),
            unread: 0,
            last_arrival: 0,
            peer_finished: false,
            shut: false,
            reset: false,
            error: None,
        }
    }
}

/// What travels from node to node.
pub(super) struct Message {
    from: (usize, RawFd),
    to: usize,
    kind: Kind,
}

enum Kind {
    Connect {
        address: SocketAddr,
        source: SocketAddr,
    },
    Connected {
        to: RawFd,
    },
    Refused {
        to: RawFd,
    },
    Data {
        to: RawFd,
        bytes: Vec<u8>,
    },
    /// The peer has read so many bytes.
    Read {
        to: RawFd,
        count: usize,
    },
    Finish {
        to: RawFd,
    },
    Reset {
        to: RawFd,
    },
}

/// The address of a node.
pub(super) fn address_of(node: usize) -> Ipv4Addr {
    Ipv4Addr::from_bits(0x0a00_0001 + node as u32)
}

impl State {
    /// The node that owns an address, seen from `from`.
    fn owner(&self, address: IpAddr, from: usize) -> Option<usize> {
        if address.is_loopback() || address.is_unspecified() {
            return Some(from);
        }
        let IpAddr::V4(address) = address else { return None };
        let node = address.to_bits().checked_sub(0x0a00_0001)? as usize;
        (node < self.nodes.len()).then_some(node)
    }

    fn stream(&mut self, descriptor: RawFd) -> Option<&mut Stream> {
        match self.objects.get_mut(&descriptor)? {
            Object::Stream(stream) => Some(stream),
            _ => None,
        }
    }

    fn listening(&mut self, descriptor: RawFd) -> Option<&mut Listening> {
        match self.objects.get_mut(&descriptor)? {
            Object::Listening(listening) => Some(listening),
            _ => None,
        }
    }

    fn listener_at(&self, node: usize, address: SocketAddr) -> Option<RawFd> {
        let found = self.objects.iter().find(|(_, object)| match object {
            Object::Listening(listening) => {
                listening.node == node
                    && listening.address.port() == address.port()
                    && (listening.address.ip() == address.ip()
                        || listening.address.ip().is_unspecified()
                        || address.ip().is_unspecified())
            }
            _ => false,
        });
        found.map(|(&descriptor, _)| descriptor)
    }

    fn free_port(&mut self, node: usize) -> u16 {
        let port = self.nodes[node].next_port;
        self.nodes[node].next_port = if port == u16::MAX { FIRST_PORT } else { port + 1 };
        port
    }

    pub(super) fn listen(&mut self, node: usize, mut address: SocketAddr) -> io::Result<RawFd> {
        if self.owner(address.ip(), node) != Some(node) {
            return Err(io::Error::from_raw_os_error(libc::EADDRNOTAVAIL));
        }
        if address.port() == 0 {
            address.set_port(self.free_port(node));
        }
        if self.listener_at(node, address).is_some() {
            return Err(io::Error::from_raw_os_error(libc::EADDRINUSE));
        }
        self.note("listen", node as u64, u64::from(address.port()));
        let listening = Listening { node, address, accepts: VecDeque::new(), arrived: VecDeque::new() };
        Ok(self.add(Object::Listening(listening)))
    }

    pub(super) fn new_stream(&mut self, node: usize, to: SocketAddr) -> RawFd {
        let ip = if self.owner(to.ip(), node) == Some(node) { to.ip() } else { address_of(node).into() };
        let local = SocketAddr::new(ip, self.free_port(node));
        self.add(Object::Stream(Box::new(Stream::new(node, local, None))))
    }

    pub(super) fn local(&self, descriptor: RawFd) -> io::Result<SocketAddr> {
        match self.objects.get(&descriptor) {
            Some(Object::Listening(listening)) => Ok(listening.address),
            Some(Object::Stream(stream)) => Ok(stream.local),
            _ => Err(io::Error::from_raw_os_error(libc::EBADF)),
        }
    }

    pub(super) fn peer(&self, descriptor: RawFd) -> io::Result<SocketAddr> {
        match self.objects.get(&descriptor) {
            Some(Object::Stream(stream)) if !stream.reset => {
                stream.remote.ok_or(io::Error::from_raw_os_error(libc::ENOTCONN))
            }
            Some(Object::Stream(_)) => Err(io::Error::from_raw_os_error(libc::ENOTCONN)),
            _ => Err(io::Error::from_raw_os_error(libc::EBADF)),
        }
    }

    /// Puts a message on its way; those of one end arrive in order.
    fn post(&mut self, from: (usize, RawFd), to: usize, kind: Kind) {
        let range = if from.0 == to { &self.settings.loopback } else { &self.settings.latency };
        let mut time = self.now + draw(&mut self.nodes[from.0].network_random, range);
        if let Some(stream) = self.stream(from.1) {
            time = time.max(stream.last_arrival);
            stream.last_arrival = time;
        }
        self.schedule(time, Event::Deliver(Message { from, to, kind }));
    }

    /// Whether nothing gets from one node to another now.
    fn is_cut_off(&self, from: usize, to: usize) -> bool {
        self.nodes[to].down || self.partitions.contains(&(from.min(to), from.max(to)))
    }

    /// Delivers the messages that can get through again: before those that arrive at this very moment, which were sent later.
    pub(super) fn release_held(&mut self) {
        for message in std::mem::take(&mut self.held) {
            self.deliver(message);
        }
    }

    pub(super) fn deliver(&mut self, message: Message) {
        if self.is_cut_off(message.from.0, message.to) {
            self.held.push(message);
            return;
        }
        let Message { from, to: node, kind } = message;
        match kind {
            Kind::Connect { address, source } => self.arrive(from, node, address, source),
            Kind::Connected { to } => {
                let Some(stream) = self.stream(to) else {
                    return self.post((node, to), from.0, Kind::Reset { to: from.1 });
                };
                stream.peer = Some(from);
                let caller = stream.connecting.take();
                self.note("connected", to as u64, from.1 as u64);
                if let Some(caller) = caller {
                    self.complete(caller, 0, Vec::new());
                }
            }
            Kind::Refused { to } => {
                let caller = self.stream(to).and_then(|stream| stream.connecting.take());
                if let Some(caller) = caller {
                    self.fail(caller, libc::ECONNREFUSED);
                }
            }
            Kind::Data { to, bytes } => match self.stream(to) {
                Some(stream) if !stream.shut && !stream.reset => {
                    stream.inbox.extend(&bytes);
                    self.note("data", to as u64, bytes.len() as u64);
                    self.serve_receives(to);
                }
                Some(stream) if stream.reset => {}
                _ => {
                    self.post((node, to), from.0, Kind::Reset { to: from.1 });
                    self.reset(to);
                }
            },
            Kind::Read { to, count } => {
                if let Some(stream) = self.stream(to) {
                    stream.unread = stream.unread.saturating_sub(count);
                    self.pump(to);
                }
            }
            Kind::Finish { to } => {
                if let Some(stream) = self.stream(to) {
                    stream.peer_finished = true;
                    self.note("finish", to as u64, 0);
                    self.serve_receives(to);
                }
            }
            Kind::Reset { to } => self.reset(to),
        }
    }

    /// A connection comes in.
    fn arrive(&mut self, from: (usize, RawFd), node: usize, address: SocketAddr, source: SocketAddr) {
        let listener = self.listener_at(node, address);
        let room = listener.and_then(|at| self.listening(at)).is_some_and(|at| at.arrived.len() < BACKLOG);
        let (Some(listener), true) = (listener, room) else {
            return self.post((node, -1), from.0, Kind::Refused { to: from.1 });
        };
        let mut stream = Stream::new(node, address, Some(source));
        stream.peer = Some(from);
        let descriptor = self.add(Object::Stream(Box::new(stream)));
        self.note("arrive", node as u64, descriptor as u64);
        self.post((node, descriptor), from.0, Kind::Connected { to: from.1 });
        if let Some(listening) = self.listening(listener) {
            listening.arrived.push_back(descriptor);
        }
        self.serve_accepts(listener);
    }

    fn serve_accepts(&mut self, listener: RawFd) {
        while let Some(listening) = self.listening(listener)
            && !listening.accepts.is_empty()
            && let Some(descriptor) = listening.arrived.pop_front()
        {
            let caller = listening.accepts.pop_front();
            if let Some(caller) = caller {
                self.complete(caller, descriptor, Vec::new());
            }
        }
    }

    /// Hands over what has come to those who wait for it.
    fn serve_receives(&mut self, descriptor: RawFd) {
        let cut = self.settings.cut;
        loop {
            let Some(Object::Stream(stream)) = self.objects.get_mut(&descriptor) else { return };
            let Some(receive) = stream.receives.front() else { return };
            let &Receive { caller, limit, stands, takes_a_buffer } = receive;
            let buffers = &self.reactors[caller.reactor].receive_buffers;
            if takes_a_buffer && !stream.inbox.is_empty() && buffers.are_all_held() {
                stream.receives.pop_front();
                self.fail(caller, libc::ENOBUFS);
                continue;
            }
            let random = &mut self.nodes[stream.node].network_random;
            let (result, bytes) = if !stream.inbox.is_empty() {
                let mut count = stream.inbox.len().min(limit);
                if count > 1 && random.f64() < cut {
                    count = random.usize(1..count);
                }
                (count as i32, stream.inbox.drain(..count).collect())
            } else if let Some(error) = stream.error.take() {
                (-error, Vec::new())
            } else if stream.peer_finished || stream.shut || stream.reset {
                (0, Vec::new())
            } else {
                return;
            };
            // One that stands may end at any time: a kernel's does when it finds no buffer.
            let more = stands && !bytes.is_empty() && random.u8(..32) > 0;
            if !more {
                stream.receives.pop_front();
            }
            let (node, peer) = (stream.node, stream.peer);
            if let Some((peer_node, peer)) = peer
                && !bytes.is_empty()
            {
                self.post((node, descriptor), peer_node, Kind::Read { to: peer, count: bytes.len() });
            }
            if more {
                self.bring(caller, result, bytes);
            } else {
                self.complete(caller, result, bytes);
            }
        }
    }

    /// Sends as much as the peer's window takes, in pieces of any size.
    fn pump(&mut self, descriptor: RawFd) {
        let (cut, window) = (self.settings.cut, self.settings.window);
        loop {
            let Some(Object::Stream(stream)) = self.objects.get_mut(&descriptor) else { return };
            let Some((peer_node, peer)) = stream.peer else { return };
            let Some(sending) = stream.sends.front_mut() else { return };
            let room = window.saturating_sub(stream.unread);
            let left = sending.bytes.len() - sending.sent;
            let node = stream.node;
            if left == 0 {
                let (caller, sent) = (sending.caller, sending.sent);
                stream.sends.pop_front();
                self.complete(caller, sent as i32, Vec::new());
                continue;
            }
            if room == 0 {
                return;
            }
            let mut count = left.min(room);
            let random = &mut self.nodes[node].network_random;
            if count > 1 && random.f64() < cut {
                count = random.usize(1..count);
            }
            let bytes = sending.bytes[sending.sent..sending.sent + count].to_vec();
            sending.sent += count;
            stream.unread += count;
            self.post((node, descriptor), peer_node, Kind::Data { to: peer, bytes });
        }
    }

    /// The peer is gone and says so.
    fn reset(&mut self, descriptor: RawFd) {
        let Some(stream) = self.stream(descriptor) else { return };
        if stream.reset {
            return;
        }
        stream.reset = true;
        stream.error = Some(libc::ECONNRESET);
        let connecting = stream.connecting.take();
        self.note("reset", descriptor as u64, 0);
        if let Some(caller) = connecting {
            self.fail(caller, libc::ECONNREFUSED);
        }
        self.fail_sends(descriptor, libc::ECONNRESET);
        self.serve_receives(descriptor);
    }

    /// Resets both ends of every connection between two nodes at once, as a machine between them does that has forgotten
    /// them. What is on its way is lost.
    pub(super) fn cut(&mut self, one: usize, other: usize) {
        let mut ends = BTreeSet::new();
        for (descriptor, object) in &self.objects {
            if let Object::Stream(stream) = object
                && let Some((peer_node, peer)) = stream.peer
                && (stream.node.min(peer_node), stream.node.max(peer_node))
                    == (one.min(other), one.max(other))
            {
                ends.extend([*descriptor, peer]);
            }
        }
        for descriptor in ends {
            self.reset(descriptor);
        }
    }

    /// Ends all sends: with what has gone out, if anything has.
    fn fail_sends(&mut self, descriptor: RawFd, errno: i32) {
        let sends = self.stream(descriptor).map(|stream| std::mem::take(&mut stream.sends));
        for sending in sends.into_iter().flatten() {
            let result = if sending.sent > 0 { sending.sent as i32 } else { -errno };
            self.complete(sending.caller, result, Vec::new());
        }
    }

    pub(super) fn shutdown(&mut self, descriptor: RawFd) {
        let Some(stream) = self.stream(descriptor) else { return };
        if std::mem::replace(&mut stream.shut, true) {
            return;
        }
        let (node, peer, reset) = (stream.node, stream.peer, stream.reset);
        self.note("shutdown", descriptor as u64, 0);
        self.fail_sends(descriptor, libc::EPIPE);
        if let Some((peer_node, peer)) = peer
            && !reset
        {
            self.post((node, descriptor), peer_node, Kind::Finish { to: peer });
        }
        self.serve_receives(descriptor);
    }

    /// The last user of a descriptor is gone.
    pub(super) fn close(&mut self, descriptor: RawFd) {
        self.note("close", descriptor as u64, 0);
        match self.objects.get_mut(&descriptor) {
            Some(Object::Listening(listening)) => {
                let arrived = std::mem::take(&mut listening.arrived);
                for stream in arrived {
                    self.abort(stream);
                }
            }
            Some(Object::Stream(stream)) => {
                let (node, peer) = (stream.node, stream.peer);
                let (unread, shut) = (!stream.inbox.is_empty(), stream.shut);
                if unread {
                    return self.abort(descriptor);
                }
                if let Some((peer_node, peer)) = peer
                    && !shut
                    && !stream.reset
                {
                    self.post((node, descriptor), peer_node, Kind::Finish { to: peer });
                }
            }
            Some(Object::File { .. }) => self.close_file(descriptor),
            None => {}
        }
        self.objects.remove(&descriptor);
    }

    /// Ends a connection so that its peer sees a reset.
    fn abort(&mut self, descriptor: RawFd) {
        let Some(stream) = self.stream(descriptor) else { return };
        let (node, peer, reset) = (stream.node, stream.peer, stream.reset);
        if let Some((peer_node, peer)) = peer
            && !reset
        {
            self.post((node, descriptor), peer_node, Kind::Reset { to: peer });
        }
        self.objects.remove(&descriptor);
    }

    /// The peers of a killed process's connections see them reset.
    pub(super) fn reset_peers(&mut self, objects: BTreeMap<RawFd, Object>) {
        for (descriptor, object) in objects {
            if let Object::Stream(stream) = object
                && let Some((to, peer)) = stream.peer
                && !stream.reset
            {
                // After all that it has sent before.
                let message = Message { from: (stream.node, descriptor), to, kind: Kind::Reset { to: peer } };
                self.schedule(stream.last_arrival, Event::Deliver(message));
            }
        }
    }

    /// Begins an operation on a listener or connection. `limit`: most bytes to receive; `bytes`: what to send.
    pub(super) fn begin_network(
        &mut self,
        caller: Caller,
        operation: Operation,
        descriptor: RawFd,
        limit: usize,
        bytes: Vec<u8>,
    ) {
        match (operation, self.objects.get_mut(&descriptor)) {
            (Operation::Accept, Some(Object::Listening(listening))) => {
                listening.accepts.push_back(caller);
                self.serve_accepts(descriptor);
            }
            (Operation::Connect { to }, Some(Object::Stream(stream))) => {
                stream.connecting = Some(caller);
                stream.remote = Some(to);
                let (node, source) = (stream.node, stream.local);
                match self.owner(to.ip(), node) {
                    Some(target) => {
                        self.post((node, descriptor), target, Kind::Connect { address: to, source });
                    }
                    None => self.fail(caller, libc::EHOSTUNREACH),
                }
            }
            (operation, Some(Object::Stream(stream))) if operation.receives() => {
                let stands = matches!(operation, Operation::KeepReceiving);
                let takes_a_buffer = operation.takes_a_receive_buffer();
                stream.receives.push_back(Receive { caller, limit, stands, takes_a_buffer });
                self.serve_receives(descriptor);
            }
            (Operation::Send, Some(Object::Stream(stream))) => {
                let refused = if stream.shut || stream.reset {
                    Some(libc::EPIPE)
                } else {
                    stream.peer.is_none().then_some(libc::ENOTCONN)
                };
                stream.sends.push_back(Sending { caller, bytes, sent: 0 });
                match refused {
                    Some(errno) => self.fail_sends(descriptor, errno),
                    None => self.pump(descriptor),
                }
            }
            (_, Some(_)) => self.fail(caller, libc::ENOTSOCK),
            (_, None) => self.fail(caller, libc::EBADF),
        }
    }

    /// Ends a network operation that nobody waits for any more.
    pub(super) fn cancel_network(&mut self, caller: Caller) {
        let Some(descriptor) = self.descriptor_of(caller) else { return };
        let mut result = None;
        match self.objects.get_mut(&descriptor) {
            Some(Object::Listening(listening)) => {
                listening.accepts.retain(|waiting| *waiting != caller);
                result = Some(-libc::ECANCELED);
            }
            Some(Object::Stream(stream)) => {
                stream.receives.retain(|receive| receive.caller != caller);
                let sending = stream.sends.iter().position(|sending| sending.caller == caller);
                let sent = sending.and_then(|at| stream.sends.remove(at)).map_or(0, |sending| sending.sent);
                if stream.connecting == Some(caller) {
                    stream.connecting = None;
                }
                result = Some(if sent > 0 { sent as i32 } else { -libc::ECANCELED });
            }
            Some(Object::File { .. }) | None => {}
        }
        if let Some(result) = result {
            self.complete(caller, result, Vec::new());
        }
    }
}
