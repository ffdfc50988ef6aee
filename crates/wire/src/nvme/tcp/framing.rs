//! The common header, and where the parts of a PDU lie: TCP 1.1 sections 3.6.1 and 3.6.2.1.
//!
//! ```text
//! | header HLEN | header digest 0/4 | padding to PDO | data | data digest 0/4 |     PLEN bytes in all
//! ```

use crate::nvme::layout::{codes, flag_field, structure};

/// Bytes of a digest.
pub const DIGEST_LENGTH: usize = 4;
/// Most bytes before the data: PDO is one byte.
pub const MAX_HEADER_LENGTH: usize = 255;

codes! {
    /// PDU-Type.
    pub struct PduType(u8) {
        /// Initialize Connection Request.
        IC_REQ = 0x00,
        /// Initialize Connection Response.
        IC_RESP = 0x01,
        /// Host to Controller Terminate Connection Request.
        H2C_TERM_REQ = 0x02,
        /// Controller to Host Terminate Connection Request.
        C2H_TERM_REQ = 0x03,
        /// Command Capsule.
        CAPSULE_CMD = 0x04,
        /// Response Capsule.
        CAPSULE_RESP = 0x05,
        /// Host to Controller Data Transfer.
        H2C_DATA = 0x06,
        /// Controller to Host Data Transfer.
        C2H_DATA = 0x07,
        /// Ready to Transfer.
        R2T = 0x09,
        /// Key Derivation PDU, host to controller.
        KD_REQ = 0x0a,
        /// Key Derivation PDU, controller to host.
        KD_RESP = 0x0b,
    }
}

bitflags::bitflags! {
    /// FLAGS of the common header.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct PduFlags: u8 {
        /// HDGSTF: a header digest follows the header.
        const HEADER_DIGEST = 0x01;
        /// DDGSTF: a data digest follows the data.
        const DATA_DIGEST = 0x02;
        /// LAST_PDU of H2CData and C2HData.
        const LAST_PDU = 0x04;
        /// SUCCESS of C2HData: the command succeeded and no response capsule follows.
        const SUCCESS = 0x08;
    }
}
flag_field!(PduFlags);

structure! {
    /// The common header.
    pub struct CommonHeader: 8 {
        /// PDU-Type.
        pdu_type: PduType = 0,
        /// FLAGS.
        flags: PduFlags = 1,
        /// HLEN: bytes of the header, without its digest.
        hlen: u8 = 2,
        /// PDO: where the data begins, in bytes from the start of the PDU.
        pdo: u8 = 3,
        /// PLEN: bytes of the whole PDU.
        plen: u32 = 4,
    }
}

codes! {
    /// FES of a termination request, section 3.6.2.4.
    pub struct FatalStatus(u16) {
        /// A field of the PDU header is wrong; FEI is its byte offset.
        INVALID_PDU_HEADER_FIELD = 0x01,
        /// The PDU is not allowed at this point.
        PDU_SEQUENCE_ERROR = 0x02,
        /// The header digest is wrong; FEI is the digest that was received.
        HEADER_DIGEST_ERROR = 0x03,
        /// Data outside of what was asked for; FEI is the byte offset of the field.
        DATA_TRANSFER_OUT_OF_RANGE = 0x04,
        /// More data in a PDU than was agreed, or more R2Ts.
        DATA_TRANSFER_LIMIT_EXCEEDED = 0x05,
        /// A parameter that is not supported; FEI is the byte offset of the field.
        UNSUPPORTED_PARAMETER = 0x06,
    }
}

/// What ends a connection: goes into a termination request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{fes:?} ({fei:#x})")]
pub struct FatalError {
    /// FES.
    pub fes: FatalStatus,
    /// FEI.
    pub fei: u32,
}

impl FatalError {
    /// The header field at byte `offset` is wrong.
    pub const fn field(offset: u32) -> Self {
        Self { fes: FatalStatus::INVALID_PDU_HEADER_FIELD, fei: offset }
    }

    /// The PDU is not allowed at this point.
    pub const SEQUENCE: Self = Self { fes: FatalStatus::PDU_SEQUENCE_ERROR, fei: 0 };

    /// The header digest is wrong.
    pub const fn header_digest(received: [u8; DIGEST_LENGTH]) -> Self {
        Self { fes: FatalStatus::HEADER_DIGEST_ERROR, fei: u32::from_le_bytes(received) }
    }

    /// The data of the field at byte `offset` is outside of what was asked for.
    pub const fn out_of_range(offset: u32) -> Self {
        Self { fes: FatalStatus::DATA_TRANSFER_OUT_OF_RANGE, fei: offset }
    }

