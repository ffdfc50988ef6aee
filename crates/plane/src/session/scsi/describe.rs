//! What the logical unit says of itself: INQUIRY, capacity, mode parameters, operation codes.

use wire::scsi::capacity::Capacity;
use wire::scsi::cdb::ModeSense;
use wire::scsi::inquiry::{
    self, Association, BlockLimits, Designator, ExtendedInquiry, PROTOCOL_ISCSI, Peripheral, Provisioning,
    ProvisioningType, STANDARD_LENGTH, Standard, page,
};
use wire::scsi::mode::{self, ModeContext};
use wire::scsi::opcodes::{self, Operation};
use wire::scsi::sense::MAXIMUM_SENSE_LENGTH;
use wire::scsi::{Command, FieldPointer, Sense};

use super::logical_unit::LogicalUnit;
use super::response::Response;
use super::unit::Nexus;
use crate::limits;

/// T10 VENDOR IDENTIFICATION.
const VENDOR: &str = "FELS";
/// PRODUCT IDENTIFICATION.
const PRODUCT: &str = "VIRTUAL-DISK";
/// The operation code of UNMAP, which a volume without discard does not have.
const UNMAP: u8 = 0x42;
/// The pages of VPD page 00h, ascending.
const PAGES: [u8; 7] = [
    page::SUPPORTED,
    page::UNIT_SERIAL_NUMBER,
    page::DEVICE_IDENTIFICATION,
    page::EXTENDED_INQUIRY,
    page::BLOCK_LIMITS,
    page::BLOCK_CHARACTERISTICS,
    page::PROVISIONING,
];

/// Standard INQUIRY data. The revision is the first four characters of the version ("0.1.").
pub(super) fn standard_inquiry(peripheral: Peripheral) -> [u8; STANDARD_LENGTH] {
    Standard {
        peripheral,
        removable: false,
        vendor: VENDOR,
        product: PRODUCT,
        revision: concat!(env!("CARGO_PKG_VERSION_MAJOR"), ".", env!("CARGO_PKG_VERSION_MINOR")),
        target_port_groups: 0,
        third_party_copy: false,
        multiple_ports: false,
    }
    .encode()
}

/// 60 bits out of a UUID, for a locally assigned NAA identifier: as long as the UUID, so is it.
fn naa_of(uuid: [u8; 16]) -> u64 {
    let value = u128::from_be_bytes(uuid);
    // The halves of a random UUID have their fixed bits at different places, so that folding leaves none fixed.
    ((value >> 64) as u64 ^ (value as u64).rotate_left(32)) & 0x0fff_ffff_ffff_ffff
}

impl LogicalUnit {
    /// The commands that only tell something.
    pub(super) fn describe(&self, nexus: &Nexus, command: &Command) -> Result<Response, Sense> {
        let mut bytes = Vec::with_capacity(256);
        let allocation_length = match *command {
            Command::Inquiry { page: None, allocation_length } => {
                bytes.extend_from_slice(&standard_inquiry(Peripheral::DirectAccess));
                u32::from(allocation_length)
            }
            Command::Inquiry { page: Some(page), allocation_length } => {
                self.vital_product_data(nexus, page, &mut bytes)?;
                u32::from(allocation_length)
            }
            Command::ModeSense(sense) => {
                self.mode_sense(sense, &mut bytes)?;
                u32::from(sense.allocation_length)
            }
            Command::ReadCapacity10 => {
                bytes.extend_from_slice(&self.capacity().encode_10());
                u32::MAX
            }
            Command::ReadCapacity16 { allocation_length } => {
                bytes.extend_from_slice(&self.capacity().encode_16());
                allocation_length
            }
            Command::ReportLuns { select_report, allocation_length } => {
                bytes = super::absent::report_luns(select_report, allocation_length)?;
                allocation_length
            }
            Command::ReportSupportedOpcodes { options, timeouts, allocation_length } => {
                let discard = self.geometry().discard;
                let supported = |operation: &Operation| discard || operation.opcode != UNMAP;
                opcodes::report(options, timeouts, supported, &mut bytes).map_err(|error| match error {
                    wire::scsi::CdbError::InvalidField(pointer) => Sense::invalid_field(pointer),
                    wire::scsi::CdbError::InvalidOpcode(_) => Sense::invalid_opcode(),
                })?;
                allocation_length
            }
            Command::ReportSupportedTaskManagement { extended, allocation_length } => {
                opcodes::report_task_management(extended, &mut bytes);
                allocation_length
            }
            _ => return Err(Sense::invalid_opcode()),
        };
        Ok(Response::bytes(&bytes, allocation_length))
    }

