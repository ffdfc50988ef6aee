use std::sync::Arc;

use super::*;
use crate::buffer::Shared;

#[test]
fn what_is_written_is_read_and_what_is_discarded_is_zero() {
    let memory = Memory::new(64 << 10).unwrap();
    let data: Vec<u8> = (0..10_000).map(|index| index as u8).collect();
    memory.write(3000, &data);
    let mut back = vec![0; 10_000];
    memory.read(3000, &mut back);
    assert_eq!(back, data);
    assert!(memory.is_written(0) && memory.is_written(12_999) && !memory.is_written(16384));
    memory.discard(4000, 5000);
    memory.read(3000, &mut back);
    assert_eq!(back[..1000], data[..1000]);
    assert!(back[1000..6000].iter().all(|&byte| byte == 0));
    assert_eq!(back[6000..], data[6000..]);
    assert!(memory.is_written(0) && !memory.is_written(4096));
}

#[test]
fn what_is_expected_may_be_anything() {
    let memory = Memory::new((3 * PAGE) as u64).unwrap();
    let end = memory.length();
    for soon in [Soon::Now, Soon::Next, Soon::Later] {
        for (offset, length) in
            [(0, 0), (end, 0), (end - 1, 1), (100, 2 * PAGE), (end, 1), (u64::MAX, usize::MAX)]
        {
            memory.expect(offset, length, soon);
        }
    }
}

#[test]
fn a_long_write_finds_every_page_wherever_it_lives() {
    const PAGES: usize = 80;
    let (memory, lender) = lender((PAGES * PAGE) as u64);
    memory.write(0, &vec![1; PAGES * PAGE]);
    // Every third page moves to another frame, and some are lent while all is written.
    let lent: Vec<Shared> =
        (0..PAGES as u64).step_by(3).map(|page| lender.lend(page * PAGE as u64, PAGE).unwrap()).collect();
    for page in (0..PAGES as u64).step_by(3) {
        memory.write(page * PAGE as u64, &[2; PAGE]);
    }
    let again = lender.lend(10 * PAGE as u64, 2 * PAGE).unwrap();
    let data: Vec<u8> = (0..PAGES * PAGE - 700).map(|at| (at / 61) as u8).collect();
    memory.write(300, &data);
    let mut back = vec![0; PAGES * PAGE];
    memory.read(0, &mut back);
    assert!(back[..300].iter().all(|&byte| byte == 2) && back[300..PAGES * PAGE - 400] == data);
    assert!(back[PAGES * PAGE - 400..].iter().all(|&byte| byte == 1));
    assert!(lent.iter().flat_map(|page| page.iter()).all(|&byte| byte == 1));
    assert!(again.iter().all(|&byte| byte == 1));
    drop((lent, again));
    assert_eq!(memory.entries.iter().filter(|entry| entry.pins.load(Ordering::Relaxed) != 0).count(), 0);
}

#[test]
fn pieces_are_written_one_behind_the_other() {
    const PAGES: usize = 80;
    let (memory, lender) = lender((PAGES * PAGE) as u64);
    let data: Vec<u8> = (0..70 * PAGE).map(|at| (at / 61) as u8).collect();
    for (offset, ends) in [
        (0, vec![PAGE]),
        (PAGE, vec![100, PAGE]),
        (512, vec![0, 1, 1, 64, 65, 3 * PAGE + 7]),
        (3 * PAGE, vec![PAGE, 2 * PAGE]),
        (700, vec![20 * PAGE, 20 * PAGE + 5, 70 * PAGE]),
        (4 * PAGE - 1, vec![0, 33 * PAGE + 3, 70 * PAGE - 9]),
    ] {
        memory.write(0, &vec![0xaa; PAGES * PAGE]);
        let begins = std::iter::once(0).chain(ends.iter().copied());
        let pieces: Vec<&[u8]> = begins.zip(&ends).map(|(begin, &end)| &data[begin..end]).collect();
        drop(lender.write(offset as u64, &pieces));
        let (mut back, length) = (vec![0; PAGES * PAGE], *ends.last().unwrap());
        memory.read(0, &mut back);
        assert!(back[offset..offset + length] == data[..length], "{offset} {ends:?}");
        assert!(back[..offset].iter().chain(&back[offset + length..]).all(|&byte| byte == 0xaa));
    }
    assert_eq!(locked(&memory), [0; 0]);
}

#[test]
fn a_page_of_two_pieces_is_never_torn() {
    let memory = Arc::new(Memory::new(2 * PAGE as u64).unwrap());
    let writer = {
        let memory = memory.clone();
        std::thread::spawn(move || {
            let lender = memory.lender().unwrap();
            for round in 0..20_000_u32 {
                let page = [round as u8; PAGE];
                drop(lender.write(100, &[&page[..1500], &page[..1000]]));
            }
        })
    };
    let mut page = [0; 2500];
    while !writer.is_finished() {
        memory.read(100, &mut page);
        assert!(page.iter().all(|&byte| byte == page[0]));
    }
    writer.join().unwrap();
}

