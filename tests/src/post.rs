//! Where messages of a node arrive: a real mail server (aiosmtpd) that keeps what it takes, and a server that webhooks are sent to.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;

use crate::tool::{bound_to_this_thread, kill_group, locate};
use crate::wait_until;

/// A port of this machine on which nobody listens now.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("its address").port()
}

/// Who may send by a mail server that is guarded, and the password.
pub const MAIL_USER: (&str, &str) = ("san1", "correct-horse");

/// A mail server on loopback. It ends when this value is dropped.
pub struct MailServer {
    child: Child,
}

impl MailServer {
    /// Listens on this port, and puts each letter into a file below `folder` (a Maildir).
    pub fn start(port: u16, folder: &Path) -> MailServer {
        let mut command = bound_to_this_thread(&locate("aiosmtpd"));
        command.args(["-n", "-l", &format!("127.0.0.1:{port}"), "-c", "aiosmtpd.handlers.Mailbox"]);
        command.arg(folder);
        MailServer::listening(port, command)
    }

    /// As [`MailServer::start`], but it takes letters from [`MAIL_USER`] alone, and only by TLS: `way` is `starttls` or `tls`, and `pem` has
    /// certificate and key.
    pub fn start_guarded(port: u16, folder: &Path, way: &str, pem: &Path) -> MailServer {
        // Debian's, which has the package, whatever else is called so.
        let mut command = bound_to_this_thread(Path::new("/usr/bin/python3"));
        command.args(["-c", include_str!("post/guarded.py"), &port.to_string()]);
        command.arg(folder).arg(pem).args([way, MAIL_USER.0, MAIL_USER.1]);
        MailServer::listening(port, command)
    }

    fn listening(port: u16, mut command: Command) -> MailServer {
        let child = command.stdin(Stdio::null()).spawn().expect("the mail server can be started");
        let mut server = MailServer { child };
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let listens = wait_until(Duration::from_secs(20), || {
            let ended = server.child.try_wait().expect("a child can be waited for");
            assert!(ended.is_none(), "the mail server ended: {ended:?}");
            TcpStream::connect(address).is_ok()
        });
        assert!(listens, "the mail server does not listen");
        server
    }
}

impl Drop for MailServer {
    fn drop(&mut self) {
        kill_group(&mut self.child);
    }
}

/// All letters in a Maildir, the oldest first; long lines are whole again.
pub fn letters(folder: &Path) -> Vec<String> {
    let Ok(files) = std::fs::read_dir(folder.join("new")) else { return Vec::new() };
    let mut files: Vec<PathBuf> = files.filter_map(|file| Some(file.ok()?.path())).collect();
    files.sort_by_key(|file| std::fs::metadata(file).and_then(|about| about.modified()).ok());
    let read = |file: &PathBuf| std::fs::read_to_string(file).unwrap_or_default().replace("\r\n", "\n");
    files.iter().map(|file| read(file).replace("=\n", "").replace("\n ", " ")).collect()
}

/// A server on loopback that takes what webhooks send.
pub struct Hook {
    address: SocketAddr,
    taken: Arc<Mutex<Vec<Value>>>,
}

impl Hook {
    /// Listens until the test ends.
    pub fn start() -> Hook {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        let taken = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&taken);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if let Some(body) = stream.ok().and_then(|stream| take(&stream)) {
                    kept.lock().expect("no panic").push(body);
                }
            }
        });
        Hook { address, taken }
    }

    /// Where it listens.
    pub fn url(&self) -> String {
        format!("http://{}/hook?secret=s3cret", self.address)
    }

    /// What was sent so far.
    pub fn taken(&self) -> Vec<Value> {
        self.taken.lock().expect("no panic").clone()
    }
}

/// Reads a POST of JSON, and says that it was taken.
fn take(stream: &TcpStream) -> Option<Value> {
    stream.set_read_timeout(Some(Duration::from_secs(10))).ok()?;
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let head = head.to_lowercase();
    let is_right = head.starts_with("post /hook?secret=s3cret http/1.1") && head.contains("application/json");
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "))?.parse().ok()?;
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let status = if is_right { "204 No Content" } else { "400 Bad Request" };
    let mut stream = stream;
    write!(stream, "HTTP/1.1 {status}\r\nConnection: close\r\n\r\n").ok()?;
    serde_json::from_slice(&body).ok().filter(|_| is_right)
}
