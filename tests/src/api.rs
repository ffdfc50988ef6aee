//! The control API of a node, asked on its socket: one connection a request.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Longer than a node takes to answer at most.
const PATIENCE: Duration = Duration::from_secs(60);

/// Asks the node with this data directory. It gives the status and what came with it, null if that is no JSON.
pub fn ask(data: &Path, method: &str, path: &str, body: &serde_json::Value) -> (u16, serde_json::Value) {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let asked = try_ask(data, method, path, &body);
    let (status, said) = asked.unwrap_or_else(|error| panic!("{method} {path} is not answered: {error}"));
    (status, serde_json::from_str(&said).unwrap_or_default())
}

/// The same for a node that may be gone, with a text.
pub(crate) fn try_ask(data: &Path, method: &str, path: &str, body: &str) -> io::Result<(u16, String)> {
    let mut stream = UnixStream::connect(data.join("fels.sock"))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: fels\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let answer = String::from_utf8_lossy(&answer);
    let no_http = || io::Error::other(format!("no answer of HTTP: {answer}"));
    let (head, said) = answer.split_once("\r\n\r\n").ok_or_else(no_http)?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or_else(no_http)?;
    Ok((status, said.to_owned()))
}
