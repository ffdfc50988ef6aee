//! Pure codecs: no I/O, no clock, no allocation on the request path.

pub mod iscsi;
pub mod nbd;
pub mod nvme;
pub mod scsi;
