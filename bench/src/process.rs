//! Other programs: started on a core, never left behind, never waited for without a deadline.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::error::Error;

/// How often a running program is looked at. Long, because looking costs the cores that are measured.
const POLL: Duration = Duration::from_millis(20);

/// Set by SIGINT, SIGTERM and SIGHUP. The second signal ends the program at once.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Registers the signals.
    pub fn register() -> Result<Self, Error> {
        let interrupt = Self::default();
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP]
        {
            signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&interrupt.0))
                .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&interrupt.0)))
                .map_err(Error::io("cannot register signals"))?;
        }
        Ok(interrupt)
    }

    /// As if somebody asked to stop.
    #[cfg(test)]
    pub fn raise(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether somebody asked to stop.
    pub fn raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// An error if somebody asked to stop.
    pub fn check(&self) -> Result<(), Error> {
        if self.raised() { Err(Error::Interrupted) } else { Ok(()) }
    }
}

/// A command line: kept as text for the report and as arguments to run.
#[derive(Clone, Debug)]
pub struct CommandLine {
    program: String,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
}

impl CommandLine {
    /// A command line of this program, which is named as it lies below the current directory if it does.
    pub fn own<S: Into<String>>(arguments: impl IntoIterator<Item = S>) -> Self {
        let program = std::env::current_exe().unwrap_or_else(|_| "bench".into());
        let here = std::env::current_dir().unwrap_or_default();
        Self::new(program.strip_prefix(here).unwrap_or(&program).display().to_string(), arguments)
    }

    /// A command line of a program and its arguments.
    pub fn new<S: Into<String>>(program: impl Into<String>, arguments: impl IntoIterator<Item = S>) -> Self {
        let arguments = arguments.into_iter().map(Into::into).collect();
        Self { program: program.into(), arguments, environment: Vec::new() }
    }

    /// Adds a variable to the environment.
    pub fn with_environment(mut self, name: &str, value: impl Into<String>) -> Self {
        self.environment.push((name.to_owned(), value.into()));
        self
    }

    /// Pins the command to a core, or to some, as taskset takes them.
    pub fn on_core(self, cores: &str) -> Self {
        let arguments = ["-c".to_owned(), cores.to_owned(), self.program].into_iter().chain(self.arguments);
        Self { program: "taskset".to_owned(), arguments: arguments.collect(), environment: self.environment }
    }

    /// The command as it would be typed.
    pub fn text(&self) -> String {
        let quote = |word: &str| {
            let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
            if !word.is_empty() && word.chars().all(plain) { word.to_owned() } else { format!("'{word}'") }
        };
        let environment = self.environment.iter().map(|(name, value)| format!("{name}={}", quote(value)));
        let words = std::iter::once(&self.program).chain(&self.arguments).map(|word| quote(word));
        environment.chain(words).collect::<Vec<_>>().join(" ")
    }

    /// Starts the command; both outputs go to the file `log`.
    ///
    /// The kernel kills it when this program ends in whatever way (`setpriv --pdeathsig`), so that even
    /// SIGKILL leaves no server behind.
    pub fn spawn(&self, log: &Path) -> Result<Process, Error> {
        let context = || format!("cannot write {}", log.display());
        let output = File::create(log).map_err(Error::io(context()))?;
        let errors = output.try_clone().map_err(Error::io(context()))?;
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--"])
            .arg(&self.program)
            .args(&self.arguments)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .spawn()
            .map_err(|source| Error::Start { program: "setpriv".to_owned(), source })?;
        Ok(Process { child, name: self.name(), log: log.to_owned() })
    }

    /// Runs the command to its end and returns what it wrote.
    pub fn run(&self, log: &Path, deadline: Duration, interrupt: &Interrupt) -> Result<String, Error> {
        let mut process = self.spawn(log)?;
        process.wait(Instant::now() + deadline, deadline, interrupt)?;
        Ok(process.output())
    }

    /// The name of the program itself, without what pins it.
    fn name(&self) -> String {
        let program = if self.program == "taskset" { self.arguments.get(2) } else { None };
        let program = program.unwrap_or(&self.program);
        Path::new(program)
            .file_name()
            .map_or_else(|| program.clone(), |name| name.to_string_lossy().into_owned())
    }
}

/// A running program. It is killed when this value goes away.
#[derive(Debug)]
pub struct Process {
    child: Child,
    name: String,
    log: PathBuf,
}

