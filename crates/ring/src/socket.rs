//! TCP and unix sockets: listeners and connections.

use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use crate::address::{self, Peer};
use crate::buffer::Buffer;
use crate::chunk::Chunk;
use crate::congestion::CongestionControl;
use crate::file::count;
use crate::handle::Handle;
use crate::op::{Keep, Operation};
use crate::ring::{Op, Ring};
use crate::send_list::{MAX_SEGMENTS, SendList};
use crate::sim::Afar;

/// Waits for connections.
pub struct Listener {
    handle: Rc<Handle>,
    /// The file of a unix socket; it goes with the listener.
    path: Option<PathBuf>,
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            std::fs::remove_file(path).ok();
        }
    }
}

impl Listener {
    /// Listens on `address`; port 0 takes a free one.
    pub fn bind(ring: &Ring, address: SocketAddr) -> io::Result<Listener> {
        Ok(Listener { handle: ring.handle(ring.0.driver.listen(address)?), path: None })
    }

    /// Listens on a unix socket at `path`, which its owner alone may use (mode 0600). The file that a dead listener
    /// has left there is replaced; where one lives, this is `AddrInUse`. The file is removed with the listener.
    pub fn bind_unix(ring: &Ring, path: &Path) -> io::Result<Listener> {
        let handle = ring.handle(ring.0.driver.listen_unix(path)?);
        Ok(Listener { handle, path: Some(path.to_owned()) })
    }

    /// Chooses how fast its connections send. Not for unix sockets. `NotFound`: the host has no such algorithm;
    /// `PermissionDenied`: only root may use it.
    pub fn set_congestion_control(&self, control: &CongestionControl) -> io::Result<()> {
        control.apply(&self.handle.ring().0.driver, self.handle.descriptor)
    }

    /// Where it listens. A unix socket has no such address.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.handle.ring().0.driver.local(self.handle.descriptor)
    }

    /// The next connection and its peer. Who is gone before he is taken, as who only looks whether somebody listens, is passed over.
    pub async fn accept(&self) -> io::Result<(Socket, Peer)> {
        let ring = self.handle.ring();
        loop {
            let outcome = ring.submit(&self.handle, Operation::Accept, Keep::Nothing).await;
            count(&outcome)?;
            let socket = Socket(ring.handle(outcome.result));
            let driver = &ring.0.driver;
            if self.path.is_some() {
                return Ok((socket, Peer::Unix { process: driver.peer_process(outcome.result)? }));
            }
            driver.set_no_delay(outcome.result)?;
            match ring.peer(outcome.result) {
                Err(error) if error.kind() == io::ErrorKind::NotConnected => {}
                peer => return Ok((socket, Peer::Inet(peer?))),
            }
        }
    }
}

/// One end of a connection. Clones share it.
#[derive(Clone)]
pub struct Socket(Rc<Handle>);

/// A connection on its way from one ring to another.
pub struct Detached {
    descriptor: RawFd,
    /// The simulated world that it belongs to; none when it is the kernel's.
    world: Option<Afar>,
}

impl Drop for Detached {
    fn drop(&mut self) {
        match &self.world {
            None => drop(crate::handle::own(self.descriptor)),
            Some(world) => world.close(self.descriptor),
        }
    }
}

impl Socket {
    /// Connects to `to`.
    pub async fn connect(ring: &Ring, to: SocketAddr) -> io::Result<Socket> {
        let socket = Socket(ring.handle(ring.0.driver.socket(to)?));
        // SAFETY: zeroes are a valid `sockaddr_storage`.
        let address = Box::new(unsafe { std::mem::zeroed() });
        count(&ring.submit(&socket.0, Operation::Connect { to }, Keep::Address(address)).await)?;
        ring.0.driver.set_no_delay(socket.0.descriptor)?;
        Ok(socket)
    }

    /// Chooses how fast it sends; see [`Listener::set_congestion_control`].
    pub fn set_congestion_control(&self, control: &CongestionControl) -> io::Result<()> {
        control.apply(&self.0.ring().0.driver, self.0.descriptor)
    }

    /// The name of what decides how fast it sends.
    pub fn congestion_control(&self) -> io::Result<String> {
        self.0.ring().0.driver.congestion_control(self.0.descriptor)
    }

    /// Connects to the unix socket at `path`.
    pub async fn connect_unix(ring: &Ring, path: &Path) -> io::Result<Socket> {
        let socket = Socket(ring.handle(ring.0.driver.socket_unix()?));
        // SAFETY: zeroes are a valid `sockaddr_storage`.
        let mut address = Box::new(unsafe { std::mem::zeroed() });
        let length = address::encode_unix(path, &mut address)?;
        let operation = Operation::ConnectUnix { length };
        count(&ring.submit(&socket.0, operation, Keep::Address(address)).await)?;
        Ok(socket)
    }

