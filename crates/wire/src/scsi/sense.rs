//! Sense data (SPC-5 section 4.4): one small value, its fixed and descriptor formats, and their decoder.

use super::bytes::{put, u8_at, u16_at, u32_at, u64_at};

/// Sense key (SPC-5 table "Sense key descriptions").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[expect(missing_docs, reason = "the names are the standard's")]
pub enum SenseKey {
    NoSense = 0x0,
    RecoveredError = 0x1,
    NotReady = 0x2,
    MediumError = 0x3,
    HardwareError = 0x4,
    IllegalRequest = 0x5,
    UnitAttention = 0x6,
    DataProtect = 0x7,
    BlankCheck = 0x8,
    VendorSpecific = 0x9,
    CopyAborted = 0xa,
    AbortedCommand = 0xb,
    Reserved = 0xc,
    VolumeOverflow = 0xd,
    Miscompare = 0xe,
    Completed = 0xf,
}

impl SenseKey {
    /// The key in the low four bits of `value`.
    pub const fn from_wire(value: u8) -> Self {
        match value & 0x0f {
            0x0 => Self::NoSense,
            0x1 => Self::RecoveredError,
            0x2 => Self::NotReady,
            0x3 => Self::MediumError,
            0x4 => Self::HardwareError,
            0x5 => Self::IllegalRequest,
            0x6 => Self::UnitAttention,
            0x7 => Self::DataProtect,
            0x8 => Self::BlankCheck,
            0x9 => Self::VendorSpecific,
            0xa => Self::CopyAborted,
            0xb => Self::AbortedCommand,
            0xc => Self::Reserved,
            0xd => Self::VolumeOverflow,
            0xe => Self::Miscompare,
            _ => Self::Completed,
        }
    }
}

/// ADDITIONAL SENSE CODE and its qualifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AdditionalSense {
    /// ADDITIONAL SENSE CODE.
    pub asc: u8,
    /// ADDITIONAL SENSE CODE QUALIFIER.
    pub ascq: u8,
}

/// Declares the codes with their names as a person knows them, so that logs can print them.
macro_rules! additional_sense {
    ($($name:ident = $asc:literal, $ascq:literal, $text:literal;)*) => {
        /// The codes of this house, named as SPC-5 annex F names them.
        impl AdditionalSense {
            $(
                #[doc = concat!("`", $text, "`")]
                pub const $name: Self = Self { asc: $asc, ascq: $ascq };
            )*

            /// The name of the code, if it is one of this house.
            pub const fn name(self) -> Option<&'static str> {
                match (self.asc, self.ascq) {
                    $(($asc, $ascq) => Some($text),)*
                    _ => None,
                }
            }
        }
    };
}

