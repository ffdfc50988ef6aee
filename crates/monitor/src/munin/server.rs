//! The listener: a thread for each master, and never many of them.

use std::io::{self, BufRead as _, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::session::Session;
use super::{MAX_CONNECTIONS, MAX_LINE_BYTES};
use crate::metric::View;

/// How long a master may say nothing, or not read: as long as it waits itself.
const TIMEOUT: Duration = Duration::from_secs(120);
/// How long a connection may last: a master has asked everything within seconds.
const LIFETIME: Duration = Duration::from_secs(600);
/// After an accept that failed for want of descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// What is shown at the moment.
pub type Source = Arc<dyn Fn() -> Arc<View> + Send + Sync>;

/// A listener; it ends when it is dropped, with all connections.
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

struct Shared {
    node: String,
    source: Source,
    lifetime: Duration,
    ends: AtomicBool,
    open: AtomicUsize,
    /// One answer is made at a time: however many ask, they take no more than one core.
    turn: Mutex<()>,
    /// By number, so that they can be ended.
    streams: Mutex<Vec<(usize, TcpStream)>>,
}

impl Server {
    /// Listens on an address and shows what `source` gives, as the node of this name. Whoever calls has seen to it that
    /// the address is one on which everybody may ask: Munin knows no passwords.
    pub fn start(address: SocketAddr, node: &str, source: Source) -> io::Result<Self> {
        Self::lasting(address, node, source, LIFETIME)
    }

    /// The same, with connections that last so long.
    pub(super) fn lasting(
        address: SocketAddr,
        node: &str,
        source: Source,
        lifetime: Duration,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            node: node.to_owned(),
            source,
            lifetime,
            ends: AtomicBool::new(false),
            open: AtomicUsize::new(0),
            turn: Mutex::default(),
            streams: Mutex::new(Vec::new()),
        });
        let theirs = Arc::clone(&shared);
        let accept = move || accept(&listener, &theirs);
        let acceptor = std::thread::Builder::new().name("munin".to_owned()).spawn(accept)?;
        Ok(Self { address, shared, acceptor: Some(acceptor) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.ends.store(true, Ordering::SeqCst);
        // Wakes the acceptor. If that is not possible the thread stays until the process ends, and does nothing.
        let mut address = self.address;
        if address.ip().is_unspecified() {
            address.set_ip(if address.is_ipv4() {
                [127, 0, 0, 1].into()
            } else {
                std::net::Ipv6Addr::LOCALHOST.into()
            });
        }
        if TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok()
            && let Some(acceptor) = self.acceptor.take()
        {
            let _ = acceptor.join();
        }
        for (_, stream) in self.shared.streams.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            // It may have ended by itself.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for number in 0.. {
        let accepted = listener.accept();
        if shared.ends.load(Ordering::SeqCst) {
            return;
        }
        let Ok((stream, _)) = accepted else {
            std::thread::sleep(PAUSE);
            continue;
        };
        // One too many is closed at once: a master asks again in five minutes.
        if shared.open.load(Ordering::SeqCst) >= MAX_CONNECTIONS {
            continue;
        }
        let Ok(kept) = stream.try_clone() else { continue };
        let streams = || shared.streams.lock().unwrap_or_else(PoisonError::into_inner);
        streams().push((number, kept));
        shared.open.fetch_add(1, Ordering::SeqCst);
        let theirs = Arc::clone(shared);
        let serve = move || {
            // The master went away, or says nothing: nobody has to know.
            let _ = serve(&stream, &theirs);
            theirs.forget(number);
        };
        if std::thread::Builder::new().name("munin master".to_owned()).spawn(serve).is_err() {
            shared.forget(number);
        }
    }
}

impl Shared {
    fn forget(&self, number: usize) {
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        streams.retain(|(other, _)| *other != number);
        self.open.fetch_sub(1, Ordering::SeqCst);
    }
}

fn serve(stream: &TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut session = Session::new(&shared.node);
    let patient = Patient { stream, end: Instant::now() + shared.lifetime };
    let mut writer = patient;
    writer.write_all(session.greeting().as_bytes())?;
    let mut reader = BufReader::with_capacity(MAX_LINE_BYTES, patient);
    let mut line = Vec::new();
    loop {
        line.clear();
        (&mut reader).take(MAX_LINE_BYTES as u64).read_until(b'\n', &mut line)?;
        if line.last() != Some(&b'\n') {
            // The end, or a line that is none.
            return Ok(());
        }
        let reply = {
            let _turn = shared.turn.lock().unwrap_or_else(PoisonError::into_inner);
            session.line(&String::from_utf8_lossy(&line), &(shared.source)())
        };
        writer.write_all(reply.text.as_bytes())?;
        if reply.closes {
            return Ok(());
        }
    }
}

/// A stream that waits for its peer, but not for ever, whether it says nothing or a byte now and then.
#[derive(Clone, Copy)]
struct Patient<'a> {
    stream: &'a TcpStream,
    end: Instant,
}

impl Patient<'_> {
    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.end.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(Some(left.min(TIMEOUT))) }
    }
}

impl Read for Patient<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        self.stream.read(into)
    }
}

impl Write for Patient<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}
