//! What a request passes on its way down. A layer writes only the verbs it changes.

mod count;
mod delay;
mod fault;
mod follow;
mod layer;
mod limit;
mod passthrough;
mod stack;

pub use count::{Count, Counted};
pub use delay::{Delay, Order, Spindle, Spinning, SpinningDisk, SpinningDiskError};
pub use fault::{Fault, Faults};
pub use follow::{Alike, Followed};
pub use layer::Layer;
pub(crate) use limit::while_wanted;
pub use limit::{Limit, Limited, Limits, OpenLimits};
pub use passthrough::Passthrough;
pub use stack::{Next, Spent, Stack};

#[cfg(test)]
mod tests;
