//! One file a command: its flags and what it does.

mod announcement;
pub mod check;
pub mod completions;
pub mod lab;
mod limits;
pub mod pool;
pub mod serve;
