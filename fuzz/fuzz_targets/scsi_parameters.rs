//! Any bytes as the parameter lists and parameter data of SCSI: UNMAP, MODE SELECT, sense data, INQUIRY pages,
//! capacity, LUN lists, LBA status. The first byte chooses.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::scsi::capacity::Capacity;
use wire::scsi::cdb::ModeSelect;
use wire::scsi::inquiry::{self, BlockLimits, StandardSummary};
use wire::scsi::mode::{self, ModeContext, ModeParameters};
use wire::scsi::sense::{Sense, SenseFormat};
use wire::scsi::unmap::UnmapList;
use wire::scsi::{lba_status, luns};

fn mode_select(list: &[u8], ten: bool) {
    let values = ModeParameters { write_cache: true, sense_format: SenseFormat::Fixed, write_protect: false };
    let context = ModeContext {
        current: values,
        default: values,
        write_cache_changeable: true,
        read_only: false,
        blocks: 2048,
        block_size: 512,
    };
    let command = ModeSelect {
        ten,
        page_format: true,
        save_pages: false,
        parameter_list_length: u16::try_from(list.len()).unwrap_or(u16::MAX),
    };
    let _ = mode::select(&command, list, &context);
}

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, rest)) = bytes.split_first() else { return };
    match choice % 8 {
        0 => {
            if let Ok(list) = UnmapList::decode(rest, 64) {
                assert!(list.iter().count() <= 64);
            }
        }
        1 => mode_select(rest, false),
        2 => mode_select(rest, true),
        3 => {
            if let Ok(sense) = Sense::decode(rest) {
                assert_eq!(Sense::decode(&sense.encode(SenseFormat::Descriptor)), Ok(sense));
            }
        }
        4 => {
            let _ = (BlockLimits::decode(rest), StandardSummary::decode(rest), inquiry::find_naa(rest));
        }
        5 => {
            let _ = (Capacity::decode_10(rest), Capacity::decode_16(rest));
        }
        6 => {
            for field in luns::decode_report(rest) {
                if let Some(lun) = luns::Lun::decode(field) {
                    assert_eq!(luns::Lun::decode(lun.encode()), Some(lun));
                }
            }
        }
        _ => assert!(lba_status::decode(rest).count() <= rest.len() / 16),
    }
});
