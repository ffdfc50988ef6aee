//! Disks that lie, and what is told of it.

use super::*;

const SECTOR: u64 = 512;
const SECTORS: u64 = 48;

fn path() -> &'static Path {
    Path::new(PATH)
}

fn damage(node: &Node) -> Vec<(u64, u64)> {
    pairs(&node.damage(path()))
}

fn struck(node: &Node, fault: Fault) -> (Option<u32>, u32) {
    let planted = node.planted(path());
    let plant = planted.iter().find(|plant| plant.fault == fault).unwrap();
    (plant.left, plant.struck)
}

async fn written(ring: &Ring, bytes: &[u8]) -> File {
    let file = open(ring);
    file.write_at(Buffer::copy_of(bytes), 0, true).await.0.unwrap();
    file
}

#[test]
fn a_dropped_write_is_acknowledged_and_never_happens() {
    for durable in [false, true] {
        run(1, move |_, node, ring| async move {
            let file = written(&ring, &[1; 16384]).await;
            node.drop_writes(path(), 4096..4097, 1);
            write(&file, 8192, &[2; 4096]).await.unwrap();
            assert_eq!((damage(&node), struck(&node, Fault::DropWrites)), (vec![], (Some(1), 0)));
            let (count, _) = file.write_at(Buffer::copy_of(&[3; 8192]), 2048, durable).await;
            assert_eq!(count.unwrap(), 8192);
            file.sync().await.unwrap();
            let left = [vec![1; 8192], vec![2; 4096], vec![1; 4096]].concat();
            assert!(read(&file, 0, 16384).await.unwrap() == left);
            assert_eq!(damage(&node), [(2048, 10_240)]);
            assert_eq!(struck(&node, Fault::DropWrites), (Some(0), 1));
            node.power_cut();
            assert!(node.file_bytes(path(), 0, 16384).unwrap() == left);
            assert_eq!(damage(&node), [(2048, 10_240)], "it was flushed, so nothing else is right");
        });
    }
}

#[test]
fn a_dropped_write_at_the_end_still_makes_the_file_longer() {
    run(1, |_, node, ring| async move {
        let file = written(&ring, &[1; 512]).await;
        node.drop_writes(path(), 0..u64::MAX, 1);
        file.write_at(Buffer::copy_of(&[2; 1000]), 512, true).await.0.unwrap();
        assert_eq!(node.file_length(path()), Some(1512));
        node.power_cut();
        assert_eq!(node.file_length(path()), Some(1512));
        assert_eq!(damage(&node), [(512, 1512)], "up to the end of the file");
    });
}

#[test]
fn a_misdirected_write_lands_elsewhere_and_spoils_both_places() {
    run(1, |_, node, ring| async move {
        let file = written(&ring, &vec![1; 65536]).await;
        node.misdirect_writes(path(), 0..65536, 32768, 1);
        write(&file, 4096, &[2; 1024]).await.unwrap();
        assert_eq!(read(&file, 4096, 1024).await.unwrap(), [1; 1024]);
        assert_eq!(read(&file, 36864, 1024).await.unwrap(), [2; 1024]);
        assert_eq!(damage(&node), [(4096, 5120), (36864, 37888)]);
        write(&file, 36864, &[1; 512]).await.unwrap();
        assert_eq!(damage(&node), [(4096, 5120), (37376, 37888)], "an honest write clears what it covers");
        file.punch(4096, 512).await.unwrap();
        assert_eq!(damage(&node), [(4608, 5120), (37376, 37888)]);
        file.zero(4608, 100).await.unwrap();
        assert_eq!(damage(&node), [(4608, 5120), (37376, 37888)], "the rest of the sector is still old");
        file.zero(4608, 4096).await.unwrap();
        file.set_length(37376).unwrap();
        assert_eq!(damage(&node), []);
        file.set_length(65536).unwrap();
        assert_eq!(damage(&node), []);
        assert_eq!(struck(&node, Fault::MisdirectWrites { distance: 32768 }), (Some(0), 1));
    });
}

#[test]
fn what_a_misdirected_write_would_write_outside_of_the_file_is_lost() {
    for (offset, distance, damaged) in [
        (1024, -2048, vec![(0, 3072)]),
        (1024, -4096, vec![(1024, 3072)]),
        (12288, 3072, vec![(12288, 14336), (15360, 16384)]),
        (12288, 1 << 40, vec![(12288, 14336)]),
        (12288, 1024, vec![(12288, 15360)]),
    ] {
        run(1, move |_, node, ring| async move {
            let pattern: Vec<u8> = (0..32).flat_map(|sector| [sector; 512]).collect();
            let file = written(&ring, &pattern).await;
            node.misdirect_writes(path(), 0..16384, distance, 1);
            let bytes: Vec<u8> = (100..104).flat_map(|sector| [sector; 512]).collect();
            write(&file, offset, &bytes).await.unwrap();
            let mut expected = pattern.clone();
            for (sector, new) in (100..104).enumerate() {
                let at = offset as i64 + distance + sector as i64 * 512;
                if let Ok(at) = usize::try_from(at)
                    && at < 16384
                {
                    expected[at..at + 512].fill(new);
                }
            }
            assert!(read(&file, 0, 16384).await.unwrap() == expected, "{offset} {distance}");
            assert_eq!(damage(&node), damaged);
            assert_eq!(node.file_length(path()), Some(16384));
        });
    }
}

