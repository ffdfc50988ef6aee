//! Set Features and Get Features: Base 2.1 sections 5.1.25 and 5.1.11.

use super::{Opcode, command};
use crate::nvme::command::{Command, SglDescriptor};
use crate::nvme::layout::{bit_groups, codes};

codes! {
    /// FID.
    pub struct Feature(u8) {
        /// Arbitration.
        ARBITRATION = 0x01,
        /// Power management.
        POWER_MANAGEMENT = 0x02,
        /// LBA range type.
        LBA_RANGE_TYPE = 0x03,
        /// Temperature threshold.
        TEMPERATURE_THRESHOLD = 0x04,
        /// Error recovery.
        ERROR_RECOVERY = 0x05,
        /// Volatile write cache.
        VOLATILE_WRITE_CACHE = 0x06,
        /// Number of queues.
        NUMBER_OF_QUEUES = 0x07,
        /// Interrupt coalescing; not over fabrics.
        INTERRUPT_COALESCING = 0x08,
        /// Interrupt vector configuration; not over fabrics.
        INTERRUPT_VECTOR_CONFIGURATION = 0x09,
        /// Write atomicity normal.
        WRITE_ATOMICITY_NORMAL = 0x0a,
        /// Asynchronous event configuration.
        ASYNCHRONOUS_EVENT_CONFIGURATION = 0x0b,
        /// Autonomous power state transition.
        AUTONOMOUS_POWER_STATE_TRANSITION = 0x0c,
        /// Host memory buffer.
        HOST_MEMORY_BUFFER = 0x0d,
        /// Timestamp.
        TIMESTAMP = 0x0e,
        /// Keep alive timer.
        KEEP_ALIVE_TIMER = 0x0f,
        /// Host controlled thermal management.
        HOST_CONTROLLED_THERMAL_MANAGEMENT = 0x10,
        /// Host behavior support.
        HOST_BEHAVIOR_SUPPORT = 0x16,
        /// I/O command set profile.
        IO_COMMAND_SET_PROFILE = 0x19,
        /// Software progress marker.
        SOFTWARE_PROGRESS_MARKER = 0x80,
        /// Host identifier.
        HOST_IDENTIFIER = 0x81,
        /// Reservation notification mask.
        RESERVATION_NOTIFICATION_MASK = 0x82,
        /// Reservation persistence.
        RESERVATION_PERSISTENCE = 0x83,
        /// Namespace write protection configuration.
        NAMESPACE_WRITE_PROTECTION = 0x84,
    }
}

codes! {
    /// SEL of Get Features.
    pub struct Select(u8) {
        /// The current value.
        CURRENT = 0,
        /// The default value.
        DEFAULT = 1,
        /// The saved value.
        SAVED = 2,
        /// What can be done with the feature, see [`SupportedCapabilities`].
        SUPPORTED_CAPABILITIES = 3,
    }
}

/// Set Features.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SetFeatures {
    /// NSID of the command.
    pub nsid: u32,
    /// FID.
    pub feature: Feature,
    /// SV: save.
    pub save: bool,
    /// Dword 11: the value.
    pub value: u32,
    /// Dwords 12 to 15, for the few features that have them.
    pub more: [u32; 4],
}

impl SetFeatures {
    /// Reads the fields.
    pub const fn of(command: &Command) -> Self {
        Self {
            nsid: command.nsid,
            feature: Feature(command.cdw10 as u8),
            save: command.cdw10 >> 31 != 0,
            value: command.cdw11,
            more: [command.cdw12, command.cdw13, command.cdw14, command.cdw15],
        }
    }

    /// The command.
    pub fn command(&self, cid: u16, sgl: SglDescriptor) -> Command {
        let [cdw12, cdw13, cdw14, cdw15] = self.more;
        Command {
            nsid: self.nsid,
            sgl,
            cdw10: u32::from(self.feature.0) | u32::from(self.save) << 31,
            cdw11: self.value,
            cdw12,
            cdw13,
            cdw14,
            cdw15,
            ..command(Opcode::SET_FEATURES, cid)
        }
    }
}

/// Get Features. Dword 0 of the completion is the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GetFeatures {
    /// NSID of the command.
    pub nsid: u32,
    /// FID.
    pub feature: Feature,
    /// SEL.
    pub select: Select,
    /// Dword 11: what the feature wants to know.
    pub value: u32,
}

impl GetFeatures {
    /// Reads the fields.
    pub const fn of(command: &Command) -> Self {
        Self {
            nsid: command.nsid,
            feature: Feature(command.cdw10 as u8),
            select: Select((command.cdw10 >> 8) as u8 & 7),
            value: command.cdw11,
        }
    }

    /// The command.
    pub fn command(&self, cid: u16, sgl: SglDescriptor) -> Command {
        Command {
            nsid: self.nsid,
            sgl,
            cdw10: u32::from(self.feature.0) | u32::from(self.select.0 & 7) << 8,
            cdw11: self.value,
            ..command(Opcode::GET_FEATURES, cid)
        }
    }
}

