//! Real programs, run with a deadline.
//!
//! Every child is started through `setpriv --pdeathsig KILL`, so that the kernel ends it when the thread
//! that started it ends, however that happens. It follows that a child must not outlive its starting thread.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::hung;

/// Which Debian package brings which program.
const PACKAGES: &[(&str, &str)] = &[
    ("aiosmtpd", "python3-aiosmtpd"),
    ("apt-cache", "apt"),
    ("apt-get", "apt"),
    ("busybox", "busybox-static"),
    ("chromium", "chromium"),
    ("depmod", "kmod"),
    ("dpkg-deb", "dpkg"),
    ("e2fsck", "e2fsprogs"),
    ("faketime", "faketime"),
    ("fio", "fio"),
    ("iscsi-inq", "libiscsi-bin"),
    ("iscsi-ls", "libiscsi-bin"),
    ("iscsi-perf", "libiscsi-bin"),
    ("iscsi-test-cu", "libiscsi-bin"),
    ("iscsiadm", "open-iscsi"),
    ("iscsid", "open-iscsi"),
    ("ldd", "libc-bin"),
    ("losetup", "mount"),
    ("mke2fs", "e2fsprogs"),
    ("mkfifo", "coreutils"),
    ("mount", "mount"),
    ("munin-cron", "munin"),
    ("nbdcopy", "libnbd-bin"),
    ("nbdinfo", "libnbd-bin"),
    ("prometheus", "prometheus"),
    ("promtool", "prometheus"),
    ("qemu-img", "qemu-utils"),
    ("qemu-io", "qemu-utils"),
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("rrdtool", "rrdtool"),
    ("setpriv", "util-linux"),
    ("sh", "dash"),
    ("unshare", "util-linux"),
];

