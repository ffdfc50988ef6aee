//! What a service manager is told: that the node serves, that it lives, and that it ends.

use rustix::process::{Pid, Signal, kill_process};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const CONFIG: &str = "shards = 2\n[iscsi]\nlisten = [\"127.0.0.1:0\"]\n\
     [[volume]]\nname = \"demo\"\nsize = \"16MiB\"\nbacking = { memory = true }\n";
/// Far more than a node of one small volume takes for anything.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running node, killed if the test ends without having ended it.
struct Serving(Child);

impl Drop for Serving {
    fn drop(&mut self) {
        // It has ended already in a test that went well.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Serving {
    fn start(directory: &Path, notify: &str, watchdog_us: Option<&str>) -> Self {
        std::fs::write(directory.join("fels.toml"), CONFIG).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_fels"));
        command.args(["serve", "--config", "fels.toml"]).current_dir(directory);
        command.env_remove("FELS_LOG").env_remove("WATCHDOG_PID").env("NOTIFY_SOCKET", notify);
        match watchdog_us {
            Some(microseconds) => command.env("WATCHDOG_USEC", microseconds),
            None => command.env_remove("WATCHDOG_USEC"),
        };
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().unwrap())
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.0.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    fn ends_well(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        while self.0.try_wait().unwrap().is_none() {
            assert!(Instant::now() < deadline, "the node does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(self.0.wait().unwrap().success());
    }
}

/// The next message, as its lines.
fn next(socket: &UnixDatagram) -> Vec<String> {
    let mut bytes = [0; 4096];
    let length = socket.recv(&mut bytes).expect("the node says nothing");
    String::from_utf8_lossy(&bytes[..length]).lines().map(str::to_owned).collect()
}

fn has(message: &[String], line: &str) -> bool {
    message.iter().any(|one| one == line)
}

#[test]
fn a_manager_is_told_of_the_whole_life_of_a_node() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut node = Serving::start(directory.path(), path.to_str().unwrap(), Some("600000"));
    let first = next(&socket);
    assert!(has(&first, "READY=1"), "{first:?}");
    assert!(first.iter().any(|line| line.starts_with("STATUS=serving")), "{first:?}");
    // Its cores are asked three times in what it has.
    let begun = Instant::now();
    for _ in 0..3 {
        let sign = next(&socket);
        assert!(has(&sign, "WATCHDOG=1"), "{sign:?}");
    }
    assert!(begun.elapsed() >= Duration::from_millis(400), "{:?}", begun.elapsed());
    let end = Instant::now() + PATIENCE;
    while !has(&next(&socket), "STATUS=serving 1 volume") {
        assert!(Instant::now() < end, "it does not say how it is");
    }
    // One that does not run gives none: no more than one can be under way already.
    node.signal(Signal::STOP);
    socket.set_read_timeout(Some(Duration::from_millis(900))).unwrap();
    let late: usize = (0..3).map_while(|_| socket.recv(&mut [0; 4096]).ok()).count();
    assert!(late <= 1, "{late} signs of a process that is stopped");
    node.signal(Signal::CONT);
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    node.signal(Signal::TERM);
    let end = Instant::now() + PATIENCE;
    while !has(&next(&socket), "STOPPING=1") {
        assert!(Instant::now() < end, "it does not say that it ends");
    }
    node.ends_well();
}

#[test]
fn a_manager_without_watchdog_and_without_file_is_told_too() {
    let directory = tempfile::tempdir().unwrap();
    let name = format!("fels-notify-{}", std::process::id());
    let socket = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut node = Serving::start(directory.path(), &format!("@{name}"), None);
    assert!(has(&next(&socket), "READY=1"));
    node.signal(Signal::TERM);
    assert!(has(&next(&socket), "STOPPING=1"));
    node.ends_well();
}

#[test]
fn a_manager_that_is_gone_is_no_reason_to_end() {
    let directory = tempfile::tempdir().unwrap();
    let mut node = Serving::start(directory.path(), "/nonexistent/notify", Some("100000"));
    let socket = directory.path().join("fels-data/fels.sock");
    let end = Instant::now() + PATIENCE;
    while !socket.exists() {
        assert!(Instant::now() < end, "the node does not begin");
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_millis(300));
    assert!(node.0.try_wait().unwrap().is_none(), "it has ended");
    node.signal(Signal::TERM);
    node.ends_well();
}