    /// More data, or more R2Ts, than agreed.
    pub const LIMIT: Self = Self { fes: FatalStatus::DATA_TRANSFER_LIMIT_EXCEEDED, fei: 0 };

    /// The parameter at byte `offset` is not supported.
    pub const fn unsupported(offset: u32) -> Self {
        Self { fes: FatalStatus::UNSUPPORTED_PARAMETER, fei: offset }
    }
}

/// Who sends a PDU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Sender {
    /// The host: CapsuleCmd, H2CData, ICReq, H2CTermReq.
    Host,
    /// The controller: CapsuleResp, C2HData, R2T, ICResp, C2HTermReq.
    Controller,
}

impl PduType {
    /// Who sends it; `None` for a type that is reserved or needs TLS 1.3 key derivation.
    #[inline]
    pub const fn sender(self) -> Option<Sender> {
        match self {
            Self::IC_REQ | Self::H2C_TERM_REQ | Self::CAPSULE_CMD | Self::H2C_DATA => Some(Sender::Host),
            Self::IC_RESP | Self::C2H_TERM_REQ | Self::CAPSULE_RESP | Self::C2H_DATA | Self::R2T => {
                Some(Sender::Controller)
            }
            _ => None,
        }
    }

    /// HLEN of it; 0 for a type without [`sender`](Self::sender).
    #[inline]
    pub const fn header_length(self) -> u8 {
        match self {
            Self::IC_REQ | Self::IC_RESP => 128,
            Self::CAPSULE_CMD => 72,
            Self::H2C_TERM_REQ
            | Self::C2H_TERM_REQ
            | Self::CAPSULE_RESP
            | Self::H2C_DATA
            | Self::C2H_DATA
            | Self::R2T => 24,
            _ => 0,
        }
    }

    /// Whether its header has a digest once that is agreed: not while a connection begins or is torn down.
    #[inline]
    const fn is_digested(self) -> bool {
        !matches!(self, Self::IC_REQ | Self::IC_RESP | Self::H2C_TERM_REQ | Self::C2H_TERM_REQ)
    }

    /// Whether data at PDO may follow, aligned and digested.
    #[inline]
    const fn carries_data(self) -> bool {
        matches!(self, Self::CAPSULE_CMD | Self::H2C_DATA | Self::C2H_DATA)
    }
}

/// HPDA or CPDA: a 0's based number of dwords, at most 31.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct DataAlignment(u8);

impl DataAlignment {
    /// The field as it is in ICReq and ICResp; `None` above 31.
    pub const fn new(field: u8) -> Option<Self> {
        if field <= 31 { Some(Self(field)) } else { None }
    }

    /// The field.
    pub const fn field(self) -> u8 {
        self.0
    }

    /// Bytes: 4 to 128.
    #[inline]
    pub const fn bytes(self) -> usize {
        (self.0 as usize + 1) * 4
    }

    /// `offset` moved up to the alignment.
    #[inline]
    const fn up(self, offset: usize) -> usize {
        offset.next_multiple_of(self.bytes())
    }
}

/// What a connection agreed on. The default is that of a connection's start: no digests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Framing {
    /// Header digests are in use.
    pub header_digest: bool,
    /// Data digests are in use.
    pub data_digest: bool,
    /// HPDA: of data that the controller sends.
    pub hpda: DataAlignment,
    /// CPDA: of data that the host sends.
    pub cpda: DataAlignment,
}

/// Where the parts of one PDU lie. All of it fits together: see [`Framing::shape`].
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Bytes of the header (HLEN).
    pub header: usize,
    /// A header digest follows.
    pub header_digest: bool,
    /// Where the data begins: header, digest and padding in bytes. At most 255.
    pub data_offset: usize,
    /// Bytes of data.
    pub data: usize,
    /// A data digest follows.
    pub data_digest: bool,
}

impl Shape {
    /// Bytes of header and header digest.
    #[inline]
    pub const fn digested_header(&self) -> usize {
        self.header + if self.header_digest { DIGEST_LENGTH } else { 0 }
    }

    /// Bytes between the header, or its digest, and the data.
    #[inline]
    pub const fn padding(&self) -> usize {
        self.data_offset - self.digested_header()
    }

    /// Bytes of the data digest.
    #[inline]
    pub const fn trailer(&self) -> usize {
        if self.data_digest { DIGEST_LENGTH } else { 0 }
    }

    /// Bytes of the whole PDU: PLEN.
    #[inline]
    pub const fn total(&self) -> usize {
        self.data_offset + self.data + self.trailer()
    }
}

