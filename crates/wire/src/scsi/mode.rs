//! Mode parameters (SPC-5 section 7.5, SBC-4 section 6.5): the caching, control and informational exceptions
//! control pages, MODE SENSE and MODE SELECT in their six and ten byte forms.

use super::bytes::{put, u8_at, u16_at, u24_at, u32_at, u64_at};
use super::cdb::{ModeSelect, ModeSense, PageControl};
use super::sense::{AdditionalSense, FieldPointer, Sense, SenseFormat};

/// Page codes.
pub mod page {
    /// Caching.
    pub const CACHING: u8 = 0x08;
    /// Control.
    pub const CONTROL: u8 = 0x0a;
    /// Informational exceptions control.
    pub const INFORMATIONAL_EXCEPTIONS: u8 = 0x1c;
    /// All pages.
    pub const ALL: u8 = 0x3f;
    /// All subpages.
    pub const ALL_SUBPAGES: u8 = 0xff;
}

/// The pages of this target in the order of their codes, as MODE SENSE has to return them.
const PAGES: [u8; 3] = [page::CACHING, page::CONTROL, page::INFORMATIONAL_EXCEPTIONS];

/// The longest page, in bytes with its header.
const LONGEST_PAGE: usize = 20;

/// More than the longest MODE SENSE answer, in bytes: header, long block descriptor and all pages.
pub const MAXIMUM_MODE_DATA: usize = 96;

/// What MODE SELECT may change, with its current values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModeParameters {
    /// WCE: acknowledged writes may still be volatile.
    pub write_cache: bool,
    /// `D_SENSE`: the format of sense data.
    pub sense_format: SenseFormat,
    /// SWP: software write protection.
    pub write_protect: bool,
}

/// What else MODE SENSE tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModeContext {
    /// The values now.
    pub current: ModeParameters,
    /// The values after power on.
    pub default: ModeParameters,
    /// There is a write cache, so that WCE may be set at all.
    pub write_cache_changeable: bool,
    /// WP of the header for a reason other than SWP.
    pub read_only: bool,
    /// Number of logical blocks.
    pub blocks: u64,
    /// Bytes in a logical block.
    pub block_size: u32,
}

fn flag(set: bool, mask: u8) -> u8 {
    if set { mask } else { 0 }
}

/// One page with its header; the length is in the second byte.
fn build(code: u8, values: ModeParameters) -> [u8; LONGEST_PAGE] {
    let mut bytes = [0; LONGEST_PAGE];
    bytes[0] = code;
    match code {
        page::CACHING => {
            bytes[1] = 0x12;
            bytes[2] = flag(values.write_cache, 0x04);
        }
        page::CONTROL => {
            bytes[1] = 0x0a;
            // GLTSD: there is no log whose implicit saving would be possible.
            bytes[2] = flag(values.sense_format == SenseFormat::Descriptor, 0x04) | 0x02;
            // QUEUE ALGORITHM MODIFIER 1: commands may be reordered; QERR 0: an error aborts no other command.
            bytes[3] = 0x10;
            bytes[4] = flag(values.write_protect, 0x08);
            // BUSY TIMEOUT PERIOD: no limit.
            bytes[8] = 0xff;
            bytes[9] = 0xff;
        }
        _ => {
            bytes[1] = 0x0a;
            bytes[2] = 0x08; // DEXCPT: no exceptions are reported.
        }
    }
    bytes
}

/// The bits that MODE SELECT may change.
fn changeable(code: u8, context: &ModeContext) -> [u8; LONGEST_PAGE] {
    let mut bytes = [0; LONGEST_PAGE];
    let header = build(code, context.current);
    bytes[0] = header[0];
    bytes[1] = header[1];
    match code {
        page::CACHING => bytes[2] = flag(context.write_cache_changeable, 0x04),
        page::CONTROL => {
            bytes[2] = 0x04;
            bytes[4] = 0x08;
        }
        _ => {}
    }
    bytes
}

fn length_of(page: &[u8; LONGEST_PAGE]) -> usize {
    (2 + usize::from(page[1])).min(LONGEST_PAGE)
}

/// Appends the answer of MODE SENSE, untruncated: header, block descriptor if wanted, pages.
pub fn sense(command: &ModeSense, context: &ModeContext, out: &mut Vec<u8>) -> Result<(), Sense> {
    if command.control == PageControl::Saved {
        return Err(Sense::illegal_request(AdditionalSense::SAVING_PARAMETERS_NOT_SUPPORTED)
            .with_field(FieldPointer::cdb_bit(2, 7)));
    }
    let known = command.page == page::ALL || PAGES.contains(&command.page);
    if !known {
        return Err(Sense::invalid_field(FieldPointer::cdb_bit(2, 5)));
    }
    if command.subpage != 0 && command.subpage != page::ALL_SUBPAGES {
        return Err(Sense::invalid_field(FieldPointer::cdb(3)));
    }
    let start = out.len();
    // WP and DPOFUA.
    let device_specific = flag(context.read_only || context.current.write_protect, 0x80) | 0x10;
    let header = if command.ten { 8 } else { 4 };
    out.resize(start + header, 0);
    let descriptor =
        if command.disable_block_descriptors { 0 } else { block_descriptor(command.long_lba, context, out) };
    if command.ten {
        put(out, start + 3, &[device_specific, flag(descriptor == 16, 0x01), 0, 0, descriptor]);
    } else {
        put(out, start + 2, &[device_specific, descriptor]);
    }
    for code in PAGES {
        if command.page != page::ALL && command.page != code {
            continue;
        }
        let bytes = match command.control {
            PageControl::Changeable => changeable(code, context),
            PageControl::Default => build(code, context.default),
            PageControl::Current | PageControl::Saved => build(code, context.current),
        };
        out.extend_from_slice(bytes.get(..length_of(&bytes)).unwrap_or(&[]));
    }
    let length = out.len() - start;
    if command.ten {
        put(out, start, &((length - 2) as u16).to_be_bytes());
    } else {
        put(out, start, &[(length - 1) as u8]);
    }
    Ok(())
}

