//! The NBD servers of others.

use super::{Place, Protocol, Running, START_DEADLINE, Serving, VOLUME};
use crate::error::Error;
use crate::process::{CommandLine, answers};

fn start(line: &CommandLine, name: &str, port: u16, place: &Place<'_>) -> Result<Running, Error> {
    let mut process = line.spawn(&place.work.join(format!("{name}.log")))?;
    process.wait_until(START_DEADLINE, place.interrupt, |_| answers(port))?;
    let url = format!("nbd://127.0.0.1:{port}/{VOLUME}");
    Ok(Running {
        serving: Serving::Started(process),
        urls: vec![(Protocol::Nbd, url)],
        commands: vec![line.text()],
        drains: false,
    })
}

/// Starts nbdkit with a volume in its own memory.
pub fn start_nbdkit(place: &Place<'_>) -> Result<Running, Error> {
    let port = place.free_port()?;
    let size = place.volume_bytes.to_string();
    let text = port.to_string();
    let arguments =
        ["-f", "-i", "127.0.0.1", "-p", &text, "memory", &format!("size={size}")].map(str::to_owned);
    start(&CommandLine::new("nbdkit", arguments).on_core(place.cores), "nbdkit", port, place)
}

/// Starts qemu-nbd with the shared file, for many clients, one after the other and at once.
pub fn start_qemu(place: &Place<'_>) -> Result<Running, Error> {
    let volume = place.shared_file()?.display().to_string();
    let port = place.free_port()?;
    let text = port.to_string();
    let arguments = ["-f", "raw", "-b", "127.0.0.1", "-p", &text, "-x", VOLUME, "-e", "64", "-t", &volume]
        .map(str::to_owned);
    start(&CommandLine::new("qemu-nbd", arguments).on_core(place.cores), "qemu-nbd", port, place)
}
