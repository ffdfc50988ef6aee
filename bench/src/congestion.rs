//! TCP congestion control of the machine: changed only when asked for, and set back.

use std::fs;

use crate::error::Error;

const SETTING: &str = "/proc/sys/net/ipv4/tcp_congestion_control";
const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";

/// A setting that holds until this value goes away.
#[derive(Debug)]
pub struct Congestion {
    before: String,
}

/// Refuses what the kernel does not have.
fn check(name: &str, available: &str) -> Result<(), Error> {
    if available.split_whitespace().any(|known| known == name) {
        return Ok(());
    }
    Err(Error::Options(format!("this kernel has no congestion control '{name}', but {}", available.trim())))
}

impl Congestion {
    /// Sets it for connections that are made from now on.
    pub fn set(name: &str) -> Result<Self, Error> {
        let read = |path: &str| fs::read_to_string(path).map_err(Error::io(format!("cannot read {path}")));
        check(name, &read(AVAILABLE)?)?;
        let before = read(SETTING)?.trim().to_owned();
        fs::write(SETTING, name)
            .map_err(Error::io("cannot set net.ipv4.tcp_congestion_control, which only root may"))?;
        eprintln!("set net.ipv4.tcp_congestion_control from {before} to {name} for this run");
        Ok(Self { before })
    }
}

impl Drop for Congestion {
    fn drop(&mut self) {
        if let Err(error) = fs::write(SETTING, &self.before) {
            eprintln!(
                "warning: cannot set it back: {error}; hint: sysctl -w net.ipv4.tcp_congestion_control={}",
                self.before
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_kernel_has_is_taken() {
        assert!(check("cubic", "reno bbr cubic\n").is_ok());
        let error = check("cub", "reno bbr cubic\n").unwrap_err().to_string();
        assert!(error.contains("reno bbr cubic"), "{error}");
    }
}
