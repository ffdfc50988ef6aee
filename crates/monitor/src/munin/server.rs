//! The listener: a thread for each master, and never many of them.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use super::session::Session;
use super::{MAX_CONNECTIONS, MAX_LINE_BYTES};
use crate::metric::View;

/// How long a master may say nothing, or not read: as long as it waits itself.
const TIMEOUT: Duration = Duration::from_secs(120);
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
    ends: AtomicBool,
    open: AtomicUsize,
    /// By number, so that they can be ended.
    streams: Mutex<Vec<(usize, TcpStream)>>,
}

impl Server {
    /// Listens on an address and shows what `source` gives, as the node of this name. Whoever calls has seen to it that
    /// the address is one on which everybody may ask: Munin knows no passwords.
    pub fn start(address: SocketAddr, node: &str, source: Source) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            node: node.to_owned(),
            source,
            ends: AtomicBool::new(false),
            open: AtomicUsize::new(0),
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
        for (_, stream) in
            self.shared.streams.lock().unwrap_or_else(std::sync::PoisonError::into_inner).iter()
        {
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
        let streams = || shared.streams.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
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
        let mut streams = self.streams.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        streams.retain(|(other, _)| *other != number);
        self.open.fetch_sub(1, Ordering::SeqCst);
    }
}

fn serve(stream: &TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    stream.set_nodelay(true)?;
    let mut session = Session::new(&shared.node);
    let mut writer = stream;
    writer.write_all(session.greeting().as_bytes())?;
    let mut reader = BufReader::with_capacity(MAX_LINE_BYTES, stream);
    let mut line = Vec::new();
    loop {
        line.clear();
        (&mut reader).take(MAX_LINE_BYTES as u64).read_until(b'\n', &mut line)?;
        if line.last() != Some(&b'\n') {
            // The end, or a line that is none.
            return Ok(());
        }
        let reply = session.line(&String::from_utf8_lossy(&line), &(shared.source)());
        writer.write_all(reply.text.as_bytes())?;
        if reply.closes {
            return Ok(());
        }
    }
}