impl Process {
    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it wrote so far.
    pub fn output(&self) -> String {
        fs::read(&self.log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    /// The last lines that it wrote, for an error.
    fn last_words(&self) -> String {
        let output = self.output();
        let lines: Vec<&str> = output.split(['\n', '\r']).filter(|line| !line.trim().is_empty()).collect();
        lines[lines.len().saturating_sub(4)..].join(" / ")
    }

    fn status(&mut self) -> Result<Option<ExitStatus>, Error> {
        self.child.try_wait().map_err(Error::io(format!("cannot wait for {}", self.name)))
    }

    fn failed(&self, status: ExitStatus) -> Error {
        Error::Failed { program: self.name.clone(), status: status.to_string(), output: self.last_words() }
    }

    /// An error if it has ended; for servers, that are expected to run.
    pub fn expect_running(&mut self) -> Result<(), Error> {
        match self.status()? {
            Some(status) => Err(self.failed(status)),
            None => Ok(()),
        }
    }

    /// Waits for a successful end.
    pub fn wait(&mut self, until: Instant, deadline: Duration, interrupt: &Interrupt) -> Result<(), Error> {
        loop {
            match self.status()? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => return Err(self.failed(status)),
                None => {}
            }
            interrupt.check()?;
            self.check_deadline(until, deadline)?;
            sleep(POLL);
        }
    }

    /// Waits until `ready` says so, while the program runs.
    pub fn wait_until(
        &mut self,
        deadline: Duration,
        interrupt: &Interrupt,
        ready: impl Fn(&Self) -> bool,
    ) -> Result<(), Error> {
        let until = Instant::now() + deadline;
        while !ready(self) {
            self.expect_running()?;
            interrupt.check()?;
            self.check_deadline(until, deadline)?;
            sleep(POLL);
        }
        Ok(())
    }

    fn check_deadline(&self, until: Instant, deadline: Duration) -> Result<(), Error> {
        if Instant::now() < until {
            return Ok(());
        }
        Err(Error::Deadline { program: self.name.clone(), deadline, output: self.last_words() })
    }

    /// Asks it to end by SIGTERM and waits; false when it did not end, or not successfully, in time.
    pub fn terminate(&mut self, deadline: Duration) -> bool {
        let id = self.id().to_string();
        let asked = Command::new("/bin/sh").args(["-c", "kill -TERM \"$1\"", "sh", &id]).status();
        if !asked.is_ok_and(|status| status.success()) {
            return false;
        }
        let until = Instant::now() + deadline;
        while Instant::now() < until {
            match self.child.try_wait() {
                Ok(Some(status)) => return status.success(),
                Ok(None) => sleep(POLL),
                Err(_) => return false,
            }
        }
        false
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // An error means that it has ended already, which is what is wanted.
        let _ended = self.child.kill().and_then(|()| self.child.wait());
    }
}

/// Whether somebody accepts connections on this port of 127.0.0.1.
pub fn answers(port: u16) -> bool {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    TcpStream::connect_timeout(&address, Duration::from_millis(200)).is_ok()
}

/// The output of a short command, for facts that may be missing.
pub fn quick_output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output().ok()?;
    let text = if output.stdout.is_empty() { output.stderr } else { output.stdout };
    let text = String::from_utf8_lossy(&text).trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("fels-bench-test-{}-{name}", std::process::id()))
    }

    #[test]
    fn output_and_status_are_told() {
        let log = log("status");
        let interrupt = Interrupt::default();
        let minute = Duration::from_secs(60);
        let text =
            CommandLine::new("sh", ["-c", "echo out; echo err >&2"]).run(&log, minute, &interrupt).unwrap();
        assert_eq!(text, "out\nerr\n");
        let error =
            CommandLine::new("sh", ["-c", "echo why; exit 7"]).run(&log, minute, &interrupt).unwrap_err();
        assert!(error.to_string().contains("why") && error.to_string().contains('7'), "{error}");
        fs::remove_file(&log).unwrap();
    }

    #[test]
    fn a_program_that_hangs_is_killed_at_its_deadline() {
        let log = log("hang");
        let begun = Instant::now();
        let deadline = Duration::from_millis(100);
        let result = CommandLine::new("sleep", ["60"]).run(&log, deadline, &Interrupt::default());
        assert!(matches!(result, Err(Error::Deadline { .. })));
        assert!(begun.elapsed() < Duration::from_secs(30));
        fs::remove_file(&log).unwrap();
    }

    #[test]
    fn an_interrupt_ends_the_wait() {
        let log = log("interrupt");
        let interrupt = Interrupt::default();
        interrupt.raise();
        let result = CommandLine::new("sleep", ["60"]).run(&log, Duration::from_secs(60), &interrupt);
        assert!(matches!(result, Err(Error::Interrupted)));
        fs::remove_file(&log).unwrap();
    }

    #[test]
    fn a_dropped_process_is_gone() {
        let log = log("drop");
        let process = CommandLine::new("sleep", ["60"]).spawn(&log).unwrap();
        let id = process.id();
        drop(process);
        assert!(!Path::new(&format!("/proc/{id}")).exists());
        fs::remove_file(&log).unwrap();
    }

    #[test]
    fn the_text_can_be_typed_again() {
        let line = CommandLine::new("echo", ["a b", "c"]).with_environment("X", "1").on_core("1");
        assert_eq!(line.text(), "X=1 taskset -c 1 echo 'a b' c");
        assert_eq!(line.name(), "echo");
    }
}
