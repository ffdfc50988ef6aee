//! `fels lab profiles`: what there is.

use crate::message::{Failure, print};
use clap::Args;
use lab::profile::PROFILES;
use std::fmt::Write as _;

/// List the profiles and their tests
#[derive(Debug, Args)]
pub struct Profiles {}

pub fn run() -> Result<(), Failure> {
    print(&profiles())
}

fn profiles() -> String {
    let mut text = String::new();
    for profile in PROFILES {
        // Writing to a String does not fail.
        let _ = writeln!(text, "{}: {}; {} s a test", profile.name, profile.about, profile.time_s);
        for test in profile.tests {
            let _ = writeln!(
                text,
                "  {:26} {:>6} bytes  {:>3} % read  {:>3} % random  {:>2} jobs x {:>2} in flight",
                test.name, test.block_size, test.read_percent, test.random_percent, test.jobs, test.depth
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_are_listed_with_their_tests() {
        let text = profiles();
        assert!(text.contains("vmware: ") && text.contains("RealLife-60%Rand-65%Read"), "{text}");
    }
}
