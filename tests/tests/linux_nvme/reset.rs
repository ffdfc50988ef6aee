//! A file system is written while the controller is reset again and again, and found whole after connecting anew.

use beds::guest::VERDICT;
use beds::{Bed, Node, Volume};

use crate::{DEADLINE, functions, guest};

/// `options` of `nvme connect`; `between` is run while disconnected.
pub fn script(node: &Node, options: &str, between: &str) -> String {
    format!(
        "{}
join demo {options}
/usr/sbin/mke2fs -q -t ext4 -F /dev/nvme0n1 || fail mke2fs
dmesg | grep -i 'I/O error' && fail 'an I/O error while the file system was made'
mount -t ext4 -o discard /dev/nvme0n1 /mnt || fail mount
mkdir /mnt/small || fail mkdir
(
    i=0
    until [ -f /tmp/stop ]; do
        i=$((i + 1))
        dd if=/dev/urandom of=/mnt/large$((i % 4)) bs=64k count=60 conv=fsync 2> /dev/null || touch /tmp/dd-failed
    done
    echo $i > /tmp/rounds
) &
for round in 1 2 3 4 5; do
    sleep 0.5
    echo 1 > /sys/class/nvme/nvme0/reset_controller || fail \"reset $round\"
    for i in $(seq 1 20); do seq $i 900 > /mnt/small/$round-$i || fail 'small files'; done
    step reset $round, $(cat /sys/class/nvme/nvme0/state)
done
rm /mnt/small/1-* || fail rm
touch /tmp/stop; wait
[ -f /tmp/dd-failed ] && fail 'a write failed during a reset'
[ $(cat /tmp/rounds) -ge 3 ] || fail 'too little was written during the resets'
sync
(cd /mnt && find . -type f | sort | xargs sha256sum) > /tmp/sums || fail sums
step $(wc -l < /tmp/sums) files written
umount /mnt || fail umount
leave demo
{between}
join demo {options}
/usr/sbin/e2fsck -f -n /dev/nvme0n1 > /tmp/e2fsck.log 2>&1 || fail e2fsck
mount -t ext4 -o ro /dev/nvme0n1 /mnt || fail 'mount again'
[ $(find /mnt -type f | wc -l) = $(wc -l < /tmp/sums) ] || fail 'files are missing'
(cd /mnt && sha256sum -c /tmp/sums > /tmp/result) || fail \"checksums: $(grep -v OK /tmp/result | head -n 3)\"
umount /mnt || fail 'umount again'
leave demo",
        functions(node)
    )
}

fn passes_with(options: &str) {
    let node = Bed::with([Volume::file("demo", "128MiB")]).nvme().start();
    let console = guest(&[]).run(&script(&node, options, ""), DEADLINE);
    assert!(console.stdout.contains(VERDICT), "{console}");
}

#[test]
fn a_file_system_survives_resets_of_the_controller_under_load() {
    passes_with("");
}

#[test]
fn a_file_system_survives_resets_with_both_digests() {
    passes_with("-g -G");
}
