//! The targets: each one a server on its own port with one volume in memory.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::Error;
use crate::process::{CommandLine, Interrupt, Process, answers};

/// How long a server may take until it answers.
const START_DEADLINE: Duration = Duration::from_secs(20);
/// How long a single administrative command may take.
const ADMIN_DEADLINE: Duration = Duration::from_secs(10);
/// How long Fels may take to drain and end.
const STOP_DEADLINE: Duration = Duration::from_secs(10);

/// Which server, and where its volume lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Fels with a volume in its own memory.
    FelsMemory(PathBuf),
    /// Fels with a file on tmpfs, the same backing as tgt's.
    FelsFile(PathBuf),
    /// tgt with a file on tmpfs and one of its backing store types.
    Tgt(&'static str),
}

/// A target to measure.
#[derive(Clone, Debug)]
pub struct Target {
    /// The name in the report.
    pub name: String,
    /// Which server.
    pub kind: Kind,
}

impl Target {
    /// Makes a target of its name on the command line.
    pub fn parse(name: &str, fels: &Path, other: Option<&Path>) -> Result<Self, Error> {
        let kind = match name {
            "fels" => Kind::FelsMemory(fels.to_owned()),
            "fels-file" => Kind::FelsFile(fels.to_owned()),
            "tgt-rdwr" => Kind::Tgt("rdwr"),
            "tgt-aio" => Kind::Tgt("aio"),
            "vs" => match other {
                Some(binary) => Kind::FelsMemory(binary.to_owned()),
                None => return Err(Error::Options("the target 'vs' needs --vs BINARY".to_owned())),
            },
            _ => return Err(Error::Options(format!("no target is called '{name}'"))),
        };
        Ok(Self { name: name.to_owned(), kind })
    }

    /// Whether this is a Fels.
    pub fn is_fels(&self) -> bool {
        !matches!(self.kind, Kind::Tgt(_))
    }

    /// What the volume is, for the report.
    pub fn description(&self) -> String {
        match &self.kind {
            Kind::FelsMemory(_) => "Fels, backing = { memory = true }, shards = 1".to_owned(),
            Kind::FelsFile(_) => "Fels, backing = { file = ... } on tmpfs, shards = 1".to_owned(),
            Kind::Tgt(store) => format!("tgtd, --bstype {store}, file on tmpfs"),
        }
    }
}

/// Where and how servers run.
#[derive(Debug)]
pub struct Place<'a> {
    /// Directory on tmpfs for volumes, sockets, configuration and logs.
    pub work: &'a Path,
    /// Core of the servers.
    pub core: u32,
    /// Size of each volume in bytes.
    pub volume_bytes: u64,
    /// First port to try.
    pub port_base: u16,
    /// Whether to stop.
    pub interrupt: &'a Interrupt,
}

/// A server that answers. It is stopped when this value goes away.
#[derive(Debug)]
pub struct Server {
    process: Process,
    /// The URL by which libiscsi reaches the volume.
    pub url: String,
    /// Commands that started and configured it, with the working directory as `$WORK`.
    pub commands: Vec<String>,
    drains: bool,
}

