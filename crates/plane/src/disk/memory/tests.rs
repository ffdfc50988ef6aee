use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use ring::{Buffer, Options, Reactor};

use super::*;

const BYTES: u64 = 64 << 20;
const AREA: u64 = 2 << 20;

fn run<T: 'static, F: Future<Output = T> + 'static>(test: impl FnOnce(Ring) -> F) -> T {
    let reactor = Reactor::new(&Options::default()).unwrap();
    let ring = reactor.ring().clone();
    reactor.block_on(test(ring))
}

fn disk(ring: &Ring) -> Rc<MemoryDisk> {
    Rc::new(MemoryDisk::new(ring, Arc::new(Memory::new(BYTES).unwrap()), 512))
}

/// Whether the system gives huge pages, and memory has to be made ready.
fn waits(disk: &MemoryDisk) -> bool {
    !disk.memory.is_ready(0, 1)
}

#[test]
fn the_first_write_to_a_huge_page_waits_beside_the_core() {
    run(|ring| async move {
        let disk = disk(&ring);
        let (waits, extent) = (waits(&disk), Extent::new(5 * AREA, 512));
        assert_eq!(disk.absorb(extent, &[&[1; 512]]).is_none(), waits);
        let write = |offset, byte: u8| Request::write(offset, Buffer::copy_of(&[byte; 512]));
        let first = disk.submit(write(extent.offset, 2));
        assert_eq!(matches!(first, Io::Pending(_)), waits);
        assert!(first.await.result.is_ok());
        assert!(disk.lend(extent).unwrap().iter().all(|byte| *byte == 2));
        // What is of no length has nothing to wait for, wherever it is.
        for offset in [0, BYTES] {
            let nothing = disk.submit(Request::write(offset, Buffer::empty()));
            assert!(ring.timeout(Duration::from_secs(60), nothing).await.unwrap().result.is_ok());
        }
        // Once it is there nothing waits.
        assert!(matches!(disk.submit(write(extent.offset + 512, 3)), Io::Ready(_)));
        drop(disk.absorb(extent, &[&[4; 512]]).expect("it is ready"));
        assert!(disk.lend(extent).unwrap().iter().all(|byte| *byte == 4));
        // One that is given up on the way keeps nobody else waiting.
        for offset in [10 * AREA, 11 * AREA] {
            let mut given_up = Box::pin(disk.submit(write(offset, 5)));
            let is_pending =
                poll_fn(|context| Poll::Ready(given_up.as_mut().poll(context).is_pending())).await;
            assert_eq!(is_pending, waits);
            drop(given_up);
        }
        let (one, other) = (disk.submit(write(10 * AREA, 6)), disk.submit(write(12 * AREA - 256, 7)));
        let both = async { other.await.result.is_ok() && one.await.result.is_ok() };
        assert_eq!(ring.timeout(Duration::from_secs(60), both).await, Some(true));
        for (offset, byte) in [(10 * AREA, 6), (12 * AREA - 256, 7)] {
            assert!(disk.lend(Extent::new(offset, 512)).unwrap().iter().all(|found| *found == byte));
        }
    });
}

#[test]
fn who_wants_the_same_huge_page_does_not_wait_for_another_one() {
    run(|ring| async move {
        let disk = disk(&ring);
        let (order, is_over) = (Rc::new(RefCell::new(Vec::new())), Rc::new(Notify::new()));
        for (number, offset) in [(1, AREA), (2, 20 * AREA), (3, AREA + 4096)] {
            let (disk, order, is_over) = (disk.clone(), order.clone(), is_over.clone());
            ring.spawn(async move {
                let written = disk.submit(Request::write(offset, Buffer::copy_of(&[1; 512]))).await;
                assert!(written.result.is_ok());
                order.borrow_mut().push(number);
                is_over.notify();
            });
        }
        let all = is_over.until(|| (order.borrow().len() == 3).then_some(()));
        assert!(ring.timeout(Duration::from_secs(60), all).await.is_some());
        let expected = if waits(&disk) { [1, 3, 2] } else { [1, 2, 3] };
        assert_eq!(*order.borrow(), expected);
    });
}

#[test]
fn what_takes_long_lets_others_have_their_turn() {
    run(|ring| async move {
        let disk = disk(&ring);
        for offset in (0..BYTES).step_by(AREA as usize) {
            assert!(
                disk.submit(Request::write(offset, Buffer::copy_of(&vec![1; AREA as usize])))
                    .await
                    .result
                    .is_ok()
            );
        }
        let steps = BYTES / AREA;
        let ask = |verb| Request::plain(verb, Extent::new(0, BYTES));
        let (zeroes, discard) = (ask(Verb::WriteZeroes), ask(Verb::Discard));
        let unmap = ask(Verb::WriteZeroes).with(Flags::MAY_UNMAP);
        for (request, is_mapped) in [(zeroes, true), (unmap, false), (discard, false)] {
            let (turns, is_over) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(false)));
            let (counted, seen, clock) = (turns.clone(), is_over.clone(), ring.clone());
            ring.spawn(async move {
                while !seen.get() {
                    counted.set(counted.get() + 1);
                    clock.next_turn().await;
                }
            });
            assert!(disk.submit(request).await.result.is_ok());
            is_over.set(true);
            assert!(turns.get() >= steps, "{} turns", turns.get());
            let run = disk.allocation(Extent::new(0, BYTES)).unwrap();
            assert_eq!((run.length, run.mapped), (BYTES, is_mapped));
            let read = disk.submit(Request::read(BYTES - AREA, Buffer::new(AREA as usize))).await;
            assert!(read.buffer.iter().all(|byte| *byte == 0));
        }
    });
}
