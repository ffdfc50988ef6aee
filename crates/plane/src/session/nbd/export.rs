//! Exports: the volumes that NBD clients may choose.

use std::collections::HashMap;
use std::sync::Arc;

use wire::nbd::{BlockSizes, TransmissionFlags};

use super::handshake::{Directory, Offered};
use crate::limits::NBD_PAYLOAD_BYTES;
use crate::shard::Shard;

/// One export: a volume by its name.
#[derive(Clone, Debug)]
pub struct Export {
    /// Its name.
    pub name: String,
    /// For people; may be empty.
    pub description: String,
    /// The volume's place in [`crate::shard::Shard::volumes`].
    pub volume: usize,
}

/// All exports of a node.
#[derive(Debug, Default)]
pub struct Exports {
    list: Vec<Export>,
    by_name: HashMap<String, usize>,
}

impl Exports {
    /// These exports; names are unique.
    pub fn new(list: Vec<Export>) -> Exports {
        let by_name = list.iter().enumerate().map(|(index, export)| (export.name.clone(), index)).collect();
        Exports { list, by_name }
    }

    /// The exports in order.
    pub fn list(&self) -> &[Export] {
        &self.list
    }

    /// The place of an export. The empty name is that of the only one, where there is just one.
    fn find(&self, name: &str) -> Option<usize> {
        if name.is_empty() && self.list.len() == 1 {
            return Some(0);
        }
        self.by_name.get(name).copied()
    }
}

/// The exports with what this core knows of their volumes.
pub struct View<'a> {
    /// All exports.
    pub exports: Arc<Exports>,
    /// Where their volumes are found.
    pub shard: &'a Shard,
}

impl Directory for View<'_> {
    fn count(&self) -> usize {
        self.exports.list.len()
    }

    fn find(&self, name: &str) -> Option<usize> {
        self.exports.find(name)
    }

    fn get(&self, index: usize) -> Offered<'_> {
        let export = &self.exports.list[index];
        let geometry = self.shard.volume(export.volume).geometry();
        // One file or one memory holds the bytes for all cores, so a flush covers every connection.
        let mut flags = TransmissionFlags::HAS_FLAGS
            | TransmissionFlags::SEND_FLUSH
            | TransmissionFlags::SEND_FUA
            | TransmissionFlags::SEND_CACHE
            | TransmissionFlags::CAN_MULTI_CONN;
        let writes = TransmissionFlags::SEND_WRITE_ZEROES | TransmissionFlags::SEND_FAST_ZERO;
        flags.set(TransmissionFlags::READ_ONLY, geometry.read_only);
        flags.set(writes, !geometry.read_only);
        flags.set(TransmissionFlags::SEND_TRIM, geometry.discard && !geometry.read_only);
        Offered {
            name: &export.name,
            description: &export.description,
            size: geometry.bytes(),
            flags,
            sizes: BlockSizes {
                minimum: geometry.block_size,
                preferred: geometry.physical_block_size.max(geometry.block_size),
                maximum: NBD_PAYLOAD_BYTES as u32,
            },
        }
    }
}
