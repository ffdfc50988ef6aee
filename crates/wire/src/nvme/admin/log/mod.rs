//! Get Log Page: Base 2.1 section 5.1.12.

mod ana;
mod discovery;
mod pages;

pub use ana::{AnaGroup, AnaHeader, AnaState, put_group, read_groups};
pub use discovery::{
    AddressFamily, DiscoveryEntry, DiscoveryHeader, DiscoveryType, EntryFlags, SecureChannel,
    TransportRequirements, TransportType,
};
pub use pages::{
    CommandEffects, CriticalWarning, EFFECTS_LENGTH, ErrorEntry, FirmwareSlots, SmartLog, admin_effects,
    io_effects, put_changed_namespaces, put_effects, read_effects,
};

use super::{Opcode, command};
use crate::nvme::command::{Command, SglDescriptor};
use crate::nvme::layout::codes;

codes! {
    /// LID.
    pub struct LogPage(u8) {
        /// Supported log pages.
        SUPPORTED_LOG_PAGES = 0x00,
        /// Error information.
        ERROR = 0x01,
        /// SMART and health information.
        SMART = 0x02,
        /// Firmware slot information.
        FIRMWARE_SLOT = 0x03,
        /// Changed attached namespaces.
        CHANGED_NAMESPACES = 0x04,
        /// Commands supported and effects.
        COMMAND_EFFECTS = 0x05,
        /// Device self-test.
        DEVICE_SELF_TEST = 0x06,
        /// Telemetry, host initiated.
        TELEMETRY_HOST = 0x07,
        /// Telemetry, controller initiated.
        TELEMETRY_CONTROLLER = 0x08,
        /// Asymmetric namespace access.
        ASYMMETRIC_NAMESPACE_ACCESS = 0x0c,
        /// Persistent events.
        PERSISTENT_EVENT = 0x0d,
        /// Feature identifiers supported and effects.
        FEATURE_EFFECTS = 0x12,
        /// Discovery.
        DISCOVERY = 0x70,
        /// Reservation notification.
        RESERVATION_NOTIFICATION = 0x80,
        /// Sanitize status.
        SANITIZE_STATUS = 0x81,
    }
}

/// Get Log Page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GetLogPage {
    /// NSID of the command.
    pub nsid: u32,
    /// LID.
    pub page: LogPage,
    /// LSP: 7 bits that the page gives a meaning to. ANA: bit 0, groups alone (RGO).
    pub specific: u8,
    /// RAE: an event about this page stays.
    pub retain_event: bool,
    /// NUMD: dwords, 0's based.
    pub numd: u32,
    /// LSI.
    pub specific_identifier: u16,
    /// LPO: bytes to leave out, or an index with OT.
    pub offset: u64,
    /// OT: the offset is an index.
    pub offset_is_index: bool,
    /// CSI.
    pub csi: u8,
    /// UIDX.
    pub uuid_index: u8,
}

impl GetLogPage {
    /// Reads the fields.
    pub const fn of(command: &Command) -> Self {
        Self {
            nsid: command.nsid,
            page: LogPage(command.cdw10 as u8),
            specific: (command.cdw10 >> 8) as u8 & 0x7f,
            retain_event: command.cdw10 >> 15 & 1 != 0,
            numd: command.cdw10 >> 16 | command.cdw11 << 16,
            specific_identifier: (command.cdw11 >> 16) as u16,
            offset: command.cdw12 as u64 | (command.cdw13 as u64) << 32,
            offset_is_index: command.cdw14 >> 23 & 1 != 0,
            csi: (command.cdw14 >> 24) as u8,
            uuid_index: command.cdw14 as u8 & 0x7f,
        }
    }

    /// `length` bytes of a page from `offset`. The length is cut to whole dwords, at least one.
    pub const fn new(page: LogPage, offset: u64, length: u32) -> Self {
        Self {
            nsid: 0,
            page,
            specific: 0,
            retain_event: false,
            numd: (length / 4).saturating_sub(1),
            specific_identifier: 0,
            offset,
            offset_is_index: false,
            csi: 0,
            uuid_index: 0,
        }
    }

    /// Bytes that are wanted: 4 to 2^34.
    pub const fn length(&self) -> u64 {
        (self.numd as u64 + 1) * 4
    }

    /// The command.
    pub fn command(&self, cid: u16) -> Command {
        let length = u32::try_from(self.length()).unwrap_or(u32::MAX);
        Command {
            nsid: self.nsid,
            sgl: SglDescriptor::transport(length),
            cdw10: u32::from(self.page.0)
                | u32::from(self.specific & 0x7f) << 8
                | u32::from(self.retain_event) << 15
                | self.numd << 16,
            cdw11: self.numd >> 16 | u32::from(self.specific_identifier) << 16,
            cdw12: self.offset as u32,
            cdw13: (self.offset >> 32) as u32,
            cdw14: u32::from(self.uuid_index & 0x7f)
                | u32::from(self.offset_is_index) << 23
                | u32::from(self.csi) << 24,
            ..command(Opcode::GET_LOG_PAGE, cid)
        }
    }
}
