//! Properties: Property Get and Set of Base 2.1 sections 6.5 and 6.6, and the registers of section 3.1.4.

use super::{CommandType, command};
use crate::nvme::command::Command;
use crate::nvme::layout::{bit_groups, codes};

codes! {
    /// OFST: which property.
    pub struct Property(u32) {
        /// CAP: controller capabilities, 8 bytes.
        CAP = 0x00,
        /// VS: version, 4 bytes.
        VS = 0x08,
        /// CC: controller configuration, 4 bytes.
        CC = 0x14,
        /// CSTS: controller status, 4 bytes.
        CSTS = 0x1c,
        /// NSSR: NVM subsystem reset, 4 bytes.
        NSSR = 0x20,
        /// NSSD: NVM subsystem shutdown, 4 bytes.
        NSSD = 0x64,
        /// CRTO: controller ready timeouts, 4 bytes.
        CRTO = 0x68,
    }
}

/// What is written to NSSR for a reset of the subsystem: "NVMe".
pub const NSSR_RESET: u32 = 0x4e56_4d65;

codes! {
    /// ATTRIB bits 2:0: bytes of the property.
    pub struct PropertySize(u8) {
        /// 4 bytes.
        FOUR = 0,
        /// 8 bytes.
        EIGHT = 1,
    }
}

/// Property Get, section 6.5. The completion's result has the value, in 8 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PropertyGet {
    /// ATTRIB.
    pub size: PropertySize,
    /// OFST.
    pub offset: Property,
}

impl PropertyGet {
    /// Reads the fields of a command whose type is PROPERTY_GET.
    pub const fn of(command: &Command) -> Self {
        Self { size: PropertySize(command.cdw10 as u8 & 7), offset: Property(command.cdw11) }
    }

    /// The command.
    pub fn command(&self, cid: u16) -> Command {
        Command {
            cdw10: u32::from(self.size.0),
            cdw11: self.offset.0,
            ..command(CommandType::PROPERTY_GET, cid)
        }
    }
}

/// Property Set, section 6.6.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PropertySet {
    /// ATTRIB.
    pub size: PropertySize,
    /// OFST.
    pub offset: Property,
    /// VALUE.
    pub value: u64,
}

impl PropertySet {
    /// Reads the fields of a command whose type is PROPERTY_SET.
    pub const fn of(command: &Command) -> Self {
        Self {
            size: PropertySize(command.cdw10 as u8 & 7),
            offset: Property(command.cdw11),
            value: command.cdw12 as u64 | (command.cdw13 as u64) << 32,
        }
    }

    /// The command.
    pub fn command(&self, cid: u16) -> Command {
        Command {
            cdw10: u32::from(self.size.0),
            cdw11: self.offset.0,
            cdw12: self.value as u32,
            cdw13: (self.value >> 32) as u32,
            ..command(CommandType::PROPERTY_SET, cid)
        }
    }
}

bit_groups! {
    /// CAP, section 3.1.4.1.
    pub struct Capabilities(u64) {
        /// MQES: entries of a queue, 0's based.
        mqes, with_mqes: 0, 16;
        /// CQR: queues are contiguous; 1 over fabrics.
        cqr, with_cqr: 16, 1;
        /// AMS: arbitration mechanisms.
        ams, with_ams: 17, 2;
        /// TO: the longest time until CSTS.RDY follows CC.EN, in units of 500 ms.
        to, with_to: 24, 8;
        /// DSTRD: doorbell stride; 0 over fabrics.
        dstrd, with_dstrd: 32, 4;
        /// NSSRS: NVM subsystem reset is supported.
        nssrs, with_nssrs: 36, 1;
        /// CSS: command sets; bit 0 NVM, bit 6 one or more I/O command sets, bit 7 none.
        css, with_css: 37, 8;
        /// BPS: boot partitions.
        bps, with_bps: 45, 1;
        /// CPS: power scope.
        cps, with_cps: 46, 2;
        /// MPSMIN: the smallest memory page is 2^(12 + this).
        mpsmin, with_mpsmin: 48, 4;
        /// MPSMAX: the largest memory page is 2^(12 + this).
        mpsmax, with_mpsmax: 52, 4;
        /// CRMS: ready modes; bit 0 with media, bit 1 independent of media.
        crms, with_crms: 59, 2;
        /// NSSES: NVM subsystem shutdown enhancements.
        nsses, with_nsses: 61, 1;
    }
}

bit_groups! {
    /// CC, section 3.1.4.5.
    pub struct ControllerConfiguration(u32) {
        /// EN: enable.
        en, with_en: 0, 1;
        /// CSS: 0 the NVM command set, 6 all supported I/O command sets, 7 admin alone.
        css, with_css: 4, 3;
        /// MPS: the memory page is 2^(12 + this).
        mps, with_mps: 7, 4;
        /// AMS: arbitration.
        ams, with_ams: 11, 3;
        /// SHN: shutdown notification, see [`Shutdown`].
        shn, with_shn: 14, 2;
        /// IOSQES: an I/O submission queue entry has 2^this bytes: 6.
        iosqes, with_iosqes: 16, 4;
        /// IOCQES: an I/O completion queue entry has 2^this bytes: 4.
        iocqes, with_iocqes: 20, 4;
        /// CRIME: ready independent of media.
        crime, with_crime: 24, 1;
    }
}

impl ControllerConfiguration {
    /// What a host writes to enable a controller for the NVM command set.
    pub const ENABLED: Self = Self(1 | 6 << 16 | 4 << 20);

    /// SHN.
    pub const fn shutdown(self) -> Shutdown {
        match self.shn() {
            0 => Shutdown::None,
            1 => Shutdown::Normal,
            2 => Shutdown::Abrupt,
            _ => Shutdown::Reserved,
        }
    }
}

/// SHN of CC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Shutdown {
    /// No notification.
    None = 0,
    /// Normal shutdown.
    Normal = 1,
    /// Abrupt shutdown.
    Abrupt = 2,
    /// Reserved.
    Reserved = 3,
}

bit_groups! {
    /// CSTS, section 3.1.4.6.
    pub struct ControllerStatus(u32) {
        /// RDY: ready.
        rdy, with_rdy: 0, 1;
        /// CFS: controller fatal status.
        cfs, with_cfs: 1, 1;
        /// SHST: shutdown status, see [`ShutdownStatus`].
        shst, with_shst: 2, 2;
        /// NSSRO: an NVM subsystem reset occurred.
        nssro, with_nssro: 4, 1;
        /// PP: processing paused.
        pp, with_pp: 5, 1;
        /// ST: shutdown type.
        st, with_st: 6, 1;
    }
}

/// SHST of CSTS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ShutdownStatus {
    /// Normal operation.
    Normal = 0,
    /// Shutdown is under way.
    Occurring = 1,
    /// Shutdown is complete.
    Complete = 2,
}

impl ControllerStatus {
    /// With SHST.
    pub const fn with_shutdown(self, status: ShutdownStatus) -> Self {
        self.with_shst(status as u32)
    }
}
