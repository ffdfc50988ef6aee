//! One volume, mounted by iSCSI and by NVMe at the same time.

use beds::guest::VERDICT;
use beds::volume::target;
use beds::{Bed, Volume};

use crate::{DEADLINE, functions, guest};

#[test]
fn what_is_flushed_by_one_protocol_is_read_by_the_other() {
    let node = Bed::with([Volume::file("demo", "64MiB")]).nvme().start();
    let record = format!("-m node -T {} -p 10.0.2.2:{}", target("demo"), node.port(0));
    let script = format!(
        "{}
iscsid -f -d 3 > /tmp/iscsid.log 2>&1 &
sleep 1
iscsiadm {record} -o new > /dev/null || fail 'no record'
iscsiadm {record} --login || fail login
n=0; until disk=$(ls /sys/class/iscsi_session/*/device/target*/*/block 2> /dev/null); do
    n=$((n + 1)); [ $n -lt 100 ] || fail 'no disk'; sleep 0.1
done
join demo
[ $(cat /sys/block/$disk/size) = $(cat /sys/block/nvme0n1/size) ] || fail 'the sizes differ'
# written FROM TO: a file system on one is seen whole by the other, read-only and past its caches.
written() {{
    /usr/sbin/mke2fs -q -t ext4 -F $1 || fail \"mke2fs $1\"
    mkdir -p /tmp/a /tmp/b; mount -t ext4 $1 /tmp/a || fail \"mount $1\"
    for i in 1 2 3; do dd if=/dev/urandom of=/tmp/a/file$i bs=64k count=30 2> /dev/null || fail \"write $1\"; done
    (cd /tmp/a && sha256sum file*) > /tmp/sums
    umount /tmp/a || fail umount
    echo 3 > /proc/sys/vm/drop_caches; blockdev --flushbufs $2
    mount -t ext4 -o ro,noload $2 /tmp/b || fail \"mount $2\"
    (cd /tmp/b && sha256sum -c /tmp/sums > /dev/null) || fail \"$2 does not have what $1 wrote\"
    umount /tmp/b || fail umount; step \"$2 has what $1 wrote\"
}}
written /dev/$disk /dev/nvme0n1
written /dev/nvme0n1 /dev/$disk
# Up to 256 KiB come in the capsule; what is longer is asked for.
for size in 4k 256k 260k 1024k; do
    dd if=/dev/urandom of=/tmp/data bs=$size count=1 2> /dev/null || fail \"data of $size\"
    dd if=/tmp/data of=/dev/nvme0n1 bs=$size count=1 oflag=direct 2> /dev/null || fail \"write of $size\"
    blockdev --flushbufs /dev/$disk
    head -c $(stat -c %s /tmp/data) /dev/$disk | cmp - /tmp/data || fail \"a write of $size is something else\"
done
leave demo
iscsiadm {record} --logout || fail logout",
        functions(&node)
    );
    let guest = ["iscsid", "iscsiadm"]
        .into_iter()
        .fold(guest(&["sd_mod", "iscsi_tcp"]), beds::guest::Guest::program)
        .file("/etc/iscsi/initiatorname.iscsi", "InitiatorName=iqn.2026-11.internal.fels:guest\n")
        .file("/etc/iscsi/iscsid.conf", "node.startup = manual\n")
        .file("/etc/passwd", "root:x:0:0:root:/root:/bin/sh\n")
        .file("/run/lock/iscsi/.keep", "");
    let console = guest.run(&script, DEADLINE);
    assert!(console.stdout.contains(VERDICT), "{console}");
}
