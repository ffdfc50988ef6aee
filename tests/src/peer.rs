//! Peers that misbehave, whatever the protocol.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// What is plainly wrong ends the connection within this time.
pub const WRONG_ENDS_WITHIN: Duration = Duration::from_secs(15);
/// A write and its read of the well-behaved session take less, even while the machine is busy.
pub const UNDISTURBED: Duration = Duration::from_secs(5);

/// Reads and forgets until the node has closed the connection; tells whether it did in time.
pub fn is_closed(stream: &mut TcpStream, within: Duration) -> bool {
    let end = Instant::now() + within;
    let mut scratch = [0; 4096];
    stream.set_read_timeout(Some(Duration::from_millis(200))).expect("a read timeout");
    while Instant::now() < end {
        match stream.read(&mut scratch) {
            Ok(0) => return true,
            Err(error) if !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                return true;
            }
            _ => {}
        }
    }
    false
}

/// Sends random bytes over two hundred connections, of which each has to be closed; gives the first of them.
pub fn send_garbage(address: SocketAddr) -> TcpStream {
    let mut random = fastrand::Rng::with_seed(1);
    let mut first = None;
    for number in 0..200 {
        let mut bytes = vec![0; random.usize(1..16384)];
        random.fill(&mut bytes);
        let mut stream = TcpStream::connect(address).expect("a connection");
        // The node may hang up before it has read everything.
        let _ = stream.write_all(&bytes).and_then(|()| stream.shutdown(Shutdown::Write));
        assert!(is_closed(&mut stream, WRONG_ENDS_WITHIN), "garbage number {number} keeps its connection");
        first.get_or_insert(stream);
    }
    first.expect("two hundred connections")
}
