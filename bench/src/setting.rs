//! Settings of the machine: changed only when asked for, and set back.

use std::fs;
use std::path::PathBuf;

use crate::error::Error;

const CONGESTION: &str = "net.ipv4.tcp_congestion_control";
const AVAILABLE: &str = "net.ipv4.tcp_available_congestion_control";
const PAGE_LISTS: &str = "vm.percpu_pagelist_high_fraction";

/// A setting that holds until this value goes away.
#[derive(Debug)]
pub struct Setting {
    name: &'static str,
    before: String,
}

/// Where the kernel has the setting that `sysctl` knows by `name`.
fn path(name: &str) -> PathBuf {
    PathBuf::from("/proc/sys").join(name.replace('.', "/"))
}

fn read(name: &str) -> Result<String, Error> {
    let text = fs::read_to_string(path(name)).map_err(Error::io(format!("cannot read {name}")))?;
    Ok(text.trim().to_owned())
}

/// What a setting is; none where the kernel does not have it.
fn known(name: &str) -> Option<String> {
    read(name).ok()
}

/// Refuses what the kernel does not have.
fn check(name: &str, available: &str) -> Result<(), Error> {
    if available.split_whitespace().any(|known| known == name) {
        return Ok(());
    }
    Err(Error::Options(format!("this kernel has no congestion control '{name}', but {available}")))
}

/// TCP congestion control of new connections.
pub fn congestion() -> Option<String> {
    known(CONGESTION)
}

/// The part of a zone's memory that the kernel keeps at most in a core's own lists of free pages, as a divisor; 0 lets it
/// choose.
pub fn page_lists() -> Option<String> {
    known(PAGE_LISTS)
}

impl Setting {
    /// TCP congestion control of connections that are made from now on.
    pub fn congestion(name: &str) -> Result<Self, Error> {
        check(name, &read(AVAILABLE)?)?;
        Self::set(CONGESTION, name)
    }

    /// How long a core's own lists of free pages become, see [`page_lists`].
    pub fn page_lists(fraction: u32) -> Result<Self, Error> {
        Self::set(PAGE_LISTS, &fraction.to_string())
    }

    fn set(name: &'static str, value: &str) -> Result<Self, Error> {
        let before = read(name)?;
        fs::write(path(name), value)
            .map_err(Error::io(format!("cannot set {name} to {value}, which only root may")))?;
        eprintln!("set {name} from {before} to {value} for this run");
        Ok(Self { name, before })
    }
}

impl Drop for Setting {
    fn drop(&mut self) {
        let Self { name, before } = self;
        if let Err(error) = fs::write(path(name), &*before) {
            eprintln!("warning: cannot set it back: {error}; hint: sysctl -w {name}={before}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_kernel_has_is_taken() {
        assert!(check("cubic", "reno bbr cubic").is_ok());
        let error = check("cub", "reno bbr cubic").unwrap_err().to_string();
        assert!(error.contains("reno bbr cubic"), "{error}");
    }

    #[test]
    fn a_setting_is_where_its_name_says() {
        assert_eq!(path(PAGE_LISTS), PathBuf::from("/proc/sys/vm/percpu_pagelist_high_fraction"));
        assert!(congestion().is_some_and(|name| !name.is_empty() && !name.ends_with('\n')));
    }
}
