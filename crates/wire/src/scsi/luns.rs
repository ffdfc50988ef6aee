//! Logical unit numbers (SAM-5 section 4.7) and REPORT LUNS (SPC-5 section 6.33).

use super::bytes::{u16_at, u32_at};

/// A logical unit number that this target can address: single level, peripheral or flat space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Lun(u16);

/// The largest LUN of the flat space addressing method.
pub const MAXIMUM_LUN: u16 = 0x3fff;

/// The REPORT LUNS well-known logical unit, C101h.
pub const REPORT_LUNS_WELL_KNOWN: [u8; 8] = [0xc1, 0x01, 0, 0, 0, 0, 0, 0];

impl Lun {
    /// LUN 0.
    pub const ZERO: Self = Self(0);

    /// A LUN by number; `None` above [`MAXIMUM_LUN`].
    pub const fn new(number: u16) -> Option<Self> {
        if number <= MAXIMUM_LUN { Some(Self(number)) } else { None }
    }

    /// The number.
    pub const fn number(self) -> u16 {
        self.0
    }

    /// Reads the eight bytes of a LUN field. `None` for what this target cannot have: several levels, a bus
    /// other than 0, extended addressing.
    pub fn decode(field: [u8; 8]) -> Option<Self> {
        if field[2..] != [0; 6] {
            return None;
        }
        match field[0] >> 6 {
            // Peripheral device addressing: the bus identifier has to be 0.
            0b00 if field[0] == 0 => Some(Self(u16::from(field[1]))),
            // Flat space addressing: 14 bits.
            0b01 => Some(Self(u16_at(&field, 0) & MAXIMUM_LUN)),
            _ => None,
        }
    }

    /// The eight bytes of a LUN field: peripheral addressing below 256, flat space above (SAM-5 4.7.4).
    pub const fn encode(self) -> [u8; 8] {
        let [high, low] = self.0.to_be_bytes();
        if high == 0 { [0, low, 0, 0, 0, 0, 0, 0] } else { [0x40 | high, low, 0, 0, 0, 0, 0, 0] }
    }
}

/// SELECT REPORT field of REPORT LUNS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SelectReport {
    /// 00h: logical units other than well-known ones.
    Addressable,
    /// 01h: well-known ones only.
    WellKnown,
    /// 02h: all.
    All,
    /// 10h, 11h, 12h: administrative and subsidiary units; none are here.
    Administrative,
}

impl SelectReport {
    /// The selection of this wire value; `None` is an invalid field.
    pub const fn from_wire(value: u8) -> Option<Self> {
        Some(match value {
            0x00 => Self::Addressable,
            0x01 => Self::WellKnown,
            0x02 => Self::All,
            0x10..=0x12 => Self::Administrative,
            _ => return None,
        })
    }
}

/// Appends REPORT LUNS parameter data. Well-known logical units are not here, so only the selection decides
/// whether `luns` are listed.
pub fn report(select: SelectReport, luns: &[Lun], out: &mut Vec<u8>) {
    let luns = match select {
        SelectReport::Addressable | SelectReport::All => luns,
        SelectReport::WellKnown | SelectReport::Administrative => &[],
    };
    let length = u32::try_from(luns.len().saturating_mul(8)).unwrap_or(u32::MAX);
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(&[0; 4]);
    for lun in luns {
        out.extend_from_slice(&lun.encode());
    }
}

/// The LUN fields in REPORT LUNS parameter data, as far as they were received.
pub fn decode_report(bytes: &[u8]) -> impl Iterator<Item = [u8; 8]> + '_ {
    let listed = (u32_at(bytes, 0) / 8) as usize;
    bytes.get(8..).unwrap_or(&[]).as_chunks::<8>().0.iter().copied().take(listed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_addressing_methods_round_trip() {
        for number in [0, 1, 255, 256, MAXIMUM_LUN] {
            let lun = Lun::new(number).unwrap();
            assert_eq!(Lun::decode(lun.encode()), Some(lun));
        }
        assert_eq!(Lun::new(MAXIMUM_LUN + 1), None);
        assert_eq!(Lun::decode([0x40, 5, 0, 0, 0, 0, 0, 0]), Lun::new(5));
    }

    #[test]
    fn other_addressing_methods_are_no_lun_of_this_target() {
        assert_eq!(Lun::decode(REPORT_LUNS_WELL_KNOWN), None);
        assert_eq!(Lun::decode([0x01, 0, 0, 0, 0, 0, 0, 0]), None);
        assert_eq!(Lun::decode([0, 0, 0, 1, 0, 0, 0, 0]), None);
        assert_eq!(Lun::decode([0x80, 0, 0, 0, 0, 0, 0, 0]), None);
    }

    #[test]
    fn report_is_read_back_and_a_lying_length_is_bounded() {
        let luns = [Lun::ZERO, Lun::new(300).unwrap()];
        let mut data = Vec::new();
        report(SelectReport::All, &luns, &mut data);
        assert_eq!(data.len(), 24);
        let read: Vec<_> = decode_report(&data).filter_map(Lun::decode).collect();
        assert_eq!(read, luns);
        data[..4].copy_from_slice(&u32::MAX.to_be_bytes());
        assert_eq!(decode_report(&data).count(), 2);
    }
}