/// Appends a block descriptor and returns its length: the long form if LLBAA allows and the size needs it.
fn block_descriptor(long_lba: bool, context: &ModeContext, out: &mut Vec<u8>) -> u8 {
    if long_lba {
        out.extend_from_slice(&context.blocks.to_be_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&context.block_size.to_be_bytes());
        16
    } else {
        let blocks = u32::try_from(context.blocks).unwrap_or(u32::MAX);
        out.extend_from_slice(&blocks.to_be_bytes());
        let [_, size @ ..] = context.block_size.to_be_bytes();
        out.push(0);
        out.extend_from_slice(&size);
        8
    }
}

/// Refuses what a MODE SELECT CDB alone shows to be wrong: vendor formats and saving.
pub fn check_select(command: &ModeSelect) -> Result<(), Sense> {
    if command.save_pages {
        return Err(Sense::invalid_field(FieldPointer::cdb_bit(1, 0)));
    }
    if !command.page_format && command.parameter_list_length > 0 {
        return Err(Sense::invalid_field(FieldPointer::cdb_bit(1, 4)));
    }
    Ok(())
}

/// Reads a MODE SELECT parameter list and returns the parameters that it asks for. Nothing is taken over if any
/// part of the list is wrong: a list cut short, an unknown page, another page length, a changed bit that is
/// not changeable, another capacity or block length.
pub fn select(command: &ModeSelect, list: &[u8], context: &ModeContext) -> Result<ModeParameters, Sense> {
    check_select(command)?;
    let mut wanted = context.current;
    if list.is_empty() {
        return Ok(wanted);
    }
    let (header, descriptor_length) =
        if command.ten { (8, usize::from(u16_at(list, 6))) } else { (4, usize::from(u8_at(list, 3))) };
    if list.len() < header + descriptor_length {
        return Err(Sense::parameter_list_length_error());
    }
    let long = command.ten && u8_at(list, 4) & 0x01 != 0;
    check_descriptor(list.get(header..header + descriptor_length).unwrap_or(&[]), long, header, context)?;
    let mut offset = header + descriptor_length;
    while offset < list.len() {
        offset += select_page(list, offset, context, &mut wanted)?;
    }
    Ok(wanted)
}

/// A block descriptor may repeat what is, and may leave the number of blocks at 0 or all ones (SBC-4
/// section 6.5.2).
fn check_descriptor(bytes: &[u8], long: bool, offset: usize, context: &ModeContext) -> Result<(), Sense> {
    let wrong = |byte: usize| Sense::invalid_field(FieldPointer::parameter((offset + byte) as u16));
    let (blocks, all_ones, block_size, size_at) = match (bytes.len(), long) {
        (0, _) => return Ok(()),
        (8, false) => (u64::from(u32_at(bytes, 0)), u64::from(u32::MAX), u24_at(bytes, 5), 5),
        (16, true) => (u64_at(bytes, 0), u64::MAX, u32_at(bytes, 12), 12),
        _ => {
            let length_field = if offset == 8 { 6 } else { 3 };
            return Err(Sense::invalid_field(FieldPointer::parameter(length_field)));
        }
    };
    if blocks != 0 && blocks != all_ones && blocks != context.blocks {
        return Err(wrong(0));
    }
    if block_size != context.block_size {
        return Err(wrong(size_at));
    }
    Ok(())
}

/// One page at `offset`; returns its length.
fn select_page(
    list: &[u8],
    offset: usize,
    context: &ModeContext,
    wanted: &mut ModeParameters,
) -> Result<usize, Sense> {
    let pointer = |byte: usize| FieldPointer::parameter((offset + byte).min(usize::from(u16::MAX)) as u16);
    let code = u8_at(list, offset) & 0x3f;
    if u8_at(list, offset) & 0x40 != 0 || !PAGES.contains(&code) {
        return Err(Sense::invalid_field(pointer(0)));
    }
    let current = build(code, context.current);
    let mask = changeable(code, context);
    let length = length_of(&current);
    if list.len() - offset < 2 {
        return Err(Sense::parameter_list_length_error());
    }
    if u8_at(list, offset + 1) != current[1] {
        return Err(Sense::invalid_field(pointer(1)));
    }
    let page = list.get(offset..offset + length).ok_or(Sense::parameter_list_length_error())?;
    for (position, byte) in page.iter().enumerate().skip(2) {
        let fixed = !u8_at(&mask, position);
        let wrong = (byte ^ u8_at(&current, position)) & fixed;
        if wrong != 0 {
            let bit = 7 - wrong.leading_zeros() as u8;
            return Err(Sense::invalid_field(FieldPointer { bit: Some(bit), ..pointer(position) }));
        }
    }
    match code {
        page::CACHING => wanted.write_cache = u8_at(page, 2) & 0x04 != 0,
        page::CONTROL => {
            let descriptor = u8_at(page, 2) & 0x04 != 0;
            wanted.sense_format = if descriptor { SenseFormat::Descriptor } else { SenseFormat::Fixed };
            wanted.write_protect = u8_at(page, 4) & 0x08 != 0;
        }
        _ => {}
    }
    Ok(length)
}

#[cfg(test)]
#[path = "mode_tests.rs"]
mod tests;