impl Framing {
    /// Where the data of a PDU of this type begins, when there is some: PDO. At most 144 (72 bytes, a digest, and an
    /// alignment of 72).
    #[inline]
    pub const fn data_offset(self, kind: PduType) -> u8 {
        let digest = if self.header_digest && kind.is_digested() { DIGEST_LENGTH } else { 0 };
        let end = kind.header_length() as usize + digest;
        let offset = match kind {
            PduType::C2H_DATA => self.hpda.up(end),
            PduType::CAPSULE_CMD | PduType::H2C_DATA => self.cpda.up(end),
            _ => end,
        };
        offset as u8
    }

    /// The common header of a PDU with `data_length` bytes of data. `flags` says LAST_PDU and SUCCESS; digests are
    /// added. A length that does not fit PLEN is the caller's error and gives the largest PLEN.
    #[inline]
    pub const fn header(self, kind: PduType, flags: PduFlags, data_length: u32) -> CommonHeader {
        let mut flags = flags;
        let hlen = kind.header_length();
        let mut plen = hlen as u32;
        let mut pdo = 0;
        if self.header_digest && kind.is_digested() {
            flags = flags.union(PduFlags::HEADER_DIGEST);
            plen += DIGEST_LENGTH as u32;
        }
        if kind.carries_data() && data_length > 0 {
            pdo = self.data_offset(kind);
            plen = (pdo as u32).saturating_add(data_length);
            if self.data_digest {
                flags = flags.union(PduFlags::DATA_DIGEST);
                plen = plen.saturating_add(DIGEST_LENGTH as u32);
            }
        } else {
            plen = plen.saturating_add(data_length);
        }
        CommonHeader { pdu_type: kind, flags, hlen, pdo, plen }
    }

    /// Checks a header that came from `sender`, and says where the parts of its PDU lie.
    ///
    /// `limit` is the most bytes of data that such a PDU may have here: the capsule's for a CapsuleCmd, MAXH2CDATA
    /// for an H2CData, what a host is ready to take for a C2HData.
    #[inline]
    pub fn shape(self, header: &CommonHeader, sender: Sender, limit: u32) -> Result<Shape, FatalError> {
        let kind = header.pdu_type;
        if kind.sender() != Some(sender) {
            return Err(FatalError::field(0));
        }
        if header.hlen != kind.header_length() {
            return Err(FatalError::field(2));
        }
        let header_digest = self.header_digest && kind.is_digested();
        if header.flags.contains(PduFlags::HEADER_DIGEST) != header_digest {
            return Err(FatalError::field(1));
        }
        let length = usize::from(header.hlen);
        let end = length + if header_digest { DIGEST_LENGTH } else { 0 };
        let plen = header.plen as usize;
        let rest = plen.checked_sub(end).ok_or(FatalError::field(4))?;
        if rest == 0 {
            let shape =
                Shape { header: length, header_digest, data_offset: end, data: 0, data_digest: false };
            return if matches!(kind, PduType::H2C_DATA | PduType::C2H_DATA) {
                Err(FatalError::field(4))
            } else {
                Ok(shape)
            };
        }
        if !kind.carries_data() {
            let terminates = matches!(kind, PduType::H2C_TERM_REQ | PduType::C2H_TERM_REQ);
            if !terminates || rest > super::MAX_TERM_REQ_DATA {
                return Err(FatalError::field(4));
            }
            return Ok(Shape {
                header: length,
                header_digest,
                data_offset: end,
                data: rest,
                data_digest: false,
            });
        }
        self.shape_with_data(*header, end, limit)
    }

    #[inline]
    fn shape_with_data(self, header: CommonHeader, end: usize, limit: u32) -> Result<Shape, FatalError> {
        if header.flags.contains(PduFlags::DATA_DIGEST) != self.data_digest {
            return Err(FatalError::field(1));
        }
        let alignment = if header.pdu_type == PduType::C2H_DATA { self.hpda } else { self.cpda };
        let data_offset = usize::from(header.pdo);
        if data_offset < end || !data_offset.is_multiple_of(alignment.bytes()) {
            return Err(FatalError::field(3));
        }
        let trailer = if self.data_digest { DIGEST_LENGTH } else { 0 };
        let data = (header.plen as usize).checked_sub(data_offset + trailer).ok_or(FatalError::field(4))?;
        if data == 0 {
            return Err(FatalError::field(4));
        }
        if data > limit as usize {
            let capsule = header.pdu_type == PduType::CAPSULE_CMD;
            return Err(if capsule { FatalError::field(4) } else { FatalError::LIMIT });
        }
        Ok(Shape {
            header: usize::from(header.hlen),
            header_digest: self.header_digest,
            data_offset,
            data,
            data_digest: self.data_digest,
        })
    }
}
