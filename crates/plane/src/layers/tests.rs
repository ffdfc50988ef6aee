//! Stacks over a disk in RAM and in a file.

use std::sync::Arc;
use std::time::Duration;

use ring::{Buffer, Memory, Options, Reactor, Ring};

use super::*;
use crate::disk::{FileError, Make, MemoryDisk, PreparedFile};
use crate::request::{Extent, Flags, Request, Verb};
use crate::{Completion, ErrorKind, Io};

fn run<T: 'static, F: Future<Output = T> + 'static>(test: impl FnOnce(Ring) -> F) -> T {
    let reactor = Reactor::new(&Options::default()).unwrap();
    let ring = reactor.ring().clone();
    reactor.block_on(test(ring))
}

fn over_memory(ring: &Ring, layers: Vec<Box<dyn Layer>>) -> Stack {
    let memory = Arc::new(Memory::new(1 << 20).unwrap());
    Stack::new(ring.clone(), layers, Box::new(MemoryDisk::new(ring, memory, 512)))
}

async fn kind_of(io: Io<'_>) -> Option<ErrorKind> {
    io.await.result.err().map(|error| error.kind())
}

#[test]
fn what_is_absorbed_is_checked_as_at_every_hop() {
    run(|ring| async move {
        let stack = over_memory(&ring, Vec::new());
        assert!(stack.is_prompt() && stack.absorb(Extent::new(512, 1024), &[&[9; 1024]]).is_some());
        assert!(stack.lend(Extent::new(512, 1024)).unwrap().iter().all(|&byte| byte == 9));
        for (extent, bytes) in [
            (Extent::new(512, 512), 1024),
            (Extent::new(100, 512), 512),
            (Extent::new((1 << 20) - 512, 1024), 1024),
            (Extent::new(u64::MAX - 511, 512), 512),
        ] {
            assert!(stack.absorb(extent, &[&vec![7; bytes]]).is_none(), "{extent:?}");
        }
        let memory = Arc::new(Memory::new(1 << 20).unwrap());
        let others: Vec<_> = std::iter::from_fn(|| memory.lender()).collect();
        let late = Stack::new(ring.clone(), Vec::new(), Box::new(MemoryDisk::new(&ring, memory, 512)));
        assert!(!others.is_empty() && !late.is_prompt(), "as many cores lend as can");
        assert!(late.absorb(Extent::new(0, 512), &[&[1; 512]]).is_none());
        let written = late.submit(Request::write(0, Buffer::copy_of(&[5; 512]))).await;
        assert!(written.result.is_ok());
        let read = late.submit(Request::read(0, Buffer::new(512))).await;
        assert!(read.result.is_ok() && read.buffer.iter().all(|&byte| byte == 5));
        let layered = over_memory(&ring, vec![Box::new(Passthrough)]);
        assert!(
            !layered.is_prompt() && layered.absorb(Extent::new(0, 512), &[&[1; 512]]).is_none(),
            "a layer has its say"
        );
    });
}

#[test]
fn what_is_written_through_layers_is_read_through_layers() {
    run(|ring| async move {
        let count = Count::default();
        let stack =
            over_memory(&ring, vec![Box::new(Passthrough), Box::new(count.clone()), Box::new(Passthrough)]);
        let written = stack.submit(Request::write(4096, Buffer::copy_of(&[9; 1024])).with(Flags::FUA)).await;
        written.result.unwrap();
        let read = stack.submit(Request::read(4608, Buffer::new(1024))).await;
        read.result.unwrap();
        assert!(
            read.buffer[..512].iter().all(|&byte| byte == 9)
                && read.buffer[512..].iter().all(|&byte| byte == 0)
        );
        stack.submit(Request::plain(Verb::WriteZeroes, Extent::new(4096, 512))).await.result.unwrap();
        stack.submit(Request::flush()).await.result.unwrap();
        let expected = Counted { reads: 1, writes: 1, durable_writes: 1, flushes: 1, zeroes: 1, discards: 0 };
        assert_eq!(count.0.get(), expected);
        let read = stack.submit(Request::read(4096, Buffer::new(1024))).await.buffer;
        assert_eq!((read[0], read[511], read[512]), (0, 0, 9));
    });
}