#[test]
fn a_page_is_never_torn() {
    let memory = Arc::new(Memory::new(PAGE as u64).unwrap());
    let writer = {
        let memory = memory.clone();
        std::thread::spawn(move || (0..20_000u32).for_each(|round| memory.write(0, &[round as u8; PAGE])))
    };
    let mut page = [0; PAGE];
    while !writer.is_finished() {
        memory.read(0, &mut page);
        assert!(page.iter().all(|&byte| byte == page[0]));
    }
    writer.join().unwrap();
}

#[test]
fn a_page_of_a_long_write_is_never_torn() {
    const PAGES: usize = 4;
    let memory = Arc::new(Memory::new((PAGES * PAGE) as u64).unwrap());
    let writer = {
        let memory = memory.clone();
        std::thread::spawn(move || {
            (0..100_000u32).for_each(|round| memory.write(0, &[round as u8; PAGES * PAGE]));
        })
    };
    let mut end = [0; 4 * LINE];
    while !writer.is_finished() {
        // Whatever is still on its way when the locks go is of the end.
        memory.read((PAGES * PAGE - end.len()) as u64, &mut end);
        assert!(end.iter().all(|&byte| byte == end[0]));
    }
    writer.join().unwrap();
}

#[test]
fn long_pieces_of_a_large_memory_are_better_copied() {
    const LARGE: u64 = 128 << 20;
    let is_copied = |bytes: u64, lent: usize| lender(bytes).1.lend(0, lent).unwrap().is_better_copied();
    for (lent, expected) in [(65_535, false), (65_536, true), (1 << 20, true), ((1 << 20) + 1, false)] {
        assert_eq!(
            (is_copied(LARGE, lent), is_copied(LARGE - PAGE as u64, lent)),
            (expected, false),
            "{lent}"
        );
    }
    let (_memory, lender) = lender(LARGE);
    let lent = lender.lend(0, 1 << 20).unwrap();
    assert!(lent.slice(0..65_536).is_better_copied() && !lent.slice(0..4096).is_better_copied());
    assert!(!crate::Buffer::copy_of(&lent).share().is_better_copied(), "what is a copy already");
}

/// Which pages are locked.
fn locked(memory: &Memory) -> Vec<usize> {
    let held = |entry: &Entry| entry.moved.load(Ordering::Relaxed) & HELD != 0;
    memory.entries.iter().enumerate().filter(|(_, entry)| held(entry)).map(|(page, _)| page).collect()
}

#[test]
fn a_write_on_its_way_keeps_its_last_pages_until_it_is_settled() {
    const PAGES: usize = RUN + 3;
    let (memory, lender) = lender((PAGES * PAGE) as u64);
    let writing = lender.write_past_cache(PAGE as u64, &[1; PAGE]);
    assert_eq!(locked(&memory), [1]);
    drop(writing);
    assert_eq!(locked(&memory), [0; 0]);
    // It ends within a page, and only the last pages that were locked together are left.
    let writing = lender.write_past_cache(PAGE as u64, &vec![2; (RUN + 1) * PAGE + 5]);
    assert_eq!(locked(&memory), [RUN + 1, RUN + 2]);
    drop(writing);
    assert_eq!(locked(&memory), [0; 0]);
    let mut back = vec![9; PAGES * PAGE];
    memory.read(0, &mut back);
    assert!(back[..PAGE].iter().chain(&back[(RUN + 2) * PAGE + 5..]).all(|&byte| byte == 0));
    assert!(back[PAGE..(RUN + 2) * PAGE + 5].iter().all(|&byte| byte == 2));
}

#[test]
fn whoever_comes_next_on_a_core_settles_what_is_on_its_way() {
    let (memory, lender) = lender(8 * PAGE as u64);
    let first = lender.write_past_cache(0, &[1; PAGE]);
    let second = lender.write_past_cache(PAGE as u64, &[2; PAGE]);
    assert_eq!(locked(&memory), [1], "the first one is there");
    let lent = lender.lend(PAGE as u64, PAGE).unwrap();
    assert!(lent.iter().all(|&byte| byte == 2) && locked(&memory).is_empty());
    // What somebody else has locked since then is not opened by who had it before.
    let other = memory.lock(1);
    drop((first, second));
    assert_eq!(locked(&memory), [1]);
    drop(other);
    assert_eq!(locked(&memory), [0; 0]);
    drop(lender.write_past_cache(0, &[3; PAGE]));
    assert!(lender.lend(0, PAGE).unwrap().iter().all(|&byte| byte == 3));
}

