//! Side by side against other targets.
fn main() {}
