//! A node that is administered by many, and by who sends anything.

mod crowd;
mod schemathesis;
