//! Pools in the seeded world: members that fail and lie under several lanes of requests, held against a model of what each
//! sector may hold and an atlas of what is damaged.

mod accidents;
mod atlas;
mod further;
mod lane;
mod machine;
mod model;
mod operator;
mod plan;
mod play;
mod roster;

pub use play::{
    beyond_redundancy, on_cores_that_starve, that_are_extended, with_full_journals, within_redundancy,
};