#[test]
fn every_hop_refuses_what_lies_outside() {
    run(|ring| async move {
        let stack = over_memory(&ring, vec![Box::new(Passthrough)]);
        let outside = Request::read(1 << 20, Buffer::new(512));
        assert_eq!(kind_of(stack.submit(outside)).await, Some(ErrorKind::OutOfRange));
    });
}

#[test]
fn planted_faults_hit_their_extent_only() {
    run(|ring| async move {
        let faults = Faults::default();
        let stack = over_memory(&ring, vec![Box::new(faults.clone())]);
        faults.plant(Fault { verb: Verb::Read, extent: Extent::new(4096, 512), kind: ErrorKind::Medium });
        assert_eq!(kind_of(stack.submit(Request::read(0, Buffer::new(8192)))).await, Some(ErrorKind::Medium));
        assert_eq!(kind_of(stack.submit(Request::read(0, Buffer::new(4096)))).await, None);
        assert_eq!(kind_of(stack.submit(Request::write(4096, Buffer::new(512)))).await, None);
        faults.clear();
        assert_eq!(kind_of(stack.submit(Request::read(4096, Buffer::new(512)))).await, None);
    });
}

#[test]
fn traced_requests_tell_in_which_layer_their_time_went() {
    run(|ring| async move {
        let wait = Duration::from_millis(5);
        let delay = Delay { ring: ring.clone(), read: wait, write: Duration::ZERO, flush: Duration::ZERO };
        let stack = over_memory(&ring, vec![Box::new(Passthrough), Box::new(delay), Box::new(Passthrough)]);
        stack.submit(Request::read(0, Buffer::new(512))).await.result.unwrap();
        stack.submit(Request::read(0, Buffer::new(512)).with(Flags::TRACED)).await.result.unwrap();
        let spent: Vec<_> = stack.spent().collect();
        assert!(spent.iter().all(|(_, spent)| spent.requests == 1), "only what is traced: {spent:?}");
        assert!(spent[0].1.time >= wait && spent[1].1.time >= wait);
        assert!(spent[2].1.time < wait && spent[3].1.time < wait);
    });
}

#[test]
fn a_file_is_a_disk() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk.img");
    run(|ring| async move {
        let (prepared, lock) = PreparedFile::new(&ring, &path, 1 << 20, 512, Make::Missing).await.unwrap();
        let locked = PreparedFile::new(&ring, &path, 1 << 20, 512, Make::Missing).await;
        assert!(matches!(locked, Err(FileError::Locked { .. })));
        let stack = Stack::new(ring.clone(), Vec::new(), Box::new(prepared.open(&ring).unwrap()));
        let data: Vec<u8> = (0..16384u32).map(|index| (index / 512) as u8 + 1).collect();
        let done = |completion: Completion| completion.result.map(|()| completion.buffer);
        done(stack.submit(Request::write(8192, Buffer::copy_of(&data)).with(Flags::FUA)).await).unwrap();
        done(stack.submit(Request::flush()).await).unwrap();
        assert_eq!(*done(stack.submit(Request::read(8192, Buffer::new(16384))).await).unwrap(), data[..]);
        let run = stack.allocation(Extent::new(0, 1 << 20)).unwrap();
        assert_eq!((run.length, run.mapped), (8192, false));
        let run = stack.allocation(Extent::new(8192, 1 << 19)).unwrap();
        assert_eq!((run.length, run.mapped), (16384, true));
        for (verb, offset) in [(Verb::Discard, 8192), (Verb::WriteZeroes, 12288)] {
            done(stack.submit(Request::plain(verb, Extent::new(offset, 4096))).await).unwrap();
        }
        let back = done(stack.submit(Request::read(8192, Buffer::new(16384))).await).unwrap();
        assert!(back[..8192].iter().all(|&byte| byte == 0) && back[8192..] == data[8192..]);
        drop(lock);
        let short = PreparedFile::new(&ring, &path, 2 << 20, 512, Make::Missing).await;
        assert!(matches!(short, Err(FileError::TooShort { found: 0x10_0000, wanted: 0x20_0000, .. })));
    });
}
