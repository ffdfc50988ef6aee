//! Identify Controller: Base 2.1 section 5.1.13.2.1, and the NVM command set's part of it.

use crate::nvme::admin::features::EventConfiguration;
use crate::nvme::layout::{Field, bit_groups, codes, flag_field, structure};
use crate::nvme::nqn::NqnField;
use crate::nvme::text::Text;

bitflags::bitflags! {
    /// CTRATT.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct ControllerAttributes: u32 {
        /// HIDS: 128-bit host identifiers.
        const EXTENDED_HOST_IDENTIFIER = 1;
        /// TBKAS: traffic based keep alive.
        const TRAFFIC_BASED_KEEP_ALIVE = 1 << 6;
        /// UUID list.
        const UUID_LIST = 1 << 9;
    }
}
flag_field!(ControllerAttributes);

bitflags::bitflags! {
    /// OACS.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct OptionalAdminCommands: u16 {
        /// Security Send and Receive.
        const SECURITY = 1;
        /// Format NVM.
        const FORMAT = 1 << 1;
        /// Firmware Commit and Download.
        const FIRMWARE = 1 << 2;
        /// Namespace Management and Attachment.
        const NAMESPACE_MANAGEMENT = 1 << 3;
        /// Device Self-test.
        const SELF_TEST = 1 << 4;
        /// Directives.
        const DIRECTIVES = 1 << 5;
        /// Get LBA Status.
        const GET_LBA_STATUS = 1 << 9;
    }
}
flag_field!(OptionalAdminCommands);

bitflags::bitflags! {
    /// ONCS.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct OptionalCommands: u16 {
        /// Compare.
        const COMPARE = 1;
        /// Write Uncorrectable.
        const WRITE_UNCORRECTABLE = 1 << 1;
        /// Dataset Management.
        const DATASET_MANAGEMENT = 1 << 2;
        /// Write Zeroes.
        const WRITE_ZEROES = 1 << 3;
        /// SV of Set Features and SEL of Get Features.
        const SAVE_AND_SELECT = 1 << 4;
        /// Reservations.
        const RESERVATIONS = 1 << 5;
        /// Timestamp.
        const TIMESTAMP = 1 << 6;
        /// Verify.
        const VERIFY = 1 << 7;
        /// Copy.
        const COPY = 1 << 8;
        /// A copy is atomic as one write.
        const COPY_SINGLE_ATOMICITY = 1 << 9;
        /// All copies are fast.
        const ALL_FAST_COPY = 1 << 10;
        /// MAXWZD: a deallocating Write Zeroes has a limit of its own.
        const MAXIMUM_WRITE_ZEROES_DEALLOCATE = 1 << 11;
        /// NSZS: Write Zeroes of a whole namespace.
        const NAMESPACE_ZEROES = 1 << 12;
    }
}
flag_field!(OptionalCommands);

bitflags::bitflags! {
    /// FUSES.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct FusedOperations: u16 {
        /// Compare and Write.
        const COMPARE_AND_WRITE = 1;
    }
}
flag_field!(FusedOperations);

bitflags::bitflags! {
    /// LPA.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct LogPageAttributes: u8 {
        /// SMART per namespace.
        const SMART_PER_NAMESPACE = 1;
        /// The commands supported and effects log page.
        const COMMAND_EFFECTS = 1 << 1;
        /// LPO and the whole of NUMD.
        const EXTENDED_DATA = 1 << 2;
        /// Telemetry.
        const TELEMETRY = 1 << 3;
        /// Persistent events.
        const PERSISTENT_EVENT = 1 << 4;
        /// Log pages 00h, 05h (scopes), 12h and 13h.
        const SUPPORTED_LOG_PAGES = 1 << 5;
    }
}
flag_field!(LogPageAttributes);

bitflags::bitflags! {
    /// VWC.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct VolatileWriteCacheAttributes: u8 {
        /// A volatile write cache is present.
        const PRESENT = 1;
        /// With `FLUSH_BROADCAST_LOW`: Flush to all namespaces (FFFFFFFFh) is supported.
        const FLUSH_BROADCAST_HIGH = 1 << 2;
        /// With the high bit alone: Flush with FFFFFFFFh is not supported. Neither: nothing is said (not allowed).
        const FLUSH_BROADCAST_LOW = 1 << 1;
    }
}
flag_field!(VolatileWriteCacheAttributes);

impl VolatileWriteCacheAttributes {
    /// FB 11b: Flush with NSID FFFFFFFFh flushes every namespace.
    pub const FLUSH_ALL: Self = Self::FLUSH_BROADCAST_LOW.union(Self::FLUSH_BROADCAST_HIGH);
    /// FB 10b: Flush with NSID FFFFFFFFh is refused.
    pub const NO_FLUSH_ALL: Self = Self::FLUSH_BROADCAST_HIGH;
}

