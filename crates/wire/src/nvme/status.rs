//! Status of a completion: Base 2.1 section 4.2.3.

/// The Status field without the phase tag: 15 bits, as libraries and logs of other programs show it.
///
/// SC in bits 7:0, SCT in bits 10:8, CRD in bits 12:11, M in bit 13, DNR in bit 14.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Status(pub u16);

/// SCT: which table a status code is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum StatusCodeType {
    /// 0h: generic command status.
    Generic = 0,
    /// 1h: command specific status.
    CommandSpecific = 1,
    /// 2h: media and data integrity errors.
    Media = 2,
    /// 3h: path related status.
    Path = 3,
    /// 4h to 6h, reserved.
    Reserved = 4,
    /// 7h: vendor specific.
    VendorSpecific = 7,
}

const DNR: u16 = 1 << 14;
const MORE: u16 = 1 << 13;

macro_rules! statuses {
    ($( $(#[$meta:meta])* $name:ident = $sct:literal, $sc:literal; )+) => {
        impl Status {
            $( $(#[$meta])* pub const $name: Self = Self($sct << 8 | $sc); )+

            /// Every status that has a name here.
            pub const NAMED: &'static [Self] = &[$( Self::$name, )+];

            /// The name of code and type, if they have one. What only certain commands can say shares numbers
            /// with what others say: the name of the fabrics or I/O one is given.
            pub const fn name(self) -> Option<&'static str> {
                $( if self.0 & 0x7ff == $sct << 8 | $sc { return Some(stringify!($name)); } )+
                None
            }
        }
    };
}

statuses! {
    /// The command completed without error.
    SUCCESSFUL_COMPLETION = 0, 0x00;
    /// The opcode is reserved or not supported.
    INVALID_COMMAND_OPCODE = 0, 0x01;
    /// A reserved or unsupported value in a field.
    INVALID_FIELD_IN_COMMAND = 0, 0x02;
    /// The command identifier is in use.
    COMMAND_ID_CONFLICT = 0, 0x03;
    /// Data or metadata could not be transferred.
    DATA_TRANSFER_ERROR = 0, 0x04;
    /// A power loss notification.
    COMMANDS_ABORTED_DUE_TO_POWER_LOSS_NOTIFICATION = 0, 0x05;
    /// An error inside of the controller.
    INTERNAL_ERROR = 0, 0x06;
    /// An Abort command, or a feature, ended it.
    COMMAND_ABORT_REQUESTED = 0, 0x07;
    /// Its submission queue was deleted.
    COMMAND_ABORTED_DUE_TO_SQ_DELETION = 0, 0x08;
    /// The other half of a fused operation failed.
    COMMAND_ABORTED_DUE_TO_FAILED_FUSED_COMMAND = 0, 0x09;
    /// The other half of a fused operation is not there.
    COMMAND_ABORTED_DUE_TO_MISSING_FUSED_COMMAND = 0, 0x0a;
    /// The namespace does not exist, or the format of it is not usable.
    INVALID_NAMESPACE_OR_FORMAT = 0, 0x0b;
    /// The command came at a wrong point of a sequence.
    COMMAND_SEQUENCE_ERROR = 0, 0x0c;
    /// An SGL descriptor of a last segment is wrong.
    INVALID_SGL_SEGMENT_DESCRIPTOR = 0, 0x0d;
    /// Too many SGL descriptors.
    INVALID_NUMBER_OF_SGL_DESCRIPTORS = 0, 0x0e;
    /// The length of an SGL is not that of the data.
    DATA_SGL_LENGTH_INVALID = 0, 0x0f;
    /// The length of a metadata SGL is not that of the metadata.
    METADATA_SGL_LENGTH_INVALID = 0, 0x10;
    /// The type of an SGL descriptor is not supported here.
    SGL_DESCRIPTOR_TYPE_INVALID = 0, 0x11;
    /// An offset of PRP is wrong.
    PRP_OFFSET_INVALID = 0, 0x13;
    /// The atomic write unit was exceeded.
    ATOMIC_WRITE_UNIT_EXCEEDED = 0, 0x14;
    /// No permission.
    OPERATION_DENIED = 0, 0x15;
    /// An in-capsule offset is wrong, or beyond the capsule.
    SGL_OFFSET_INVALID = 0, 0x16;
    /// Host identifiers of two formats in one subsystem.
    HOST_IDENTIFIER_INCONSISTENT_FORMAT = 0, 0x18;
    /// The keep alive timer ran off.
    KEEP_ALIVE_TIMER_EXPIRED = 0, 0x19;
    /// The keep alive timeout is not usable.
    KEEP_ALIVE_TIMEOUT_INVALID = 0, 0x1a;
    /// A reservation preempted and aborted it.
    COMMAND_ABORTED_DUE_TO_PREEMPT_AND_ABORT = 0, 0x1b;
    /// A granularity of an SGL is wrong.
    SGL_DATA_BLOCK_GRANULARITY_INVALID = 0, 0x1e;
    /// The namespace is write protected.
    NAMESPACE_IS_WRITE_PROTECTED = 0, 0x20;
    /// Interrupted; the host should repeat it.
    COMMAND_INTERRUPTED = 0, 0x21;
    /// The transport failed for a moment; the host should repeat it.
    TRANSIENT_TRANSPORT_ERROR = 0, 0x22;
    /// A lockdown forbids it.
    COMMAND_PROHIBITED_BY_LOCKDOWN = 0, 0x23;
    /// The media is not ready for an admin command.
    ADMIN_COMMAND_MEDIA_NOT_READY = 0, 0x24;
    /// A range beyond the end of the namespace.
    LBA_OUT_OF_RANGE = 0, 0x80;
    /// The capacity of the namespace is exceeded.
    CAPACITY_EXCEEDED = 0, 0x81;
    /// The namespace is not ready.
    NAMESPACE_NOT_READY = 0, 0x82;
    /// Another host holds a reservation.
    RESERVATION_CONFLICT = 0, 0x83;
    /// A format is under way.
    FORMAT_IN_PROGRESS = 0, 0x84;

    /// No such completion queue.
    COMPLETION_QUEUE_INVALID = 1, 0x00;
    /// No such queue, or one that exists already.
    INVALID_QUEUE_IDENTIFIER = 1, 0x01;
    /// The queue size is 0 or beyond the maximum.
    INVALID_QUEUE_SIZE = 1, 0x02;
    /// Too many Abort commands at once.
    ABORT_COMMAND_LIMIT_EXCEEDED = 1, 0x03;
    /// Too many Asynchronous Event Requests at once.
    ASYNCHRONOUS_EVENT_REQUEST_LIMIT_EXCEEDED = 1, 0x05;
    /// No such firmware slot.
    INVALID_FIRMWARE_SLOT = 1, 0x06;
    /// The log page is not supported.
    INVALID_LOG_PAGE = 1, 0x09;
    /// The format is not supported.
    INVALID_FORMAT = 1, 0x0a;
    /// The feature cannot be saved.
    FEATURE_IDENTIFIER_NOT_SAVEABLE = 1, 0x0d;
    /// The feature cannot be changed.
    FEATURE_NOT_CHANGEABLE = 1, 0x0e;
    /// The feature is not one of a namespace.
    FEATURE_NOT_NAMESPACE_SPECIFIC = 1, 0x0f;
    /// Ranges overlap.
    OVERLAPPING_RANGE = 1, 0x14;
    /// The namespace is attached already.
    NAMESPACE_ALREADY_ATTACHED = 1, 0x18;
    /// The namespace is not attached.
    NAMESPACE_NOT_ATTACHED = 1, 0x1a;
    /// A list of controllers is wrong.
    CONTROLLER_LIST_INVALID = 1, 0x1c;
    /// No such controller.
    INVALID_CONTROLLER_IDENTIFIER = 1, 0x1f;
    /// No such ANA group.
    ANA_GROUP_IDENTIFIER_INVALID = 1, 0x24;
    /// The I/O command set is not supported.
    I_O_COMMAND_SET_NOT_SUPPORTED = 1, 0x29;
    /// The I/O command set is not enabled.
    I_O_COMMAND_SET_NOT_ENABLED = 1, 0x2a;
    /// The combination of I/O command sets is rejected.
    I_O_COMMAND_SET_COMBINATION_REJECTED = 1, 0x2b;
    /// No such I/O command set.
    INVALID_I_O_COMMAND_SET = 1, 0x2c;

    /// Connect: RECFMT is not supported.
    CONNECT_INCOMPATIBLE_FORMAT = 1, 0x80;
    /// Connect: the controller is in use.
    CONNECT_CONTROLLER_BUSY = 1, 0x81;
    /// Connect: a parameter is wrong; the result names its place.
    CONNECT_INVALID_PARAMETERS = 1, 0x82;
    /// Connect: ask the discovery service again.
    CONNECT_RESTART_DISCOVERY = 1, 0x83;
    /// Connect: this host is not allowed.
    CONNECT_INVALID_HOST = 1, 0x84;
    /// Disconnect: not on the admin queue.
    DISCONNECT_INVALID_QUEUE_TYPE = 1, 0x85;
    /// Get Log Page of discovery: begin again.
    DISCOVER_RESTART = 1, 0x90;
    /// The connection has to authenticate first.
    AUTHENTICATION_REQUIRED = 1, 0x91;
    /// Read, Write, DSM: attributes conflict. (Shares its number with a fabrics status.)
    CONFLICTING_ATTRIBUTES = 1, 0x80;
    /// Protection information fields that the namespace does not support.
    INVALID_PROTECTION_INFORMATION = 1, 0x81;
    /// A write to a read-only range.
    ATTEMPTED_WRITE_TO_READ_ONLY_RANGE = 1, 0x82;
    /// A limit for the size of a command is exceeded (Copy, DSM).
    COMMAND_SIZE_LIMIT_EXCEEDED = 1, 0x83;
    /// Copy: source and destination do not fit together.
    INCOMPATIBLE_NAMESPACE_OR_FORMAT = 1, 0x85;
    /// Copy: no fast way.
    FAST_COPY_NOT_POSSIBLE = 1, 0x86;
    /// Copy: source and destination overlap.
    OVERLAPPING_I_O_RANGE = 1, 0x87;

    /// Data could not be written.
    WRITE_FAULT = 2, 0x80;
    /// Data could not be read.
    UNRECOVERED_READ_ERROR = 2, 0x81;
    /// The guard of protection information is wrong.
    END_TO_END_GUARD_CHECK_ERROR = 2, 0x82;
    /// The application tag of protection information is wrong.
    END_TO_END_APPLICATION_TAG_CHECK_ERROR = 2, 0x83;
    /// The reference tag of protection information is wrong.
    END_TO_END_REFERENCE_TAG_CHECK_ERROR = 2, 0x84;
    /// Compare: the data differs.
    COMPARE_FAILURE = 2, 0x85;
    /// Access is denied.
    ACCESS_DENIED = 2, 0x86;
    /// A block is deallocated or was never written.
    DEALLOCATED_OR_UNWRITTEN_LOGICAL_BLOCK = 2, 0x87;

    /// An error of the path inside of the controller.
    INTERNAL_PATH_ERROR = 3, 0x00;
    /// ANA: persistent loss.
    ASYMMETRIC_ACCESS_PERSISTENT_LOSS = 3, 0x01;
    /// ANA: inaccessible.
    ASYMMETRIC_ACCESS_INACCESSIBLE = 3, 0x02;
    /// ANA: in transition.
    ASYMMETRIC_ACCESS_TRANSITION = 3, 0x03;
    /// The controller found an error of the path.
    CONTROLLER_PATHING_ERROR = 3, 0x60;
    /// The host found an error of the path.
    HOST_PATHING_ERROR = 3, 0x70;
    /// The host ended it.
    COMMAND_ABORTED_BY_HOST = 3, 0x71;
}

impl Status {
    /// Do Not Retry set as well.
    pub const fn do_not_retry(self) -> Self {
        Self(self.0 | DNR)
    }

    /// More set as well: the error log page has an entry about it.
    pub const fn with_more(self) -> Self {
        Self(self.0 | MORE)
    }

    /// With a Command Retry Delay: 1 to 3 choose CRDT1 to CRDT3.
    pub const fn with_retry_delay(self, crd: u8) -> Self {
        Self(self.0 & !(3 << 11) | (crd as u16 & 3) << 11)
    }

    /// SC.
    pub const fn code(self) -> u8 {
        self.0 as u8
    }

    /// SCT.
    pub const fn code_type(self) -> StatusCodeType {
        match self.0 >> 8 & 7 {
            0 => StatusCodeType::Generic,
            1 => StatusCodeType::CommandSpecific,
            2 => StatusCodeType::Media,
            3 => StatusCodeType::Path,
            7 => StatusCodeType::VendorSpecific,
            _ => StatusCodeType::Reserved,
        }
    }

    /// DNR: repeating the command would fail again.
    pub const fn is_final(self) -> bool {
        self.0 & DNR != 0
    }

    /// CRD.
    pub const fn retry_delay(self) -> u8 {
        (self.0 >> 11 & 3) as u8
    }

    /// M.
    pub const fn more(self) -> bool {
        self.0 & MORE != 0
    }

    /// Code and type alone, without DNR, M and CRD: for comparing with the named ones.
    pub const fn plain(self) -> Self {
        Self(self.0 & 0x7ff)
    }

    /// Whether the command completed without error.
    pub const fn is_success(self) -> bool {
        self.plain().0 == 0
    }

    /// As bytes 14 and 15 of a completion have it; the phase tag is zero, as fabrics want it.
    pub const fn to_wire(self) -> u16 {
        self.0 << 1
    }

    /// From bytes 14 and 15 of a completion.
    pub const fn from_wire(field: u16) -> Self {
        Self(field >> 1)
    }
}

impl std::fmt::Debug for Status {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.name() {
            Some(name) => formatter.write_str(name)?,
            None => write!(formatter, "Status({:#x}/{:#04x})", self.0 >> 8 & 7, self.code())?,
        }
        if self.is_final() { formatter.write_str(" DNR") } else { Ok(()) }
    }
}

impl std::fmt::Display for Status {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "status {:#x}/{:#04x}", self.0 >> 8 & 7, self.code())?;
        match self.name() {
            Some(name) => write!(formatter, " {name}"),
            None => Ok(()),
        }
    }
}
