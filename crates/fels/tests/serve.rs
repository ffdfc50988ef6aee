//! A node in the foreground: what it prints, how it ends, and that two of them never share a directory.

use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

const CONFIG: &str = r#"
shards = 1
[iscsi]
listen = ["127.0.0.1:0", "127.0.0.1:0"]
[[volume]]
name = "demo"
size = "16MiB"
backing = { memory = true }
"#;
/// Far more than a node of one small volume takes for anything.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running node, killed if the test ends without having ended it.
struct Serving {
    child: Child,
}

impl Drop for Serving {
    fn drop(&mut self) {
        // It has ended already in a test that went well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Serving {
    fn start(directory: &Path) -> Self {
        std::fs::write(directory.join("fels.toml"), CONFIG).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_fels"))
            .args(["serve", "--config", "fels.toml"])
            .current_dir(directory)
            .env_remove("FELS_LOG")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Self { child }
    }

    /// The portals, as they are printed first.
    fn portals(&mut self) -> (Vec<SocketAddr>, BufReader<ChildStdout>) {
        let mut out = BufReader::new(self.child.stdout.take().unwrap());
        let mut portals = Vec::new();
        loop {
            let mut line = String::new();
            out.read_line(&mut line).unwrap();
            match line.trim_end().strip_prefix("listening on ") {
                Some(portal) => portals.push(portal.parse().unwrap()),
                None => return (portals, out),
            }
        }
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    fn ended(&mut self) -> ExitStatus {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "the node does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn a_node_listens_where_it_says_and_a_signal_ends_it_with_0() {
    for signal in [Signal::TERM, Signal::INT] {
        let directory = tempfile::tempdir().unwrap();
        let mut node = Serving::start(directory.path());
        let (portals, mut out) = node.portals();
        assert_eq!(portals.len(), 2);
        for portal in &portals {
            assert_ne!(portal.port(), 0, "the port that the kernel gave is printed");
            TcpStream::connect_timeout(portal, PATIENCE).unwrap();
        }
        node.signal(signal);
        assert_eq!(node.ended().code(), Some(0));
        let mut rest = String::new();
        out.read_to_string(&mut rest).unwrap();
        let url = format!("iscsi-inq iscsi://{}/iqn.2026-11.internal.fels:demo/0\n", portals[0]);
        assert!(rest.contains(&url), "{rest}");
        assert!(TcpStream::connect_timeout(&portals[0], PATIENCE).is_err(), "nobody listens any more");
    }
}

#[test]
fn two_nodes_never_share_a_directory() {
    let directory = tempfile::tempdir().unwrap();
    let mut first = Serving::start(directory.path());
    let (_, _out) = first.portals();
    let mut second = Serving::start(directory.path());
    assert_eq!(second.ended().code(), Some(1));
    let mut said = String::new();
    second.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    let pid = first.child.id();
    let error = format!("error: the data directory fels-data is in use by another node, process {pid}\n");
    assert!(said.contains(&error) && said.contains(&format!("hint: stop it with: kill {pid} ")), "{said}");
    first.signal(Signal::TERM);
    assert_eq!(first.ended().code(), Some(0));
}

#[test]
fn a_node_whose_output_nobody_reads_serves_on() {
    let directory = tempfile::tempdir().unwrap();
    let mut node = Serving::start(directory.path());
    drop(node.child.stderr.take());
    let (portals, out) = node.portals();
    drop(out);
    TcpStream::connect_timeout(&portals[0], PATIENCE).unwrap();
    node.signal(Signal::PIPE);
    TcpStream::connect_timeout(&portals[0], PATIENCE).unwrap();
    node.signal(Signal::TERM);
    assert_eq!(node.ended().code(), Some(0));
}

#[test]
fn the_log_has_no_colours_without_a_terminal() {
    let directory = tempfile::tempdir().unwrap();
    let mut node = Serving::start(directory.path());
    let (_, _out) = node.portals();
    node.signal(Signal::TERM);
    assert_eq!(node.ended().code(), Some(0));
    let mut log = String::new();
    node.child.stderr.take().unwrap().read_to_string(&mut log).unwrap();
    assert!(log.contains("draining") && log.contains("SIGTERM") && !log.contains('\u{1b}'), "{log}");
}

#[test]
fn a_load_of_more_commands_than_the_target_takes_at_once_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let mut node = Serving::start(directory.path());
    let (portals, _out) = node.portals();
    let url = format!("iscsi://{}/iqn.2026-11.internal.fels:demo/0", portals[0]);
    let lab = |depth: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_fels"))
            .args(["lab", "run", "--target", &url, "--depth", depth])
            .args(["--time", "300ms", "--warmup", "0s", "--no-ceiling"])
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let told = lab("1000");
    assert!(told.contains("note: the target takes 256 commands at once"), "{told}");
    let not_told = lab("64");
    assert!(!not_told.contains("commands at once"), "{not_told}");
}
