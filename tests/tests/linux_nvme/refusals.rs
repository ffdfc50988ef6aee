//! Who may not connect, and what may not be asked.

use beds::guest::VERDICT;
use beds::{Bed, Volume};

use crate::{DEADLINE, functions, guest, subsystem};

#[test]
fn strangers_and_bad_commands_get_the_status_that_the_standard_names() {
    let private = Volume::memory("private", "16MiB").extra("hosts = [\"nqn.2014-08.com.example:other\"]\n");
    let guarded = Volume::memory("guarded", "16MiB").chap("alice", "alice-alice-1");
    let node = Bed::with([Volume::memory("demo", "16MiB"), private, guarded]).nvme().start();
    let (io, _) = node.nvme_ports();
    let connect = format!("nvme connect -t tcp -a 10.0.2.2 -s {io} -n {}", subsystem(""));
    let script = format!(
        "{}
refused() {{ dmesg -c > /dev/null; {connect}$1 2> /dev/null && fail \"$1 was let in\"; dmesg | grep nvme; }}
refused private | grep -q 'private is not allowed' || fail 'the wrong host is not told so'
refused nowhere | grep -q 'Invalid Data Parameter, subsysnqn' || fail 'the unknown name is not told so'
refused guarded | grep -q 'Invalid Data Parameter, subsysnqn' || fail 'a volume with CHAP is offered'
join demo
status() {{ words=$1; shift; nvme $@ 2>&1 | tee /tmp/said | grep -q \"$words\" || fail \"$* said $(cat /tmp/said)\"; }}
head -c 8192 /dev/urandom > /tmp/data; head -c 4096 /tmp/data > /tmp/start; head -c 4096 /dev/zero > /tmp/zeroes
status 'write: Success' write /dev/nvme0n1 -s 8 -c 15 -z 8192 -d /tmp/data
status 'compare: Success' compare /dev/nvme0n1 -s 8 -c 15 -z 8192 -d /tmp/data
status 'Compare Failure' compare /dev/nvme0n1 -s 9 -c 15 -z 8192 -d /tmp/data
status 'NVMe Flush: success' flush /dev/nvme0n1
status 'Success' write-zeroes /dev/nvme0n1 -s 16 -c 7 -d
status 'success' dsm /dev/nvme0n1 -d -s 0 -b 8
status 'Success' verify /dev/nvme0n1 -s 0 -c 100
status 'success' copy /dev/nvme0n1 -d 100 -s 8 -b 7
status 'LBA Out of Range' read /dev/nvme0n1 -s 32768 -c 0 -z 512 -d /tmp/read
status 'LBA Out of Range' read /dev/nvme0n1 -s 32767 -c 1 -z 1024 -d /tmp/read
status 'LBA Out of Range' write /dev/nvme0n1 -s 32767 -c 1 -z 1024 -d /tmp/data
status 'LBA Out of Range' write-zeroes /dev/nvme0n1 -s 32761 -c 8
status 'Invalid Command Opcode' io-passthru /dev/nvme0n1 -o 0x55 -n 1
status 'Invalid Command Opcode' admin-passthru /dev/nvme0 -o 0x55
dd if=/dev/nvme0n1 bs=512 skip=100 count=8 2> /dev/null | cmp - /tmp/start || fail 'the copy is wrong'
dd if=/dev/nvme0n1 bs=512 skip=16 count=8 2> /dev/null | cmp - /tmp/zeroes || fail 'the zeroes are wrong'
leave demo",
        functions(&node)
    );
    let console = guest(&[]).run(&script, DEADLINE);
    assert!(console.stdout.contains(VERDICT), "{console}");
}
