//! TCP congestion control of sockets: which algorithm decides how fast is sent.

use std::fmt;
use std::io;
use std::os::fd::RawFd;

use crate::driver::Driver;

/// Most bytes of a name, without the zero at its end (the kernel's `TCP_CA_NAME_MAX`).
pub const MAX_CONGESTION_CONTROL_NAME: usize = 15;
/// What paces: it sends in time slots of its own making, which costs short and fast links up to half of what they
/// carry, and every sender a timer.
const PACING: &str = "bbr";
/// What is taken instead, the first that the host has and lets us use.
const INSTEAD: [&str; 2] = ["cubic", "reno"];

/// Which algorithm the connections of a portal use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CongestionControl {
    /// The host's, unless that is BBR: it is made for long and lossy paths, not for a SAN. Then CUBIC or Reno, if the host
    /// has them.
    #[default]
    Auto,
    /// The one with this name.
    Named(String),
}

impl CongestionControl {
    /// Sets it for a socket; connections inherit it from their listener. `NotFound`: the host has no such algorithm;
    /// `PermissionDenied`: only root may use it.
    pub(crate) fn apply(&self, driver: &Driver, descriptor: RawFd) -> io::Result<()> {
        match self {
            CongestionControl::Named(name) => driver.set_congestion_control(descriptor, name),
            CongestionControl::Auto => {
                let (has, hosts) =
                    (driver.congestion_control(descriptor)?, driver.default_congestion_control()?);
                let wanted = if hosts == PACING { &INSTEAD[..] } else { &[hosts.as_str()] };
                // It may have been given another one before.
                if has != hosts || hosts == PACING {
                    wanted.iter().find(|name| driver.set_congestion_control(descriptor, name).is_ok());
                }
                Ok(())
            }
        }
    }
}

impl fmt::Display for CongestionControl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CongestionControl::Auto => formatter.write_str("auto"),
            CongestionControl::Named(name) => formatter.write_str(name),
        }
    }
}
