//! Frames to requests, and completions to frames: what initiators speak.

pub mod iscsi;
pub mod nbd;
pub mod nvme;
pub mod scsi;
