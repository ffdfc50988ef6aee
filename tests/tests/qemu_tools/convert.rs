//! `qemu-img` converts an image onto a volume and compares.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::Duration;

use beds::{Bed, Tool, Volume};

use crate::qemu_io;

const MIB: u64 = 1 << 20;
const IMAGE_MIB: u64 = 96;

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
