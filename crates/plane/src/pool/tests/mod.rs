//! Pools on simulated disks: histories of writes with power cuts and damage, drawn from seeds and held against a model.

mod bed;
mod causes;
mod damage;
mod history;
mod holes;
