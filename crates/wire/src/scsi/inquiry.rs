//! INQUIRY: standard data (SPC-5 section 6.6.2) and vital product data pages (SPC-5 section 7.7, SBC-4
//! section 6.6).

use super::bytes::{put, put_text, u8_at, u16_at, u24_at, u32_at, u64_at};

/// Length of the standard data, in bytes.
pub const STANDARD_LENGTH: usize = 96;

/// Vital product data page codes.
pub mod page {
    /// Supported VPD pages.
    pub const SUPPORTED: u8 = 0x00;
    /// Unit serial number.
    pub const UNIT_SERIAL_NUMBER: u8 = 0x80;
    /// Device identification.
    pub const DEVICE_IDENTIFICATION: u8 = 0x83;
    /// Extended INQUIRY data.
    pub const EXTENDED_INQUIRY: u8 = 0x86;
    /// Block limits.
    pub const BLOCK_LIMITS: u8 = 0xb0;
    /// Block device characteristics.
    pub const BLOCK_CHARACTERISTICS: u8 = 0xb1;
    /// Logical block provisioning.
    pub const PROVISIONING: u8 = 0xb2;
}

/// Version descriptors, SPC-5 table "Version descriptor values".
const VERSIONS: [u16; 6] = [
    0x00a0, // SAM-5
    0x0960, // iSCSI
    0x0460, // SPC-4
    0x05c0, // SPC-5
    0x04c0, // SBC-3
    0x0600, // SBC-4
];

/// PERIPHERAL QUALIFIER and PERIPHERAL DEVICE TYPE, the first byte of every INQUIRY answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Peripheral {
    /// A direct access block device is here.
    DirectAccess = 0x00,
    /// 011b and 1Fh: no device can be at this logical unit number.
    None = 0x7f,
}

/// Standard INQUIRY data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standard<'a> {
    /// Whether there is a logical unit.
    pub peripheral: Peripheral,
    /// RMB: the medium can be removed.
    pub removable: bool,
    /// T10 VENDOR IDENTIFICATION, at most 8 characters.
    pub vendor: &'a str,
    /// PRODUCT IDENTIFICATION, at most 16 characters.
    pub product: &'a str,
    /// PRODUCT REVISION LEVEL, at most 4 characters.
    pub revision: &'a str,
    /// TPGS: 0 without asymmetric access, 1 implicit, 2 explicit, 3 both.
    pub target_port_groups: u8,
    /// 3PC: third-party copy commands.
    pub third_party_copy: bool,
    /// MULTIP: more than one target port.
    pub multiple_ports: bool,
}

impl Standard<'_> {
    /// The bytes of the wire. VERSION says SPC-4: initiators of the field know no later one, and the version
    /// descriptors say the rest.
    pub fn encode(&self) -> [u8; STANDARD_LENGTH] {
        let mut bytes = [0; STANDARD_LENGTH];
        bytes[0] = self.peripheral as u8;
        bytes[1] = if self.removable { 0x80 } else { 0 };
        bytes[2] = 0x06;
        // HISUP: the LUNs are of SAM's hierarchical form; RESPONSE DATA FORMAT 2.
        bytes[3] = 0x10 | 0x02;
        bytes[4] = STANDARD_LENGTH as u8 - 5;
        bytes[5] = ((self.target_port_groups & 3) << 4) | if self.third_party_copy { 0x08 } else { 0 };
        bytes[6] = if self.multiple_ports { 0x10 } else { 0 };
        bytes[7] = 0x02; // CMDQUE
        put_text(&mut bytes, 8, 8, self.vendor);
        put_text(&mut bytes, 16, 16, self.product);
        put_text(&mut bytes, 32, 4, self.revision);
        for (position, version) in VERSIONS.iter().enumerate() {
            put(&mut bytes, 58 + 2 * position, &version.to_be_bytes());
        }
        bytes
    }
}

/// What an initiator wants to know of standard INQUIRY data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StandardSummary {
    /// PERIPHERAL QUALIFIER.
    pub qualifier: u8,
    /// PERIPHERAL DEVICE TYPE.
    pub device_type: u8,
    /// VERSION.
    pub version: u8,
    /// T10 VENDOR IDENTIFICATION, spaces included.
    pub vendor: [u8; 8],
    /// PRODUCT IDENTIFICATION, spaces included.
    pub product: [u8; 16],
    /// PRODUCT REVISION LEVEL.
    pub revision: [u8; 4],
}