additional_sense! {
    NONE = 0x00, 0x00, "NO ADDITIONAL SENSE INFORMATION";
    IO_PROCESS_TERMINATED = 0x00, 0x06, "I/O PROCESS TERMINATED";
    IN_PROCESS_OF_BECOMING_READY = 0x04, 0x01, "LOGICAL UNIT IS IN PROCESS OF BECOMING READY";
    INITIALIZING_COMMAND_REQUIRED = 0x04, 0x02, "LOGICAL UNIT NOT READY, INITIALIZING COMMAND REQUIRED";
    NOT_READY_SPACE_ALLOCATION_IN_PROGRESS = 0x04, 0x14, "LOGICAL UNIT NOT READY, SPACE ALLOCATION IN PROGRESS";
    ASYMMETRIC_ACCESS_STANDBY = 0x04, 0x0b, "LOGICAL UNIT NOT ACCESSIBLE, TARGET PORT IN STANDBY STATE";
    ASYMMETRIC_ACCESS_UNAVAILABLE = 0x04, 0x0c, "LOGICAL UNIT NOT ACCESSIBLE, TARGET PORT IN UNAVAILABLE STATE";
    THIN_PROVISIONING_SOFT_THRESHOLD_REACHED = 0x38, 0x07, "THIN PROVISIONING SOFT THRESHOLD REACHED";
    NO_RESPONSE_TO_SELECTION = 0x05, 0x00, "LOGICAL UNIT DOES NOT RESPOND TO SELECTION";
    COMMUNICATION_FAILURE = 0x08, 0x00, "LOGICAL UNIT COMMUNICATION FAILURE";
    COMMUNICATION_TIMEOUT = 0x08, 0x01, "LOGICAL UNIT COMMUNICATION TIME-OUT";
    WRITE_ERROR = 0x0c, 0x00, "WRITE ERROR";
    UNEXPECTED_UNSOLICITED_DATA = 0x0c, 0x0c, "WRITE ERROR - UNEXPECTED UNSOLICITED DATA";
    NOT_ENOUGH_UNSOLICITED_DATA = 0x0c, 0x0d, "WRITE ERROR - NOT ENOUGH UNSOLICITED DATA";
    INVALID_FIELD_IN_COMMAND_INFORMATION_UNIT = 0x0e, 0x03, "INVALID FIELD IN COMMAND INFORMATION UNIT";
    UNRECOVERED_READ_ERROR = 0x11, 0x00, "UNRECOVERED READ ERROR";
    PARAMETER_LIST_LENGTH_ERROR = 0x1a, 0x00, "PARAMETER LIST LENGTH ERROR";
    MISCOMPARE_DURING_VERIFY = 0x1d, 0x00, "MISCOMPARE DURING VERIFY OPERATION";
    INVALID_COMMAND_OPERATION_CODE = 0x20, 0x00, "INVALID COMMAND OPERATION CODE";
    LBA_OUT_OF_RANGE = 0x21, 0x00, "LOGICAL BLOCK ADDRESS OUT OF RANGE";
    INVALID_FIELD_IN_CDB = 0x24, 0x00, "INVALID FIELD IN CDB";
    LOGICAL_UNIT_NOT_SUPPORTED = 0x25, 0x00, "LOGICAL UNIT NOT SUPPORTED";
    INVALID_FIELD_IN_PARAMETER_LIST = 0x26, 0x00, "INVALID FIELD IN PARAMETER LIST";
    WRITE_PROTECTED = 0x27, 0x00, "WRITE PROTECTED";
    SOFTWARE_WRITE_PROTECTED = 0x27, 0x02, "LOGICAL UNIT SOFTWARE WRITE PROTECTED";
    SPACE_ALLOCATION_FAILED_WRITE_PROTECT = 0x27, 0x07, "SPACE ALLOCATION FAILED WRITE PROTECT";
    NOT_READY_TO_READY = 0x28, 0x00, "NOT READY TO READY CHANGE, MEDIUM MAY HAVE CHANGED";
    POWER_ON_OR_RESET_OCCURRED = 0x29, 0x00, "POWER ON, RESET, OR BUS DEVICE RESET OCCURRED";
    POWER_ON_OCCURRED = 0x29, 0x01, "POWER ON OCCURRED";
    BUS_RESET_OCCURRED = 0x29, 0x02, "SCSI BUS RESET OCCURRED";
    BUS_DEVICE_RESET_OCCURRED = 0x29, 0x03, "BUS DEVICE RESET FUNCTION OCCURRED";
    I_T_NEXUS_LOSS_OCCURRED = 0x29, 0x07, "I_T NEXUS LOSS OCCURRED";
    MODE_PARAMETERS_CHANGED = 0x2a, 0x01, "MODE PARAMETERS CHANGED";
    RESERVATIONS_PREEMPTED = 0x2a, 0x03, "RESERVATIONS PREEMPTED";
    RESERVATIONS_RELEASED = 0x2a, 0x04, "RESERVATIONS RELEASED";
    REGISTRATIONS_PREEMPTED = 0x2a, 0x05, "REGISTRATIONS PREEMPTED";
    ASYMMETRIC_ACCESS_STATE_CHANGED = 0x2a, 0x06, "ASYMMETRIC ACCESS STATE CHANGED";
    CAPACITY_DATA_HAS_CHANGED = 0x2a, 0x09, "CAPACITY DATA HAS CHANGED";
    COMMANDS_CLEARED_BY_ANOTHER_INITIATOR = 0x2f, 0x00, "COMMANDS CLEARED BY ANOTHER INITIATOR";
    SAVING_PARAMETERS_NOT_SUPPORTED = 0x39, 0x00, "SAVING PARAMETERS NOT SUPPORTED";
    MEDIUM_NOT_PRESENT = 0x3a, 0x00, "MEDIUM NOT PRESENT";
    TARGET_OPERATING_CONDITIONS_HAVE_CHANGED = 0x3f, 0x00, "TARGET OPERATING CONDITIONS HAVE CHANGED";
    INQUIRY_DATA_HAS_CHANGED = 0x3f, 0x03, "INQUIRY DATA HAS CHANGED";
    REPORTED_LUNS_DATA_HAS_CHANGED = 0x3f, 0x0e, "REPORTED LUNS DATA HAS CHANGED";
    INTERNAL_TARGET_FAILURE = 0x44, 0x00, "INTERNAL TARGET FAILURE";
    PROTOCOL_SERVICE_CRC_ERROR = 0x47, 0x05, "PROTOCOL SERVICE CRC ERROR";
    DATA_PHASE_ERROR = 0x4b, 0x00, "DATA PHASE ERROR";
    OVERLAPPED_COMMANDS_ATTEMPTED = 0x4e, 0x00, "OVERLAPPED COMMANDS ATTEMPTED";
    MEDIUM_REMOVAL_PREVENTED = 0x53, 0x02, "MEDIUM REMOVAL PREVENTED";
    INSUFFICIENT_RESOURCES = 0x55, 0x03, "INSUFFICIENT RESOURCES";
}

