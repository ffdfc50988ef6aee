//! Frames to requests: what initiators speak.

pub mod iscsi;
