use std::sync::Arc;

use super::areas::FEW;
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
    assert_eq!(memory.discard(4000, 5000), 5000);
    memory.read(3000, &mut back);
    assert_eq!(back[..1000], data[..1000]);
    assert!(back[1000..6000].iter().all(|&byte| byte == 0));
    assert_eq!(back[6000..], data[6000..]);
    assert!(memory.is_written(0) && !memory.is_written(4096));
}

/// Makes all of a range zero; gives in how many steps.
fn discard(memory: &Memory, offset: usize, length: usize) -> usize {
    let (mut at, end, mut steps) = (offset, offset + length, 0);
    while at < end {
        at += memory.discard(at as u64, (end - at) as u64) as usize;
        steps += 1;
    }
    assert_eq!(at, end);
    steps
}

#[test]
fn discards_of_any_length_leave_all_else_as_it_was() {
    const BYTES: usize = 8 << 20;
    let (memory, lender) = lender(BYTES as u64);
    let (mut model, mut lent, mut random) = (vec![0u8; BYTES], Vec::new(), 1u64);
    let mut draw = |below: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as usize % below
    };
    for round in 0..2000 {
        let bytes = [1, 700, 700, 3 * PAGE, 3 * PAGE, 40 * PAGE, 3 << 20][draw(7)];
        let mut length = 1 + draw(bytes);
        // Most near the begin, so that they meet what is lent.
        let is_near = draw(4) > 0;
        let mut at = draw(if is_near { 40 * PAGE } else { BYTES - length });
        if draw(2) == 0 {
            (at, length) = (at - at % PAGE, length.next_multiple_of(PAGE).min(BYTES - at + at % PAGE));
        }
        match draw(3) {
            0 => {
                discard(&memory, at, length);
                model[at..at + length].fill(0);
            }
            1 => {
                memory.write(at as u64, &vec![round as u8 | 1; length]);
                model[at..at + length].fill(round as u8 | 1);
            }
            _ => lent.extend(lender.lend(at as u64, length).map(|bytes| (bytes.to_vec(), bytes))),
        }
        let mut now = vec![9; length];
        memory.read(at as u64, &mut now);
        assert!(now == model[at..at + length], "round {round}: {at} {length}");
        if lent.len() > 30 {
            let (before, bytes) = lent.remove(draw(30));
            assert!(before == *bytes, "round {round}: what was lent has changed");
        }
    }
    assert!(lent.iter().all(|(before, bytes)| before == &**bytes));
    let mut now = vec![9; BYTES];
    memory.read(0, &mut now);
    assert!(now == model);
    lent.clear();
    assert_eq!((locked(&memory), lender.pinned()), (vec![], 0));
}

/// Of a system that gives huge pages, whatever this one does.
fn of_huge_pages(bytes: usize) -> Arc<Memory> {
    let mut memory = Memory::new(bytes as u64).unwrap();
    memory.areas = Areas::new(bytes, true);
    Arc::new(memory)
}

/// A simulated node went another way, where its memory lay across a border of huge pages.
#[test]
fn how_work_is_split_does_not_hang_on_where_a_memory_lies() {
    for pages in [1, 16, 511, 512, 600, 5000] {
        let memories = [(); 4].map(|()| Arc::new(Memory::new((pages * PAGE) as u64).unwrap()));
        for memory in memories {
            assert_eq!(memory.data.pointer().addr() % HUGE_PAGE, 0, "{pages} pages");
            assert_eq!(
                discard(&memory, 0, pages * PAGE),
                (pages * PAGE).div_ceil(HUGE_PAGE),
                "{pages} pages"
            );
            memory.write((pages * PAGE) as u64 - 1, b"x");
        }
    }
}

/// How many bytes of a range the system has given.
fn given(memory: &Memory, range: &Range<usize>) -> usize {
    let mut pages = vec![0u8; range.len() / PAGE];
    let place = memory.place(range.start, range.len()).cast_mut();
    // SAFETY: a byte for each page of our mapping.
    assert_eq!(unsafe { libc::mincore(place, range.len(), pages.as_mut_ptr()) }, 0);
    pages.iter().filter(|page| **page & 1 == 1).count() * PAGE
}