/// Where the wrong field is (SPC-5 section 4.4.2.4.2, "field pointer sense-key specific data").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FieldPointer {
    /// True: a field of the CDB. False: of the parameter list.
    pub in_cdb: bool,
    /// Byte of the most significant bit of the field.
    pub byte: u16,
    /// The bit in that byte, if the field is not whole bytes.
    pub bit: Option<u8>,
}

impl FieldPointer {
    /// A byte of the CDB.
    pub const fn cdb(byte: u16) -> Self {
        Self { in_cdb: true, byte, bit: None }
    }

    /// A bit (0 to 7) of a byte of the CDB.
    pub const fn cdb_bit(byte: u16, bit: u8) -> Self {
        Self { in_cdb: true, byte, bit: Some(bit & 7) }
    }

    /// A byte of the parameter list.
    pub const fn parameter(byte: u16) -> Self {
        Self { in_cdb: false, byte, bit: None }
    }

    /// A bit (0 to 7) of a byte of the parameter list.
    pub const fn parameter_bit(byte: u16, bit: u8) -> Self {
        Self { in_cdb: false, byte, bit: Some(bit & 7) }
    }
}

/// What the three sense-key specific bytes say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SenseKeySpecific {
    /// Which field was wrong (with ILLEGAL REQUEST).
    Field(FieldPointer),
    /// How far something is, in 65536ths (with NOT READY and NO SENSE).
    Progress(u16),
}

/// The two formats of sense data; `D_SENSE` of the control mode page chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum SenseFormat {
    /// Response code 70h.
    #[default]
    Fixed,
    /// Response code 72h.
    Descriptor,
}

/// Sense data as a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sense {
    /// SENSE KEY.
    pub key: SenseKey,
    /// ADDITIONAL SENSE CODE and qualifier.
    pub additional: AdditionalSense,
    /// INFORMATION: a logical block address, an offset of a miscompare. The fixed format can only carry
    /// 32 bits; a larger value is left out there.
    pub information: Option<u64>,
    /// COMMAND-SPECIFIC INFORMATION.
    pub command_specific: Option<u64>,
    /// Sense-key specific data.
    pub key_specific: Option<SenseKeySpecific>,
    /// An error of an earlier command that had already ended with GOOD (response codes 71h and 73h).
    pub deferred: bool,
}

