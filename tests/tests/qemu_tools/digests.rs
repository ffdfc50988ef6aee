//! Header digests.

use beds::initiator::Initiator;
use beds::volume::target;
use beds::{Bed, Tool, Volume, node};

#[test]
fn header_digests_are_used_when_the_initiator_insists() {
    let node = Bed::with([Volume::memory("demo", "64MiB")]).start();
    // libiscsi goes on without digests if the target says None; so the answer is looked at first.
    let (_, answer) =
        Initiator::negotiate(node.address(), "demo", &[("HeaderDigest", "CRC32C")]).expect("a login");
    assert!(answer.contains(&("HeaderDigest".into(), "CRC32C".into())), "{answer:?}");
    let options = format!(
        "driver=iscsi,transport=tcp,portal={},target={},lun={},header-digest=crc32c",
        node.address(),
        target("demo"),
        node::lun()
    );
    let tool = Tool::new("qemu-io").args([
        "--image-opts",
        "-c",
        "write -P 9 0 4M",
        "-c",
        "read -P 9 0 4M",
        "-c",
        "flush",
    ]);
    let _ = tool.arg(options).run().expect_success();
}
