//! The Linux kernel's initiator: log in, make a file system, write, log out, log in again, check everything.

mod chap_and_digests;
mod plain;
mod spoiled;

use std::time::Duration;

use beds::Node;
use beds::guest::Guest;
use beds::volume::target;

/// Under software emulation on a loaded machine; about 25 s on an idle one.
const DEADLINE: Duration = Duration::from_secs(180);

const MODULES: &[&str] = &["crc32c_generic", "sd_mod", "iscsi_tcp", "ext4"];

/// `settings` are `iscsiadm -m node -o update` names and values, `session_check` is run while logged in and
/// `between` after the first logout.
fn script(node: &Node, settings: &[(&str, &str)], session_check: &str, between: &str) -> String {
    let record = format!("-m node -T {} -p 10.0.2.2:{}", target("demo"), node.port(0));
    let updates = settings.iter().map(|(name, value)| {
        format!("iscsiadm {record} -o update -n '{name}' -v '{value}' || fail 'setting {name}'\n")
    });
    let updates: String = updates.collect();
    format!(
        "iscsid -f -d 3 > /tmp/iscsid.log 2>&1 &
sleep 1
iscsiadm {record} -o new > /dev/null || fail 'no record'
{updates}
login() {{
    iscsiadm {record} --login || fail login
    n=0; until disk=$(ls /sys/class/iscsi_session/*/device/target*/*/block 2> /dev/null); do
        n=$((n + 1)); [ $n -lt 100 ] || fail 'no disk'; sleep 0.1
    done
    {session_check}
    step logged in, /dev/$disk has $(cat /sys/block/$disk/size) sectors
}}
logout() {{
    iscsiadm {record} --logout || fail logout
    [ -z \"$(ls /sys/class/iscsi_session)\" ] || fail 'the session is still there'
    step logged out
}}
login
/usr/sbin/mke2fs -q -t ext4 -F /dev/$disk || fail mke2fs
mount -t ext4 /dev/$disk /mnt || fail mount
mkdir /mnt/small || fail mkdir
for i in $(seq 1 200); do seq $i 900 > /mnt/small/$i || fail 'small files'; done
for i in 1 2 3; do dd if=/dev/urandom of=/mnt/large$i bs=64k count=100 2> /dev/null || fail 'large files'; done
rm /mnt/small/1?? || fail rm
sync
(cd /mnt && find . -type f | sort | xargs sha256sum) > /tmp/sums || fail sums
step $(wc -l < /tmp/sums) files written
umount /mnt || fail umount
logout
{between}
login
e2fsck -f -n /dev/$disk > /tmp/e2fsck.log 2>&1 || fail e2fsck
grep '? no' /tmp/e2fsck.log && fail 'e2fsck would repair something'
mount -t ext4 -o ro /dev/$disk /mnt || fail 'mount again'
[ $(find /mnt -type f | wc -l) = $(wc -l < /tmp/sums) ] || fail 'files are missing'
(cd /mnt && sha256sum -c /tmp/sums > /tmp/result) || fail \"checksums: $(grep -v OK /tmp/result | head -n 3)\"
step checksums agree
umount /mnt || fail 'umount again'
logout"
    )
}

fn guest() -> Guest {
    ["iscsid", "iscsiadm", "mke2fs", "e2fsck"]
        .into_iter()
        .fold(Guest::new(MODULES), Guest::program)
        .file("/etc/iscsi/initiatorname.iscsi", "InitiatorName=iqn.2026-11.internal.fels:guest\n")
        .file("/etc/iscsi/iscsid.conf", "node.startup = manual\n")
        .file("/etc/passwd", "root:x:0:0:root:/root:/bin/sh\n")
        .file("/etc/mtab", "")
        .file("/run/lock/iscsi/.keep", "")
}