/// The longest sense data that [`Sense::encode`] makes, in bytes.
pub const MAXIMUM_SENSE_LENGTH: usize = 40;

/// The fixed format's length, in bytes.
pub const FIXED_SENSE_LENGTH: usize = 18;

/// Encoded sense data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenseBytes {
    bytes: [u8; MAXIMUM_SENSE_LENGTH],
    length: u8,
}

impl SenseBytes {
    /// The bytes to send.
    pub fn as_slice(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.length)).unwrap_or(&[])
    }
}

impl std::ops::Deref for SenseBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.as_slice()
    }
}

/// Why received sense data could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SenseError {
    /// Fewer bytes than the format's fixed part.
    #[error("sense data of {0} bytes is too short")]
    Short(usize),
    /// A response code other than 70h to 73h.
    #[error("sense data has the unknown response code {0:#04x}")]
    ResponseCode(u8),
}

impl Sense {
    /// Sense data with no more than a key and a code.
    pub const fn new(key: SenseKey, additional: AdditionalSense) -> Self {
        Self {
            key,
            additional,
            information: None,
            command_specific: None,
            key_specific: None,
            deferred: false,
        }
    }

    /// NO SENSE.
    pub const fn none() -> Self {
        Self::new(SenseKey::NoSense, AdditionalSense::NONE)
    }

    /// ILLEGAL REQUEST with a code.
    pub const fn illegal_request(additional: AdditionalSense) -> Self {
        Self::new(SenseKey::IllegalRequest, additional)
    }

    /// ILLEGAL REQUEST, INVALID COMMAND OPERATION CODE.
    pub const fn invalid_opcode() -> Self {
        Self::illegal_request(AdditionalSense::INVALID_COMMAND_OPERATION_CODE)
            .with_field(FieldPointer::cdb(0))
    }

    /// ILLEGAL REQUEST, INVALID FIELD IN CDB or IN PARAMETER LIST, as the pointer says.
    pub const fn invalid_field(pointer: FieldPointer) -> Self {
        let additional = if pointer.in_cdb {
            AdditionalSense::INVALID_FIELD_IN_CDB
        } else {
            AdditionalSense::INVALID_FIELD_IN_PARAMETER_LIST
        };
        Self::illegal_request(additional).with_field(pointer)
    }

    /// ILLEGAL REQUEST, LOGICAL BLOCK ADDRESS OUT OF RANGE; INFORMATION has the first such address.
    pub const fn lba_out_of_range(lba: u64) -> Self {
        Self::illegal_request(AdditionalSense::LBA_OUT_OF_RANGE).with_information(lba)
    }

    /// ILLEGAL REQUEST, PARAMETER LIST LENGTH ERROR.
    pub const fn parameter_list_length_error() -> Self {
        Self::illegal_request(AdditionalSense::PARAMETER_LIST_LENGTH_ERROR)
    }

    /// MISCOMPARE; INFORMATION has the offset of the first differing byte in data-out.
    pub const fn miscompare(offset: u64) -> Self {
        Self::new(SenseKey::Miscompare, AdditionalSense::MISCOMPARE_DURING_VERIFY).with_information(offset)
    }

    /// UNIT ATTENTION with a code.
    pub const fn unit_attention(additional: AdditionalSense) -> Self {
        Self::new(SenseKey::UnitAttention, additional)
    }

    /// ABORTED COMMAND with a code.
    pub const fn aborted_command(additional: AdditionalSense) -> Self {
        Self::new(SenseKey::AbortedCommand, additional)
    }

    /// With INFORMATION.
    #[must_use]
    pub const fn with_information(mut self, information: u64) -> Self {
        self.information = Some(information);
        self
    }

