//! What nvme-cli finds, and what it reads of a controller and its namespaces.

use beds::guest::VERDICT;
use beds::{Bed, Volume};

use crate::{DEADLINE, functions, guest, subsystem};

#[test]
fn discovery_shows_what_the_host_may_use_and_every_page_can_be_read() {
    let node = Bed::with([
        Volume::file("demo", "64MiB").extra("subsystem = \"shared\"\n"),
        Volume::memory("private", "16MiB").extra("hosts = [\"nqn.2014-08.com.example:other\"]\n"),
        Volume::memory("large-blocks", "16MiB").block_size(4096).extra("subsystem = \"shared\"\n"),
    ])
    .nvme()
    .start();
    let (io, discovery) = node.nvme_ports();
    let script = format!(
        "{}
discover {discovery}; discover {io} > /tmp/second
grep -q 'Number of Records 3' /tmp/second || fail 'the portal of the subsystems tells something else'
join shared
nvme list
for page in 'id-ctrl /dev/nvme0' 'id-ns /dev/nvme0n1' 'id-ns /dev/nvme0n2' 'ns-descs /dev/nvme0n1' \\
    'smart-log /dev/nvme0' 'ana-log /dev/nvme0' 'effects-log /dev/nvme0 -c 0' 'error-log /dev/nvme0' \\
    'fw-log /dev/nvme0' 'supported-log-pages /dev/nvme0' \\
    'get-feature /dev/nvme0 -f 6' 'get-feature /dev/nvme0 -f 7' 'list-ctrl /dev/nvme0'
do nvme $page > /tmp/page || fail \"$page\"; [ -s /tmp/page ] || fail \"$page is empty\"; done
nvme changed-ns-list-log /dev/nvme0 || fail 'changed namespaces'
nvme id-ctrl /dev/nvme0 | grep -E '^(subnqn|ioccsz|oncs|vwc) '
leave shared",
        functions(&node)
    );
    let console = guest(&[]).run(&script, DEADLINE);
    let said = |words: &str| console.stdout.replace('\r', "").matches(words).count();
    assert!(console.stdout.contains(VERDICT), "{console}");
    assert_eq!(said("Discovery Log Number of Records 3, Generation counter 1"), 1, "{console}");
    assert_eq!(said("subtype: current discovery subsystem"), 2, "{console}");
    assert_eq!(said("subtype: nvme subsystem"), 1, "{console}");
    assert_eq!(said(&format!("subnqn:  {}\n", subsystem("shared"))), 1, "{console}");
    assert_eq!(said(&format!("trsvcid: {io}\n")), 2, "{console}");
    assert_eq!(said(&format!("trsvcid: {discovery}\n")), 1, "{console}");
    assert_eq!(said("private"), 0, "another host's subsystem is shown\n{console}");
    assert_eq!(said(&format!("subnqn    : {}\n", subsystem("shared"))), 1, "{console}");
}