#[test]
fn a_page_on_its_way_is_never_torn() {
    let memory = Arc::new(Memory::new(8 * PAGE as u64).unwrap());
    let writer = {
        let memory = memory.clone();
        std::thread::spawn(move || {
            let lender = memory.lender().unwrap();
            for round in 0..100_000_u64 {
                drop(lender.write(round % 8 * PAGE as u64, &[&[round as u8; PAGE]]));
            }
        })
    };
    let mut end = [0; 4 * LINE];
    while !writer.is_finished() {
        for page in 1..=8 {
            // Whatever is still on its way when the lock goes is of the end.
            memory.read((page * PAGE - end.len()) as u64, &mut end);
            assert!(end.iter().all(|&byte| byte == end[0]));
        }
    }
    writer.join().unwrap();
}

#[test]
#[should_panic(expected = "within the memory")]
fn a_range_outside_is_refused() {
    Memory::new(8192).unwrap().read(8000, &mut [0; 512]);
}

fn lender(bytes: u64) -> (Arc<Memory>, Lender) {
    let memory = Arc::new(Memory::new(bytes).unwrap());
    let lender = memory.lender().unwrap();
    (memory, lender)
}

#[test]
fn what_is_lent_stays_as_it_was() {
    let (memory, lender) = lender(64 << 10);
    memory.write(0, &vec![1; 64 << 10]);
    let lent = lender.lend(4096, 8192).unwrap();
    let part = lent.slice(4000..5000);
    memory.write(4096, &[2; PAGE]);
    memory.write(8192 + 100, &[3; 50]);
    memory.discard(4096, 4096);
    assert!(lent.iter().all(|&byte| byte == 1) && lent.len() == 8192);
    drop(lent);
    assert!(part.iter().all(|&byte| byte == 1) && part.len() == 1000);
    drop(part);
    let mut now = [9; 8192];
    memory.read(4096, &mut now);
    assert!(now[..PAGE].iter().all(|&byte| byte == 0));
    assert!(now[PAGE..PAGE + 100].iter().all(|&byte| byte == 1), "the rest of the page has moved with it");
    assert!(now[PAGE + 100..PAGE + 150].iter().all(|&byte| byte == 3));
    assert!(now[PAGE + 150..].iter().all(|&byte| byte == 1));
    assert_eq!(memory.entries.iter().filter(|entry| entry.pins.load(Ordering::Relaxed) != 0).count(), 0);
}

#[test]
fn frames_come_back_and_are_used_again() {
    let (memory, lender) = lender(16 * PAGE as u64);
    for round in 0..10 * LENT_PAGES {
        let lent = lender.lend(0, PAGE).unwrap();
        memory.write(0, &[round as u8; PAGE]);
        drop(lent);
    }
    let spares = memory.spares();
    assert!(spares.fresh as usize <= 18, "{} frames were used", spares.fresh);
    assert_eq!(lender.pinned(), 0);
}

#[test]
fn no_more_is_lent_than_can_be_replaced() {
    let pages = LENT_PAGES as u64 + 10;
    let (memory, lender) = lender(pages * PAGE as u64);
    let lent: Vec<Shared> = (0..pages).map_while(|page| lender.lend(page * PAGE as u64, PAGE)).collect();
    assert_eq!(lent.len(), LENT_PAGES);
    let copies: Vec<Shared> = lent.clone();
    // Every page that is lent is written: each takes a spare frame.
    memory.write(0, &vec![7; LENT_PAGES * PAGE]);
    drop(lent);
    assert!(lender.lend(0, PAGE).is_none(), "the copies are still there");
    drop(copies);
    assert!(lender.lend(0, PAGE).unwrap().iter().all(|&byte| byte == 7));
}

#[test]
fn what_lies_apart_is_not_lent_in_one_piece() {
    let (memory, lender) = lender(8 * PAGE as u64);
    let lent = lender.lend(PAGE as u64, PAGE).unwrap();
    memory.write(PAGE as u64, &[1; PAGE]);
    assert!(lender.lend(0, 3 * PAGE).is_none() && lender.lend(0, PAGE).is_some());
    assert_eq!(lender.pinned(), 1);
    drop(lent);
    assert!(
        lender.lend(0, 9 * PAGE).is_none()
            && lender.lend(u64::MAX, PAGE).is_none()
            && lender.lend(0, 0).is_none()
    );
}

#[test]
fn a_lent_page_is_never_torn() {
    let memory = Arc::new(Memory::new(4 * PAGE as u64).unwrap());
    memory.write(0, &[0; 4 * PAGE]);
    let threads: Vec<_> = (0..2)
        .map(|seed: u8| {
            let memory = memory.clone();
            std::thread::spawn(move || {
                let lender = memory.lender().unwrap();
                for round in 0..20_000u32 {
                    let page = u64::from((round.wrapping_mul(2_654_435_761) >> 8) % 4);
                    let lent = lender.lend(page * PAGE as u64, PAGE).unwrap();
                    memory.write(page * PAGE as u64, &[round as u8 ^ seed; PAGE]);
                    let first = lent[0];
                    assert!(lent.iter().all(|&byte| byte == first));
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(memory.entries.iter().filter(|entry| entry.pins.load(Ordering::Relaxed) != 0).count(), 0);
}