impl StandardSummary {
    /// Reads standard INQUIRY data; `None` below the 36 bytes that everyone sends.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..36)?;
        Some(Self {
            qualifier: u8_at(bytes, 0) >> 5,
            device_type: u8_at(bytes, 0) & 0x1f,
            version: u8_at(bytes, 2),
            vendor: bytes.get(8..16)?.try_into().ok()?,
            product: bytes.get(16..32)?.try_into().ok()?,
            revision: bytes.get(32..36)?.try_into().ok()?,
        })
    }
}

/// Appends a page: header, body, and the length filled in. A body of more than 65535 bytes is cut.
fn page_with(code: u8, out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[Peripheral::DirectAccess as u8, code, 0, 0]);
    body(out);
    let length = (out.len() - start - 4).min(usize::from(u16::MAX));
    out.truncate(start + 4 + length);
    put(out, start + 2, &(length as u16).to_be_bytes());
}

/// Appends page 00h; the codes are given in ascending order (SPC-5 section 7.7.17).
pub fn supported_pages(codes: &[u8], out: &mut Vec<u8>) {
    page_with(page::SUPPORTED, out, |out| out.extend_from_slice(codes));
}

/// Appends page 80h.
pub fn unit_serial_number(serial: &str, out: &mut Vec<u8>) {
    page_with(page::UNIT_SERIAL_NUMBER, out, |out| out.extend_from_slice(serial.as_bytes()));
}

/// What a designator names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Association {
    /// The logical unit.
    LogicalUnit = 0,
    /// The target port that the command came by.
    TargetPort = 1,
    /// The target device.
    TargetDevice = 2,
}

/// PROTOCOL IDENTIFIER of iSCSI.
pub const PROTOCOL_ISCSI: u8 = 5;

/// One designator of page 83h (SPC-5 section 7.7.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Designator<'a> {
    /// Type 1: vendor and an identifier of that vendor.
    T10Vendor {
        /// At most 8 characters.
        vendor: &'a str,
        /// At most 200 characters.
        identifier: &'a str,
    },
    /// Type 3 with NAA 3h, locally assigned: the low 60 bits.
    NaaLocal(u64),
    /// Type 4: relative target port identifier.
    RelativeTargetPort(u16),
    /// Type 5: target port group.
    TargetPortGroup(u16),
    /// Type 8: SCSI name string, at most 247 bytes.
    ScsiName(&'a str),
    /// Type Ah: a UUID of RFC 9562.
    Uuid([u8; 16]),
}

/// Cuts at a character boundary.
fn cut(text: &str, maximum: usize) -> &str {
    let mut end = text.len().min(maximum);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or("")
}

impl Designator<'_> {
    fn encode(&self, association: Association, protocol: Option<u8>, out: &mut Vec<u8>) {
        // Code sets: 1 binary, 2 ASCII, 3 UTF-8.
        let (code_set, kind) = match self {
            Self::T10Vendor { .. } => (2, 0x1),
            Self::NaaLocal(_) => (1, 0x3),
            Self::RelativeTargetPort(_) => (1, 0x4),
            Self::TargetPortGroup(_) => (1, 0x5),
            Self::ScsiName(_) => (3, 0x8),
            Self::Uuid(_) => (1, 0xa),
        };
        let piv = if protocol.is_some() { 0x80 } else { 0 };
        let start = out.len();
        out.extend_from_slice(&[
            (protocol.unwrap_or(0) << 4) | code_set,
            piv | ((association as u8) << 4) | kind,
            0,
            0,
        ]);
        match *self {
            Self::T10Vendor { vendor, identifier } => {
                let mut field = [b' '; 8];
                put_text(&mut field, 0, 8, vendor);
                out.extend_from_slice(&field);
                out.extend_from_slice(cut(identifier, 200).as_bytes());
            }
            Self::NaaLocal(value) => {
                out.extend_from_slice(
                    &((value & 0x0fff_ffff_ffff_ffff) | 0x3000_0000_0000_0000).to_be_bytes(),
                );
            }
            Self::RelativeTargetPort(number) | Self::TargetPortGroup(number) => {
                out.extend_from_slice(&u32::from(number).to_be_bytes());
            }
            Self::ScsiName(name) => {
                out.extend_from_slice(cut(name, 247).as_bytes());
                // Ends with a NUL and is padded to a multiple of four (SPC-5 section 7.7.6.11).
                out.push(0);
                while !(out.len() - start).is_multiple_of(4) {
                    out.push(0);
                }
            }
            Self::Uuid(uuid) => {
                out.extend_from_slice(&[0x10, 0]);
                out.extend_from_slice(&uuid);
            }
        }
        let length = (out.len() - start - 4) as u8;
        put(out, start + 3, &[length]);
    }
}

