//! Discovery tells of every volume by every portal, and what it tells can be used.

use beds::initiator::Initiator;
use beds::volume::target;
use beds::{Bed, Tool, Volume};

const VOLUMES: [&str; 3] = ["first", "second", "third"];

#[test]
fn every_volume_is_told_with_every_portal() {
    let mut node = Bed::with(VOLUMES.map(|name| Volume::memory(name, "64MiB"))).portals(2).start();
    for portal in 0..2 {
        let address = ([127, 0, 0, 1], node.port(portal)).into();
        let told = Initiator::discover(address).expect("an answer to SendTargets");
        for name in VOLUMES {
            for port in [node.port(0), node.port(1)] {
                let by_this = |(name_told, address): &(String, String)| {
                    *name_told == target(name) && address.starts_with(&format!("127.0.0.1:{port},"))
                };
                assert!(
                    told.iter().any(by_this),
                    "portal {portal} does not tell of {name} by {port}: {told:?}"
                );
            }
        }
        assert_eq!(told.len(), VOLUMES.len() * 2, "{told:?}");
    }
    node.terminate();
}

#[test]
fn libiscsi_lists_the_volumes_and_finds_no_others() {
    let node = Bed::with(VOLUMES.map(|name| Volume::memory(name, "64MiB"))).start();
    let url = format!("iscsi://{}", node.address());
    let listing = Tool::new("iscsi-ls").args(["--show-luns", &url]).run().expect_success();
    for name in VOLUMES {
        assert!(
            listing.stdout.contains(&format!("Target:{} Portal:{},", target(name), node.address())),
            "{listing}"
        );
    }
    // The tool rounds down the number of the last block.
    assert_eq!(listing.stdout.matches("DIRECT_ACCESS (Size:63M)").count(), VOLUMES.len(), "{listing}");

    let nobody = node.url("first").replace(":first/", ":nobody/");
    let refused = Tool::new("iscsi-inq").arg(nobody).run().expect_failure();
    assert!(refused.stderr.contains("Target not found"), "{refused}");
}
