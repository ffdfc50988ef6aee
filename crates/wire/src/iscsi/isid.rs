//! Initiator session identifier: RFC 7143 section 11.12.5.

use std::fmt;

/// The initiator's part of the session identifier, 6 bytes as they are on the wire.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Isid(pub [u8; 6]);

/// The T field of an [`Isid`]: who gave out the rest of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IsidFormat {
    /// 00b: 22 bits of an IEEE OUI and a 24-bit qualifier.
    Oui,
    /// 01b: IANA enterprise number and a 16-bit qualifier.
    EnterpriseNumber,
    /// 10b: 24 random bits and a 16-bit qualifier.
    Random,
    /// 11b.
    Reserved,
}

impl Isid {
    /// An ISID of the random format (T = 10b); only the low 24 bits of `random` count.
    pub const fn random(random: u32, qualifier: u16) -> Self {
        let [_, high, middle, low] = random.to_be_bytes();
        let [first, second] = qualifier.to_be_bytes();
        Self([0x80, high, middle, low, first, second])
    }

    /// The T field.
    pub const fn format(self) -> IsidFormat {
        match self.0[0] >> 6 {
            0 => IsidFormat::Oui,
            1 => IsidFormat::EnterpriseNumber,
            2 => IsidFormat::Random,
            _ => IsidFormat::Reserved,
        }
    }
}

/// Twelve hex digits, as SAM's iSCSI initiator port name shows it (`name,i,0x...`).
impl fmt::Display for Isid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

impl fmt::Debug for Isid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_by_the_top_bits() {
        assert_eq!(Isid([0x00, 2, 3, 4, 5, 6]).format(), IsidFormat::Oui);
        assert_eq!(Isid([0x40, 0, 1, 0x37, 0, 0]).format(), IsidFormat::EnterpriseNumber);
        assert_eq!(Isid([0xc0, 0, 0, 0, 0, 0]).format(), IsidFormat::Reserved);
        let random = Isid::random(0xff12_3456, 7);
        assert_eq!(random.format(), IsidFormat::Random);
        assert_eq!(random.to_string(), "801234560007");
    }
}