bitflags::bitflags! {
    /// SGLS, with the two low bits as they are.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct SglSupport: u32 {
        /// SGLs without alignment or granularity.
        const SUPPORTED = 1;
        /// SGLs, dword aligned and granular (instead of the former).
        const DWORD_ALIGNED = 1 << 1;
        /// Keyed data blocks.
        const KEYED = 1 << 2;
        /// Bit buckets.
        const BIT_BUCKET = 1 << 16;
        /// An SGL may be longer than the data.
        const LONGER_THAN_DATA = 1 << 18;
        /// The address of a data block may be an offset: in-capsule data.
        const OFFSET = 1 << 20;
        /// Transport data blocks.
        const TRANSPORT = 1 << 21;
    }
}
flag_field!(SglSupport);

bitflags::bitflags! {
    /// ANACAP.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct AnaCapabilities: u8 {
        /// The optimized state is reported.
        const OPTIMIZED = 1;
        /// The non-optimized state is reported.
        const NON_OPTIMIZED = 1 << 1;
        /// The inaccessible state is reported.
        const INACCESSIBLE = 1 << 2;
        /// The persistent loss state is reported.
        const PERSISTENT_LOSS = 1 << 3;
        /// The change state is reported.
        const CHANGE = 1 << 4;
        /// ANAGRPID of a namespace does not change.
        const STABLE_GROUP = 1 << 6;
        /// ANAGRPID can be given in Namespace Management.
        const MANAGED_GROUP = 1 << 7;
    }
}
flag_field!(AnaCapabilities);

bitflags::bitflags! {
    /// OFCS: optional fabrics commands.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct FabricsCapabilities: u16 {
        /// Disconnect of an I/O queue.
        const DISCONNECT = 1;
    }
}
flag_field!(FabricsCapabilities);

codes! {
    /// CNTRLTYPE.
    pub struct ControllerType(u8) {
        /// Not reported.
        NOT_REPORTED = 0,
        /// I/O controller.
        IO = 1,
        /// Discovery controller.
        DISCOVERY = 2,
        /// Administrative controller.
        ADMINISTRATIVE = 3,
    }
}

bit_groups! {
    /// CMIC.
    pub struct MultiPath(u8) {
        /// More than one port.
        ports, with_ports: 0, 1;
        /// More than one controller.
        controllers, with_controllers: 1, 1;
        /// SR-IOV virtual function.
        virtual_function, with_virtual_function: 2, 1;
        /// Asymmetric namespace access is reported.
        ana, with_ana: 3, 1;
    }
}

structure! {
    /// A power state descriptor; what is not here is zero.
    pub struct PowerState: 32 {
        /// MP: maximum power in units of 0.01 W (or 0.1 mW).
        mp: u16 = 0,
        /// ENLAT in microseconds.
        enlat: u32 = 4,
        /// EXLAT in microseconds.
        exlat: u32 = 8,
    }
}

