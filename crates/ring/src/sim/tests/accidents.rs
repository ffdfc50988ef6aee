//! Errors of sectors, files that go away, slow ones, and copies.

use super::*;

const OTHER: &str = "/data/other.img";

fn path() -> &'static Path {
    Path::new(PATH)
}

fn code<T: std::fmt::Debug>(result: std::io::Result<T>) -> i32 {
    result.unwrap_err().raw_os_error().unwrap()
}

fn wrong_bits(bytes: &[u8], right: u8) -> Vec<(usize, u32)> {
    let wrong = bytes.iter().enumerate().filter(|(_, byte)| **byte != right);
    wrong.map(|(at, byte)| (at, (byte ^ right).count_ones())).collect()
}

#[test]
fn a_misread_gives_one_bit_wrong_and_leaves_the_disk_right() {
    let mut places = std::collections::BTreeSet::new();
    for seed in 0..50 {
        places.extend(run(seed, |_, node, ring| async move {
            let file = open(&ring);
            write(&file, 0, &[7; 6000]).await.unwrap();
            node.misread(path(), 5000..9000, 2);
            assert!(wrong_bits(&read(&file, 0, 5000).await.unwrap(), 7).is_empty(), "not touched");
            assert!(read(&file, 6000, 512).await.unwrap().is_empty(), "nothing to be wrong in");
            let mut found = Vec::new();
            for offset in [0, 4900] {
                let wrong = wrong_bits(&read(&file, offset, 8192).await.unwrap(), 7);
                assert_eq!((wrong.len(), wrong[0].1), (1, 1));
                found.push(wrong[0].0 + offset as usize);
                assert!((5000..6000).contains(&found[found.len() - 1]), "in the range and in the file");
            }
            assert!(wrong_bits(&read(&file, 0, 8192).await.unwrap(), 7).is_empty(), "twice was asked for");
            assert_eq!(node.damage(path()), []);
            let plant = Plant { fault: Fault::Misread, range: 5000..9000, left: Some(0), struck: 2 };
            assert_eq!(node.planted(path()), [plant]);
            found
        }));
    }
    assert!(places.len() > 50, "drawn by the seed");
}

#[test]
fn a_sector_that_cannot_be_read_can_be_once_it_is_written_whole() {
    run(1, |_, node, ring| async move {
        let file = open(&ring);
        write(&file, 0, &[1; 16384]).await.unwrap();
        node.fail_reads_until_written(path(), 4000..8200);
        let ranges = || {
            let waiting = node.planted(path()).into_iter().filter(|plant| plant.left != Some(0));
            pairs(&waiting.map(|plant| plant.range).collect::<Vec<_>>())
        };
        assert_eq!(ranges(), [(3584, 8704)], "whole sectors");
        assert_eq!(code(read(&file, 3584, 1).await), libc::EIO);
        assert!(read(&file, 0, 3584).await.is_ok() && read(&file, 8704, 4096).await.is_ok());
        write(&file, 0, &[2; 4095]).await.unwrap();
        assert_eq!(ranges(), [(3584, 8704)], "a part of a sector does not mend it");
        write(&file, 0, &[2; 4096]).await.unwrap();
        assert_eq!(ranges(), [(4096, 8704)]);
        assert_eq!(read(&file, 3584, 512).await.unwrap(), [2; 512]);
        write(&file, 6000, &[2; 2000]).await.unwrap();
        assert_eq!(ranges(), [(4096, 6144), (7680, 8704)], "a write into the middle");
        file.punch(7680, 512).await.unwrap();
        file.zero(4096, 2048).await.unwrap();
        assert_eq!(ranges(), [(8192, 8704)]);
        node.drop_writes(path(), 8192..8704, 1);
        write(&file, 8192, &[3; 512]).await.unwrap();
        assert_eq!(code(read(&file, 8192, 512).await), libc::EIO, "nothing was written");
        node.misdirect_writes(path(), 0..512, 8192, 1);
        write(&file, 0, &[4; 512]).await.unwrap();
        assert_eq!(read(&file, 8192, 512).await.unwrap(), [4; 512], "written by accident");
        assert!(read(&file, 0, 16384).await.is_ok() && ranges().is_empty());
        node.fail_reads_until_written(path(), 0..u64::MAX);
        assert_eq!(code(read(&file, 0, 1).await), libc::EIO);
        file.set_length(0).unwrap();
        file.set_length(16384).unwrap();
        assert_eq!(read(&file, 0, 16384).await.unwrap(), [0; 16384]);
    });
}

