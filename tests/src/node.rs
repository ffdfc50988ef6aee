//! One running `fels serve` with its own data directory, ports and log.

use std::fs::{File, OpenOptions};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, geteuid, kill_process};
use tempfile::TempDir;

use crate::tool::{bound_to_this_thread, kill_group, locate};
use crate::volume::target;
use crate::{Pool, Volume, hung, wait_until};

/// A node that cannot say that it is ready within this time has failed.
const READY_WITHIN: Duration = Duration::from_secs(20);
/// A node that has not drained within this time after SIGTERM has failed.
const DRAINED_WITHIN: Duration = Duration::from_secs(40);

/// Who owns nothing.
const NOBODY: u32 = 65_534;

/// The program under test: `FELS_BIN`, else the release build, else the debug build.
pub fn binary() -> PathBuf {
    if let Some(path) = std::env::var_os("FELS_BIN") {
        let path = PathBuf::from(path);
        assert!(path.is_file(), "FELS_BIN names {}, which is not a file", path.display());
        return path;
    }
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../target"), PathBuf::from);
    let found =
        ["release/fels", "debug/fels"].map(|file| target.join(file)).into_iter().find(|path| path.is_file());
    found.unwrap_or_else(|| {
        panic!(
            "there is no fels binary below {}\nhint: cargo build --release -p fels, or set FELS_BIN",
            target.display()
        )
    })
}

/// A node being prepared.
#[derive(Clone, Debug)]
pub struct Bed {
    pools: Vec<Pool>,
    volumes: Vec<Volume>,
    portals: usize,
    nvme: bool,
    nvme_six: bool,
    shards: usize,
    data: Option<PathBuf>,
    small_disk: Option<String>,
    extra: String,
    nbd: bool,
    as_nobody: bool,
}

impl Default for Bed {
    fn default() -> Self {
        Self {
            pools: Vec::new(),
            volumes: Vec::new(),
            portals: 1,
            nvme: false,
            nvme_six: false,
            shards: 2,
            data: None,
            small_disk: None,
            extra: String::new(),
            nbd: false,
            as_nobody: false,
        }
    }
}

impl Bed {
    /// A node with these volumes, one portal and two shards.
    pub fn with(volumes: impl IntoIterator<Item = Volume>) -> Self {
        Self { volumes: volumes.into_iter().collect(), ..Self::default() }
    }

    /// A pool that volumes may live on.
    #[must_use]
    pub fn pool(mut self, pool: Pool) -> Self {
        self.pools.push(pool);
        self
    }

    /// How many portals the node listens on.
    #[must_use]
    pub fn portals(mut self, count: usize) -> Self {
        self.portals = count;
        self
    }

    /// Serves NVMe/TCP too, on a portal of its own and one for discovery.
    #[must_use]
    pub fn nvme(mut self) -> Self {
        self.nvme = true;
        self
    }

    /// The data directory, if it is not to be one in the bed's own temporary directory.
    #[must_use]
    pub fn data(mut self, folder: &Path) -> Self {
        self.data = Some(folder.into());
        self
    }

    /// Serves NVMe/TCP over IPv6 too, and refers hosts to a discovery service elsewhere.
    #[must_use]
    pub fn nvme_six(mut self) -> Self {
        self.nvme = true;
        self.nvme_six = true;
        self
    }

    /// Puts the data directory on a tmpfs of its own with these mount options, e.g. `size=16m`.
    ///
    /// It is mounted in a mount namespace of the node, and without root in a user namespace too; the bed
    /// itself does not see what is in it, and it is gone with the node.
    #[must_use]
    pub fn small_disk(mut self, options: &str) -> Self {
        self.small_disk = Some(options.into());
        self
    }

    /// Serves NBD too, on a port and on the unix socket `nbd.sock` in the data directory.
    #[must_use]
    pub fn nbd(mut self) -> Self {
        self.nbd = true;
        self
    }

    /// Where the bed is root's, the node is nobody's: it can harm nothing but its own directory, whatever it is asked for.
    #[must_use]
    pub fn as_nobody(mut self) -> Self {
        self.as_nobody = geteuid().is_root();
        self
    }