bitflags::bitflags! {
    /// Dword 0 of a Get Features with SUPPORTED_CAPABILITIES.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct SupportedCapabilities: u32 {
        /// Can be saved.
        const SAVEABLE = 1;
        /// Is one of a namespace.
        const NAMESPACE_SPECIFIC = 1 << 1;
        /// Can be changed.
        const CHANGEABLE = 1 << 2;
    }
}

bit_groups! {
    /// Number of Queues, section 5.1.25.2.1: of the command what is asked for, of the completion what is there.
    pub struct NumberOfQueues(u32) {
        /// NSQR or NSQA: I/O submission queues, 0's based. FFFFh is not allowed.
        submission, with_submission: 0, 16;
        /// NCQR or NCQA: I/O completion queues, 0's based. FFFFh is not allowed.
        completion, with_completion: 16, 16;
    }
}

bit_groups! {
    /// Temperature Threshold, section 5.1.25.1.3.
    pub struct TemperatureThreshold(u32) {
        /// TMPTH in kelvin.
        kelvin, with_kelvin: 0, 16;
        /// TMPSEL: which sensor; 0 composite, 15 all.
        sensor, with_sensor: 16, 4;
        /// THSEL: 0 over, 1 under.
        kind, with_kind: 20, 2;
        /// TMPTHH: hysteresis.
        hysteresis, with_hysteresis: 22, 3;
    }
}

bit_groups! {
    /// Volatile Write Cache, section 5.1.25.1.4.
    pub struct VolatileWriteCache(u32) {
        /// WCE: enabled.
        enabled, with_enabled: 0, 1;
    }
}

bit_groups! {
    /// Power Management, section 5.1.25.1.2.
    pub struct PowerManagement(u32) {
        /// PS: power state.
        state, with_state: 0, 5;
        /// WH: workload hint.
        hint, with_hint: 5, 3;
    }
}

bit_groups! {
    /// Error Recovery of the NVM command set, NVM 1.1 section 4.1.3.2.
    pub struct ErrorRecovery(u32) {
        /// TLER: time limited error recovery, in units of 100 ms.
        tler, with_tler: 0, 16;
        /// DULBE: reading deallocated blocks is an error.
        dulbe, with_dulbe: 16, 1;
    }
}

bit_groups! {
    /// Arbitration, section 5.1.25.1.1.
    pub struct Arbitration(u32) {
        /// AB: burst, 2^n; 7 is no limit.
        burst, with_burst: 0, 3;
        /// LPW.
        low_weight, with_low_weight: 8, 8;
        /// MPW.
        medium_weight, with_medium_weight: 16, 8;
        /// HPW.
        high_weight, with_high_weight: 24, 8;
    }
}

bit_groups! {
    /// Write Atomicity Normal, NVM 1.1 section 4.1.3.5.
    pub struct WriteAtomicity(u32) {
        /// DN: AWUN need not be honoured.
        disable_normal, with_disable_normal: 0, 1;
    }
}

bitflags::bitflags! {
    /// Asynchronous Event Configuration, section 5.1.25.1.5; and OAES of Identify Controller (its bits from 8 on).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct EventConfiguration: u32 {
        /// SMART: spare below threshold.
        const SMART_SPARE = 1;
        /// SMART: temperature threshold.
        const SMART_TEMPERATURE = 1 << 1;
        /// SMART: reliability degraded.
        const SMART_RELIABILITY = 1 << 2;
        /// SMART: read only.
        const SMART_READ_ONLY = 1 << 3;
        /// SMART: volatile memory backup failed.
        const SMART_BACKUP = 1 << 4;
        /// Attached namespace attribute notices.
        const NAMESPACE_ATTRIBUTE = 1 << 8;
        /// Firmware activation notices.
        const FIRMWARE_ACTIVATION = 1 << 9;
        /// Telemetry log notices.
        const TELEMETRY_LOG = 1 << 10;
        /// ANA change notices.
        const ANA_CHANGE = 1 << 11;
        /// Predictable latency event aggregate log change notices.
        const PREDICTABLE_LATENCY = 1 << 12;
        /// LBA status information notices.
        const LBA_STATUS = 1 << 13;
        /// Endurance group event aggregate log page change notices.
        const ENDURANCE_GROUP = 1 << 14;
        /// Normal NVM subsystem shutdown notices.
        const SUBSYSTEM_SHUTDOWN = 1 << 15;
        /// Discovery log page change notices.
        const DISCOVERY_LOG_PAGE = 1 << 31;
    }
}

/// Dword 11 of Host Identifier: EXHID, the identifier has 16 bytes; over fabrics always.
pub const EXTENDED_HOST_IDENTIFIER: u32 = 1;
