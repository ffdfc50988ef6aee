//! Any bytes as a CDB: no panic, and what decodes decodes the same from a padded CDB.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::scsi::cdb::{CdbError, Command, encode};
use wire::scsi::opcodes;

fuzz_target!(|bytes: &[u8]| {
    let decoded = Command::decode(bytes);
    match decoded {
        Ok(command) => {
            if bytes.len() < 16 {
                let mut padded = [0; 16];
                padded[..bytes.len()].copy_from_slice(bytes);
                assert_eq!(Command::decode(&padded), decoded);
            }
            match command {
                Command::Read(transfer) => {
                    assert_eq!(Command::decode(&encode::read_16(transfer)), decoded);
                }
                Command::Write(transfer) => {
                    assert_eq!(Command::decode(&encode::write_16(transfer)), decoded);
                }
                Command::ReportSupportedOpcodes { options, timeouts, .. } => {
                    let mut out = Vec::new();
                    let _ = opcodes::report(options, timeouts, |_| true, &mut out);
                    assert!(out.len() < 8192);
                }
                _ => {}
            }
        }
        Err(CdbError::InvalidField(pointer)) => assert!(pointer.in_cdb && pointer.byte <= 16),
        Err(CdbError::InvalidOpcode(opcode)) => assert_eq!(bytes.first(), Some(&opcode)),
    }
});
