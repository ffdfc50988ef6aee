//! How a structure is laid out: one list of fields and offsets, from which both the decoder and the encoder come, so
//! that the two cannot drift apart.

/// Something that stands at a byte offset of a structure, little-endian.
///
/// Offsets are literals of the layout lists and structures have fixed lengths, so the checks vanish when compiled.
/// Fields that share a byte with others only set their own bits on `put`.
pub trait Field {
    /// The value at `offset`; zero beyond the end.
    fn get(bytes: &[u8], offset: usize) -> Self;
    /// Puts the value to `offset`; nothing beyond the end.
    fn put(self, bytes: &mut [u8], offset: usize);
}

/// Declares a structure of a fixed length, its decoder and its encoder from one list of fields.
macro_rules! structure {
    (
        $(#[$meta:meta])*
        pub struct $name:ident: $length:literal {
            $( $(#[$field_meta:meta])* $field:ident: $type:ty = $offset:expr, )+
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct $name {
            $( $(#[$field_meta])* pub $field: $type, )+
        }

        impl $name {
            /// Bytes on the wire.
            pub const LENGTH: usize = $length;

            /// Reads the fields; reserved bits are ignored.
            #[inline]
            pub fn decode(bytes: &[u8; $length]) -> Self {
                $crate::nvme::layout::Field::get(bytes, 0)
            }

            /// Writes all bytes; reserved fields become zero.
            #[inline]
            pub fn encode(&self, bytes: &mut [u8; $length]) {
                *bytes = [0; $length];
                $crate::nvme::layout::Field::put(*self, bytes, 0);
            }
        }

        impl $crate::nvme::layout::Field for $name {
            #[inline]
            fn get(bytes: &[u8], offset: usize) -> Self {
                Self { $( $field: $crate::nvme::layout::Field::get(bytes, offset + $offset), )+ }
            }

            #[inline]
            fn put(self, bytes: &mut [u8], offset: usize) {
                $( $crate::nvme::layout::Field::put(self.$field, bytes, offset + $offset); )+
            }
        }
    };
}

/// Declares a code: a newtype which holds any value and knows the names of some.
macro_rules! codes {
    (
        $(#[$meta:meta])*
        pub struct $name:ident($repr:ty) {
            $( $(#[$code_meta:meta])* $code:ident = $value:literal, )+
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
        pub struct $name(pub $repr);

        impl $name {
            $( $(#[$code_meta])* pub const $code: Self = Self($value); )+

            /// Every value that has a name here, in the order of the list.
            pub const NAMED: &'static [Self] = &[$( Self($value), )+];

            /// The name, if the value has one.
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

        impl $crate::nvme::layout::Field for $name {
            #[inline]
            fn get(bytes: &[u8], offset: usize) -> Self {
                Self($crate::nvme::layout::Field::get(bytes, offset))
            }

            #[inline]
            fn put(self, bytes: &mut [u8], offset: usize) {
                $crate::nvme::layout::Field::put(self.0, bytes, offset);
            }
        }
    };
}

/// Makes a set of bit flags a [`Field`]; unknown bits are dropped.
macro_rules! flag_field {
    ($name:ident) => {
        impl $crate::nvme::layout::Field for $name {
            #[inline]
            fn get(bytes: &[u8], offset: usize) -> Self {
                Self::from_bits_truncate($crate::nvme::layout::Field::get(bytes, offset))
            }

            #[inline]
            fn put(self, bytes: &mut [u8], offset: usize) {
                $crate::nvme::layout::Field::put(self.bits(), bytes, offset);
            }
        }
    };
}

/// Declares an integer with named groups of bits: a getter and a `with_` for each.
macro_rules! bit_groups {
    (
        $(#[$meta:meta])*
        pub struct $name:ident($repr:ty) {
            $( $(#[$field_meta:meta])* $get:ident, $with:ident: $shift:literal, $width:literal; )+
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
        pub struct $name(pub $repr);

        impl $name {
            $(
                $(#[$field_meta])*
                #[inline]
                pub const fn $get(self) -> $repr {
                    (self.0 >> $shift) & ((1 << $width) - 1)
                }

                $(#[$field_meta])*
                /// Sets it; bits that do not fit are dropped.
                #[inline]
                pub const fn $with(self, value: $repr) -> Self {
                    let mask = (1 << $width) - 1;
                    Self(self.0 & !(mask << $shift) | (value & mask) << $shift)
                }
            )+
        }

        impl $crate::nvme::layout::Field for $name {
            #[inline]
            fn get(bytes: &[u8], offset: usize) -> Self {
                Self($crate::nvme::layout::Field::get(bytes, offset))
            }

            #[inline]
            fn put(self, bytes: &mut [u8], offset: usize) {
                $crate::nvme::layout::Field::put(self.0, bytes, offset);
            }
        }
    };
}

pub(super) use {bit_groups, codes, flag_field, structure};

impl<const N: usize> Field for [u8; N] {
    #[inline]
    fn get(bytes: &[u8], offset: usize) -> Self {
        bytes.get(offset..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
    }

    #[inline]
    fn put(self, bytes: &mut [u8], offset: usize) {
        if let Some(target) = bytes.get_mut(offset..).and_then(|rest| rest.first_chunk_mut()) {
            *target = self;
        }
    }
}

macro_rules! integer_field {
    ($($type:ty),+) => { $(
        impl Field for $type {
            #[inline]
            fn get(bytes: &[u8], offset: usize) -> Self {
                Self::from_le_bytes(Field::get(bytes, offset))
            }

            #[inline]
            fn put(self, bytes: &mut [u8], offset: usize) {
                self.to_le_bytes().put(bytes, offset);
            }
        }
    )+ };
}
integer_field!(u8, u16, u32, u64, u128);