structure! {
    /// Identify Controller, CNS 01h. What is not here is zero, or not for fabrics.
    pub struct IdentifyController: 4096 {
        /// VID.
        vid: u16 = 0,
        /// SSVID.
        ssvid: u16 = 2,
        /// SN: serial number.
        sn: Text<20> = 4,
        /// MN: model number.
        mn: Text<40> = 24,
        /// FR: firmware revision.
        fr: Text<8> = 64,
        /// RAB: arbitration burst, 2^n.
        rab: u8 = 72,
        /// IEEE OUI.
        ieee: [u8; 3] = 73,
        /// CMIC.
        cmic: MultiPath = 76,
        /// MDTS: most bytes of a command, 2^n memory pages of CAP.MPSMIN; 0 is no limit.
        mdts: u8 = 77,
        /// CNTLID.
        cntlid: u16 = 78,
        /// VER.
        ver: u32 = 80,
        /// RTD3R in microseconds.
        rtd3r: u32 = 84,
        /// RTD3E in microseconds.
        rtd3e: u32 = 88,
        /// OAES: optional events; bits 8 and up of the configuration.
        oaes: EventConfiguration = 92,
        /// CTRATT.
        ctratt: ControllerAttributes = 96,
        /// CNTRLTYPE.
        cntrltype: ControllerType = 111,
        /// FGUID.
        fguid: [u8; 16] = 112,
        /// CRDT1 in units of 100 ms.
        crdt1: u16 = 128,
        /// CRDT2 in units of 100 ms.
        crdt2: u16 = 130,
        /// CRDT3 in units of 100 ms.
        crdt3: u16 = 132,
        /// OACS.
        oacs: OptionalAdminCommands = 256,
        /// ACL: Abort commands at once, 0's based.
        acl: u8 = 258,
        /// AERL: Asynchronous Event Requests at once, 0's based.
        aerl: u8 = 259,
        /// FRMW: bit 0 slot 1 is read only, bits 3:1 slots, bit 4 activation without reset.
        frmw: u8 = 260,
        /// LPA.
        lpa: LogPageAttributes = 261,
        /// ELPE: entries of the error log page, 0's based.
        elpe: u8 = 262,
        /// NPSS: power states, 0's based.
        npss: u8 = 263,
        /// AVSCC.
        avscc: u8 = 264,
        /// WCTEMP in kelvin.
        wctemp: u16 = 266,
        /// CCTEMP in kelvin.
        cctemp: u16 = 268,
        /// TNVMCAP in bytes.
        tnvmcap: u128 = 280,
        /// UNVMCAP in bytes.
        unvmcap: u128 = 296,
        /// KAS: granularity of the keep alive timer, in units of 100 ms.
        kas: u16 = 320,
        /// ANATT: longest ANA transition in seconds.
        anatt: u8 = 342,
        /// ANACAP.
        anacap: AnaCapabilities = 343,
        /// ANAGRPMAX.
        anagrpmax: u32 = 344,
        /// NANAGRPID.
        nanagrpid: u32 = 348,
        /// DOMAINID.
        domainid: u16 = 356,
        /// SQES: 66h, entries of 64 bytes.
        sqes: u8 = 512,
        /// CQES: 44h, entries of 16 bytes.
        cqes: u8 = 513,
        /// MAXCMD: commands at once on an I/O queue.
        maxcmd: u16 = 514,
        /// NN: the largest NSID.
        nn: u32 = 516,
        /// ONCS.
        oncs: OptionalCommands = 520,
        /// FUSES.
        fuses: FusedOperations = 522,
        /// FNA.
        fna: u8 = 524,
        /// VWC.
        vwc: VolatileWriteCacheAttributes = 525,
        /// AWUN in blocks, 0's based.
        awun: u16 = 526,
        /// AWUPF in blocks, 0's based.
        awupf: u16 = 528,
        /// ICSVSCC.
        icsvscc: u8 = 530,
        /// NWPC.
        nwpc: u8 = 531,
        /// ACWU in blocks, 0's based.
        acwu: u16 = 532,
        /// OCFS: copy descriptor formats; bit 0 is format 0.
        ocfs: u16 = 534,
        /// SGLS.
        sgls: SglSupport = 536,
        /// MNAN: most namespaces that can be; 0 is NN.
        mnan: u32 = 540,
        /// SUBNQN.
        subnqn: NqnField = 768,
        /// IOCCSZ: a command capsule of an I/O queue, in units of 16 bytes; at least 4.
        ioccsz: u32 = 1792,
        /// IORCSZ: a response capsule of an I/O queue, in units of 16 bytes; 1.
        iorcsz: u32 = 1796,
        /// ICDOFF: where in-capsule data begins, in units of 16 bytes; 0 with TCP.
        icdoff: u16 = 1800,
        /// FCATT: bit 0, static controller model.
        fcatt: u8 = 1802,
        /// MSDBD: SGL data block descriptors of a command; 1 with TCP.
        msdbd: u8 = 1803,
        /// OFCS.
        ofcs: FabricsCapabilities = 1804,
        /// DCTYPE.
        dctype: u8 = 1806,
        /// PSD0: the first power state.
        psd0: PowerState = 2048,
    }
}

impl IdentifyController {
    /// Bytes of in-capsule data that an I/O queue takes.
    pub const fn in_capsule_data(&self) -> u32 {
        self.ioccsz.saturating_mul(16).saturating_sub(64)
    }

    /// Sets IOCCSZ for this many bytes of in-capsule data, a multiple of 16.
    pub const fn with_in_capsule_data(mut self, bytes: u32) -> Self {
        self.ioccsz = (64 + bytes) / 16;
        self
    }
}

structure! {
    /// Identify Controller of the NVM command set, CNS 06h: NVM 1.1 section 4.1.5.4. Sizes are 2^n memory pages of
    /// CAP.MPSMIN; 0 is no limit.
    pub struct NvmController: 4096 {
        /// VSL: most bytes of a Verify.
        vsl: u8 = 0,
        /// WZSL: most bytes of a Write Zeroes.
        wzsl: u8 = 1,
        /// WUSL: most bytes of a Write Uncorrectable.
        wusl: u8 = 2,
        /// DMRL: most ranges of a Dataset Management.
        dmrl: u8 = 3,
        /// DMRSL: most blocks of one of its ranges.
        dmrsl: u32 = 4,
        /// DMSL: most blocks of all its ranges.
        dmsl: u64 = 8,
        /// WZDSL: most bytes of a deallocating Write Zeroes.
        wzdsl: u8 = 17,
        /// AOCS.
        aocs: u16 = 18,
        /// VER of the NVM command set.
        ver: u32 = 20,
    }
}

impl Field for EventConfiguration {
    #[inline]
    fn get(bytes: &[u8], offset: usize) -> Self {
        Self::from_bits_truncate(Field::get(bytes, offset))
    }

    #[inline]
    fn put(self, bytes: &mut [u8], offset: usize) {
        self.bits().put(bytes, offset);
    }
}