#[test]
fn what_is_repaired_does_not_strike_any_more_and_stays_on_record() {
    run(1, |_, node, ring| async move {
        let file = open(&ring);
        write(&file, 0, &[1; 4096]).await.unwrap();
        node.fail_reads(path(), 0..512);
        node.fail_writes(path(), 512..1024);
        node.drop_writes(path(), 0..4096, 9);
        assert_eq!(code(read(&file, 0, 1).await), libc::EIO);
        assert_eq!(code(read(&file, 511, 1).await), libc::EIO);
        assert_eq!(code(write(&file, 1000, &[2; 1]).await), libc::EIO);
        node.repair(path());
        write(&file, 0, &[2; 4096]).await.unwrap();
        assert_eq!(read(&file, 0, 4096).await.unwrap(), [2; 4096]);
        let struck: Vec<_> = node.planted(path()).iter().map(|plant| (plant.fault, plant.struck)).collect();
        assert_eq!(struck, [(Fault::FailReads, 2), (Fault::FailWrites, 1), (Fault::DropWrites, 0)]);
        assert!(node.planted(path()).iter().all(|plant| plant.left == Some(0)));
    });
}

#[test]
fn a_detached_file_fails_everything_until_it_is_attached() {
    run(1, |world, node, ring| async move {
        let file = open(&ring);
        file.write_at(Buffer::copy_of(&[1; 4096]), 0, true).await.0.unwrap();
        node.put_file(Path::new(OTHER), &[5; 512]);
        let other = File::open(&ring, Path::new(OTHER), FileOptions::default()).unwrap();
        node.stall(path());
        let ended = Rc::new(RefCell::new(Vec::new()));
        for is_read in [true, false] {
            let (file, ended) = (file.clone(), ended.clone());
            ring.spawn(async move {
                let failed = if is_read {
                    code(read(&file, 0, 1).await)
                } else {
                    code(write(&file, 4096, &[2; 4096]).await)
                };
                ended.borrow_mut().push(failed);
            });
        }
        ring.sleep(ms(50)).await;
        let before = world.now();
        node.detach(path());
        while ended.borrow().len() < 2 {
            ring.yield_now().await;
        }
        assert_eq!(*ended.borrow(), [libc::EIO; 2], "what was in flight, stalled or not");
        assert_eq!(world.now(), before, "at once");
        node.release(path());
        for _ in 0..2 {
            assert_eq!(code(read(&file, 0, 1).await), libc::EIO);
            assert_eq!(code(write(&file, 0, &[3; 512]).await), libc::EIO);
            assert_eq!(code(file.sync().await), libc::EIO);
            assert_eq!(code(file.punch(0, 512).await), libc::EIO);
            assert_eq!(code(file.length()), libc::EIO);
            assert_eq!(code(file.set_length(1)), libc::EIO);
            assert_eq!(code(file.data_after(0)), libc::EIO);
            assert_eq!(code(file.direct_alignment()), libc::EIO);
            assert_eq!(code(File::open(&ring, path(), create()).map(|_| ())), libc::ENXIO);
            node.detach(path());
        }
        assert_eq!(read(&other, 0, 1).await.unwrap(), [5], "other files go on");
        node.attach(path());
        assert_eq!(read(&file, 0, 4096).await.unwrap(), [1; 4096]);
        assert_eq!(read(&open(&ring), 0, 4096).await.unwrap(), [1; 4096]);
        write(&file, 0, &[3; 512]).await.unwrap();
        node.detach(Path::new(OTHER));
        node.power_cut();
        assert_eq!(node.damage(path()), []);
    });
}

#[test]
fn a_detached_file_keeps_or_loses_what_was_not_flushed_and_others_keep_all() {
    let (mut kept, mut lost, mut torn, mut in_flight) = (0, 0, 0, 0);
    for seed in 0..300 {
        let (left, after) = run(seed, |_, node, ring| async move {
            let file = open(&ring);
            let other = File::open(&ring, Path::new(OTHER), create()).unwrap();
            file.write_at(Buffer::copy_of(&[1; 8192]), 0, true).await.0.unwrap();
            write(&file, 0, &[2; 4096]).await.unwrap();
            write(&other, 0, &[2; 4096]).await.unwrap();
            let writing = file.clone();
            ring.spawn(async move { drop(write(&writing, 4096, &[2; 4096]).await) });
            ring.yield_now().await;
            node.detach(path());
            node.attach(path());
            assert_eq!(read(&other, 0, 4096).await.unwrap(), [2; 4096]);
            let left = read(&file, 0, 8192).await.unwrap();
            node.power_cut();
            (left, node.file_bytes(path(), 0, 8192).unwrap())
        });
        assert!(left == after, "seed {seed}: what was left is stable");
        let new: Vec<bool> = left.chunks(512).map(|sector| sector[0] == 2).collect();
        kept += usize::from(!new[..8].contains(&false));
        lost += usize::from(!new[..8].contains(&true));
        torn += usize::from(new[..8].contains(&true) && new[..8].contains(&false));
        in_flight += usize::from(new[8..].contains(&true));
    }
    assert!(kept > 30 && lost > 30 && torn > 30 && in_flight > 30, "{kept} {lost} {torn} {in_flight}");
}

