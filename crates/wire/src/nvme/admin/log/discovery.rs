//! Discovery log page: Base 2.1 section 5.1.12.3.1.

use crate::nvme::layout::{codes, flag_field, structure};
use crate::nvme::nqn::NqnField;
use crate::nvme::text::Text;

codes! {
    /// TRTYPE.
    pub struct TransportType(u8) {
        /// RDMA.
        RDMA = 1,
        /// Fibre Channel.
        FIBRE_CHANNEL = 2,
        /// TCP.
        TCP = 3,
        /// Inside of a host.
        LOOP = 254,
    }
}

codes! {
    /// ADRFAM.
    pub struct AddressFamily(u8) {
        /// IPv4.
        IPV4 = 1,
        /// IPv6.
        IPV6 = 2,
        /// InfiniBand.
        INFINIBAND = 3,
        /// Fibre Channel.
        FIBRE_CHANNEL = 4,
        /// Inside of a host.
        LOOP = 254,
    }
}

codes! {
    /// SUBTYPE.
    pub struct DiscoveryType(u8) {
        /// A referral to another discovery service.
        REFERRAL = 1,
        /// A subsystem with I/O controllers.
        NVM = 2,
        /// The discovery subsystem that is being read.
        CURRENT_DISCOVERY = 3,
    }
}

codes! {
    /// SECTYPE: TSAS of TCP.
    pub struct SecureChannel(u8) {
        /// No security.
        NONE = 0,
        /// TLS 1.2 and before.
        TLS_1_2 = 1,
        /// TLS 1.3.
        TLS_1_3 = 2,
    }
}

bitflags::bitflags! {
    /// TREQ.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct TransportRequirements: u8 {
        /// A secure channel is required.
        const SECURE_CHANNEL_REQUIRED = 1;
        /// A secure channel is not required.
        const SECURE_CHANNEL_NOT_REQUIRED = 1 << 1;
        /// Submission queue flow control can be switched off.
        const DISABLE_SQ_FLOW_CONTROL = 1 << 2;
    }
}
flag_field!(TransportRequirements);

bitflags::bitflags! {
    /// EFLAGS.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct EntryFlags: u16 {
        /// DUPRETINFO: this port gives the same as the others.
        const DUPLICATE_INFORMATION = 1;
        /// EPCSD: persistent connections are supported.
        const PERSISTENT_CONNECTIONS = 1 << 1;
        /// NCC: no connection to the central discovery controller.
        const NO_CONNECTIVITY = 1 << 2;
    }
}
flag_field!(EntryFlags);

structure! {
    /// The header of the page; entries follow.
    pub struct DiscoveryHeader: 1024 {
        /// GENCTR: counts changes of the page.
        genctr: u64 = 0,
        /// NUMREC: entries.
        numrec: u64 = 8,
        /// RECFMT: 0.
        recfmt: u16 = 16,
    }
}

structure! {
    /// An entry of the page.
    pub struct DiscoveryEntry: 1024 {
        /// TRTYPE.
        trtype: TransportType = 0,
        /// ADRFAM.
        adrfam: AddressFamily = 1,
        /// SUBTYPE.
        subtype: DiscoveryType = 2,
        /// TREQ.
        treq: TransportRequirements = 3,
        /// PORTID.
        portid: u16 = 4,
        /// CNTLID: FFFFh dynamic, FFFEh static model.
        cntlid: u16 = 6,
        /// ASQSZ: the most entries of an admin submission queue.
        asqsz: u16 = 8,
        /// EFLAGS.
        eflags: EntryFlags = 10,
        /// TRSVCID: the port as decimal digits.
        trsvcid: Text<32> = 32,
        /// SUBNQN.
        subnqn: NqnField = 256,
        /// TRADDR: the address as text.
        traddr: Text<256> = 512,
        /// TSAS: SECTYPE.
        sectype: SecureChannel = 768,
    }
}
