//! The clients: `iscsi-perf` reads, `qemu-img bench` writes.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::output;
use crate::process::{CommandLine, Interrupt, Process};
use crate::rows::{Load, Row, scatter_stride};
use crate::stats::float;

/// What one measured window gave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    /// Requests that were completed.
    pub requests: f64,
    /// Seconds in which they were, by the client's own clock.
    pub seconds: f64,
    /// Requests per second of all sessions.
    pub iops: f64,
}

/// Where and how clients run.
#[derive(Debug)]
pub struct Client<'a> {
    /// Directory for the outputs.
    pub work: &'a Path,
    /// Core of the clients.
    pub core: u32,
    /// Size of the volume in bytes.
    pub volume_bytes: u64,
    /// Seconds of a window.
    pub seconds: u32,
    /// Whether to stop.
    pub interrupt: &'a Interrupt,
}

impl Client<'_> {
    /// The command lines of a row, one a session. `requests` is the count for clients that run by count.
    pub fn commands(&self, row: &Row, url: &str, requests: u64) -> Vec<CommandLine> {
        let one = |session: u32| {
            let line = match row.load {
                Load::RandomRead | Load::SequentialRead => self.iscsi_perf(row, url, session),
                Load::ScatteredWrite | Load::SequentialWrite => self.qemu_bench(row, url, requests),
            };
            line.on_core(self.core)
        };
        (0..row.sessions).map(one).collect()
    }

    fn iscsi_perf(&self, row: &Row, url: &str, session: u32) -> CommandLine {
        let mut arguments = vec![
            "-i".to_owned(),
            format!("iqn.2026-11.internal.fels.bench:client{session}"),
            "-m".to_owned(),
            row.depth.to_string(),
            "-b".to_owned(),
            (row.request_bytes / 512).to_string(),
            "-t".to_owned(),
            self.seconds.to_string(),
        ];
        if row.load == Load::RandomRead {
            arguments.push("-r".to_owned());
        }
        arguments.push(url.to_owned());
        CommandLine::new("iscsi-perf", arguments)
    }

    fn qemu_bench(&self, row: &Row, url: &str, requests: u64) -> CommandLine {
        let stride = match row.load {
            Load::ScatteredWrite => scatter_stride(self.volume_bytes, row.request_bytes),
            _ => u64::from(row.request_bytes),
        };
        let options = WriteOptions { requests, depth: row.depth, request_bytes: row.request_bytes, stride };
        options.command(url)
    }

    /// Runs one window of a row and reads its figures.
    pub fn run(&self, row: &Row, url: &str, requests: u64) -> Result<Window, Error> {
        let lines = self.commands(row, url, requests);
        let mut processes = Vec::with_capacity(lines.len());
        for (session, line) in lines.iter().enumerate() {
            processes.push(line.spawn(&self.work.join(format!("client{session}.log")))?);
        }
        let deadline = Duration::from_secs(u64::from(self.seconds) * 4 + 20);
        let until = Instant::now() + deadline;
        for process in &mut processes {
            process.wait(until, deadline, self.interrupt)?;
        }
        // A client that met the same signal ended early and well; its figures are of a shorter window.
        self.interrupt.check()?;
        match row.load {
            Load::RandomRead | Load::SequentialRead => self.read_perf(row, &processes),
            Load::ScatteredWrite | Load::SequentialWrite => read_qemu(&processes, requests),
        }
    }

    fn read_perf(&self, row: &Row, processes: &[Process]) -> Result<Window, Error> {
        let mut iops = 0.0;
        for process in processes {
            let figures = output::iscsi_perf(&process.output())?;
            if figures.request_bytes != u64::from(row.request_bytes) {
                let reason =
                    format!("requests of {} bytes, not {}", figures.request_bytes, row.request_bytes);
                return Err(Error::Output { program: "iscsi-perf", reason });
            }
            iops += float(figures.iops);
        }
        let seconds = f64::from(self.seconds);
        Ok(Window { requests: iops * seconds, seconds, iops })
    }

    /// How many requests make a window of the wished length, given a rate seen before.
    #[expect(clippy::cast_sign_loss, reason = "clamped to a positive range")]
    pub fn requests_for(&self, iops: f64) -> u64 {
        // Bounded by what qemu-img takes, and large enough that its clock of a millisecond does not matter.
        (iops * f64::from(self.seconds)).clamp(500.0, f64::from(i32::MAX)).round() as u64
    }

    /// Writes the whole volume once, so that no target answers from holes.
    pub fn fill(&self, url: &str) -> Result<(), Error> {
        let request_bytes = 256 << 10;
        let requests = self.volume_bytes / u64::from(request_bytes);
        let options = WriteOptions { requests, depth: 8, request_bytes, stride: u64::from(request_bytes) };
        let deadline = Duration::from_secs(60 + (self.volume_bytes >> 20) / 20);
        let log = self.work.join("fill.log");
        options.command(url).on_core(self.core).run(&log, deadline, self.interrupt)?;
        Ok(())
    }
}

struct WriteOptions {
    requests: u64,
    depth: u32,
    request_bytes: u32,
    stride: u64,
}

impl WriteOptions {
    fn command(&self, url: &str) -> CommandLine {
        let arguments = [
            "bench".to_owned(),
            "-w".to_owned(),
            "-f".to_owned(),
            "raw".to_owned(),
            "-t".to_owned(),
            "none".to_owned(),
            "--pattern=165".to_owned(),
            "-c".to_owned(),
            self.requests.to_string(),
            "-d".to_owned(),
            self.depth.to_string(),
            "-s".to_owned(),
            self.request_bytes.to_string(),
            "-S".to_owned(),
            self.stride.to_string(),
            url.to_owned(),
        ];
        CommandLine::new("qemu-img", arguments)
    }
}

fn read_qemu(processes: &[Process], requests: u64) -> Result<Window, Error> {
    let mut window = Window { requests: 0.0, seconds: 0.0, iops: 0.0 };
    for process in processes {
        let seconds = output::qemu_bench(&process.output())?;
        window.requests += float(requests);
        window.seconds = window.seconds.max(seconds);
        window.iops += float(requests) / seconds;
    }
    Ok(window)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::ROWS;

    fn client(interrupt: &Interrupt) -> Client<'_> {
        Client { work: Path::new("/tmp"), core: 1, volume_bytes: 2 << 30, seconds: 3, interrupt }
    }

    #[test]
    fn each_row_becomes_a_command() {
        let interrupt = Interrupt::default();
        let client = client(&interrupt);
        for row in ROWS {
            let lines = client.commands(row, "iscsi://u", 1000);
            assert_eq!(lines.len(), row.sessions as usize);
            let text = lines[0].text();
            assert!(text.contains("taskset -c 1") && text.ends_with("iscsi://u"), "{text}");
            let program = row.client().split(' ').next().unwrap();
            assert!(text.contains(program), "{text}");
        }
    }

    #[test]
    fn sessions_have_initiators_of_their_own() {
        let interrupt = Interrupt::default();
        let row = ROWS.iter().find(|row| row.sessions == 4).unwrap();
        let mut texts: Vec<String> =
            client(&interrupt).commands(row, "u", 1).iter().map(CommandLine::text).collect();
        texts.dedup();
        assert_eq!(texts.len(), 4);
    }

    #[test]
    fn the_count_follows_the_rate() {
        let interrupt = Interrupt::default();
        let client = client(&interrupt);
        assert_eq!(client.requests_for(50_000.0), 150_000);
        assert_eq!(client.requests_for(1.0), 500);
        assert_eq!(client.requests_for(f64::MAX), i32::MAX as u64);
    }
}
