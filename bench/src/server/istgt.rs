//! istgt: the Debian package is of 2011.

use std::fs;

use super::{Place, Protocol, Running, START_DEADLINE, Serving, VOLUME};
use crate::error::Error;
use crate::process::{CommandLine, answers};

const NODE: &str = "iqn.2026-11.internal.fels.bench";

fn configuration(work: &str, volume: &str, port: u16, control: u16, depth: u32) -> String {
    format!(
        "[Global]\n  NodeBase \"{NODE}\"\n  PidFile {work}/istgt.pid\n  AuthFile {work}/istgt-auth.conf\n  \
         MediaDirectory {work}\n  Timeout 30\n  NopInInterval 20\n  DiscoveryAuthMethod None\n  MaxSessions 64\n  \
         MaxConnections 4\n  MaxR2T 32\n  MaxOutstandingR2T 16\n  DefaultTime2Wait 2\n  DefaultTime2Retain 60\n  \
         FirstBurstLength 262144\n  MaxBurstLength 1048576\n  MaxRecvDataSegmentLength 262144\n  InitialR2T Yes\n  \
         ImmediateData Yes\n  DataPDUInOrder Yes\n  DataSequenceInOrder Yes\n  ErrorRecoveryLevel 0\n\
         [UnitControl]\n  AuthMethod None\n  Portal UC1 127.0.0.1:{control}\n  Netmask 127.0.0.1\n\
         [PortalGroup1]\n  Portal DA1 127.0.0.1:{port}\n\
         [InitiatorGroup1]\n  InitiatorName \"ALL\"\n  Netmask 127.0.0.0/8\n\
         [LogicalUnit1]\n  TargetName {VOLUME}\n  Mapping PortalGroup1 InitiatorGroup1\n  AuthMethod None\n  \
         UseDigest Auto\n  UnitType Disk\n  QueueDepth {depth}\n  LUN0 Storage {volume} Auto\n"
    )
}

/// Starts istgt with the shared file.
pub fn start(depth: u32, place: &Place<'_>) -> Result<Running, Error> {
    let volume = place.shared_file()?.display().to_string();
    let port = place.free_port()?;
    let work = place.work.display().to_string();
    let path = place.work.join(format!("istgt-{depth}.conf"));
    let text = configuration(&work, &volume, port, port + 1, depth);
    fs::write(&path, &text).map_err(Error::io(format!("cannot write {}", path.display())))?;
    let auth = place.work.join("istgt-auth.conf");
    fs::write(&auth, "").map_err(Error::io(format!("cannot write {}", auth.display())))?;
    let conf = path.display().to_string();
    let pid = place.work.join(format!("istgt-{depth}.pid")).display().to_string();
    let line = CommandLine::new("istgt", ["-D", "-c", &conf, "-p", &pid]).on_core(place.cores);
    let mut process = line.spawn(&place.work.join(format!("istgt-{depth}.log")))?;
    process.wait_until(START_DEADLINE, place.interrupt, |_| answers(port))?;
    let url = format!("iscsi://127.0.0.1:{port}/{NODE}:{VOLUME}/0");
    let shown = format!("printf '{}' > {conf}", text.replace('\n', "\\n"));
    Ok(Running {
        serving: Serving::Started(process),
        urls: vec![(Protocol::Iscsi, url)],
        commands: vec![shown, line.text()],
        drains: false,
    })
}
