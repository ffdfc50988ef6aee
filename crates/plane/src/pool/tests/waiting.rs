//! Who waits until a pool is open.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use super::bed::Bed;
use crate::pool::assemble::Assembled;
use crate::pool::{Level, Pools};

struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn who_waits_for_a_pool_is_woken_once_by_the_first_that_comes() {
    let mut bed = Bed::new(79, Level::Single, 1, 16 << 10);
    bed.power_cut();
    let pools = Pools::default();
    let count = Arc::new(Count(AtomicUsize::new(0)));
    let waker = Waker::from(count.clone());
    let (mut context, mut any) = (Context::from_waker(&waker), pin!(pools.any()));
    assert_eq!(any.as_mut().poll(&mut context), Poll::Pending);
    assert_eq!(any.as_mut().poll(&mut context), Poll::Pending);
    pools.enter(Arc::new(Assembled::of_pool(bed.open())));
    assert_eq!(count.0.load(Ordering::Relaxed), 1);
    assert_eq!(any.as_mut().poll(&mut context), Poll::Ready(()));
    assert_eq!(pin!(pools.any()).poll(&mut context), Poll::Ready(()), "it is open already");
    pools.forget("tank");
    assert_eq!(pin!(pools.any()).poll(&mut context), Poll::Pending, "it is closed again");
}