    /// Lines put at the top of the configuration file.
    #[must_use]
    pub fn extra(mut self, lines: &str) -> Self {
        self.extra = lines.into();
        self
    }

    /// Starts the node and waits until it is ready; panics with its log if it does not get there.
    pub fn start(self) -> Node {
        self.try_start().unwrap_or_else(|refusal| panic!("the node does not start: {refusal:?}"))
    }

    /// Starts the node; an `Err` is a node that ended by itself before it was ready.
    pub fn try_start(self) -> Result<Node, Refusal> {
        let folder = tempfile::Builder::new().prefix("fels-bed-").tempdir().expect("a temporary directory");
        let data = self.data.clone().unwrap_or_else(|| folder.path().join("data"));
        let nvme = if self.nvme_six { 3 } else { 2 };
        let ports = vec![0; self.portals + if self.nvme { nvme } else { 0 }];
        let mut node = Node { bed: self, folder, data, ports, nbd_port: 0, child: None };
        node.launch()?;
        Ok(node)
    }
}

/// A node that ended before it was ready.
#[derive(Debug)]
pub struct Refusal {
    /// Its exit status.
    pub status: ExitStatus,
    /// Everything from its standard error.
    pub stderr: String,
}

/// A running node. It is killed and its directory removed when this value is dropped; the end of its log
/// is printed if that happens because the test failed.
pub struct Node {
    bed: Bed,
    folder: TempDir,
    data: PathBuf,
    ports: Vec<u16>,
    nbd_port: u16,
    child: Option<Child>,
}

impl Node {
    fn launch(&mut self) -> Result<(), Refusal> {
        let config = self.folder.path().join("fels.toml");
        std::fs::write(&config, self.config()).expect("the configuration can be written");
        self.run(&config)
    }

