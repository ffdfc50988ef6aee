//! CHAP, one-way and mutual.

use beds::{Bed, Node, Tool, Volume};

fn chap_node(mutual: bool) -> Node {
    let volume = Volume::memory("demo", "64MiB").chap("esx1", "0123456789abcdef");
    Bed::with([if mutual { volume.chap_mutual("fels", "fedcba9876543210") } else { volume }]).start()
}

#[test]
fn chap_lets_in_who_knows_the_secret_and_nobody_else() {
    let node = chap_node(false);
    let read = |user: &str| {
        let url = node.url("demo").replace("iscsi://", &format!("iscsi://{user}"));
        Tool::new("qemu-io").args(["-f", "raw", "-c", "read 0 4k"]).arg(url).run()
    };
    let _ = read("esx1%0123456789abcdef@").expect_success();
    for stranger in ["esx1%0123456789abcdee@", "esx2%0123456789abcdef@", ""] {
        let refused = read(stranger).expect_failure();
        assert!(refused.stderr.contains("Authentication failure"), "{refused}");
    }
    let _ = read("esx1%0123456789abcdef@").expect_success();
}

/// QEMU's driver takes no secret for the target; libiscsi's own tools do.
#[test]
fn mutual_chap_proves_the_target_to_the_initiator() {
    let node = chap_node(true);
    let inquire = |target_secret: &str| {
        let credentials = format!("?target_user=fels&target_password={target_secret}");
        let url = node.url("demo").replace("iscsi://", "iscsi://esx1%0123456789abcdef@") + &credentials;
        Tool::new("iscsi-inq").arg(url).run()
    };
    let _ = inquire("fedcba9876543210").expect_success();
    let refused = inquire("fedcba9876543211").expect_failure();
    assert!(refused.stderr.contains("Invalid CHAP_R response from the target"), "{refused}");
}
