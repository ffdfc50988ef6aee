//! What is known of a column.

/// One column of a stripe, or the same range of every column.
///
/// What may be written is a [`Column::Missing`]; nothing else can be.
#[derive(Debug)]
pub enum Column<'a> {
    /// Its bytes are there and right. Only read.
    Known(&'a [u8]),
    /// Its bytes are to be computed, whatever they are now.
    Missing(&'a mut [u8]),
    /// Its bytes are not there, and nobody asks for them: a member that is lost beside the one that is read, or Q in RAID 5.
    Absent,
}

impl<'a> Column<'a> {
    /// The bytes, if they are known.
    pub fn known(&self) -> Option<&[u8]> {
        match self {
            Self::Known(bytes) => Some(bytes),
            Self::Missing(_) | Self::Absent => None,
        }
    }

    /// Whether the bytes are not there.
    pub fn is_unknown(&self) -> bool {
        self.known().is_none()
    }

    /// How many bytes there are, known or to be computed.
    pub(crate) fn len(&self) -> Option<usize> {
        match self {
            Self::Known(bytes) => Some(bytes.len()),
            Self::Missing(bytes) => Some(bytes.len()),
            Self::Absent => None,
        }
    }

    /// Takes the bytes that are to be computed out.
    pub(crate) fn take_missing(&mut self) -> Option<&'a mut [u8]> {
        match std::mem::replace(self, Self::Absent) {
            Self::Missing(bytes) => Some(bytes),
            other => {
                *self = other;
                None
            }
        }
    }
}

/// Something that may have bytes to read.
pub(crate) trait Source {
    /// They.
    fn bytes(&self) -> Option<&[u8]>;
}

impl Source for &[u8] {
    #[inline(always)]
    fn bytes(&self) -> Option<&[u8]> {
        Some(self)
    }
}

impl Source for Column<'_> {
    #[inline(always)]
    fn bytes(&self) -> Option<&[u8]> {
        self.known()
    }
}