impl Server {
    /// Starts a target and waits until it answers.
    pub fn start(target: &Target, place: &Place<'_>, index: u16) -> Result<Self, Error> {
        let port = free_port(place.port_base.saturating_add(index.saturating_mul(20)))?;
        let mut server = match &target.kind {
            Kind::FelsMemory(binary) => start_fels(target, binary, "memory = true", place, port),
            Kind::FelsFile(binary) => start_fels(target, binary, "file = \"volume.img\"", place, port),
            Kind::Tgt(store) => start_tgt(target, store, place, port),
        }?;
        let work = place.work.display().to_string();
        for command in &mut server.commands {
            *command = command.replace(&work, "$WORK");
        }
        Ok(server)
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// An error with its last words if it has ended.
    pub fn expect_running(&mut self) -> Result<(), Error> {
        self.process.expect_running()
    }

    /// Ends the server. False when it was asked to drain and did not end well in time; it is gone all the same.
    pub fn stop(mut self) -> bool {
        // tgtd ignores SIGTERM while it has targets; its volume is in memory, so nothing is lost by killing it.
        !self.drains || self.process.terminate(STOP_DEADLINE)
    }
}

fn start_fels(
    target: &Target,
    binary: &Path,
    backing: &str,
    place: &Place<'_>,
    port: u16,
) -> Result<Server, Error> {
    let data = place.work.join(&target.name);
    let configuration = place.work.join(format!("{}.toml", target.name));
    let text = format!(
        "data = \"{}\"\nshards = 1\n\n[iscsi]\nlisten = [\"127.0.0.1:{port}\"]\n\n[[volume]]\nname = \"bench\"\n\
         size = \"{}MiB\"\nbacking = {{ {backing} }}\nblock_size = 512\n",
        data.display(),
        place.volume_bytes >> 20,
    );
    fs::write(&configuration, &text)
        .map_err(Error::io(format!("cannot write {}", configuration.display())))?;
    let arguments = ["serve".to_owned(), "--config".to_owned(), configuration.display().to_string()];
    let line = CommandLine::new(binary.display().to_string(), arguments).on_core(place.core);
    let mut process = line.spawn(&place.work.join(format!("{}.log", target.name)))?;
    let ready = format!("listening on 127.0.0.1:{port}");
    process.wait_until(START_DEADLINE, place.interrupt, |process| process.output().contains(&ready))?;
    let url = format!("iscsi://127.0.0.1:{port}/iqn.2026-11.internal.fels:bench/0");
    let shown = format!("printf '{}' > {}", text.replace('\n', "\\n"), configuration.display());
    Ok(Server { process, url, commands: vec![shown, line.text()], drains: true })
}

fn start_tgt(target: &Target, store: &str, place: &Place<'_>, port: u16) -> Result<Server, Error> {
    let volume = place.work.join(format!("{}.img", target.name));
    fs::File::create(&volume)
        .and_then(|file| file.set_len(place.volume_bytes))
        .map_err(Error::io(format!("cannot make {}", volume.display())))?;
    let log = place.work.join(format!("{}.log", target.name));
    // The control port names the control socket only; its directory is ours so that no other tgtd is met.
    let control = port.to_string();
    let socket = place.work.join(format!("{}.socket", target.name)).display().to_string();
    let daemon = ["-f", "-C", &control, "--iscsi", &format!("portal=127.0.0.1:{port}")].map(str::to_owned);
    let line =
        CommandLine::new("tgtd", daemon).with_environment("TGT_IPC_SOCKET", &*socket).on_core(place.core);
    let mut process = line.spawn(&log)?;
    let mut commands = vec![format!("truncate -s {} {}", place.volume_bytes, volume.display()), line.text()];
    process.wait_until(START_DEADLINE, place.interrupt, |_| answers(port))?;

    let iqn = format!("iqn.2026-11.internal.fels.bench:{}", target.name);
    let volume = volume.display().to_string();
    let steps: [&[&str]; 3] = [
        &["--mode", "target", "--op", "new", "--tid", "1", "--targetname", &iqn],
        &[
            "--mode",
            "logicalunit",
            "--op",
            "new",
            "--tid",
            "1",
            "--lun",
            "1",
            "--backing-store",
            &volume,
            "--bstype",
            store,
        ],
        &["--mode", "target", "--op", "bind", "--tid", "1", "--initiator-address", "ALL"],
    ];
    for step in steps {
        let common = ["--lld", "iscsi", "--control-port", control.as_str()];
        let line = CommandLine::new("tgtadm", common.iter().chain(step).copied());
        let line = line.with_environment("TGT_IPC_SOCKET", &*socket);
        line.run(&place.work.join("tgtadm.log"), ADMIN_DEADLINE, place.interrupt)?;
        commands.push(line.text());
    }
    let url = format!("iscsi://127.0.0.1:{port}/{iqn}/1");
    Ok(Server { process, url, commands, drains: false })
}

/// The first port from `base` on that nobody uses; twenty are tried.
fn free_port(base: u16) -> Result<u16, Error> {
    (base..base.saturating_add(20))
        .find(|&port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok())
        .ok_or_else(|| Error::Options(format!("no free port from {base} on, see --port-base")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_have_names() {
        let fels = Path::new("fels");
        assert_eq!(Target::parse("tgt-aio", fels, None).unwrap().kind, Kind::Tgt("aio"));
        assert!(Target::parse("fels", fels, None).unwrap().is_fels());
        assert!(Target::parse("vs", fels, None).is_err());
        assert!(Target::parse("vs", fels, Some(fels)).unwrap().is_fels());
        assert!(Target::parse("lio", fels, None).is_err());
    }

    #[test]
    fn a_port_in_use_is_not_taken() {
        let held = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = held.local_addr().unwrap().port();
        if let Ok(found) = free_port(port) {
            assert_ne!(found, port);
        }
    }
}
