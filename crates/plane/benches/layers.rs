//! What a layer costs: a 4 KiB request through none, one, four and sixteen passthrough layers. Over the null disk it is a
//! write, of which no byte is moved; over the memory disk a read.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use plane::disk::{Disk, MemoryDisk, NullDisk};
use plane::layers::{Layer, Passthrough, Stack};
use plane::{Io, Request};
use ring::sim::World;
use ring::{Buffer, Memory, Ring};

const BYTES: usize = 4096;
const BLOCK: u32 = 512;
const VOLUME: u64 = 16 << 20;

fn null(_: &Ring) -> Box<dyn Disk> {
    Box::new(NullDisk::new(VOLUME / u64::from(BLOCK), BLOCK))
}

fn memory(ring: &Ring) -> Box<dyn Disk> {
    Box::new(MemoryDisk::new(ring, Arc::new(Memory::new(VOLUME).expect("there is memory")), BLOCK))
}

/// Sends one request after the other, all with the same buffer.
fn submit(
    criterion: &mut Criterion,
    name: &str,
    disk: fn(&Ring) -> Box<dyn Disk>,
    request: fn(u64, Buffer) -> Request,
) {
    // Untraced requests ask nothing of the ring: any will do.
    let reactor = World::new(1).node("bench").reactor();
    let mut group = criterion.benchmark_group(name);
    for layers in [0, 1, 4, 16] {
        let passthrough = (0..layers).map(|_| Box::new(Passthrough) as Box<dyn Layer>).collect();
        let stack = Stack::new(reactor.ring().clone(), passthrough, disk(reactor.ring()));
        let mut buffer = Buffer::new(BYTES);
        group.bench_function(BenchmarkId::from_parameter(layers), |bencher| {
            bencher.iter(|| {
                let request = request(black_box(4096), std::mem::replace(&mut buffer, Buffer::empty()));
                let Io::Ready(Some(completion)) = black_box(&stack).submit(request) else {
                    panic!("nothing waits");
                };
                assert!(completion.result.is_ok());
                buffer = completion.buffer;
            });
        });
    }
    group.finish();
}

fn layers(criterion: &mut Criterion) {
    submit(criterion, "null", null, Request::write);
    submit(criterion, "memory", memory, Request::read);
}

criterion_group!(benches, layers);
criterion_main!(benches);