/// Administrators' programs are not on everybody's `PATH`.
const MORE_FOLDERS: &[&str] = &["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// Where `program` is; panics with the package to install when it is nowhere.
pub fn locate(program: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(MORE_FOLDERS.iter().map(PathBuf::from));
    for folder in folders {
        let candidate = folder.join(program);
        if candidate.is_file() {
            return candidate;
        }
    }
    let package = PACKAGES.iter().find(|(name, _)| *name == program).map_or(program, |(_, package)| package);
    panic!("the program {program} is missing\nhint: apt-get install {package}");
}

/// `fels` with this command and subcommand.
pub fn fels(command: &str, subcommand: &str) -> Tool {
    let binary = crate::node::binary();
    let tool = Tool::new(binary.to_str().expect("a path that is text"));
    tool.args([command, subcommand]).deadline(Duration::from_secs(60))
}

/// `fels lab` with this subcommand.
pub fn lab(subcommand: &str) -> Tool {
    fels("lab", subcommand).deadline(Duration::from_secs(120))
}

/// `fels pool` with this subcommand.
pub fn pool(subcommand: &str) -> Tool {
    fels("pool", subcommand)
}

/// `program` as a command that the kernel kills when the calling thread ends.
pub(crate) fn bound_to_this_thread(program: &Path) -> Command {
    use std::os::unix::process::CommandExt as _;
    let mut command = Command::new(locate("setpriv"));
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    command.process_group(0);
    command
}

/// Ends `child` and everything it has started, and waits for it.
pub(crate) fn kill_group(child: &mut Child) {
    if let Ok(None) = child.try_wait() {
        if let Some(group) = Pid::from_raw(child.id().cast_signed()) {
            // It may have ended meanwhile: then there is nothing left to kill.
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// A run of one program, being prepared.
pub struct Tool {
    program: String,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    folder: Option<PathBuf>,
    input: Option<Vec<u8>>,
    deadline: Duration,
}

impl Tool {
    /// `program` is looked up when it is started; its deadline is 30 s if nothing else is said.
    pub fn new(program: &str) -> Self {
        Self {
            program: program.into(),
            arguments: Vec::new(),
            environment: Vec::new(),
            folder: None,
            input: None,
            deadline: Duration::from_secs(30),
        }
    }

    /// Appends one argument.
    #[must_use]
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.arguments.push(argument.as_ref().into());
        self
    }

    /// Appends arguments.
    #[must_use]
    pub fn args<A: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.arguments.extend(arguments.into_iter().map(|argument| argument.as_ref().to_os_string()));
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.environment.push((name.into(), value.as_ref().into()));
        self
    }

    /// Runs the program in `folder`.
    #[must_use]
    pub fn folder(mut self, folder: &Path) -> Self {
        self.folder = Some(folder.into());
        self
    }

    /// What the program reads from its standard input; nothing if not said.
    #[must_use]
    pub fn input(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.input = Some(bytes.into());
        self
    }

    /// After this time the program is killed and [`Outcome::expired`] is set.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Starts the program without waiting for it.
    pub fn start(self) -> Running {
        let mut command = bound_to_this_thread(&locate(&self.program));
        command.args(&self.arguments).envs(self.environment);
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        let stdout = scratch_file();
        let stderr = scratch_file();
        command.stdout(stdout.try_clone().expect("a second handle of a scratch file"));
        command.stderr(stderr.try_clone().expect("a second handle of a scratch file"));
        command.stdin(match &self.input {
            Some(bytes) => {
                let mut file = scratch_file();
                file.write_all(bytes).expect("the input fits on the disk");
                file.rewind().expect("a scratch file can be rewound");
                Stdio::from(file)
            }
            None => Stdio::null(),
        });
        let line = std::iter::once(OsString::from(&self.program)).chain(self.arguments);
        let command_line = line.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ");
        let child = command.spawn().unwrap_or_else(|error| panic!("cannot start {command_line}: {error}"));
        let started = Instant::now();
        Running { child, command_line, stdout, stderr, started, deadline: self.deadline }
    }

    /// Runs the program to its end or its deadline.
    pub fn run(self) -> Outcome {
        self.start().finish()
    }
}

/// A program at work; it is killed when this value is dropped.
pub struct Running {
    child: Child,
    command_line: String,
    stdout: File,
    stderr: File,
    started: Instant,
    deadline: Duration,
}

impl Running {
    /// Waits for the end of the program, or kills it at its deadline.
    pub fn finish(mut self) -> Outcome {
        let (mut pause, mut hung) = (Duration::from_millis(1), String::new());
        let status = loop {
            match self.child.try_wait().expect("a child can be waited for") {
                Some(status) => break Some(status),
                None if self.started.elapsed() >= self.deadline => {
                    hung = hung::describe(self.child.id());
                    kill_group(&mut self.child);
                    break None;
                }
                None => std::thread::sleep(pause),
            }
            pause = (pause * 2).min(Duration::from_millis(20));
        };
        Outcome {
            command_line: std::mem::take(&mut self.command_line),
            status,
            stdout: contents(&mut self.stdout),
            stderr: contents(&mut self.stderr),
            elapsed: self.started.elapsed(),
            hung,
        }
    }

    /// Whether the program has not ended yet.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// What it has written to its standard output so far.
    pub fn stdout_so_far(&self) -> String {
        so_far(&self.stdout)
    }

    /// What it has written to its standard error so far.
    pub fn stderr_so_far(&self) -> String {
        so_far(&self.stderr)
    }

    /// Sends SIGINT to it alone, not to what it has started.
    pub fn interrupt(&self) {
        let pid = Pid::from_raw(self.child.id().cast_signed()).expect("a process id");
        kill_process(pid, Signal::INT).expect("the program can be signalled");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        kill_group(&mut self.child);
    }
}

/// How a program ended and what it said.
#[derive(Debug)]
pub struct Outcome {
    /// The program with its arguments.
    pub command_line: String,
    /// `None` when it was killed at its deadline.
    pub status: Option<ExitStatus>,
    /// Everything from its standard output.
    pub stdout: String,
    /// Everything from its standard error.
    pub stderr: String,
    /// From its start to its end.
    pub elapsed: Duration,
    /// What it was doing when it was killed at its deadline.
    pub hung: String,
}

impl Outcome {
    /// Whether it was killed at its deadline.
    pub fn expired(&self) -> bool {
        self.status.is_none()
    }

    /// Whether it ended by itself with exit code 0.
    pub fn succeeded(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }

    /// Panics with everything the program said unless it ended with exit code 0.
    #[must_use]
    pub fn expect_success(self) -> Self {
        assert!(self.succeeded(), "this should have worked: {self}");
        self
    }

    /// Panics with everything the program said unless it ended by itself with another exit code than 0.
    #[must_use]
    pub fn expect_failure(self) -> Self {
        assert!(!self.expired() && !self.succeeded(), "this should have been refused: {self}");
        self
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = self.status.map_or("killed at its deadline".to_owned(), |status| status.to_string());
        writeln!(formatter, "{}: {end} after {:.1} s", self.command_line, self.elapsed.as_secs_f64())?;
        writeln!(formatter, "--- stdout\n{}--- stderr\n{}---\n{}", self.stdout, self.stderr, self.hung)
    }
}

fn scratch_file() -> File {
    tempfile::tempfile().expect("a temporary file can be made")
}

fn so_far(file: &File) -> String {
    use std::os::unix::fs::FileExt as _;
    // Positioned reads leave the offset alone, which the child shares.
    let mut bytes = vec![0; file.metadata().map_or(0, |metadata| metadata.len() as usize)];
    let count = file.read_at(&mut bytes, 0).unwrap_or(0);
    String::from_utf8_lossy(&bytes[..count]).into_owned()
}

fn contents(file: &mut File) -> String {
    let mut bytes = Vec::new();
    file.rewind().and_then(|()| file.read_to_end(&mut bytes)).expect("a scratch file can be read");
    String::from_utf8_lossy(&bytes).into_owned()
}
