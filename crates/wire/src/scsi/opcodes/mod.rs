//! The commands of this target, defined once: the bits that a CDB may set, its decoder, its name. From this
//! table come [`super::Command::decode`] and REPORT SUPPORTED OPERATION CODES (SPC-5 section 6.35).

use super::bytes::put;
use super::cdb::{CdbError, Command, MAXIMUM_CDB_LENGTH, ReportingOptions};
use super::sense::FieldPointer;

mod table;

pub use table::OPERATIONS;

/// One supported command.
#[derive(Debug)]
pub struct Operation {
    /// Operation code.
    pub opcode: u8,
    /// Service action, for the operation codes that have them.
    pub service_action: Option<u16>,
    /// The standard's name.
    pub name: &'static str,
    /// CDB USAGE DATA: a set bit is one that this target evaluates. Its length is the CDB's. The operation code
    /// and service action fields have their values.
    pub usage: &'static [u8],
    /// Bits that may be set and are not looked at: obsolete fields and hints.
    pub ignored: &'static [(u8, u8)],
    /// NOMINAL COMMAND PROCESSING TIMEOUT and the recommended one, in seconds; 0 says nothing.
    pub timeouts_seconds: (u32, u32),
    /// Reads the fields of a CDB that set no forbidden bit.
    pub(super) decode: fn(&[u8]) -> Result<Command, CdbError>,
}

/// Where an operation code's entries begin in [`OPERATIONS`]; [`NOWHERE`] for codes that are not supported.
static INDEX: [u8; 256] = index();

const NOWHERE: u8 = u8::MAX;

const fn index() -> [u8; 256] {
    let mut index = [NOWHERE; 256];
    let mut position = OPERATIONS.len();
    assert!(position < NOWHERE as usize);
    while position > 0 {
        position -= 1;
        let operation = &OPERATIONS[position];
        assert!(operation.usage[0] == operation.opcode);
        assert!(operation.usage.len() <= MAXIMUM_CDB_LENGTH);
        index[operation.opcode as usize] = position as u8;
    }
    index
}

/// What each operation's CDB may not set, all of it at once: byte `n` in the bits from `8 * n` on. None behind the CDB's end.
static UNUSED: [u128; OPERATIONS.len()] = unused();

const fn unused() -> [u128; OPERATIONS.len()] {
    let mut unused = [0; OPERATIONS.len()];
    let mut position = 0;
    while position < OPERATIONS.len() {
        let usage = OPERATIONS[position].usage;
        let mut byte = 1;
        while byte < usage.len() {
            unused[position] |= (!usage[byte] as u128) << (8 * byte);
            byte += 1;
        }
        position += 1;
    }
    unused
}

/// Entries of one operation code: one, or one for each service action.
fn entries(opcode: u8) -> &'static [Operation] {
    let start = usize::from(INDEX[usize::from(opcode)]);
    let tail = OPERATIONS.get(start..).unwrap_or(&[]);
    let length = tail.iter().take_while(|operation| operation.opcode == opcode).count();
    tail.get(..length).unwrap_or(&[])
}

/// The operation that a CDB asks for, if it sets no bit that is reserved: [`super::Command::decode`] for most of them, in the
/// fewest steps. `None` says nothing: [`find`] and [`Operation::check_reserved`] know why.
pub(super) fn find_plain(cdb: &[u8]) -> Option<&'static Operation> {
    let cdb: &[u8; MAXIMUM_CDB_LENGTH] = cdb.first_chunk()?;
    let position = usize::from(INDEX[usize::from(cdb[0])]);
    let operation = OPERATIONS.get(position)?;
    let plain = operation.service_action.is_none() && u128::from_le_bytes(*cdb) & UNUSED[position] == 0;
    plain.then_some(operation)
}

/// The operation that a CDB asks for. `Ok(None)`: not supported; an unknown service action of a known operation
/// code is an invalid field (SPC-5 section 4.2.5.2).
pub fn find(cdb: &[u8]) -> Result<Option<&'static Operation>, CdbError> {
    let Some(&opcode) = cdb.first() else { return Ok(None) };
    let entries = entries(opcode);
    match entries {
        [] => Ok(None),
        [only] if only.service_action.is_none() => Ok(Some(only)),
        several => {
            let service_action = u16::from(cdb.get(1).copied().unwrap_or(0) & 0x1f);
            several
                .iter()
                .find(|operation| operation.service_action == Some(service_action))
                .map(Some)
                .ok_or(CdbError::InvalidField(FieldPointer::cdb_bit(1, 4)))
        }
    }
}

impl Operation {
    /// The bits that byte `position` may set.
    fn accepted(&self, position: usize) -> u8 {
        let mut mask = self.usage.get(position).copied().unwrap_or(0);
        for &(byte, bits) in self.ignored {
            if usize::from(byte) == position {
                mask |= bits;
            }
        }
        mask
    }

