//! Commands to a logical unit number where nothing is (SPC-5 sections 6.6.1 and 6.33, SAM-5 section 5.11).

use wire::scsi::inquiry::{Peripheral, page};
use wire::scsi::luns::{self, Lun, SelectReport};
use wire::scsi::{AdditionalSense, Command, FieldPointer, Sense, SenseFormat};

use super::describe;
use super::response::Response;

/// The logical units of a target of one volume.
const LUNS: [Lun; 1] = [Lun::ZERO];

fn not_supported() -> Sense {
    Sense::illegal_request(AdditionalSense::LOGICAL_UNIT_NOT_SUPPORTED)
}

/// INQUIRY says that no device can be here, REPORT LUNS says where there is one, REQUEST SENSE has the reason as
/// its data, and everything else ends with it.
pub(super) fn respond(command: &Command) -> Response {
    let refused = |sense| Response::check_condition(sense, SenseFormat::Fixed);
    match *command {
        Command::Inquiry { page: None, allocation_length } => {
            Response::bytes(&describe::standard_inquiry(Peripheral::None), u32::from(allocation_length))
        }
        Command::Inquiry { page: Some(page::SUPPORTED), allocation_length } => {
            Response::bytes(&[Peripheral::None as u8, page::SUPPORTED, 0, 1, 0], u32::from(allocation_length))
        }
        Command::Inquiry { page: Some(_), .. } => refused(Sense::invalid_field(FieldPointer::cdb(2))),
        Command::ReportLuns { select_report, allocation_length } => {
            match report_luns(select_report, allocation_length) {
                Ok(bytes) => Response::bytes(&bytes, allocation_length),
                Err(sense) => refused(sense),
            }
        }
        Command::RequestSense { descriptor, allocation_length } => {
            let format = if descriptor { SenseFormat::Descriptor } else { SenseFormat::Fixed };
            Response::bytes(&not_supported().encode(format), u32::from(allocation_length))
        }
        _ => refused(not_supported()),
    }
}

/// REPORT LUNS, the same at every logical unit number.
pub(super) fn report_luns(select_report: u8, allocation_length: u32) -> Result<Vec<u8>, Sense> {
    let select = SelectReport::from_wire(select_report).ok_or(Sense::invalid_field(FieldPointer::cdb(2)))?;
    // The header and one entry have to fit (SPC-5 section 6.33).
    if allocation_length < 16 {
        return Err(Sense::invalid_field(FieldPointer::cdb(6)));
    }
    let mut bytes = Vec::with_capacity(16);
    luns::report(select, &LUNS, &mut bytes);
    Ok(bytes)
}
