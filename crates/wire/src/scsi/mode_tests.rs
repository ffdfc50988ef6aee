//! MODE SENSE layouts, and MODE SELECT lists that may and may not change something.

use proptest::prelude::*;

use super::*;

fn context() -> ModeContext {
    let values = ModeParameters { write_cache: true, sense_format: SenseFormat::Fixed, write_protect: false };
    ModeContext {
        current: values,
        default: values,
        write_cache_changeable: true,
        read_only: false,
        blocks: 2048,
        block_size: 512,
    }
}

fn sense_command(ten: bool, control: PageControl, page: u8) -> ModeSense {
    ModeSense {
        ten,
        long_lba: false,
        disable_block_descriptors: true,
        control,
        page,
        subpage: 0,
        allocation_length: 255,
    }
}

fn select_command(ten: bool, list: &[u8]) -> ModeSelect {
    ModeSelect { ten, page_format: true, save_pages: false, parameter_list_length: list.len() as u16 }
}

#[test]
fn all_pages_with_both_headers() {
    let mut out = Vec::new();
    let mut command = sense_command(false, PageControl::Current, page::ALL);
    command.disable_block_descriptors = false;
    sense(&command, &context(), &mut out).unwrap();
    assert_eq!(out.len(), 4 + 8 + 20 + 12 + 12);
    assert_eq!(out[..4], [55, 0, 0x10, 8]);
    assert_eq!(out[4..12], [0, 0, 8, 0, 0, 0, 2, 0]);
    assert_eq!((out[12], out[14]), (0x08, 0x04));
    out.clear();
    command.ten = true;
    command.long_lba = true;
    sense(&command, &context(), &mut out).unwrap();
    assert_eq!(out[..8], [0, 66, 0, 0x10, 1, 0, 0, 16]);
    assert!(out.len() <= MAXIMUM_MODE_DATA);
    assert_eq!(usize::from(u16_at(&out, 0)), out.len() - 2);
}

#[test]
fn changeable_mask_and_default_values() {
    let mut out = Vec::new();
    sense(&sense_command(false, PageControl::Changeable, page::CACHING), &context(), &mut out).unwrap();
    assert_eq!((out[4], out[5], out[6]), (0x08, 0x12, 0x04));
    let mut changed = context();
    changed.current.write_cache = false;
    out.clear();
    sense(&sense_command(false, PageControl::Default, page::CACHING), &changed, &mut out).unwrap();
    assert_eq!(out[6], 0x04);
}

#[test]
fn saved_values_and_unknown_pages_are_refused() {
    let mut out = Vec::new();
    let saved =
        sense(&sense_command(false, PageControl::Saved, page::ALL), &context(), &mut out).unwrap_err();
    assert_eq!(saved.additional, AdditionalSense::SAVING_PARAMETERS_NOT_SUPPORTED);
    let unknown = sense(&sense_command(false, PageControl::Current, 0x19), &context(), &mut out).unwrap_err();
    assert_eq!(unknown.additional, AdditionalSense::INVALID_FIELD_IN_CDB);
    assert!(out.is_empty());
}

#[test]
fn write_protection_shows_in_the_header() {
    let mut out = Vec::new();
    let protected = ModeContext { read_only: true, ..context() };
    sense(&sense_command(false, PageControl::Current, page::CONTROL), &protected, &mut out).unwrap();
    assert_eq!(out[2], 0x90);
}

/// What MODE SENSE said, with the reserved fields of the header cleared, as initiators do.
fn sensed(ten: bool, code: u8) -> Vec<u8> {
    let mut out = Vec::new();
    sense(&sense_command(ten, PageControl::Current, code), &context(), &mut out).unwrap();
    out[0] = 0;
    out[usize::from(ten)] = 0;
    out[2 + usize::from(ten)] = 0;
    out
}

#[test]
fn what_was_sensed_may_be_selected_and_changes_nothing() {
    for ten in [false, true] {
        let list = sensed(ten, page::ALL);
        assert_eq!(select(&select_command(ten, &list), &list, &context()), Ok(context().current));
    }
}

#[test]
fn changeable_bits_change() {
    let mut list = sensed(false, page::CACHING);
    list[6] &= !0x04;
    let wanted = select(&select_command(false, &list), &list, &context()).unwrap();
    assert!(!wanted.write_cache);
    let mut list = sensed(true, page::CONTROL);
    list[8 + 2] |= 0x04;
    list[8 + 4] |= 0x08;
    let wanted = select(&select_command(true, &list), &list, &context()).unwrap();
    assert_eq!(wanted.sense_format, SenseFormat::Descriptor);
    assert!(wanted.write_protect && wanted.write_cache);
}

#[test]
fn a_write_cache_that_is_not_there_cannot_be_switched_on() {
    let mut without = context();
    without.current.write_cache = false;
    without.write_cache_changeable = false;
    let list = sensed(false, page::CACHING);
    let sense = select(&select_command(false, &list), &list, &without).unwrap_err();
    assert_eq!(sense, Sense::invalid_field(FieldPointer::parameter_bit(6, 2)));
}

#[test]
fn a_fixed_bit_may_not_change_and_the_pointer_finds_it() {
    let mut list = sensed(false, page::CACHING);
    list[4 + 12] |= 0x20; // DRA
    let sense = select(&select_command(false, &list), &list, &context()).unwrap_err();
    assert_eq!(sense, Sense::invalid_field(FieldPointer::parameter_bit(16, 5)));
}

#[test]
fn lists_cut_short_are_length_errors() {
    let list = sensed(false, page::CACHING);
    for length in 1..list.len() {
        // A list that ends behind the header asks for nothing and is right.
        if length == 4 {
            continue;
        }
        let result = select(&select_command(false, &list[..length]), &list[..length], &context());
        assert_eq!(result, Err(Sense::parameter_list_length_error()), "{length}");
    }
}

#[test]
fn block_descriptors_may_only_repeat_what_is() {
    let good = [0, 0, 0, 8, 0, 0, 8, 0, 0, 0, 2, 0];
    assert!(select(&select_command(false, &good), &good, &context()).is_ok());
    let mut wrong = good;
    wrong[10] = 4;
    assert!(select(&select_command(false, &wrong), &wrong, &context()).is_err());
    let mut wrong = good;
    wrong[6] = 9;
    assert!(select(&select_command(false, &wrong), &wrong, &context()).is_err());
}

#[test]
fn saving_and_vendor_formats_are_refused() {
    let list = sensed(false, page::CACHING);
    let saving = ModeSelect { save_pages: true, ..select_command(false, &list) };
    assert_eq!(select(&saving, &list, &context()), Err(Sense::invalid_field(FieldPointer::cdb_bit(1, 0))));
    let vendor = ModeSelect { page_format: false, ..select_command(false, &list) };
    assert_eq!(select(&vendor, &list, &context()), Err(Sense::invalid_field(FieldPointer::cdb_bit(1, 4))));
}

proptest! {
    #[test]
    fn no_list_panics(list in prop::collection::vec(any::<u8>(), 0..80), ten in any::<bool>()) {
        let _ = select(&select_command(ten, &list), &list, &context());
    }

    #[test]
    fn no_page_panics(mut body in prop::collection::vec(any::<u8>(), 1..40), code in 0..3_usize) {
        body[0] = PAGES[code];
        let mut list = vec![0, 0, 0, 0];
        list.extend(body);
        let _ = select(&select_command(false, &list), &list, &context());
    }
}
