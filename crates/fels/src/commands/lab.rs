//! `fels lab`: measures.

use crate::message::Failure;
use std::ffi::OsString;

/// Measure a target: profiles and loads of one's own.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    rest: Vec<OsString>,
}

pub fn run(_arguments: &Arguments) -> Result<(), Failure> {
    Err(Failure::new("the lab is not built yet", None))
}
