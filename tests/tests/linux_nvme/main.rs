//! The Linux kernel's NVMe/TCP host: find, connect, write, reset under load, check everything.

mod both_protocols;
mod discovery;
mod persistent;
mod refusals;
mod reset;
mod spoiled;

use std::time::Duration;

use beds::Node;
use beds::guest::Guest;

/// Under software emulation on a loaded machine; about 20 s on an idle one.
const DEADLINE: Duration = Duration::from_secs(180);

const MODULES: &[&str] = &["crc32c_generic", "nvme-tcp", "ext4"];

/// Name of the host in every guest.
const HOST: &str = "nqn.2014-08.com.example:guest";

/// Name of the subsystem called `name`.
fn subsystem(name: &str) -> String {
    format!("nqn.2026-11.internal.fels:{name}")
}

/// A guest whose queues can be on two shards.
fn guest(modules: &[&str]) -> Guest {
    ["nvme", "mke2fs", "e2fsck"]
        .into_iter()
        .fold(Guest::new(&[MODULES, modules].concat()), Guest::program)
        .cpus(2)
        .file("/etc/mtab", "")
        .file("/etc/nvme/hostnqn", &format!("{HOST}\n"))
        .file("/etc/nvme/hostid", "11111111-2222-3333-4444-555555555555\n")
}

/// Shell functions: `discover PORT`, `join SUBSYSTEM [OPTIONS]`, `leave SUBSYSTEM`.
fn functions(node: &Node) -> String {
    let (io, _) = node.nvme_ports();
    format!(
        "discover() {{ nvme discover -t tcp -a 10.0.2.2 -s $1 || fail \"discover at $1\"; }}
join() {{
    name=$1; shift
    nvme connect -t tcp -a 10.0.2.2 -s {io} -n nqn.2026-11.internal.fels:$name $@ || fail \"connect $name\"
    n=0; until [ -b /dev/nvme0n1 ]; do n=$((n + 1)); [ $n -lt 100 ] || fail 'no disk'; sleep 0.1; done
    step joined $name, /dev/nvme0n1 has $(cat /sys/block/nvme0n1/size) sectors
}}
leave() {{
    nvme disconnect -n nqn.2026-11.internal.fels:$1 | grep -q 'disconnected 1' || fail \"leave $1\"
    [ -z \"$(ls /sys/class/nvme)\" ] || fail 'the controller is still there'
    step left $1
}}
"
    )
}
