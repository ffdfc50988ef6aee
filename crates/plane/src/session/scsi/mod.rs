//! The SCSI disk (SPC-5, SBC-4, SAM-5): CDBs to requests of a volume, and what they end with back to status and
//! sense data. Knows nothing of a transport: a session calls [`LogicalUnit::prepare`] when a command arrives, gets
//! its data-out, and awaits [`LogicalUnit::execute`].
//!
//! [`Unit`] is what all cores share of a logical unit, [`LogicalUnit`] one core's view of it, [`Nexus`] one
//! session's.

mod absent;
mod attention;
mod compare;
mod control;
mod describe;
mod errors;
mod logical_unit;
mod prepare;
mod provisioning;
mod response;
mod transfer;
mod unit;

#[cfg(test)]
mod tests;

pub use attention::UnitAttention;
pub use logical_unit::LogicalUnit;
pub use prepare::Prepared;
pub use response::Response;
pub use unit::{Nexus, TargetPort, Unit};