    /// The next bytes, as many as have come; empty at the end of the stream. Who gives up waiting may lose bytes that come
    /// at this moment.
    pub async fn receive(&self) -> io::Result<Chunk> {
        let ring = self.0.ring();
        loop {
            let outcome = ring.submit(&self.0, Operation::Receive, Keep::Nothing).await;
            match count(&outcome) {
                Ok(_) => return Ok(self.chunk(outcome.result, outcome.flags)),
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {
                    if !self.make_room() {
                        ring.sleep(Duration::from_micros(100)).await;
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// See [`Ring::make_room`].
    pub(crate) fn make_room(&self) -> bool {
        self.0.ring().make_room()
    }

    /// Whether a receive of so many bytes has filled its buffer.
    pub(crate) fn fills_a_buffer(&self, bytes: usize) -> bool {
        self.0.ring().0.driver.fills_a_buffer(bytes)
    }

    pub(crate) fn ring(&self) -> &Ring {
        self.0.ring()
    }

    /// Whether this core asks it itself for the next bytes, and for nobody else's.
    pub(crate) fn is_asked(&self) -> bool {
        self.ring().0.driver.asks(self.0.descriptor)
    }

    /// See [`crate::Inflow::several`].
    pub(crate) fn several(&self) {
        self.0.ring().note_several();
    }

    /// A receive that stands: see [`crate::Inflow`].
    pub(crate) fn keep_receiving(&self) -> Op {
        self.0.ring().submit(&self.0, Operation::KeepReceiving, Keep::Nothing)
    }

    #[inline]
    pub(crate) fn chunk(&self, result: i32, flags: u32) -> Chunk {
        self.0.ring().chunk(result, flags).unwrap_or_else(|| Chunk::owned(Buffer::empty()))
    }

    /// Bytes into `buffer` from `start`, as many as have come; 0 at the end of the stream.
    pub async fn receive_into(&self, buffer: Buffer, start: usize) -> (io::Result<usize>, Buffer) {
        let end = buffer.len();
        self.receive_range(buffer, start..end).await
    }

    /// The same into a part of `buffer` only. Panics when the part lies outside of it.
    pub async fn receive_range(&self, buffer: Buffer, part: Range<usize>) -> (io::Result<usize>, Buffer) {
        let operation = Operation::ReceiveInto { start: part.start, end: part.end };
        let outcome = self.0.ring().submit(&self.0, operation, Keep::Buffer(buffer)).await;
        let count = count(&outcome);
        let Keep::Buffer(buffer) = outcome.keep else { unreachable!("a receive keeps its buffer") };
        (count, buffer)
    }

    /// Sends the whole list, of at most [`MAX_SEGMENTS`] pieces. Less than all means that the peer is gone.
    pub async fn send(&self, mut list: Box<SendList>) -> (io::Result<()>, Box<SendList>) {
        assert!(list.segments() <= MAX_SEGMENTS);
        let ring = self.0.ring();
        if let Some(result) = ring.0.driver.send_at_once(self.0.descriptor, &mut list) {
            return (result, list);
        }
        let left = list.left();
        let outcome = ring.submit(&self.0, Operation::Send, Keep::List(list)).await;
        let result = match count(&outcome) {
            Ok(sent) if sent < left => Err(io::ErrorKind::WriteZero.into()),
            other => other.map(|_| ()),
        };
        let Keep::List(list) = outcome.keep else { unreachable!("a send keeps its list") };
        (result, list)
    }

    /// Ends the connection in both directions: waits of either side end.
    pub fn shutdown(&self) {
        self.0.ring().0.driver.shutdown(self.0.descriptor);
    }

    /// The peer's address. A unix socket has none.
    pub fn peer(&self) -> io::Result<SocketAddr> {
        self.0.ring().peer(self.0.descriptor)
    }

    /// Our own address. A unix socket has none.
    pub fn local(&self) -> io::Result<SocketAddr> {
        self.0.ring().0.driver.local(self.0.descriptor)
    }

    /// Takes the connection off this ring, to be sent to another one. `None` while a clone or an operation uses it.
    pub fn detach(self) -> Option<Detached> {
        let handle = Rc::into_inner(self.0)?;
        let world = handle.ring().0.driver.afar();
        Some(Detached { descriptor: handle.into_descriptor(), world })
    }

    /// Puts a connection onto `ring`: one of the kernel, or one of the same simulated world.
    pub fn attach(ring: &Ring, detached: Detached) -> Socket {
        assert!(
            ring.0.driver.afar() == detached.world,
            "a connection of the kernel or of one world cannot go on in another"
        );
        let mut detached = std::mem::ManuallyDrop::new(detached);
        drop(detached.world.take());
        Socket(ring.handle(detached.descriptor))
    }
}
