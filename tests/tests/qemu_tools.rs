//! QEMU's disk tools use a volume by `iscsi://` (libiscsi inside).

use std::fs::File;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;
use std::time::Duration;

use beds::initiator::Initiator;
use beds::volume::target;
use beds::{Bed, Node, Tool, Volume, node};

const MIB: u64 = 1 << 20;
const IMAGE_MIB: u64 = 96;

fn qemu_io(node: &Node, commands: &[&str]) -> Tool {
    commands
        .iter()
        .fold(Tool::new("qemu-io").args(["-f", "raw"]), |tool, command| tool.args(["-c", command]))
        .arg(node.url("demo"))
}

/// An image in which every third MiB is random and the others are holes.
fn write_image(path: &Path) {
    let image = File::create(path).expect("the image can be created");
    image.set_len(IMAGE_MIB * MIB).expect("the image can be sized");
    let mut random = fastrand::Rng::with_seed(7);
    let mut part = vec![0; MIB as usize];
    for index in (0..IMAGE_MIB).step_by(3) {
        random.fill(&mut part);
        image.write_all_at(&part, index * MIB).expect("the image can be written");
    }
}

fn convert_and_compare(block_size: u32) {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let (image, back) = (folder.path().join("image.raw"), folder.path().join("back.raw"));
    write_image(&image);
    let node = Bed::with([Volume::file("demo", &format!("{IMAGE_MIB}MiB")).block_size(block_size)]).start();
    // What stood there before has to disappear in the holes too.
    let _ = qemu_io(&node, &["write -P 0xee 0 32M", "flush"]).run().expect_success();

    let url = node.url("demo");
    let convert = Tool::new("qemu-img")
        .args(["convert", "-n", "-f", "raw", "-O", "raw"])
        .deadline(Duration::from_secs(60));
    let _ = convert.arg(&image).arg(&url).run().expect_success();
    let compare = || Tool::new("qemu-img").args(["compare", "-f", "raw", "-F", "raw"]).arg(&image).arg(&url);
    let _ = compare().run().expect_success();
    // Strict: the volume says itself, by GET LBA STATUS, that it has holes where the image has.
    let _ = compare().arg("-s").run().expect_success();
    let _ = Tool::new("qemu-img")
        .args(["convert", "-f", "raw", "-O", "raw"])
        .arg(&url)
        .arg(&back)
        .run()
        .expect_success();
    assert!(std::fs::read(&image).unwrap() == std::fs::read(&back).unwrap(), "what was read back differs");

    // The comparison itself must be able to fail.
    let _ = qemu_io(&node, &["write -P 0x5a 50M 4k"]).run().expect_success();
    let differs = compare().run().expect_failure();
    assert!(differs.stdout.contains("mismatch at offset 52428800!"), "{differs}");
}

#[test]
fn an_image_is_converted_onto_the_volume_and_compares_equal() {
    convert_and_compare(512);
}

#[test]
fn an_image_is_converted_onto_a_volume_of_4096_byte_blocks() {
    convert_and_compare(4096);
}

#[test]
fn patterns_zeroes_and_discards_read_back_as_written() {
    let mut node = Bed::with([Volume::file("demo", "64MiB")]).start();
    let _ =
        qemu_io(&node, &["write -P 0x11 0 8M", "write -P 0x22 8M 1M", "write -f -P 0x33 9M 64k", "flush"])
            .run()
            .expect_success();
    let file = node.data().join("demo.img");
    let before = file.metadata().expect("the backing file").blocks();
    let _ = qemu_io(&node, &["write -z -u 1M 2M", "write -z 4M 64k", "discard 6M 2M", "flush"])
        .run()
        .expect_success();
    let check = [
        "read -P 0x11 0 1M",
        "read -P 0 1M 2M",
        "read -P 0x11 3M 1M",
        "read -P 0 4M 64k",
        "read -P 0x22 8M 1M",
        "read -P 0x33 9M 64k",
        "read -P 0 10M 1M",
    ];
    let _ = qemu_io(&node, &check).run().expect_success();
    let after = file.metadata().expect("the backing file").blocks();
    assert!(after < before, "discards punch no holes: {before} sectors before, {after} after");

    node.terminate();
    node.restart();
    let _ = qemu_io(&node, &check).run().expect_success();
    let wrong = qemu_io(&node, &["read -P 0x12 0 1M"]).run().expect_failure();
    assert!(wrong.stdout.contains("Pattern verification failed"), "{wrong}");
}

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