#[test]
fn a_corrupted_range_has_no_byte_right_and_stays_so() {
    run(1, |_, node, ring| async move {
        let file = written(&ring, &[1; 8192]).await;
        file.set_length(1 << 20).unwrap();
        file.punch(4096, 4096).await.unwrap();
        node.corrupt(path(), 100..6000);
        let now = read(&file, 0, 8192).await.unwrap();
        assert!(now[..100] == [1; 100] && now[6000..].iter().all(|byte| *byte == 0));
        assert!(
            now[100..4096].iter().all(|byte| *byte != 1) && now[4096..6000].iter().all(|byte| *byte != 0)
        );
        assert!(now[100..6000].windows(2).any(|two| two[0] != two[1]), "drawn");
        assert_eq!(file.data_after(4096).unwrap(), Some(4096..8192), "the hole is data now");
        assert_eq!(damage(&node), [(0, 6144)]);
        file.sync().await.unwrap();
        node.power_cut();
        let left = node.file_bytes(path(), 0, 8192).unwrap();
        assert!(left == now);
        assert_eq!(damage(&node)[0], (0, 6144));
        node.corrupt(path(), (1 << 20) - 10..1 << 30);
        assert_eq!(node.file_length(path()), Some(1 << 20), "a file does not grow of it");
        assert_eq!(node.planted(path()).last().unwrap().range, (1 << 20) - 10..1 << 20);
    });
}

#[test]
fn a_bit_that_is_turned_back_is_no_damage() {
    run(1, |_, node, ring| async move {
        let file = written(&ring, &[1; 8192]).await;
        assert!(node.flip_bit(path(), 5000, 2));
        assert_eq!(damage(&node), [(4608, 5120)]);
        let sum = Plant { fault: Fault::FlipBit { bit: 2 }, range: 5000..5001, left: Some(0), struck: 1 };
        assert_eq!(node.planted(path()), [sum]);
        assert!(node.flip_bit(path(), 5000, 2));
        assert_eq!(damage(&node), []);
        file.punch(0, 8192).await.unwrap();
        file.sync().await.unwrap();
        assert!(!node.flip_bit(path(), 5000, 2));
        assert_eq!((damage(&node), node.planted(path()).len()), (vec![], 2));
        node.corrupt(path(), 0..8192);
        node.put_file(path(), &[5; 8192]);
        assert_eq!(damage(&node), [], "another file");
        assert_eq!((node.damage(Path::new("/none")), node.planted(Path::new("/none"))), (vec![], vec![]));
    });
}

/// What an honest disk could hold: per sector the values since the last flush, oldest first.
struct Model {
    possible: Vec<Vec<u32>>,
}

impl Model {
    fn write(&mut self, sectors: Range<u64>, value: u32, durable: bool) {
        for possible in &mut self.possible[sectors.start as usize..sectors.end as usize] {
            if durable {
                possible.clear();
            }
            possible.push(value);
        }
    }

    fn holds(sector: &[u8], value: u32) -> bool {
        sector.chunks(4).all(|word| word == value.to_le_bytes())
    }

    /// Only the newest is left, or what the real disk holds if that is possible after a power cut.
    fn flush(&mut self, left: Option<&[u8]>) {
        for (sector, possible) in self.possible.iter_mut().enumerate() {
            let newest = *possible.last().unwrap();
            let real = left.map(|left| &left[sector * SECTOR as usize..][..SECTOR as usize]);
            let fits = real.and_then(|real| possible.iter().find(|value| Model::holds(real, **value)));
            *possible = vec![*fits.unwrap_or(&newest)];
        }
    }

    fn damage(&self, real: &[u8]) -> Vec<Range<u64>> {
        let mut damage: Vec<Range<u64>> = Vec::new();
        for (sector, real) in (0..).zip(real.chunks(SECTOR as usize)) {
            let range = sector * SECTOR..(sector + 1) * SECTOR;
            if Model::holds(real, *self.possible[sector as usize].last().unwrap()) {
                continue;
            }
            match damage.last_mut() {
                Some(last) if last.end == range.start => last.end = range.end,
                _ => damage.push(range),
            }
        }
        damage
    }
}

