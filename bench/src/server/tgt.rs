//! tgt: a daemon that is configured by commands.

use super::{ADMIN_DEADLINE, Place, Protocol, Running, START_DEADLINE, Serving};
use crate::error::Error;
use crate::process::{CommandLine, answers};

/// Starts tgtd with the shared file in a backing store of type `store`.
pub fn start(store: &str, place: &Place<'_>) -> Result<Running, Error> {
    let volume = place.shared_file()?.display().to_string();
    let port = place.free_port()?;
    // The control port names the control socket only; its directory is ours so that no other tgtd is met.
    let control = port.to_string();
    let socket = place.work.join(format!("tgt-{store}.socket")).display().to_string();
    let daemon = ["-f", "-C", &control, "--iscsi", &format!("portal=127.0.0.1:{port}")].map(str::to_owned);
    let line =
        CommandLine::new("tgtd", daemon).with_environment("TGT_IPC_SOCKET", &*socket).on_core(place.cores);
    let mut process = line.spawn(&place.work.join(format!("tgt-{store}.log")))?;
    let mut commands = vec![line.text()];
    process.wait_until(START_DEADLINE, place.interrupt, |_| answers(port))?;

    let iqn = format!("iqn.2026-11.internal.fels.bench:tgt-{store}");
    let unit =
        ["--mode", "logicalunit", "--op", "new", "--tid", "1", "--lun", "1", "--backing-store", &volume];
    let unit: Vec<&str> = unit.into_iter().chain(["--bstype", store]).collect();
    let steps: [&[&str]; 3] = [
        &["--mode", "target", "--op", "new", "--tid", "1", "--targetname", &iqn],
        &unit,
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
    Ok(Running {
        serving: Serving::Started(process),
        urls: vec![(Protocol::Iscsi, url)],
        commands,
        drains: false,
    })
}
