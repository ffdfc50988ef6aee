//! Pools on simulated disks: histories of writes with power cuts and damage, drawn from seeds and held against a model.

mod bed;
mod causes;
mod counters;
mod damage;
mod extend;
mod gather;
mod grow;
mod history;
mod holes;
mod spares;
mod volumes;
mod waiting;

/// Bytes that are other ones at every place.
fn pattern(length: usize, salt: u8) -> Vec<u8> {
    (0..length).map(|index| (index / 7) as u8 ^ (index as u8).wrapping_mul(31) ^ salt).collect()
}