/// A designator, what it names, and the protocol of the target port where one is named.
pub type Designation<'a> = (Association, Option<u8>, Designator<'a>);

/// Appends page 83h.
pub fn device_identification(designations: &[Designation<'_>], out: &mut Vec<u8>) {
    page_with(page::DEVICE_IDENTIFICATION, out, |out| {
        for (association, protocol, designator) in designations {
            designator.encode(*association, *protocol, out);
        }
    });
}

/// Page 86h, as far as this target has anything to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ExtendedInquiry {
    /// ORDSUP: the ORDERED task attribute is honoured.
    pub ordered: bool,
    /// HEADSUP: the HEAD OF QUEUE task attribute is honoured.
    pub head_of_queue: bool,
    /// `V_SUP`: there is a volatile cache.
    pub volatile_cache: bool,
    /// LUICLR: unit attentions of a LUN reset are cleared as SAM-5 says.
    pub nexus_loss_clears: bool,
    /// MAXIMUM SUPPORTED SENSE DATA LENGTH, in bytes.
    pub maximum_sense_length: u8,
}

/// Appends page 86h.
pub fn extended_inquiry(data: &ExtendedInquiry, out: &mut Vec<u8>) {
    page_with(page::EXTENDED_INQUIRY, out, |out| {
        let mut bytes = [0; 60];
        // SIMPSUP, ORDSUP and HEADSUP (SPC-5 section 7.7.7).
        bytes[1] = 0x01 | (u8::from(data.ordered) << 1) | (u8::from(data.head_of_queue) << 2);
        bytes[2] = u8::from(data.volatile_cache);
        bytes[3] = u8::from(data.nexus_loss_clears);
        bytes[9] = data.maximum_sense_length;
        out.extend_from_slice(&bytes);
    });
}

/// Page B0h. Lengths in logical blocks; 0 is "no limit said" unless told otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct BlockLimits {
    /// WSNZ: WRITE SAME with a length of 0 is refused.
    pub write_same_non_zero: bool,
    /// MAXIMUM COMPARE AND WRITE LENGTH; 0: not supported.
    pub maximum_compare_and_write: u8,
    /// OPTIMAL TRANSFER LENGTH GRANULARITY.
    pub optimal_granularity: u16,
    /// MAXIMUM TRANSFER LENGTH.
    pub maximum_transfer: u32,
    /// OPTIMAL TRANSFER LENGTH.
    pub optimal_transfer: u32,
    /// MAXIMUM PREFETCH LENGTH.
    pub maximum_prefetch: u32,
    /// MAXIMUM UNMAP LBA COUNT; 0: UNMAP is not supported.
    pub maximum_unmap: u32,
    /// MAXIMUM UNMAP BLOCK DESCRIPTOR COUNT; 0: UNMAP is not supported.
    pub maximum_unmap_descriptors: u32,
    /// OPTIMAL UNMAP GRANULARITY.
    pub unmap_granularity: u32,
    /// UNMAP GRANULARITY ALIGNMENT, if it is valid.
    pub unmap_alignment: Option<u32>,
    /// MAXIMUM WRITE SAME LENGTH.
    pub maximum_write_same: u64,
}

/// Length of page B0h with its header, in bytes.
pub const BLOCK_LIMITS_LENGTH: usize = 64;

