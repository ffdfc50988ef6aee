//! Frames to requests, and completions to frames: what initiators speak.

pub mod iscsi;
pub mod nbd;
pub mod notice;
pub mod nvme;
pub mod scsi;
pub mod traffic;
