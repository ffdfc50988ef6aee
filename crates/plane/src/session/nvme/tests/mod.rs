//! The target in a simulated world, asked by a host that does exactly what it is told.

mod bed;
mod beginnings;
mod bounds;
mod changes;
mod commands;
mod discovery;
mod ends;
mod host;
mod pdus;
mod refusals;
mod resets;
mod told;
mod traffic;
mod transfers;
