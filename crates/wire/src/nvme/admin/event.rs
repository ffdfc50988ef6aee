//! What an Asynchronous Event Request ends with: Base 2.1 section 5.1.2.1.

use super::log::LogPage;
use crate::nvme::layout::codes;

codes! {
    /// AET: bits 2:0 of dword 0.
    pub struct EventType(u8) {
        /// Error status.
        ERROR = 0,
        /// SMART and health.
        SMART = 1,
        /// Notice.
        NOTICE = 2,
        /// Immediate.
        IMMEDIATE = 3,
        /// One-shot.
        ONE_SHOT = 4,
        /// I/O command specific.
        IO_COMMAND_SPECIFIC = 6,
        /// Vendor specific.
        VENDOR_SPECIFIC = 7,
    }
}

/// Dword 0 of the completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// AET.
    pub kind: EventType,
    /// AEI: depends on the type.
    pub information: u8,
    /// LID: reading this log page clears the event.
    pub log_page: LogPage,
}

impl Event {
    /// Notice: namespaces have changed.
    pub const NAMESPACE_ATTRIBUTE_CHANGED: Self =
        Self { kind: EventType::NOTICE, information: 0x00, log_page: LogPage::CHANGED_NAMESPACES };
    /// Notice: an ANA state has changed.
    pub const ANA_CHANGE: Self =
        Self { kind: EventType::NOTICE, information: 0x03, log_page: LogPage::ASYMMETRIC_NAMESPACE_ACCESS };
    /// Notice: the discovery log page has changed.
    pub const DISCOVERY_LOG_PAGE_CHANGE: Self =
        Self { kind: EventType::NOTICE, information: 0xf0, log_page: LogPage::DISCOVERY };
    /// SMART: the reliability of the subsystem has suffered.
    pub const SUBSYSTEM_RELIABILITY: Self =
        Self { kind: EventType::SMART, information: 0x00, log_page: LogPage::SMART };
    /// SMART: a temperature is beyond its threshold.
    pub const TEMPERATURE_THRESHOLD: Self =
        Self { kind: EventType::SMART, information: 0x01, log_page: LogPage::SMART };
    /// Error: a persistent internal error.
    pub const PERSISTENT_INTERNAL_ERROR: Self =
        Self { kind: EventType::ERROR, information: 0x03, log_page: LogPage::ERROR };
    /// Error: a transient internal error.
    pub const TRANSIENT_INTERNAL_ERROR: Self =
        Self { kind: EventType::ERROR, information: 0x04, log_page: LogPage::ERROR };

    /// Dword 0.
    pub const fn result(self) -> u64 {
        (self.kind.0 & 7) as u64 | (self.information as u64) << 8 | (self.log_page.0 as u64) << 16
    }

    /// From dword 0.
    pub const fn from_result(result: u64) -> Self {
        Self {
            kind: EventType(result as u8 & 7),
            information: (result >> 8) as u8,
            log_page: LogPage((result >> 16) as u8),
        }
    }
}
