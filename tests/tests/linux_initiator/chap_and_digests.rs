//! With everything that a careful administrator turns on.

use beds::guest::VERDICT;
use beds::{Bed, Volume};

use crate::{DEADLINE, guest, script};

#[test]
fn the_kernel_does_so_with_mutual_chap_and_both_digests() {
    let volume = Volume::file("demo", "128MiB").chap("esx1", "0123456789abcdef");
    let node = Bed::with([volume.chap_mutual("fels", "fedcba9876543210")]).start();
    let settings = [
        ("node.session.auth.authmethod", "CHAP"),
        ("node.session.auth.username", "esx1"),
        ("node.session.auth.password", "0123456789abcdef"),
        ("node.session.auth.username_in", "fels"),
        ("node.session.auth.password_in", "fedcba9876543210"),
        ("node.conn[0].iscsi.HeaderDigest", "CRC32C"),
        ("node.conn[0].iscsi.DataDigest", "CRC32C"),
    ];
    let digests =
        "cat /sys/class/iscsi_connection/*/*_digest | tr -d '\\n' | grep -qx 11 || fail 'no digests'";
    let console = guest().run(&script(&node, &settings, digests, ""), DEADLINE);
    assert!(console.stdout.contains(VERDICT), "{console}");
}
