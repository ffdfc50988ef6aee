//! SAM-5 section 5.3.1: the status that ends a command.

/// The status codes that this target knows, with the values of the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Status {
    /// The command was done.
    Good = 0x00,
    /// Sense data says what is to be known.
    CheckCondition = 0x02,
    /// PRE-FETCH: everything asked for fits into the cache.
    ConditionMet = 0x04,
    /// The logical unit cannot take a command now; no sense data.
    Busy = 0x08,
    /// Another `I_T` nexus holds a reservation.
    ReservationConflict = 0x18,
    /// The task set has no room for this command.
    TaskSetFull = 0x28,
    /// An establishing ACA condition is there (NACA is not supported; for decoding only).
    AcaActive = 0x30,
    /// Aborted by another `I_T` nexus, with TAS set.
    TaskAborted = 0x40,
}

impl Status {
    /// The status of this wire value.
    pub const fn from_wire(value: u8) -> Option<Self> {
        Some(match value {
            0x00 => Self::Good,
            0x02 => Self::CheckCondition,
            0x04 => Self::ConditionMet,
            0x08 => Self::Busy,
            0x18 => Self::ReservationConflict,
            0x28 => Self::TaskSetFull,
            0x30 => Self::AcaActive,
            0x40 => Self::TaskAborted,
            _ => return None,
        })
    }
}
