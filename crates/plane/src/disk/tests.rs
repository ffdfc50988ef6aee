//! What differs between files and devices.

use std::path::Path;

use ring::Buffer;
use ring::sim::World;

use super::*;

/// Logical blocks of the device.
const DEVICE_BLOCK: u64 = 4096;

#[test]
fn a_device_with_larger_blocks_than_its_volume_gives_back_parts_of_them() {
    const LENGTH: u64 = 8 * DEVICE_BLOCK;
    for verb in [Verb::Discard, Verb::WriteZeroes] {
        // Within a block, over an edge, both ends amid blocks, one of them, and none.
        for (start, end) in
            [(512, 1024), (3584, 4608), (512, 20_992), (4096, 9216), (512, 8192), (4096, 12_288)]
        {
            let world = World::new(1);
            let node = world.node("node");
            let reactor = node.reactor();
            let ring = reactor.ring().clone();
            let on = node.clone();
            let test = async move {
                let path = Path::new("/device");
                let (device, _lock) =
                    PreparedFile::new(&ring, path, LENGTH, 512, Make::Longer).await.unwrap();
                on.make_device(path, DEVICE_BLOCK);
                let disk = device.open(&ring).unwrap();
                let full = Buffer::copy_of(&vec![7; LENGTH as usize]);
                disk.submit(Request::write(0, full)).await.result.unwrap();
                disk.submit(Request::plain(verb, Extent::new(start, end - start))).await.result.unwrap();
                let back = disk.submit(Request::read(0, Buffer::new(LENGTH as usize))).await.buffer;
                for (at, byte) in back.iter().enumerate() {
                    let cleared = (start..end).contains(&(at as u64));
                    assert_eq!(*byte, if cleared { 0 } else { 7 }, "{verb:?} of {start}..{end}: byte {at}");
                }
                // Whole blocks of it are given back, not written.
                let whole = start.next_multiple_of(DEVICE_BLOCK)..end / DEVICE_BLOCK * DEVICE_BLOCK;
                if verb == Verb::Discard && !whole.is_empty() {
                    let run = disk.allocation(Extent::new(whole.start, LENGTH - whole.start)).unwrap();
                    assert_eq!((run.mapped, run.length), (false, whole.end - whole.start));
                }
            };
            world.block_on(&reactor, test).unwrap();
        }
    }
}