/// Plays random changes, lies and accidents, and gives how often damage was seen, and seen after an accident.
fn damage_is_what_a_model_says(seed: u64) -> (u32, u32) {
    let world = World::new(seed);
    let (node, mut random) = (world.node("node"), world.random("test"));
    node.put_file(path(), &vec![0; (SECTORS * SECTOR) as usize]);
    let mut model = Model { possible: vec![vec![0]; SECTORS as usize] };
    let (mut reactor, mut seen) = (node.reactor(), (0, 0));
    let mut file = open(reactor.ring());
    for value in 1..80u32 {
        let start = random.u64(0..SECTORS);
        let sectors = start..random.u64(start + 1..=SECTORS);
        let (bytes, offset) = (start * SECTOR..sectors.end * SECTOR, start * SECTOR);
        let length = bytes.end - bytes.start;
        let buffer = Buffer::copy_of(&value.to_le_bytes().repeat(length as usize / 4));
        let (durable, action) = (random.u8(0..4) == 0, random.u8(0..16));
        let is_accident = action >= 14;
        match action {
            0..=7 => {
                match action {
                    0 | 1 => node.drop_writes(path(), bytes, 1),
                    2 | 3 => {
                        let distance = random.i64(-(SECTORS as i64)..SECTORS as i64) * SECTOR as i64;
                        node.misdirect_writes(path(), bytes, distance, 1);
                    }
                    _ => {}
                }
                let file = file.clone();
                world
                    .block_on(&reactor, async move { file.write_at(buffer, offset, durable).await.0 })
                    .unwrap()
                    .unwrap();
                model.write(sectors, value, durable);
            }
            8 => {
                let file = file.clone();
                world.block_on(&reactor, async move { file.punch(offset, length).await }).unwrap().unwrap();
                model.write(sectors, 0, false);
            }
            9 => node.corrupt(path(), bytes.start + random.u64(0..SECTOR)..bytes.end),
            10 => drop(node.flip_bit(path(), offset + random.u64(0..length), random.u8(0..8))),
            11..=13 => {
                let file = file.clone();
                world.block_on(&reactor, async move { file.sync().await }).unwrap().unwrap();
                model.flush(None);
            }
            _ => {
                if random.bool() {
                    let file = file.clone();
                    reactor.ring().spawn(async move { drop(file.write_at(buffer, offset, durable).await) });
                    model.write(sectors, value, false);
                }
                if action == 14 {
                    node.power_cut();
                    reactor = node.reactor();
                    file = open(reactor.ring());
                } else {
                    node.detach(path());
                    node.attach(path());
                }
                model.flush(Some(&node.file_bytes(path(), 0, (SECTORS * SECTOR) as usize).unwrap()));
            }
        }
        let real = node.file_bytes(path(), 0, (SECTORS * SECTOR) as usize).unwrap();
        let damage = node.damage(path());
        assert_eq!(damage, model.damage(&real), "seed {seed}, step {value}, action {action}");
        seen.0 += u32::from(!damage.is_empty());
        seen.1 += u32::from(!damage.is_empty() && is_accident);
    }
    seen
}

#[test]
fn damage_is_what_no_honest_disk_could_hold() {
    let (mut damaged, mut after_accidents) = (0, 0);
    for seed in 0..if cfg!(miri) { 3 } else { 400 } {
        let (one, other) = damage_is_what_a_model_says(seed);
        damaged += one;
        after_accidents += other;
    }
    assert!(cfg!(miri) || (damaged > 8000 && after_accidents > 1000), "{damaged} {after_accidents}");
}

#[test]
fn a_dropped_write_that_was_not_flushed_is_no_damage_after_a_power_cut() {
    run(1, |_, node, ring| async move {
        let file = written(&ring, &[1; 8192]).await;
        node.drop_writes(path(), 0..4096, 1);
        write(&file, 0, &[2; 4096]).await.unwrap();
        assert_eq!(damage(&node), [(0, 4096)], "reads see the old bytes");
        node.power_cut();
        assert_eq!(damage(&node), [], "an honest disk can have lost it too");
    });
}

#[test]
fn what_a_lie_left_comes_back_from_under_a_write_that_was_lost() {
    let mut came_back = 0;
    for seed in 0..100 {
        came_back += run(seed, |_, node, ring| async move {
            let file = written(&ring, &[1; 512]).await;
            node.drop_writes(path(), 0..512, 1);
            write(&file, 0, &[2; 512]).await.unwrap();
            file.sync().await.unwrap();
            write(&file, 0, &[3; 512]).await.unwrap();
            assert_eq!(damage(&node), []);
            node.power_cut();
            let is_old = node.file_bytes(path(), 0, 1).unwrap() == [1];
            assert_eq!(damage(&node), if is_old { vec![(0, 512)] } else { vec![] }, "seed {seed}");
            usize::from(is_old)
        });
    }
    assert!(came_back > 20 && came_back < 80, "{came_back}");
}