    fn vital_product_data(&self, nexus: &Nexus, code: u8, out: &mut Vec<u8>) -> Result<(), Sense> {
        match code {
            page::SUPPORTED => inquiry::supported_pages(&PAGES, out),
            page::UNIT_SERIAL_NUMBER => inquiry::unit_serial_number(self.serial(), out),
            page::DEVICE_IDENTIFICATION => self.device_identification(nexus, out),
            page::EXTENDED_INQUIRY => {
                let data = ExtendedInquiry {
                    ordered: false,
                    head_of_queue: false,
                    volatile_cache: self.geometry().write_cache,
                    nexus_loss_clears: false,
                    maximum_sense_length: MAXIMUM_SENSE_LENGTH as u8,
                };
                inquiry::extended_inquiry(&data, out);
            }
            page::BLOCK_LIMITS => self.block_limits().encode(out),
            page::BLOCK_CHARACTERISTICS => inquiry::block_characteristics(1, out),
            page::PROVISIONING => {
                let discard = self.geometry().discard;
                let provisioning = Provisioning {
                    unmap: discard,
                    write_same_16: discard,
                    write_same_10: discard,
                    reads_zeros: self.reads_zeros(),
                    kind: if discard { ProvisioningType::Thin } else { ProvisioningType::Full },
                };
                provisioning.encode(out);
            }
            _ => return Err(Sense::invalid_field(FieldPointer::cdb(2))),
        }
        Ok(())
    }

    /// The logical unit by a stable NAA identifier, by vendor and serial number and by its UUID; the port that
    /// the command came by; the target by its name.
    fn device_identification(&self, nexus: &Nexus, out: &mut Vec<u8>) {
        let uuid = self.uuid();
        let port = nexus.port();
        let target = self.unit().target_name();
        // RFC 7143 section 4.2.7.1 and SPC-5: the port's name is the target's with the portal group tag.
        let port_name = format!("{target},t,0x{:04x}", port.group);
        let iscsi = Some(PROTOCOL_ISCSI);
        inquiry::device_identification(
            &[
                (Association::LogicalUnit, None, Designator::NaaLocal(naa_of(uuid))),
                (
                    Association::LogicalUnit,
                    None,
                    Designator::T10Vendor { vendor: VENDOR, identifier: self.serial() },
                ),
                (Association::LogicalUnit, None, Designator::Uuid(uuid)),
                (Association::TargetPort, iscsi, Designator::RelativeTargetPort(port.relative)),
                (Association::TargetPort, iscsi, Designator::TargetPortGroup(port.group)),
                (Association::TargetPort, iscsi, Designator::ScsiName(&port_name)),
                (Association::TargetDevice, iscsi, Designator::ScsiName(target)),
            ],
            out,
        );
    }

    fn block_limits(&self) -> BlockLimits {
        let geometry = self.geometry();
        let block_size = self.block_size();
        let granularity = self.blocks_per_physical();
        let unmap_granularity = (geometry.discard_granularity / block_size).max(1);
        BlockLimits {
            write_same_non_zero: true,
            maximum_compare_and_write: self.maximum_compare_blocks() as u8,
            optimal_granularity: granularity as u16,
            maximum_transfer: limits::TRANSFER_BYTES as u32 / block_size,
            optimal_transfer: limits::FILL_BYTES as u32 / block_size,
            maximum_prefetch: 0,
            maximum_unmap: if geometry.discard { limits::UNMAP_BLOCKS } else { 0 },
            maximum_unmap_descriptors: if geometry.discard { limits::UNMAP_DESCRIPTORS } else { 0 },
            unmap_granularity: if geometry.discard { unmap_granularity } else { 0 },
            unmap_alignment: geometry.discard.then_some(0),
            maximum_write_same: u64::from(limits::WRITE_SAME_BLOCKS),
        }
    }

    fn capacity(&self) -> Capacity {
        let geometry = self.geometry();
        Capacity {
            blocks: geometry.blocks,
            block_size: self.block_size(),
            physical_exponent: self.blocks_per_physical().ilog2() as u8,
            lowest_aligned: 0,
            provisioning: geometry.discard,
            reads_zeros: self.reads_zeros(),
        }
    }

    /// What MODE SENSE and MODE SELECT go by.
    pub(super) fn mode_context(&self) -> ModeContext {
        ModeContext {
            current: self.unit().parameters(),
            default: self.unit().default_parameters(),
            write_cache_changeable: self.geometry().write_cache,
            read_only: self.read_only(),
            blocks: self.geometry().blocks,
            block_size: self.block_size(),
        }
    }

    fn mode_sense(&self, command: ModeSense, out: &mut Vec<u8>) -> Result<(), Sense> {
        mode::sense(&command, &self.mode_context(), out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn naa_differs_when_any_half_of_the_uuid_does() {
        let uuid = [1, 2, 3, 4, 5, 6, 0x47, 8, 0x89, 10, 11, 12, 13, 14, 15, 16];
        let mut other = uuid;
        other[15] ^= 1;
        assert_ne!(naa_of(uuid), naa_of(other));
        let mut other = uuid;
        other[1] ^= 1;
        assert_ne!(naa_of(uuid), naa_of(other));
        assert_eq!(naa_of(uuid) >> 60, 0);
    }
}
