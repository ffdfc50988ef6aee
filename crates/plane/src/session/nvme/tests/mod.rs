//! The target in a simulated world, asked by a host that does exactly what it is told.

mod bed;
mod beginnings;
mod ends;
mod host;
mod transfers;
