//! The headers of every PDU: TCP 1.1 sections 3.6.2.2 to 3.6.2.10.

use super::framing::{CommonHeader, FatalError, FatalStatus, Framing, PduFlags, PduType};
use crate::nvme::command::Command;
use crate::nvme::completion::Completion;
use crate::nvme::layout::{flag_field, structure};

/// PFV: the only PDU format version there is.
pub const PFV_1_0: u16 = 0;
/// Most bytes of the PDU header at fault that a termination request repeats.
pub const MAX_TERM_REQ_DATA: usize = 128;

bitflags::bitflags! {
    /// DGST of ICReq and ICResp.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct DigestFlags: u8 {
        /// HDGST_ENABLE.
        const HEADER = 0x01;
        /// DDGST_ENABLE.
        const DATA = 0x02;
    }
}
flag_field!(DigestFlags);

structure! {
    /// Initialize Connection Request, host to controller.
    pub struct ICReq: 128 {
        /// The common header.
        header: CommonHeader = 0,
        /// PFV: 0.
        pfv: u16 = 8,
        /// HPDA: alignment of C2HData's data, in dwords, 0's based; at most 31.
        hpda: u8 = 10,
        /// Digests that the host asks for.
        digests: DigestFlags = 11,
        /// MAXR2T: R2Ts that may be outstanding for one command, 0's based.
        maxr2t: u32 = 12,
    }
}

structure! {
    /// Initialize Connection Response, controller to host.
    pub struct ICResp: 128 {
        /// The common header.
        header: CommonHeader = 0,
        /// PFV: 0.
        pfv: u16 = 8,
        /// CPDA: alignment of data in CapsuleCmd and H2CData, in dwords, 0's based; at most 31.
        cpda: u8 = 10,
        /// Digests that are in use from now on.
        digests: DigestFlags = 11,
        /// MAXH2CDATA: most bytes of data in one H2CData; a multiple of 4, at least 4096.
        maxh2cdata: u32 = 12,
    }
}

structure! {
    /// H2CTermReq and C2HTermReq: what was wrong. The header at fault follows as data, at most 128 bytes.
    pub struct TermReq: 24 {
        /// The common header.
        header: CommonHeader = 0,
        /// FES.
        fes: FatalStatus = 8,
        /// FEI: a byte offset for invalid header fields and parameters, the digest that was received for a header
        /// digest error.
        fei: u32 = 10,
    }
}

structure! {
    /// Command Capsule, host to controller; in-capsule data follows.
    pub struct CapsuleCmd: 72 {
        /// The common header.
        header: CommonHeader = 0,
        /// CCSQE.
        command: Command = 8,
    }
}

structure! {
    /// Response Capsule, controller to host.
    pub struct CapsuleResp: 24 {
        /// The common header.
        header: CommonHeader = 0,
        /// RCCQE.
        completion: Completion = 8,
    }
}

structure! {
    /// Host to Controller Data Transfer.
    pub struct H2CData: 24 {
        /// The common header.
        header: CommonHeader = 0,
        /// CCCID: the command.
        cccid: u16 = 8,
        /// TTAG of the R2T.
        ttag: u16 = 10,
        /// DATAO: bytes from the start of the command's data.
        datao: u32 = 12,
        /// DATAL: bytes.
        datal: u32 = 16,
    }
}

structure! {
    /// Controller to Host Data Transfer.
    pub struct C2HData: 24 {
        /// The common header.
        header: CommonHeader = 0,
        /// CCCID: the command.
        cccid: u16 = 8,
        /// DATAO: bytes from the start of the command's data.
        datao: u32 = 12,
        /// DATAL: bytes.
        datal: u32 = 16,
    }
}

structure! {
    /// Ready to Transfer, controller to host.
    pub struct R2T: 24 {
        /// The common header.
        header: CommonHeader = 0,
        /// CCCID: the command.
        cccid: u16 = 8,
        /// TTAG: the host repeats it in its H2CData.
        ttag: u16 = 10,
        /// R2TO: bytes from the start of the command's data.
        r2to: u32 = 12,
        /// R2TL: bytes wanted.
        r2tl: u32 = 16,
    }
}

impl ICReq {
    /// A request with its header; `maxr2t` is 0's based.
    pub fn new(hpda: u8, digests: DigestFlags, maxr2t: u32) -> Self {
        let header = Framing::default().header(PduType::IC_REQ, PduFlags::empty(), 0);
        Self { header, pfv: PFV_1_0, hpda, digests, maxr2t }
    }
}

impl ICResp {
    /// A response with its header.
    pub fn new(cpda: u8, digests: DigestFlags, maxh2cdata: u32) -> Self {
        let header = Framing::default().header(PduType::IC_RESP, PduFlags::empty(), 0);
        Self { header, pfv: PFV_1_0, cpda, digests, maxh2cdata }
    }
}

impl TermReq {
    /// A termination request of `kind` (H2C_TERM_REQ or C2H_TERM_REQ) that `copied` bytes of the header at fault
    /// follow; no more than [`MAX_TERM_REQ_DATA`].
    pub fn new(kind: PduType, error: FatalError, copied: usize) -> Self {
        let copied = copied.min(MAX_TERM_REQ_DATA) as u32;
        let header = Framing::default().header(kind, PduFlags::empty(), copied);
        Self { header, fes: error.fes, fei: error.fei }
    }
}

impl CapsuleCmd {
    /// A capsule that `data_length` bytes of in-capsule data follow.
    #[inline]
    pub fn new(framing: Framing, command: Command, data_length: u32) -> Self {
        Self { header: framing.header(PduType::CAPSULE_CMD, PduFlags::empty(), data_length), command }
    }
}

impl CapsuleResp {
    /// A capsule.
    #[inline]
    pub fn new(framing: Framing, completion: Completion) -> Self {
        Self { header: framing.header(PduType::CAPSULE_RESP, PduFlags::empty(), 0), completion }
    }
}

impl H2CData {
    /// `datal` bytes; `last` for the last PDU of what an R2T asked for.
    #[inline]
    pub fn new(framing: Framing, cccid: u16, ttag: u16, datao: u32, datal: u32, last: bool) -> Self {
        let flags = if last { PduFlags::LAST_PDU } else { PduFlags::empty() };
        Self { header: framing.header(PduType::H2C_DATA, flags, datal), cccid, ttag, datao, datal }
    }
}

impl C2HData {
    /// `datal` bytes. `flags`: LAST_PDU for the last PDU of the command, SUCCESS beside it if no capsule follows.
    #[inline]
    pub fn new(framing: Framing, flags: PduFlags, cccid: u16, datao: u32, datal: u32) -> Self {
        Self { header: framing.header(PduType::C2H_DATA, flags, datal), cccid, datao, datal }
    }
}

impl R2T {
    /// Asks for `r2tl` bytes from `r2to`.
    #[inline]
    pub fn new(framing: Framing, cccid: u16, ttag: u16, r2to: u32, r2tl: u32) -> Self {
        Self { header: framing.header(PduType::R2T, PduFlags::empty(), 0), cccid, ttag, r2to, r2tl }
    }
}
