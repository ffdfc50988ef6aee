//! A discovery controller that stays, IPv6, and that all of it is nothing to warn of.

use beds::guest::VERDICT;
use beds::{Bed, Volume};

use crate::{DEADLINE, functions, guest};

#[test]
fn a_persistent_discovery_controller_stays_beyond_its_keep_alive_time_and_goes_when_told() {
    let node = Bed::with([Volume::file("demo", "64MiB")]).nvme().start();
    let (_, discovery) = node.nvme_ports();
    let script = format!(
        "{}
nvme discover -t tcp -a 10.0.2.2 -s {discovery} -p -k 2 > /tmp/first || fail 'discover'
is() {{ [ \"$(cat /sys/class/nvme/nvme0/$1)\" = $2 ] || fail \"$1 is $(cat /sys/class/nvme/nvme0/$1)\"; }}
still() {{ is subsysnqn nqn.2014-08.org.nvmexpress.discovery; is cntrltype discovery; is state live; is kato 2; }}
still; sleep 9; still; step it lives after four times its keep alive time
nvme discover -d nvme0 > /tmp/second || fail 'discover again'
cmp /tmp/first /tmp/second || fail 'the page is another'
grep -q 'eflags:  *explicit discovery connections, duplicate discovery information' /tmp/first || cat /tmp/first
nvme get-feature /dev/nvme0 -f 0xb | grep -qi 'value:0x80000000' || fail \"notices: $(nvme get-feature /dev/nvme0 -f 0xb)\"
dmesg | grep -i 'nvme.*\\(error\\|fail\\|timed out\\|lost\\)' && fail 'the kernel complains'
nvme disconnect -d nvme0 || fail disconnect
[ -z \"$(ls /sys/class/nvme)\" ] || fail 'the controller is still there'
nvme discover -t tcp -a 10.0.2.2 -s {discovery} > /tmp/third || fail 'discover'
[ -z \"$(ls /sys/class/nvme)\" ] || fail 'one that was not to stay is still there'
join demo; dd if=/dev/urandom of=/dev/nvme0n1 bs=64k count=16 conv=fsync 2> /dev/null || fail write; leave demo",
        functions(&node)
    );
    let console = guest(&[]).run(&script, DEADLINE);
    assert!(console.stdout.contains(VERDICT), "{console}");
    let log = node.log();
    assert!(!log.contains("WARN") && !log.contains("ERROR"), "orderly disconnects are quiet: {log}");
}

#[test]
fn a_portal_of_ipv6_is_found_and_used() {
    let node = Bed::with([Volume::file("demo", "64MiB")]).nvme_six().start();
    let six = node.nvme_six_port();
    let script = format!(
        "{}
ip -6 addr add fec0::15/64 dev eth0 || fail 'no IPv6'
n=0; until ip -6 addr show dev eth0 | grep fec0::15 | grep -qv tentative; do
    n=$((n + 1)); [ $n -lt 100 ] || fail 'the address is not usable'; sleep 0.1
done
nvme discover -t tcp -a fec0::2 -s {six} > /tmp/page || fail discover
cat /tmp/page
nvme connect -t tcp -a fec0::2 -s {six} -n nqn.2026-11.internal.fels:demo || fail connect
n=0; until [ -b /dev/nvme0n1 ]; do n=$((n + 1)); [ $n -lt 100 ] || fail 'no disk'; sleep 0.1; done
grep -q 'traddr=fec0::2' /sys/class/nvme/nvme0/address || fail \"address $(cat /sys/class/nvme/nvme0/address)\"
head -c 1048576 /dev/urandom > /tmp/data
dd if=/tmp/data of=/dev/nvme0n1 bs=64k conv=fsync 2> /dev/null || fail write
echo 3 > /proc/sys/vm/drop_caches; blockdev --flushbufs /dev/nvme0n1
head -c 1048576 /dev/nvme0n1 | cmp - /tmp/data || fail 'it reads something else'
leave demo",
        functions(&node)
    );
    let console = guest(&[]).run(&script, DEADLINE);
    let said = |words: &str| console.stdout.replace('\r', "").matches(words).count();
    assert!(console.stdout.contains(VERDICT), "{console}");
    assert_eq!(said("adrfam:  ipv6"), 3, "the service, a referral, the subsystem\n{console}");
    assert_eq!(said("traddr:  ::1\n"), 2, "{console}");
    assert_eq!(said("traddr:  2001:db8::7\n"), 1, "{console}");
    assert_eq!(said("subtype: discovery subsystem referral"), 1, "{console}");
    assert_eq!(said("treq:    not specified, sq flow control disable supported"), 6, "{console}");
    assert_eq!(said(&format!("trsvcid: {six}\n")), 2, "{console}");
}
