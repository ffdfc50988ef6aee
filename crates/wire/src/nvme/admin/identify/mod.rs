//! Identify: Base 2.1 section 5.1.13, NVM Command Set 1.1 section 4.1.5.

mod controller;
mod lists;
mod namespace;

pub use controller::{
    AnaCapabilities, ControllerAttributes, ControllerType, FabricsCapabilities, FusedOperations,
    IdentifyController, LogPageAttributes, MultiPath, NvmController, OptionalAdminCommands, OptionalCommands,
    PowerState, SglSupport, VolatileWriteCacheAttributes,
};
pub use lists::{
    Descriptor, Descriptors, NAMESPACES_IN_LIST, put_controller_list, put_descriptors, put_io_command_sets,
    put_namespace_list, read_namespace_list,
};
pub use namespace::{
    DeallocateFeatures, IdentifyNamespace, IndependentNamespace, LbaFormat, LbaFormats, NamespaceFeatures,
    NamespaceStatus, NvmNamespace,
};

use super::{Opcode, command};
use crate::nvme::command::{Command, SglDescriptor};
use crate::nvme::layout::codes;

/// Bytes of every Identify data structure.
pub const IDENTIFY_LENGTH: usize = 4096;

codes! {
    /// CNS: which data structure.
    pub struct Cns(u8) {
        /// Identify Namespace of the NVM command set.
        NAMESPACE = 0x00,
        /// Identify Controller.
        CONTROLLER = 0x01,
        /// Active namespace identifiers.
        ACTIVE_NAMESPACES = 0x02,
        /// Namespace identification descriptors.
        NAMESPACE_DESCRIPTORS = 0x03,
        /// NVM set list.
        NVM_SET_LIST = 0x04,
        /// I/O command set specific Identify Namespace.
        COMMAND_SET_NAMESPACE = 0x05,
        /// I/O command set specific Identify Controller.
        COMMAND_SET_CONTROLLER = 0x06,
        /// Active namespace identifiers of an I/O command set.
        COMMAND_SET_ACTIVE_NAMESPACES = 0x07,
        /// I/O command set independent Identify Namespace.
        INDEPENDENT_NAMESPACE = 0x08,
        /// Identify Namespace for a format index.
        NAMESPACE_FORMAT = 0x09,
        /// I/O command set specific Identify Namespace for a format index.
        COMMAND_SET_NAMESPACE_FORMAT = 0x0a,
        /// Allocated namespace identifiers.
        ALLOCATED_NAMESPACES = 0x10,
        /// Identify Namespace of an allocated namespace.
        ALLOCATED_NAMESPACE = 0x11,
        /// Controllers that a namespace is attached to.
        NAMESPACE_CONTROLLERS = 0x12,
        /// All controllers.
        CONTROLLERS = 0x13,
        /// Primary controller capabilities.
        PRIMARY_CONTROLLER = 0x14,
        /// Secondary controller list.
        SECONDARY_CONTROLLERS = 0x15,
        /// Namespace granularity list.
        NAMESPACE_GRANULARITY = 0x16,
        /// UUID list.
        UUID_LIST = 0x17,
        /// Domain list.
        DOMAIN_LIST = 0x18,
        /// Endurance group list.
        ENDURANCE_GROUP_LIST = 0x19,
        /// Allocated namespace identifiers of an I/O command set.
        COMMAND_SET_ALLOCATED_NAMESPACES = 0x1a,
        /// I/O command set specific Identify Namespace of an allocated namespace.
        COMMAND_SET_ALLOCATED_NAMESPACE = 0x1b,
        /// I/O command sets.
        IO_COMMAND_SETS = 0x1c,
    }
}

codes! {
    /// CSI: which I/O command set.
    pub struct Csi(u8) {
        /// NVM.
        NVM = 0x00,
        /// Key value.
        KEY_VALUE = 0x01,
        /// Zoned namespaces.
        ZONED = 0x02,
    }
}

/// The Identify command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Identify {
    /// NSID of the command.
    pub nsid: u32,
    /// CNS.
    pub cns: Cns,
    /// CNTID.
    pub cntid: u16,
    /// CNSSID: CNS specific identifier.
    pub cns_specific: u16,
    /// CSI.
    pub csi: Csi,
    /// UIDX.
    pub uuid_index: u8,
}

impl Identify {
    /// Reads the fields.
    pub const fn of(command: &Command) -> Self {
        Self {
            nsid: command.nsid,
            cns: Cns(command.cdw10 as u8),
            cntid: (command.cdw10 >> 16) as u16,
            cns_specific: command.cdw11 as u16,
            csi: Csi((command.cdw11 >> 24) as u8),
            uuid_index: command.cdw14 as u8 & 0x7f,
        }
    }

    /// The command; its data has 4096 bytes.
    pub fn command(&self, cid: u16) -> Command {
        Command {
            nsid: self.nsid,
            sgl: SglDescriptor::transport(IDENTIFY_LENGTH as u32),
            cdw10: u32::from(self.cns.0) | u32::from(self.cntid) << 16,
            cdw11: u32::from(self.cns_specific) | u32::from(self.csi.0) << 24,
            cdw14: u32::from(self.uuid_index & 0x7f),
            ..command(Opcode::IDENTIFY, cid)
        }
    }
}