#[test]
fn memory_is_made_ready_an_area_at_a_time_and_nothing_beside_it() {
    let reactor = crate::Reactor::new(&crate::Options::default()).unwrap();
    let ring = reactor.ring().clone();
    reactor.block_on(async move {
        let memory = of_huge_pages(64 << 20);
        let at = 5 * HUGE_PAGE + 123;
        let area = memory.areas.bytes(Areas::of(at));
        let (before, after) = (area.start - HUGE_PAGE..area.start, area.end..area.end + HUGE_PAGE);
        assert!(area.contains(&at) && area.len() == HUGE_PAGE && !memory.is_ready(at as u64, 1));
        memory.write(at as u64 + 8192, b"what is there stays");
        assert!(memory.make_ready(&ring, at as u64, 1).await);
        assert!(memory.is_ready(area.start as u64, area.len()));
        assert_eq!([&before, &area, &after].map(|range| given(&memory, range)), [0, HUGE_PAGE, 0]);
        let mut back = [0; 19];
        memory.read(at as u64 + 8192, &mut back);
        assert_eq!(&back, b"what is there stays");
        let across = area.end as u64 - 1;
        assert!(!memory.is_ready(across, 2) && memory.make_ready(&ring, across, 2).await);
        assert!(memory.is_ready(across, 2) && !memory.make_ready(&ring, across, 2).await);
        assert_eq!(given(&memory, &after), HUGE_PAGE);
        assert!(!memory.is_ready(0, 0) && memory.is_ready(at as u64, 0) && memory.is_ready(64 << 20, 0));
        for (offset, length) in [(at as u64, 0), (64 << 20, 1), (u64::MAX, 2)] {
            assert!(!memory.make_ready(&ring, offset, length).await);
        }
        let end = memory.length() - 1;
        assert!(memory.make_ready(&ring, end, 1).await && memory.is_ready(end, 1));
        let small = of_huge_pages((FEW - 2) * HUGE_PAGE);
        assert!(small.is_ready(0, small.length() as usize));
    });
}

#[test]
fn a_whole_area_goes_back_in_one_step_and_is_to_be_made_ready_again() {
    let memory = of_huge_pages(64 << 20);
    let first = memory.areas.bytes(Areas::of(HUGE_PAGE));
    let areas = [0, 1, 2].map(|area| first.start + area * HUGE_PAGE..first.end + area * HUGE_PAGE);
    memory.write(first.start as u64, &vec![7; 3 * HUGE_PAGE]);
    for area in &areas {
        memory.areas.set(Areas::of(area.start), true);
    }
    // Of the third one a page is left.
    let steps = discard(&memory, first.start, 3 * HUGE_PAGE - PAGE);
    assert_eq!(steps, 3);
    assert_eq!(areas.clone().map(|area| given(&memory, &area)), [0, 0, PAGE]);
    let is_ready = |area: &Range<usize>| memory.is_ready(area.start as u64, area.len());
    assert_eq!([is_ready(&areas[0]), is_ready(&areas[1]), is_ready(&areas[2])], [false, false, true]);
    assert!(memory.is_written(areas[2].end as u64 - 1) && !memory.is_written(areas[2].start as u64));
    // What is a hole already costs a step for each area and nothing else.
    assert_eq!(discard(&memory, first.start, 3 * HUGE_PAGE - PAGE), 3);
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
    assert_eq!(memory.discard(4096, 4096), 4096);
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

#[test]
fn a_right_to_lend_is_given_back_with_its_pages() {
    let memory = Arc::new(Memory::new(4 * PAGE as u64).unwrap());
    let rights = || (0..=LENDERS).map_while(|_| memory.lender()).collect::<Vec<_>>();
    let mut all = rights();
    assert_eq!(all.len(), LENDERS);
    let lent = all.pop().unwrap().lend(0, PAGE).unwrap();
    assert!(memory.lender().is_none(), "its page is still lent");
    drop(lent);
    let last = memory.lender().unwrap();
    assert!(memory.lender().is_none());
    drop((all, last));
    assert_eq!(rights().len(), LENDERS);
    assert_eq!(memory.spares().end as usize, 4 + LENDERS * LENT_PAGES);
}

#[test]
fn a_frame_on_its_way_back_is_waited_for() {
    use std::sync::mpsc::channel;
    let pages = LENT_PAGES + 1;
    let (memory, lender) = lender((pages * PAGE) as u64);
    let lend = |page: usize| lender.lend((page * PAGE) as u64, PAGE).unwrap();
    // All but one of the spare frames are in use as long as these are lent.
    let _lent: Vec<Shared> = (2..pages).map(lend).collect();
    memory.write(2 * PAGE as u64, &vec![7; (pages - 2) * PAGE]);
    let first = lend(0);
    let ((tell, told), (lent_another, is_lent)) = (channel(), channel::<()>());
    let other = memory.clone();
    // The steps of `writable`, of a core that something keeps from going on in the middle.
    let writer = std::thread::spawn(move || {
        let _locked = other.lock(0);
        let spare = other.take_spare();
        tell.send(()).unwrap();
        is_lent.recv().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(50));
        other.entries[0].moved.store(HELD | (spare as u32 + 1), Ordering::Relaxed);
        assert_eq!(other.entries[0].pins.fetch_or(LEFT, Ordering::AcqRel), 0, "its last pin has gone");
        other.give_spare(0);
    });
    told.recv().unwrap();
    drop(first);
    let second = lend(1);
    lent_another.send(()).unwrap();
    memory.write(PAGE as u64, &[8; PAGE]);
    assert!(second.iter().all(|&byte| byte == 0));
    writer.join().unwrap();
}