    /// With COMMAND-SPECIFIC INFORMATION.
    #[must_use]
    pub const fn with_command_specific(mut self, information: u64) -> Self {
        self.command_specific = Some(information);
        self
    }

    /// With a field pointer.
    #[must_use]
    pub const fn with_field(mut self, pointer: FieldPointer) -> Self {
        self.key_specific = Some(SenseKeySpecific::Field(pointer));
        self
    }

    /// With a progress indication in 65536ths.
    #[must_use]
    pub const fn with_progress(mut self, progress: u16) -> Self {
        self.key_specific = Some(SenseKeySpecific::Progress(progress));
        self
    }

    /// The bytes of the wire.
    pub fn encode(&self, format: SenseFormat) -> SenseBytes {
        match format {
            SenseFormat::Fixed => self.encode_fixed(),
            SenseFormat::Descriptor => self.encode_descriptors(),
        }
    }

    fn specific_bytes(&self) -> Option<[u8; 3]> {
        self.key_specific.map(|specific| match specific {
            SenseKeySpecific::Field(pointer) => {
                let in_cdb = if pointer.in_cdb { 0x40 } else { 0 };
                let bit = pointer.bit.map_or(0, |bit| 0x08 | (bit & 7));
                let [high, low] = pointer.byte.to_be_bytes();
                [0x80 | in_cdb | bit, high, low]
            }
            SenseKeySpecific::Progress(progress) => {
                let [high, low] = progress.to_be_bytes();
                [0x80, high, low]
            }
        })
    }

    fn encode_fixed(&self) -> SenseBytes {
        let mut bytes = [0; MAXIMUM_SENSE_LENGTH];
        bytes[0] = 0x70 | u8::from(self.deferred);
        bytes[2] = self.key as u8;
        // SPC-5: VALID is zero when the value does not fit into the field.
        if let Some(information) = self.information.and_then(|value| u32::try_from(value).ok()) {
            bytes[0] |= 0x80;
            put(&mut bytes, 3, &information.to_be_bytes());
        }
        bytes[7] = FIXED_SENSE_LENGTH as u8 - 8;
        if let Some(specific) = self.command_specific.and_then(|value| u32::try_from(value).ok()) {
            put(&mut bytes, 8, &specific.to_be_bytes());
        }
        bytes[12] = self.additional.asc;
        bytes[13] = self.additional.ascq;
        if let Some(specific) = self.specific_bytes() {
            put(&mut bytes, 15, &specific);
        }
        SenseBytes { bytes, length: FIXED_SENSE_LENGTH as u8 }
    }

    fn encode_descriptors(&self) -> SenseBytes {
        let mut bytes = [0; MAXIMUM_SENSE_LENGTH];
        bytes[0] = 0x72 | u8::from(self.deferred);
        bytes[1] = self.key as u8;
        bytes[2] = self.additional.asc;
        bytes[3] = self.additional.ascq;
        let mut length = 8;
        if let Some(information) = self.information {
            put(&mut bytes, length, &[0x00, 0x0a, 0x80, 0]);
            put(&mut bytes, length + 4, &information.to_be_bytes());
            length += 12;
        }
        if let Some(specific) = self.command_specific {
            put(&mut bytes, length, &[0x01, 0x0a, 0, 0]);
            put(&mut bytes, length + 4, &specific.to_be_bytes());
            length += 12;
        }
        if let Some(specific) = self.specific_bytes() {
            put(&mut bytes, length, &[0x02, 0x06, 0, 0]);
            put(&mut bytes, length + 4, &specific);
            length += 8;
        }
        bytes[7] = length as u8 - 8;
        SenseBytes { bytes, length: length as u8 }
    }

