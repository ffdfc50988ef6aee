//! How a header is laid out: one list of fields and offsets, from which both the decoder and the
//! encoder come, so that the two cannot drift apart.

use crate::iscsi::{Bhs, Isid, SerialNumber};

/// Something that stands at a byte offset of a basic header segment.
///
/// Offsets are literals of the layout lists, so the bounds checks vanish when compiled. Fields that
/// share a byte with others only set their own bits on `put`.
pub(super) trait Field {
    fn get(bhs: &Bhs, offset: usize) -> Self;
    fn put(self, bhs: &mut Bhs, offset: usize);
}

/// Declares a header struct, its decoder and its encoder from one list of fields.
///
/// `Opcode::X, first` names the opcode and the bits of byte 1 which the RFC fixes to one.
macro_rules! header {
    (
        $(#[$meta:meta])*
        pub struct $name:ident = Opcode::$opcode:ident, $fixed:literal {
            $( $(#[$field_meta:meta])* $field:ident: $type:ty = $offset:literal, )+
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct $name {
            $( $(#[$field_meta])* pub $field: $type, )+
        }

        impl $name {
            /// The opcode of this PDU.
            pub const OPCODE: $crate::iscsi::Opcode = $crate::iscsi::Opcode::$opcode;

            /// Reads the fields. The caller has looked at the opcode; reserved bits are ignored.
            #[inline]
            pub fn decode(bhs: &$crate::iscsi::Bhs) -> Self {
                Self { $( $field: $crate::iscsi::pdu::layout::Field::get(bhs, $offset), )+ }
            }

            /// Writes all 48 bytes; reserved fields and `TotalAHSLength` become zero.
            #[inline]
            pub fn encode(&self, bhs: &mut $crate::iscsi::Bhs) {
                *bhs = [0; $crate::iscsi::frame::BHS_LENGTH];
                bhs[0] = Self::OPCODE as u8;
                bhs[1] = $fixed;
                $( $crate::iscsi::pdu::layout::Field::put(self.$field, bhs, $offset); )+
            }
        }
    };
}

/// Declares a code of one byte: a newtype which holds any value and knows the names of some.
macro_rules! codes {
    (
        $(#[$meta:meta])*
        pub struct $name:ident, $mask:literal {
            $( $(#[$code_meta:meta])* $code:ident = $value:literal, )+
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
        pub struct $name(pub u8);

        impl $name {
            $( $(#[$code_meta])* pub const $code: Self = Self($value); )+

            /// The name in the standard's spelling, if the value has one.
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $( $value => Some(stringify!($code)), )+
                    _ => None,
                }
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self.name() {
                    Some(name) => formatter.write_str(name),
                    None => write!(formatter, concat!(stringify!($name), "({:#04x})"), self.0),
                }
            }
        }

        impl $crate::iscsi::pdu::layout::Field for $name {
            #[inline]
            fn get(bhs: &$crate::iscsi::Bhs, offset: usize) -> Self {
                Self(bhs[offset] & $mask)
            }

            #[inline]
            fn put(self, bhs: &mut $crate::iscsi::Bhs, offset: usize) {
                bhs[offset] |= self.0 & $mask;
            }
        }
    };
}

/// Makes a set of bit flags of one byte a [`Field`]; unknown bits are dropped.
macro_rules! flag_field {
    ($name:ident) => {
        impl $crate::iscsi::pdu::layout::Field for $name {
            #[inline]
            fn get(bhs: &$crate::iscsi::Bhs, offset: usize) -> Self {
                Self::from_bits_truncate(bhs[offset])
            }

            #[inline]
            fn put(self, bhs: &mut $crate::iscsi::Bhs, offset: usize) {
                bhs[offset] |= self.bits();
            }
        }
    };
}

pub(super) use {codes, flag_field, header};

/// `DataSegmentLength` and other 24-bit quantities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct U24(u32);

impl U24 {
    /// The largest value, 2^24-1.
    pub const MAX: Self = Self(0x00ff_ffff);

    /// `value`, or the largest value if it does not fit.
    #[inline]
    pub const fn saturating(value: usize) -> Self {
        if value > Self::MAX.0 as usize { Self::MAX } else { Self(value as u32) }
    }

    /// The value.
    #[inline]
    pub const fn get(self) -> usize {
        self.0 as usize
    }
}

impl Field for U24 {
    #[inline]
    fn get(bhs: &Bhs, offset: usize) -> Self {
        Self(u32::from_be_bytes([0, bhs[offset], bhs[offset + 1], bhs[offset + 2]]))
    }

    #[inline]
    fn put(self, bhs: &mut Bhs, offset: usize) {
        let [_, high, middle, low] = self.0.to_be_bytes();
        bhs[offset] = high;
        bhs[offset + 1] = middle;
        bhs[offset + 2] = low;
    }
}

impl Field for u8 {
    #[inline]
    fn get(bhs: &Bhs, offset: usize) -> Self {
        bhs[offset]
    }

    #[inline]
    fn put(self, bhs: &mut Bhs, offset: usize) {
        bhs[offset] = self;
    }
}

impl Field for u16 {
    #[inline]
    fn get(bhs: &Bhs, offset: usize) -> Self {
        u16::from_be_bytes(Field::get(bhs, offset))
    }

    #[inline]
    fn put(self, bhs: &mut Bhs, offset: usize) {
        self.to_be_bytes().put(bhs, offset);
    }
}

impl Field for u32 {
    #[inline]
    fn get(bhs: &Bhs, offset: usize) -> Self {
        u32::from_be_bytes(Field::get(bhs, offset))
    }

    #[inline]
    fn put(self, bhs: &mut Bhs, offset: usize) {
        self.to_be_bytes().put(bhs, offset);
    }
}

impl Field for u64 {
    #[inline]
    fn get(bhs: &Bhs, offset: usize) -> Self {
        u64::from_be_bytes(Field::get(bhs, offset))
    }

    #[inline]
    fn put(self, bhs: &mut Bhs, offset: usize) {
        self.to_be_bytes().put(bhs, offset);
    }
}

impl<const N: usize> Field for [u8; N] {
    #[inline]
    fn get(bhs: &Bhs, offset: usize) -> Self {
        let mut bytes = [0; N];
        bytes.copy_from_slice(&bhs[offset..offset + N]);
        bytes
    }

    #[inline]
    fn put(self, bhs: &mut Bhs, offset: usize) {
        bhs[offset..offset + N].copy_from_slice(&self);
    }
}

impl Field for SerialNumber {
    #[inline]
    fn get(bhs: &Bhs, offset: usize) -> Self {
        Self(Field::get(bhs, offset))
    }

    #[inline]
    fn put(self, bhs: &mut Bhs, offset: usize) {
        self.0.put(bhs, offset);
    }
}

impl Field for Isid {
    #[inline]
    fn get(bhs: &Bhs, offset: usize) -> Self {
        Self(Field::get(bhs, offset))
    }

    #[inline]
    fn put(self, bhs: &mut Bhs, offset: usize) {
        self.0.put(bhs, offset);
    }
}

/// The I bit: deliver at once, out of the `CmdSN` order (section 11.2.1.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Immediate(pub bool);

impl Field for Immediate {
    #[inline]
    fn get(bhs: &Bhs, offset: usize) -> Self {
        Self(bhs[offset] & 0x40 != 0)
    }

    #[inline]
    fn put(self, bhs: &mut Bhs, offset: usize) {
        bhs[offset] |= u8::from(self.0) << 6;
    }
}

/// The F bit of a PDU that has no other flags (section 11.2.1.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Final(pub bool);

impl Field for Final {
    #[inline]
    fn get(bhs: &Bhs, offset: usize) -> Self {
        Self(bhs[offset] & 0x80 != 0)
    }

    #[inline]
    fn put(self, bhs: &mut Bhs, offset: usize) {
        bhs[offset] |= u8::from(self.0) << 7;
    }
}

/// A logical unit number in its 8 bytes of SAM-5 section 4.7, as a big-endian integer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Lun(pub u64);

impl Lun {
    /// Single-level LUN: peripheral device addressing below 256, flat space addressing from there.
    /// Only the low 14 bits of `index` count.
    pub const fn from_index(index: u16) -> Self {
        let index = index & 0x3fff;
        let first_level = if index < 256 { index } else { 0x4000 | index };
        Self((first_level as u64) << 48)
    }

    /// The number of a single-level LUN on bus 0; `None` for any other address.
    pub const fn index(self) -> Option<u16> {
        let first_level = (self.0 >> 48) as u16;
        if self.0 << 16 != 0 {
            return None;
        }
        match first_level >> 14 {
            0 if first_level < 256 => Some(first_level),
            1 => Some(first_level & 0x3fff),
            _ => None,
        }
    }
}

impl Field for Lun {
    #[inline]
    fn get(bhs: &Bhs, offset: usize) -> Self {
        Self(Field::get(bhs, offset))
    }

    #[inline]
    fn put(self, bhs: &mut Bhs, offset: usize) {
        self.0.put(bhs, offset);
    }
}