    fn run(&mut self, config: &Path) -> Result<(), Refusal> {
        if self.bed.as_nobody {
            for path in [self.folder.path(), config] {
                std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY)).expect("root can give it away");
            }
        }
        let stdout = self.folder.path().join("stdout");
        let mut command = self.command();
        command.args(["serve", "--config"]).arg(config).current_dir(self.folder.path()).stdin(Stdio::null());
        command.stdout(File::create(&stdout).expect("a file for the output"));
        let log =
            OpenOptions::new().create(true).append(true).open(self.log_path()).expect("a file for the log");
        let log_start = log.metadata().map_or(0, |metadata| metadata.len() as usize);
        command.stderr(log);
        self.child = Some(command.spawn().expect("the node can be started"));

        let end = Instant::now() + READY_WITHIN;
        loop {
            let said = std::fs::read_to_string(&stdout).unwrap_or_default();
            let (ports, nbd) = (listening_ports(&said, false), listening_ports(&said, true));
            if ports.len() == self.ports.len() && (!self.bed.nbd || nbd.len() == 1) {
                self.ports = ports;
                self.nbd_port = nbd.first().copied().unwrap_or_default();
                return Ok(());
            }
            if let Some(status) = self.exit_status() {
                self.child = None;
                return Err(Refusal { status, stderr: self.log().split_off(log_start) });
            }
            assert!(Instant::now() < end, "the node is not ready after {READY_WITHIN:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn command(&self) -> Command {
        if self.bed.as_nobody {
            let mut command = bound_to_this_thread(&locate("setpriv"));
            let who = [format!("--reuid={NOBODY}"), format!("--regid={NOBODY}")];
            // A change of user clears the parent death signal, so it is set again at the end.
            command.args(who).args(["--clear-groups", "--no-new-privs", "setpriv", "--pdeathsig", "KILL"]);
            command.arg(binary());
            return command;
        }
        let Some(options) = &self.bed.small_disk else {
            return bound_to_this_thread(&binary());
        };
        std::fs::create_dir_all(&self.data).expect("a directory to mount on");
        let mut command = bound_to_this_thread(&locate("unshare"));
        if !geteuid().is_root() {
            command.args(["--user", "--map-root-user"]);
        }
        // A change of user clears the parent death signal, so it is set again at the end.
        let script =
            "mount -t tmpfs -o \"$1\" tmpfs \"$2\" && shift 2 && exec setpriv --pdeathsig KILL -- \"$@\"";
        command.args(["--mount", "sh", "-c", script, "sh", options]).arg(&self.data).arg(binary());
        command
    }

    fn config(&self) -> String {
        let portal = |port: &u16| format!("\"127.0.0.1:{port}\"");
        let (iscsi, nvme) = self.ports.split_at(self.bed.portals);
        let listen = iscsi.iter().map(portal).collect::<Vec<_>>().join(", ");
        let nvme = match nvme {
            [io, discovery] => {
                format!("[nvme]\nlisten = [{}]\ndiscovery = [{}]\n\n", portal(io), portal(discovery))
            }
            [io, six, discovery] => format!(
                "[nvme]\nlisten = [{}, \"[::1]:{six}\"]\ndiscovery = [{}]\nreferrals = [\"[2001:db8::7]:8009\"]\n\n",
                portal(io),
                portal(discovery)
            ),
            _ => String::new(),
        };
        let pools = self.bed.pools.iter().map(Pool::to_toml).collect::<String>();
        let volumes = self.bed.volumes.iter().map(Volume::to_toml).collect::<Vec<_>>().join("\n");
        let nbd = if self.bed.nbd {
            format!("[nbd]\nlisten = [\"127.0.0.1:{}\"]\nsocket = \"nbd.sock\"\n\n", self.nbd_port)
        } else {
            String::new()
        };
        format!(
            "{}\ndata = \"{}\"\nshards = {}\n\n[iscsi]\nlisten = [{listen}]\n\n{nbd}{nvme}{pools}{volumes}",
            self.bed.extra,
            self.data.display(),
            self.bed.shards
        )
    }

    /// Address of the first portal.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.ports[0]))
    }

    /// Port of portal number `portal`, in the order of the configuration.
    pub fn port(&self, portal: usize) -> u16 {
        self.ports[portal]
    }

    /// Ports of NVMe/TCP: of the subsystems, and of discovery.
    pub fn nvme_ports(&self) -> (u16, u16) {
        assert!(self.bed.nvme, "the bed serves no NVMe");
        (self.ports[self.bed.portals], self.ports[self.ports.len() - 1])
    }

    /// Port of NVMe/TCP on ::1.
    pub fn nvme_six_port(&self) -> u16 {
        assert!(self.bed.nvme_six, "the bed serves no NVMe over IPv6");
        self.ports[self.bed.portals + 1]
    }

    /// `iscsi://` URL of a volume by the first portal.
    pub fn url(&self, volume: &str) -> String {
        self.url_by(0, volume)
    }

    /// `iscsi://` URL of a volume by a certain portal.
    pub fn url_by(&self, portal: usize, volume: &str) -> String {
        format!("iscsi://127.0.0.1:{}/{}/{}", self.ports[portal], target(volume), lun())
    }

    /// Where NBD is served.
    pub fn nbd_address(&self) -> SocketAddr {
        assert!(self.bed.nbd, "this bed has no NBD");
        SocketAddr::from(([127, 0, 0, 1], self.nbd_port))
    }

    /// `nbd://` URL of a volume.
    pub fn nbd_url(&self, volume: &str) -> String {
        format!("nbd://{}/{volume}", self.nbd_address())
    }

    /// `nbd+unix://` URL of a volume.
    pub fn nbd_unix_url(&self, volume: &str) -> String {
        format!("nbd+unix:///{volume}?socket={}", self.nbd_socket().display())
    }

    /// `nvme://` URL of a volume.
    pub fn nvme_url(&self, volume: &str) -> String {
        format!("nvme://127.0.0.1:{}/nqn.2026-11.internal.fels:{volume}/1", self.nvme_ports().0)
    }

    /// The unix socket on which NBD is served.
    pub fn nbd_socket(&self) -> PathBuf {
        self.data.join("nbd.sock")
    }

    /// What it printed at its start.
    pub fn announcement(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("stdout")).unwrap_or_default()
    }

    /// Its configuration as it stands in its file now.
    pub fn configuration(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("fels.toml")).expect("the configuration")
    }

    /// The data directory.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// Process id; panics when the node does not run.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("the node runs").id()
    }

    /// Everything the node has logged, over all its starts.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(self.log_path()).unwrap_or_default()).into_owned()
    }

    /// Waits until the log has a line with `words` in it (in any case); panics if none comes.
    pub fn wait_for_log(&self, words: &str) {
        let lower = words.to_lowercase();
        let seen = wait_until(Duration::from_secs(10), || self.log().to_lowercase().contains(&lower));
        assert!(seen, "the log of the node says nothing of {words:?}");
    }

    /// Resident memory in KiB, as the kernel counts it.
    pub fn resident_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("the node runs");
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("a VmRSS line");
        line.split_whitespace().nth(1).and_then(|word| word.parse().ok()).expect("a number of KiB")
    }

    /// Whether the process is there and takes connections.
    pub fn is_serving(&mut self) -> bool {
        self.exit_status().is_none()
            && self.child.is_some()
            && TcpStream::connect_timeout(&self.address(), Duration::from_secs(2)).is_ok()
    }

    /// Ends the node at once, as a crash would (SIGKILL).
    pub fn kill9(&mut self) {
        if let Some(mut child) = self.child.take() {
            kill_group(&mut child);
        }
    }

    /// Asks the node to drain (SIGTERM); panics unless it then ends with exit code 0.
    pub fn terminate(&mut self) {
        let pid = Pid::from_raw(self.pid().cast_signed()).expect("a process id");
        kill_process(pid, Signal::TERM).expect("the node can be signalled");
        let mut ended = None;
        wait_until(DRAINED_WITHIN, || {
            ended = self.exit_status();
            ended.is_some()
        });
        let status = ended.unwrap_or_else(|| panic!("the node has not drained after {DRAINED_WITHIN:?}"));
        self.child = None;
        assert!(status.success(), "the node ended with {status} after SIGTERM");
    }

    /// Starts the node again on the same data and the same ports; panics if it does not get ready.
    pub fn restart(&mut self) {
        self.kill9();
        self.launch().unwrap_or_else(|refusal| panic!("the node does not start again: {refusal:?}"));
    }

    /// The same, with the configuration as the node has left it.
    pub fn restart_as_it_is(&mut self) {
        self.kill9();
        let config = self.folder.path().join("fels.toml");
        self.run(&config).unwrap_or_else(|refusal| panic!("the node does not start again: {refusal:?}"));
    }

    fn exit_status(&mut self) -> Option<ExitStatus> {
        self.child.as_mut().and_then(|child| child.try_wait().expect("a child can be waited for"))
    }

    fn log_path(&self) -> PathBuf {
        self.folder.path().join("log")
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if std::thread::panicking() && self.child.is_some() {
            eprintln!("--- what the node has in flight\n{}", hung::in_flight(self.data()));
        }
        self.kill9();
        if std::thread::panicking() {
            let log = self.log();
            let lines: Vec<&str> = log.lines().collect();
            eprintln!("--- the node's log, last {} of {} lines", lines.len().min(100), lines.len());
            eprintln!("{}\n---", lines[lines.len().saturating_sub(100)..].join("\n"));
        }
    }
}

/// LUN of every volume. `FELS_LUN` is for trying a bed against another target that cannot have a disk at LUN 0.
pub fn lun() -> u8 {
    std::env::var("FELS_LUN").map_or(0, |lun| lun.parse().expect("FELS_LUN is a number"))
}

/// Raises this process's limit of open files as far as it may; returns the limit. Children inherit it.
pub fn raise_open_files() -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })
        .expect("a soft limit may be raised to the hard limit");
    limit.maximum.unwrap_or(u64::MAX)
}

/// Ports of the lines that say where is listened: those of NBD, or all others.
fn listening_ports(stdout: &str, nbd: bool) -> Vec<u16> {
    let complete = stdout.rfind('\n').map_or("", |end| &stdout[..end]);
    let lines = complete.lines().filter(|line| line.ends_with(" for NBD") == nbd);
    let addresses = lines.filter_map(|line| line.split_once("listening on ")).map(|(_, rest)| rest);
    addresses
        .filter_map(|rest| rest.split_whitespace().next()?.parse::<SocketAddr>().ok())
        .map(|address| address.port())
        .collect()
}
