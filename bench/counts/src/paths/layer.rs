//! A request through passthrough layers. It is a write to a disk that keeps nothing: no byte is moved.

use std::hint::black_box;

use plane::disk::NullDisk;
use plane::layers::{Layer, Passthrough, Stack};
use plane::{Io, Request};
use ring::Buffer;

use super::node::world;
use super::{BLOCK, BYTES};
use crate::meter::measure_all;

pub fn measure() {
    let world = world();
    let reactor = world.node("node").reactor();
    for layers in [0, 1, 4] {
        let passthrough = (0..layers).map(|_| Box::new(Passthrough) as Box<dyn Layer>).collect();
        let disk = Box::new(NullDisk::new(1 << 20, BLOCK as u32));
        let stack = Stack::new(reactor.ring().clone(), passthrough, disk);
        let mut buffer = Buffer::new(BYTES);
        measure_all(&format!("stack-{layers}-layers"), || {
            let request = Request::write(black_box(4096), std::mem::replace(&mut buffer, Buffer::empty()));
            let Io::Ready(Some(completion)) = black_box(&stack).submit(request) else {
                panic!("nothing waits");
            };
            assert!(completion.result.is_ok());
            buffer = completion.buffer;
        });
    }
}
