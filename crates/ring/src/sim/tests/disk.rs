//! Files: what reads see, errors, space.

use super::*;

#[test]
fn a_file_reads_as_a_plain_array_does() {
    run(11, |world, _, ring| async move {
        let file = open(&ring);
        let (mut plain, mut random) = (Vec::new(), world.random("test"));
        for _ in 0..1500 {
            let (offset, length) = (random.usize(0..60_000), random.usize(1..9_000));
            let end = offset + length;
            match random.u8(0..7) {
                0..=2 => {
                    let bytes: Vec<u8> = (0..length).map(|_| random.u8(..)).collect();
                    assert_eq!(write(&file, offset as u64, &bytes).await.unwrap(), length);
                    plain.resize(plain.len().max(end), 0);
                    plain[offset..end].copy_from_slice(&bytes);
                }
                3 | 4 => {
                    if random.bool() {
                        file.punch(offset as u64, length as u64).await.unwrap();
                    } else {
                        file.zero(offset as u64, length as u64).await.unwrap();
                    }
                    let end = end.min(plain.len());
                    plain[offset.min(end)..end].fill(0);
                }
                5 => file.sync().await.unwrap(),
                _ if random.u8(0..10) == 0 => {
                    file.set_length(offset as u64).unwrap();
                    plain.resize(offset, 0);
                }
                _ => {
                    let expected = &plain[offset.min(plain.len())..end.min(plain.len())];
                    assert!(read(&file, offset as u64, length).await.unwrap() == expected);
                }
            }
            assert_eq!(file.length().unwrap(), plain.len() as u64);
        }
        file.sync().await.unwrap();
        assert!(read(&file, 0, 100_000).await.unwrap() == plain);
    });
}

#[test]
fn holes_cost_nothing_and_are_told_from_data() {
    run(1, |_, node, ring| async move {
        node.set_capacity(Some(16 << 10));
        let file = open(&ring);
        file.set_length(1 << 40).unwrap();
        assert_eq!(file.data_after(0).unwrap(), None);
        write(&file, 1 << 39, &[1; 8192]).await.unwrap();
        let data = (1 << 39)..(1 << 39) + 8192;
        assert_eq!(file.data_after(0).unwrap(), Some(data.clone()));
        assert_eq!(file.data_after(data.start + 100).unwrap(), Some(data.start + 100..data.end));
        assert_eq!(file.data_after(data.end).unwrap(), None);
        file.punch(1 << 39, 4096).await.unwrap();
        assert_eq!(file.data_after(0).unwrap(), Some(data.start + 4096..data.end));
    });
}

#[test]
fn a_full_disk_writes_in_part_and_then_not_at_all() {
    run(1, |_, node, ring| async move {
        node.set_capacity(Some(16 << 10));
        let file = open(&ring);
        file.set_length(1 << 20).unwrap();
        file.reserve(0, 8192).await.unwrap();
        assert_eq!(write(&file, 8192, &[1; 16384]).await.unwrap(), 8192, "what there is room for");
        let full = write(&file, 16384, &[1; 4096]).await.unwrap_err();
        assert_eq!(full.raw_os_error(), Some(libc::ENOSPC));
        assert_eq!(file.reserve(1 << 19, 4096).await.unwrap_err().raw_os_error(), Some(libc::ENOSPC));
        assert_eq!(write(&file, 0, &[2; 8192]).await.unwrap(), 8192, "reserved");
        file.punch(8192, 4096).await.unwrap();
        assert_eq!(write(&file, 1 << 19, &[3; 4096]).await.unwrap(), 4096);
    });
}

#[test]
fn errors_come_where_they_were_put() {
    run(1, |_, node, ring| async move {
        let (file, path) = (open(&ring), Path::new(PATH));
        write(&file, 0, &[1; 16384]).await.unwrap();
        node.fail_reads(path, 4096..4608);
        assert!(read(&file, 0, 4096).await.is_ok());
        assert_eq!(read(&file, 0, 4097).await.unwrap_err().raw_os_error(), Some(libc::EIO));
        node.fail_writes(path, 8192..8193);
        assert_eq!(write(&file, 8000, &[2; 512]).await.unwrap_err().raw_os_error(), Some(libc::EIO));
        assert!(file.punch(8192, 4096).await.is_err());
        node.fail_flushes(path);
        assert_eq!(file.sync().await.unwrap_err().raw_os_error(), Some(libc::EIO));
        node.repair(path);
        assert!(read(&file, 0, 8192).await.is_ok() && write(&file, 8192, &[2; 512]).await.is_ok());
        assert!(file.sync().await.is_ok());
        assert!(node.flip_bit(path, 100, 3));
        assert_eq!(read(&file, 100, 1).await.unwrap(), [1 ^ 8]);
    });
}

#[test]
fn what_the_kernel_refuses_is_refused() {
    run(1, |_, _, ring| async move {
        assert!(File::open(&ring, Path::new("/missing"), FileOptions::default()).is_err());
        let file = open(&ring);
        write(&file, 0, &[1; 1000]).await.unwrap();
        let options = FileOptions { read_only: true, direct: true, create: false };
        let careful = File::open(&ring, Path::new(PATH), options).unwrap();
        assert_eq!(careful.direct_alignment().unwrap(), 512);
        let refused = write(&careful, 0, &[1; 512]).await.unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EBADF));
        assert_eq!(read(&careful, 0, 100).await.unwrap_err().raw_os_error(), Some(libc::EINVAL));
        assert_eq!(read(&careful, 512, 1024).await.unwrap().len(), 488, "a short read at the end");
        assert!(read(&careful, 1024, 512).await.unwrap().is_empty());
        assert!(careful.set_length(5).is_err());
        assert!(file.try_lock().unwrap() && file.try_lock().unwrap());
        assert!(!careful.try_lock().unwrap());
        drop(file);
        assert!(careful.try_lock().unwrap());
    });
}

#[test]
fn a_stalled_file_goes_on_when_it_is_released() {
    run(1, |_, node, ring| async move {
        let file = open(&ring);
        node.stall(Path::new(PATH));
        assert!(ring.timeout(Duration::from_secs(60), write(&file, 0, b"late")).await.is_none());
        assert_eq!(file.length().unwrap(), 0);
        node.release(Path::new(PATH));
        ring.sleep(ms(1)).await;
        assert_eq!(read(&file, 0, 10).await.unwrap(), b"late");
    });
}
