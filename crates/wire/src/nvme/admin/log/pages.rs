//! Log pages of every controller: Base 2.1 sections 5.1.12.1.2 to 5.1.12.1.6.

use crate::nvme::layout::{Field, flag_field, structure};
use crate::nvme::status::Status;
use crate::nvme::text::Text;

structure! {
    /// An entry of the error information page.
    pub struct ErrorEntry: 64 {
        /// Counts errors; 0 is an entry that is not in use.
        error_count: u64 = 0,
        /// SQID.
        sqid: u16 = 8,
        /// CID.
        cid: u16 = 10,
        /// Status, with the phase tag's bit zero.
        status: Status = 12,
        /// Parameter error location: byte in bits 7:0, bit in bits 10:8; FFFFh for none.
        parameter_error_location: u16 = 14,
        /// The first block at fault.
        lba: u64 = 16,
        /// NSID.
        nsid: u32 = 24,
        /// Whether vendor specific information is there.
        vendor: u8 = 28,
        /// TRTYPE.
        trtype: u8 = 29,
        /// CSI.
        csi: u8 = 30,
        /// OPC.
        opcode: u8 = 31,
        /// Command specific information.
        command_specific: u64 = 32,
        /// Transport specific information.
        transport_specific: u16 = 40,
        /// Log page version: 1 means that CSI and OPC are there.
        version: u8 = 63,
    }
}

bitflags::bitflags! {
    /// Critical Warning.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct CriticalWarning: u8 {
        /// Spare below threshold.
        const SPARE = 1;
        /// Temperature beyond a threshold.
        const TEMPERATURE = 1 << 1;
        /// Reliability degraded.
        const RELIABILITY = 1 << 2;
        /// All media read only.
        const READ_ONLY = 1 << 3;
        /// The volatile memory backup failed.
        const BACKUP = 1 << 4;
    }
}
flag_field!(CriticalWarning);

structure! {
    /// SMART and health information.
    pub struct SmartLog: 512 {
        /// What is wrong.
        critical_warning: CriticalWarning = 0,
        /// Composite temperature in kelvin.
        temperature: u16 = 1,
        /// Available spare in percent.
        available_spare: u8 = 3,
        /// Threshold of it in percent.
        available_spare_threshold: u8 = 4,
        /// Percentage used.
        percentage_used: u8 = 5,
        /// Thousands of 512 bytes read.
        data_units_read: u128 = 32,
        /// Thousands of 512 bytes written.
        data_units_written: u128 = 48,
        /// Read and Compare commands.
        host_read_commands: u128 = 64,
        /// Write commands.
        host_write_commands: u128 = 80,
        /// In minutes.
        controller_busy_time: u128 = 96,
        /// Power cycles.
        power_cycles: u128 = 112,
        /// Power on hours.
        power_on_hours: u128 = 128,
        /// Unsafe shutdowns.
        unsafe_shutdowns: u128 = 144,
        /// Media and data integrity errors.
        media_errors: u128 = 160,
        /// Entries that the error information page had over time.
        error_log_entries: u128 = 176,
    }
}

structure! {
    /// Firmware slot information, with the one slot that a program has.
    pub struct FirmwareSlots: 512 {
        /// AFI: the active slot in bits 2:0.
        afi: u8 = 0,
        /// FRS1: revision in slot 1.
        frs1: Text<8> = 8,
    }
}

/// The page of changed namespaces: 1024 identifiers in rising order. If there are more, the first is FFFFFFFFh and
/// the rest is zero.
pub fn put_changed_namespaces(bytes: &mut [u8; 4096], nsids: impl IntoIterator<Item = u32>) {
    *bytes = [0; 4096];
    for (at, nsid) in nsids.into_iter().enumerate() {
        if at >= 1024 {
            *bytes = [0; 4096];
            crate::nvme::NSID_ALL.put(bytes, 0);
            return;
        }
        nsid.put(bytes, at * 4);
    }
}

/// Bytes of the commands supported and effects page.
pub const EFFECTS_LENGTH: usize = 4096;

bitflags::bitflags! {
    /// What a command does, in the commands supported and effects page.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct CommandEffects: u32 {
        /// CSUPP: supported.
        const SUPPORTED = 1;
        /// LBCC: may change blocks.
        const BLOCK_CONTENT = 1 << 1;
        /// NCC: may change capabilities of one namespace.
        const NAMESPACE_CAPABILITY = 1 << 2;
        /// NIC: may change the number of namespaces.
        const NAMESPACE_INVENTORY = 1 << 3;
        /// CCC: may change capabilities of the controller.
        const CONTROLLER_CAPABILITY = 1 << 4;
        /// CSE 001b: no other command to the namespace beside it.
        const ALONE_IN_NAMESPACE = 1 << 16;
        /// CSE 010b: no other command to any namespace beside it.
        const ALONE = 1 << 17;
    }
}
flag_field!(CommandEffects);

/// Where the entry of an admin command stands in the page.
pub const fn admin_effects(opcode: u8) -> usize {
    opcode as usize * 4
}

/// Where the entry of an I/O command stands in the page.
pub const fn io_effects(opcode: u8) -> usize {
    1024 + opcode as usize * 4
}

/// Sets an entry of the page; `place` is of [`admin_effects`] or [`io_effects`].
pub fn put_effects(bytes: &mut [u8; EFFECTS_LENGTH], place: usize, effects: CommandEffects) {
    effects.put(bytes, place);
}

/// An entry of the page.
pub fn read_effects(bytes: &[u8; EFFECTS_LENGTH], place: usize) -> CommandEffects {
    Field::get(bytes, place)
}
