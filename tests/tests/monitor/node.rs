//! A node that is watched while it serves.

use beds::companion::Companion;
use beds::{Bed, Node, Pool, Volume};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// The volume that is used.
pub const VOLUME: &str = "watched";

/// A node with a volume on a pool, the control API on loopback, and a node of Munin.
pub fn start() -> Node {
    Bed::with([Volume::on_pool(VOLUME, "4MiB", "tank")])
        .pool(Pool::files("tank", "raid1", 2))
        .extra("http = { listen = \"127.0.0.1:0\" }\nmunin = { listen = \"127.0.0.1:0\" }")
        .start()
}

/// The address on loopback of which its log tells with these words.
fn address(node: &Node, words: &str) -> SocketAddr {
    let words = format!("{words} 127.0.0.1:");
    node.wait_for_log(&words);
    let log = node.log();
    let rest = log.lines().find_map(|line| Some(line.split_once(&words)?.1)).expect("a line of the log");
    let port = rest.split(|end: char| !end.is_ascii_digit()).next().expect("a port");
    SocketAddr::from(([127, 0, 0, 1], port.parse().expect("a port")))
}

/// Where it answers over HTTP.
pub fn http(node: &Node) -> SocketAddr {
    address(node, "administered on")
}

/// Where masters of Munin poll it.
pub fn munin(node: &Node) -> SocketAddr {
    address(node, "masters of Munin on")
}

/// The answer to a GET: its head and its body.
pub fn get(address: SocketAddr, path: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer that is text");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    (head.to_lowercase(), body.to_owned())
}

/// A counter as `/metrics` has it.
pub fn counter(text: &str, series: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {series} in\n{text}")).parse().expect("a number")
}

/// Writes and reads for a while. Gives the number of writes: how many there are in a time is the disk's affair.
pub fn work(node: &Node, time: Duration) -> f64 {
    let companion = Companion::start(node.address(), VOLUME);
    std::thread::sleep(time);
    let diary = companion.undisturbed(Duration::from_secs(20));
    f64::from(u32::try_from(diary.commands / 2).expect("fewer than 2^32 writes"))
}