impl BlockLimits {
    /// Appends page B0h.
    pub fn encode(&self, out: &mut Vec<u8>) {
        page_with(page::BLOCK_LIMITS, out, |out| {
            let mut bytes = [0; BLOCK_LIMITS_LENGTH - 4];
            bytes[0] = u8::from(self.write_same_non_zero);
            bytes[1] = self.maximum_compare_and_write;
            put(&mut bytes, 2, &self.optimal_granularity.to_be_bytes());
            put(&mut bytes, 4, &self.maximum_transfer.to_be_bytes());
            put(&mut bytes, 8, &self.optimal_transfer.to_be_bytes());
            put(&mut bytes, 12, &self.maximum_prefetch.to_be_bytes());
            put(&mut bytes, 16, &self.maximum_unmap.to_be_bytes());
            put(&mut bytes, 20, &self.maximum_unmap_descriptors.to_be_bytes());
            put(&mut bytes, 24, &self.unmap_granularity.to_be_bytes());
            if let Some(alignment) = self.unmap_alignment {
                put(&mut bytes, 28, &(alignment | 0x8000_0000).to_be_bytes());
            }
            put(&mut bytes, 32, &self.maximum_write_same.to_be_bytes());
            out.extend_from_slice(&bytes);
        });
    }

    /// Reads page B0h with its header; `None` if it is another page or shorter than SBC-2's 16 bytes. What a
    /// shorter page does not have is 0.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        if bytes.len() < 16 || u8_at(bytes, 1) != page::BLOCK_LIMITS {
            return None;
        }
        let alignment = u32_at(bytes, 32);
        Some(Self {
            write_same_non_zero: u8_at(bytes, 4) & 1 != 0,
            maximum_compare_and_write: u8_at(bytes, 5),
            optimal_granularity: u16_at(bytes, 6),
            maximum_transfer: u32_at(bytes, 8),
            optimal_transfer: u32_at(bytes, 12),
            maximum_prefetch: u32_at(bytes, 16),
            maximum_unmap: u32_at(bytes, 20),
            maximum_unmap_descriptors: u32_at(bytes, 24),
            unmap_granularity: u32_at(bytes, 28),
            unmap_alignment: (alignment & 0x8000_0000 != 0).then_some(alignment & 0x7fff_ffff),
            maximum_write_same: u64_at(bytes, 36),
        })
    }
}

/// Appends page B1h. `rotation_rate` is in revolutions per minute; 1 is a medium that does not rotate.
pub fn block_characteristics(rotation_rate: u16, out: &mut Vec<u8>) {
    page_with(page::BLOCK_CHARACTERISTICS, out, |out| {
        let mut bytes = [0; 60];
        put(&mut bytes, 0, &rotation_rate.to_be_bytes());
        out.extend_from_slice(&bytes);
    });
}

/// PROVISIONING TYPE of page B2h.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum ProvisioningType {
    /// Fully provisioned, or nobody says.
    #[default]
    Full = 0,
    /// Resource provisioned.
    Resource = 1,
    /// Thin provisioned.
    Thin = 2,
}

/// Page B2h.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Provisioning {
    /// LBPU: UNMAP.
    pub unmap: bool,
    /// LBPWS: UNMAP bit of WRITE SAME(16).
    pub write_same_16: bool,
    /// LBPWS10: UNMAP bit of WRITE SAME(10).
    pub write_same_10: bool,
    /// LBPRZ: unmapped blocks read as zeros.
    pub reads_zeros: bool,
    /// PROVISIONING TYPE.
    pub kind: ProvisioningType,
}

impl Provisioning {
    /// Appends page B2h.
    pub fn encode(&self, out: &mut Vec<u8>) {
        page_with(page::PROVISIONING, out, |out| {
            let flags = (u8::from(self.unmap) << 7)
                | (u8::from(self.write_same_16) << 6)
                | (u8::from(self.write_same_10) << 5)
                | (u8::from(self.reads_zeros) << 2);
            out.extend_from_slice(&[0, flags, self.kind as u8, 0]);
        });
    }
}

/// The binary identifier of an NAA designator of page 83h, if the page has one for the logical unit.
pub fn find_naa(page: &[u8]) -> Option<&[u8]> {
    if u8_at(page, 1) != page::DEVICE_IDENTIFICATION {
        return None;
    }
    let length = u24_at(page, 1) as usize & 0xffff;
    let mut rest = page.get(4..)?;
    rest = rest.get(..rest.len().min(length))?;
    while let [_, kind, _, length, ..] = *rest {
        let end = 4 + usize::from(length);
        let designator = rest.get(4..end)?;
        if kind & 0x3f == 0x03 {
            return Some(designator);
        }
        rest = rest.get(end..)?;
    }
    None
}

#[cfg(test)]
#[path = "inquiry_tests.rs"]
mod tests;
