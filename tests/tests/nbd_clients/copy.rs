//! `nbdcopy`: an image goes in and comes out the same, over several connections.

use std::fs::File;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;

use beds::{Bed, Tool, Volume};

const MIB: u64 = 1 << 20;
const IMAGE_MIB: u64 = 96;

/// An image in which every third MiB is random and the others are holes.
pub fn write_image(path: &Path) {
    let image = File::create(path).expect("the image can be created");
    image.set_len(IMAGE_MIB * MIB).expect("the image can be sized");
    let mut random = fastrand::Rng::with_seed(7);
    let mut part = vec![0; MIB as usize];
    for index in (0..IMAGE_MIB).step_by(3) {
        random.fill(&mut part);
        image.write_all_at(&part, index * MIB).expect("the image can be written");
    }
}

fn nbdcopy(from: impl AsRef<std::ffi::OsStr>, to: impl AsRef<std::ffi::OsStr>) {
    let tool = Tool::new("nbdcopy").args(["--connections=4", "--requests=32", "--flush"]);
    let _ = tool.arg(from).arg(to).run().expect_success();
}

#[test]
fn an_image_goes_round_and_comes_back_the_same() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let (image, back) = (folder.path().join("image.raw"), folder.path().join("back.raw"));
    write_image(&image);
    let size = format!("{IMAGE_MIB}MiB");
    let volumes = [
        Volume::file("one", &size),
        Volume::memory("two", &size),
        Volume::file("three", &size).block_size(4096),
    ];
    let node = Bed::with(volumes).nbd().start();
    nbdcopy(&image, node.nbd_url("one"));
    nbdcopy(node.nbd_url("one"), node.nbd_unix_url("two"));
    nbdcopy(node.nbd_url("two"), node.nbd_url("three"));
    nbdcopy(node.nbd_url("three"), &back);
    assert!(std::fs::read(&image).unwrap() == std::fs::read(&back).unwrap(), "what came back differs");
    // Holes stayed holes: block status told of them, and zeroes were made by giving space back.
    for name in ["one.img", "three.img"] {
        let used = node.data().join(name).metadata().expect("the backing file").blocks() * 512 / MIB;
        assert!(used <= IMAGE_MIB / 3 + 4, "{name} takes {used} MiB");
    }
}