    /// Reads sense data of either format; unknown descriptors are passed over.
    pub fn decode(bytes: &[u8]) -> Result<Self, SenseError> {
        let response_code = u8_at(bytes, 0) & 0x7f;
        match response_code {
            _ if bytes.is_empty() => Err(SenseError::Short(0)),
            0x70 | 0x71 => Self::decode_fixed(bytes),
            0x72 | 0x73 => Self::decode_descriptors(bytes),
            other => Err(SenseError::ResponseCode(other)),
        }
    }

    fn decode_fixed(bytes: &[u8]) -> Result<Self, SenseError> {
        // Everything behind the ASCQ may be missing (SPC-5 section 4.4.3).
        if bytes.len() < 14 {
            return Err(SenseError::Short(bytes.len()));
        }
        let mut sense = Self::new(
            SenseKey::from_wire(u8_at(bytes, 2)),
            AdditionalSense { asc: u8_at(bytes, 12), ascq: u8_at(bytes, 13) },
        );
        sense.deferred = u8_at(bytes, 0) & 1 == 1;
        if u8_at(bytes, 0) & 0x80 != 0 {
            sense.information = Some(u64::from(u32_at(bytes, 3)));
        }
        let command_specific = u32_at(bytes, 8);
        if command_specific != 0 {
            sense.command_specific = Some(u64::from(command_specific));
        }
        sense.key_specific = bytes.get(15..18).and_then(|field| decode_specific(sense.key, field));
        Ok(sense)
    }

    fn decode_descriptors(bytes: &[u8]) -> Result<Self, SenseError> {
        if bytes.len() < 8 {
            return Err(SenseError::Short(bytes.len()));
        }
        let mut sense = Self::new(
            SenseKey::from_wire(u8_at(bytes, 1)),
            AdditionalSense { asc: u8_at(bytes, 2), ascq: u8_at(bytes, 3) },
        );
        sense.deferred = u8_at(bytes, 0) & 1 == 1;
        let end = bytes.len().min(8 + usize::from(u8_at(bytes, 7)));
        let mut rest = bytes.get(8..end).unwrap_or(&[]);
        while let [kind, length, ..] = *rest {
            let (descriptor, next) = rest.split_at(rest.len().min(2 + usize::from(length)));
            match (kind, descriptor.len()) {
                (0x00, 12) if u8_at(descriptor, 2) & 0x80 != 0 => {
                    sense.information = Some(u64_at(descriptor, 4));
                }
                (0x01, 12) => sense.command_specific = Some(u64_at(descriptor, 4)),
                (0x02, 8) => {
                    sense.key_specific =
                        descriptor.get(4..7).and_then(|field| decode_specific(sense.key, field));
                }
                _ => {}
            }
            rest = next;
        }
        Ok(sense)
    }
}

fn decode_specific(key: SenseKey, field: &[u8]) -> Option<SenseKeySpecific> {
    let flags = u8_at(field, 0);
    if flags & 0x80 == 0 {
        return None;
    }
    let value = u16_at(field, 1);
    match key {
        SenseKey::IllegalRequest => Some(SenseKeySpecific::Field(FieldPointer {
            in_cdb: flags & 0x40 != 0,
            byte: value,
            bit: (flags & 0x08 != 0).then_some(flags & 7),
        })),
        SenseKey::NotReady | SenseKey::NoSense => Some(SenseKeySpecific::Progress(value)),
        _ => None,
    }
}

impl std::fmt::Display for Sense {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let AdditionalSense { asc, ascq } = self.additional;
        write!(formatter, "{:?}, ", self.key)?;
        if let Some(name) = self.additional.name() {
            formatter.write_str(name)?;
        } else {
            write!(formatter, "{asc:02x}h/{ascq:02x}h")?;
        }
        if let Some(information) = self.information {
            write!(formatter, ", information {information}")?;
        }
        if let Some(SenseKeySpecific::Field(pointer)) = self.key_specific {
            let place = if pointer.in_cdb { "CDB" } else { "parameter list" };
            write!(formatter, ", {place} byte {}", pointer.byte)?;
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "sense_tests.rs"]
mod tests;
