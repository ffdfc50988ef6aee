//! The Linux kernel's NBD client: connect by two connections, write, disconnect, connect again, check everything.

use std::time::Duration;

use beds::guest::{Guest, VERDICT};
use beds::{Bed, Node, Volume, spoil_at_gate};

/// Under software emulation on a loaded machine; about 20 s on an idle one.
const DEADLINE: Duration = Duration::from_secs(180);

const MODULES: &[&str] = &["crc32c_generic", "nbd", "ext4"];

fn guest() -> Guest {
    ["nbd-client", "mke2fs", "e2fsck"]
        .into_iter()
        .fold(Guest::new(MODULES), Guest::program)
        .cpus(2)
        .file("/etc/mtab", "")
}

fn script(node: &Node, between: &str) -> String {
    format!(
        "join() {{
    nbd-client -N demo -C 2 10.0.2.2 {port} /dev/nbd0 || fail connect
    n=0; until [ $(cat /sys/block/nbd0/size) = 262144 ]; do n=$((n + 1)); [ $n -lt 100 ] || fail 'no disk'; sleep 0.1; done
    [ \"$(cat /sys/block/nbd0/queue/write_cache)\" = 'write back' ] || fail \"its write cache: $(cat /sys/block/nbd0/queue/write_cache)\"
    [ $(cat /sys/block/nbd0/queue/fua) = 1 ] || fail 'it has no FUA'
    [ $(cat /sys/block/nbd0/queue/discard_max_bytes) -gt 0 ] || fail 'it has no discard'
    step connected, /dev/nbd0 has $(cat /sys/block/nbd0/size) sectors
}}
leave() {{
    nbd-client -d /dev/nbd0 > /dev/null || fail disconnect
    n=0; while [ -e /sys/block/nbd0/pid ]; do n=$((n + 1)); [ $n -lt 100 ] || fail 'still connected'; sleep 0.1; done
    step disconnected
}}
join
/usr/sbin/mke2fs -q -t ext4 -F /dev/nbd0 || fail mke2fs
mount -t ext4 -o discard /dev/nbd0 /mnt || fail mount
for i in $(seq 1 100); do seq $i 900 > /mnt/small$i || fail 'small files'; done
for i in 1 2 3; do dd if=/dev/urandom of=/mnt/large$i bs=64k count=100 2> /dev/null || fail 'large files'; done
rm /mnt/small1? /mnt/large2 || fail rm
sync
(cd /mnt && find . -type f | sort | xargs sha256sum) > /tmp/sums || fail sums
step $(wc -l < /tmp/sums) files written
umount /mnt || fail umount
leave
{between}
join
e2fsck -f -n /dev/nbd0 > /tmp/e2fsck.log 2>&1 || fail e2fsck
grep '? no' /tmp/e2fsck.log && fail 'e2fsck would repair something'
mount -t ext4 -o ro /dev/nbd0 /mnt || fail 'mount again'
[ $(find /mnt -type f | wc -l) = $(wc -l < /tmp/sums) ] || fail 'files are missing'
(cd /mnt && sha256sum -c /tmp/sums > /tmp/result) || fail \"checksums: $(grep -v OK /tmp/result | head -n 3)\"
step checksums agree
umount /mnt || fail 'umount again'
leave",
        port = node.nbd_address().port()
    )
}

#[test]
fn the_kernel_makes_a_file_system_and_finds_it_whole_after_connecting_again() {
    let node = Bed::with([Volume::file("demo", "128MiB")]).nbd().start();
    let console = guest().run(&script(&node, ""), DEADLINE);
    assert!(console.stdout.contains(VERDICT), "{console}");
}

/// The bed itself is tried: what it compares must be able to differ.
#[test]
fn one_spoiled_byte_is_noticed() {
    let node = Bed::with([Volume::file("demo", "128MiB")]).nbd().start();
    let wait = spoil_at_gate(node.data().join("demo.img"));
    let console = guest().run(&script(&node, &wait), DEADLINE);
    assert!(console.stdout.contains("BED: failed: checksums: ./large"), "{console}");
}