#[test]
fn a_power_cut_decides_for_each_file_on_its_own() {
    let mut seen = std::collections::BTreeMap::new();
    for seed in 0..2000 {
        let fates = run(seed, |_, node, ring| async move {
            let paths = [path(), Path::new(OTHER)];
            for path in paths {
                let file = File::open(&ring, path, create()).unwrap();
                file.write_at(Buffer::copy_of(&[1; 4096]), 0, true).await.0.unwrap();
                write(&file, 0, &[2; 4096]).await.unwrap();
            }
            node.power_cut();
            paths.map(|path| {
                let left = node.file_bytes(path, 0, 4096).unwrap();
                left.chunks(512).filter(|sector| sector[0] == 2).count().div_ceil(4)
            })
        });
        *seen.entry(fates).or_insert(0) += 1;
    }
    // Nothing, some up to the half, more: of each file, with each of the other.
    for one in 0..3 {
        for other in 0..3 {
            assert!(seen.get(&[one, other]).is_some_and(|count| *count > 15), "{one} {other}: {seen:?}");
        }
    }
}

#[test]
fn a_slow_file_takes_that_many_times_as_long() {
    let spans = |factor: Option<u32>| {
        run(3, move |world, node, ring| async move {
            let file = open(&ring);
            if let Some(factor) = factor {
                node.slow_down(path(), factor);
            }
            let mut spans = Vec::new();
            for step in 0..4 {
                let start = world.now();
                match step {
                    0 => drop(write(&file, 0, &[1; 512]).await.unwrap()),
                    1 => drop(read(&file, 0, 512).await.unwrap()),
                    2 => file.sync().await.unwrap(),
                    _ => file.punch(0, 512).await.unwrap(),
                }
                spans.push(world.now().as_nanos() - start.as_nanos());
            }
            spans
        })
    };
    let usual = spans(None);
    assert_eq!(spans(Some(1)), usual);
    assert_eq!(spans(Some(1000)), usual.iter().map(|span| span * 1000).collect::<Vec<_>>());
}

#[test]
fn a_copy_holds_what_reads_see_and_what_is_wrong_with_it() {
    run(1, |_, node, ring| async move {
        let (file, other) = (open(&ring), Path::new(OTHER));
        file.write_at(Buffer::copy_of(&[1; 16384]), 0, true).await.0.unwrap();
        file.set_length(1 << 30).unwrap();
        node.fail_flushes(path());
        write(&file, 4096, &[2; 4096]).await.unwrap();
        assert!(file.sync().await.is_err());
        node.drop_writes(path(), 8192..8193, 1);
        write(&file, 8192, &[3; 512]).await.unwrap();
        node.put_file(other, &vec![9; 40_000]);
        node.fail_reads_until_written(other, 0..4096);
        node.copy_file(path(), other).unwrap();
        let expected = [[1; 4096], [2; 4096], [1; 4096], [1; 4096]].concat();
        assert_eq!(
            (node.file_length(other), pairs(&node.damage(other))),
            (Some(1 << 30), vec![(8192, 8704)])
        );
        node.power_cut();
        assert!(node.file_bytes(other, 0, 20_000).unwrap()[..16384] == expected, "on stable media");
        assert!(node.file_bytes(path(), 4096, 4096).unwrap() == [1; 4096], "not so what it was copied from");
        assert_eq!(
            (node.file_length(other), pairs(&node.damage(other))),
            (Some(1 << 30), vec![(8192, 8704)])
        );
        let missing = node.copy_file(Path::new("/none"), other).unwrap_err();
        assert_eq!(missing.kind(), std::io::ErrorKind::NotFound);
        assert_eq!(node.file_length(Path::new("/none")), None);
        let reactor = node.reactor();
        let copy = File::open(reactor.ring(), other, FileOptions::default()).unwrap();
        assert_eq!(copy.data_after(0).unwrap(), Some(0..16384), "holes are copied");
        assert!(node.planted(other).iter().all(|plant| plant.left == Some(0)), "it was written all over");
    });
}
