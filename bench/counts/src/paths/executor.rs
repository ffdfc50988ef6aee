//! A task that ends at once, and a task that goes on.

use std::cell::Cell;
use std::rc::Rc;

use super::node::world;
use crate::meter::measure_all;

pub fn measure() {
    let world = world();
    let reactor = world.node("node").reactor();
    let ring = reactor.ring();
    let ended = Rc::new(Cell::new(0_u64));
    measure_all("spawn", || {
        let ended = ended.clone();
        ring.spawn(async move { ended.set(ended.get() + 1) });
    });
    crate::meter::measure("wake-and-poll", 1000, |wakes| {
        let done = Rc::new(Cell::new(false));
        let (tell, yielding) = (done.clone(), ring.clone());
        ring.spawn_later(async move {
            for _ in 0..wakes {
                yielding.yield_now().await;
            }
            tell.set(true);
        });
        world.run_until(|| done.get()).expect("nothing stalls");
    });
}