    /// Refuses a CDB that is too short or sets a bit that is neither used nor ignored.
    pub(super) fn check_reserved(&self, cdb: &[u8]) -> Result<(), CdbError> {
        let cdb = cdb
            .get(..self.usage.len())
            .ok_or(CdbError::InvalidField(FieldPointer::cdb(cdb.len().min(MAXIMUM_CDB_LENGTH) as u16)))?;
        for (position, &byte) in cdb.iter().enumerate().skip(1) {
            let wrong = byte & !self.accepted(position);
            if wrong != 0 {
                let bit = 7 - wrong.leading_zeros() as u8;
                return Err(CdbError::InvalidField(FieldPointer::cdb_bit(position as u16, bit)));
            }
        }
        Ok(())
    }

    fn put_timeouts(&self, out: &mut Vec<u8>) {
        // Command timeouts descriptor: length 0Ah, reserved, command specific, nominal, recommended.
        out.extend_from_slice(&[0x00, 0x0a, 0x00, 0x00]);
        out.extend_from_slice(&self.timeouts_seconds.0.to_be_bytes());
        out.extend_from_slice(&self.timeouts_seconds.1.to_be_bytes());
    }
}

/// Appends the parameter data of REPORT SUPPORTED OPERATION CODES: all commands, or one. `supported` takes away what
/// a logical unit does not do.
pub fn report(
    options: ReportingOptions,
    timeouts: bool,
    supported: impl Fn(&Operation) -> bool,
    out: &mut Vec<u8>,
) -> Result<(), CdbError> {
    match options {
        ReportingOptions::All => {
            report_all(timeouts, &supported, out);
            Ok(())
        }
        ReportingOptions::Opcode(opcode) => {
            // SPC-5 table "REPORTING OPTIONS field": an operation code with service actions is an invalid field.
            let found = match entries(opcode) {
                [] => None,
                [only] if only.service_action.is_none() => Some(only),
                _ => return Err(CdbError::InvalidField(FieldPointer::cdb_bit(2, 2))),
            };
            report_one(found.filter(|operation| supported(operation)), timeouts, out);
            Ok(())
        }
        ReportingOptions::ServiceAction(opcode, service_action) => {
            let entries = entries(opcode);
            if entries.iter().any(|operation| operation.service_action.is_none()) {
                return Err(CdbError::InvalidField(FieldPointer::cdb_bit(2, 2)));
            }
            let found = entries.iter().find(|operation| operation.service_action == Some(service_action));
            report_one(found.filter(|operation| supported(operation)), timeouts, out);
            Ok(())
        }
        ReportingOptions::Either(opcode, service_action) => {
            let found = entries(opcode).iter().find(|operation| match operation.service_action {
                None => service_action == 0,
                Some(action) => action == service_action,
            });
            report_one(found.filter(|operation| supported(operation)), timeouts, out);
            Ok(())
        }
    }
}

fn report_all(timeouts: bool, supported: &impl Fn(&Operation) -> bool, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    for operation in OPERATIONS.iter().filter(|operation| supported(operation)) {
        let mut flags = 0;
        if operation.service_action.is_some() {
            flags |= 0x01; // SERVACTV
        }
        if timeouts {
            flags |= 0x02; // CTDP
        }
        let [high, low] = operation.service_action.unwrap_or(0).to_be_bytes();
        let [length_high, length_low] = (operation.usage.len() as u16).to_be_bytes();
        out.extend_from_slice(&[operation.opcode, 0, high, low, 0, flags, length_high, length_low]);
        if timeouts {
            operation.put_timeouts(out);
        }
    }
    let length = (out.len() - start - 4) as u32;
    put(out, start, &length.to_be_bytes());
}

fn report_one(found: Option<&Operation>, timeouts: bool, out: &mut Vec<u8>) {
    let Some(operation) = found else {
        out.extend_from_slice(&[0, 0x01, 0, 0]); // SUPPORT 001b: not supported
        return;
    };
    let with_timeouts = if timeouts { 0x80 } else { 0 };
    let [high, low] = (operation.usage.len() as u16).to_be_bytes();
    out.extend_from_slice(&[0, with_timeouts | 0x03, high, low]); // SUPPORT 011b: as the standard says
    out.extend_from_slice(operation.usage);
    if timeouts {
        operation.put_timeouts(out);
    }
}

/// Appends the parameter data of REPORT SUPPORTED TASK MANAGEMENT FUNCTIONS (SPC-5 section 6.36): ABORT TASK,
/// ABORT TASK SET, CLEAR TASK SET, LOGICAL UNIT RESET, TARGET RESET, and the `I_T` nexus reset that a closed
/// session is.
pub fn report_task_management(extended: bool, out: &mut Vec<u8>) {
    // ATS 80h, ATSS 40h, CTSS 10h, LURS 08h, TRS 02h.
    const FIRST: u8 = 0x80 | 0x40 | 0x10 | 0x08 | 0x02;
    out.extend_from_slice(&[FIRST, 0, 0]);
    if extended {
        out.push(12);
        out.extend_from_slice(&[0; 12]);
    } else {
        out.push(0);
    }
}

#[cfg(test)]
mod tests;
