//! Identify Namespace: NVM Command Set 1.1 section 4.1.5.1, Base 2.1 section 5.1.13.2.8.

use crate::nvme::layout::{Field, bit_groups, flag_field, structure};

bitflags::bitflags! {
    /// NSFEAT of the NVM command set.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct NamespaceFeatures: u8 {
        /// THINP: thin provisioning, NUSE is true.
        const THIN_PROVISIONING = 1;
        /// NSABP: NAWUN, NAWUPF and NACWU count, not the controller's.
        const ATOMIC_WRITES = 1 << 1;
        /// DAE: reading deallocated blocks can be an error.
        const DEALLOCATED_ERROR = 1 << 2;
        /// UIDREUSE: NGUID and EUI64 are never used again.
        const UNIQUE_IDENTIFIERS = 1 << 3;
        /// OPTPERF 01b: NPWG, NPWA, NPDG, NPDA and NOWS are there.
        const OPTIMAL_SIZES = 1 << 4;
    }
}
flag_field!(NamespaceFeatures);

bit_groups! {
    /// DLFEAT.
    pub struct DeallocateFeatures(u8) {
        /// DRB: what deallocated blocks read as; 0 nothing is said, 1 zeroes, 2 ones.
        reads_as, with_reads_as: 0, 3;
        /// WZDS: DEAC of Write Zeroes is supported.
        write_zeroes, with_write_zeroes: 3, 1;
        /// GDS: the guard of deallocated blocks is right.
        guard, with_guard: 4, 1;
    }
}

structure! {
    /// An LBA format.
    pub struct LbaFormat: 4 {
        /// MS: metadata bytes.
        ms: u16 = 0,
        /// LBADS: a block has 2^this bytes; below 9 is not allowed, 0 is not available.
        lbads: u8 = 2,
        /// RP: relative performance; 0 is best.
        rp: u8 = 3,
    }
}

/// All 64 LBA formats of a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LbaFormats(pub [LbaFormat; 64]);

impl LbaFormats {
    /// One format, the first.
    pub const fn one(format: LbaFormat) -> Self {
        let mut formats = [LbaFormat { ms: 0, lbads: 0, rp: 0 }; 64];
        formats[0] = format;
        Self(formats)
    }
}

impl Default for LbaFormats {
    fn default() -> Self {
        Self([LbaFormat::default(); 64])
    }
}

impl Field for LbaFormats {
    fn get(bytes: &[u8], offset: usize) -> Self {
        Self(std::array::from_fn(|at| Field::get(bytes, offset + at * LbaFormat::LENGTH)))
    }

    fn put(self, bytes: &mut [u8], offset: usize) {
        for (at, format) in self.0.into_iter().enumerate() {
            format.put(bytes, offset + at * LbaFormat::LENGTH);
        }
    }
}

structure! {
    /// Identify Namespace of the NVM command set, CNS 00h. Quantities are blocks.
    pub struct IdentifyNamespace: 4096 {
        /// NSZE: size.
        nsze: u64 = 0,
        /// NCAP: capacity.
        ncap: u64 = 8,
        /// NUSE: used.
        nuse: u64 = 16,
        /// NSFEAT.
        nsfeat: NamespaceFeatures = 24,
        /// NLBAF: formats, 0's based.
        nlbaf: u8 = 25,
        /// FLBAS: the format in use, see [`format_index`](Self::format_index).
        flbas: u8 = 26,
        /// MC.
        mc: u8 = 27,
        /// DPC: protection information types.
        dpc: u8 = 28,
        /// DPS: the protection information in use.
        dps: u8 = 29,
        /// NMIC: bit 0, shared by controllers.
        nmic: u8 = 30,
        /// RESCAP: reservations.
        rescap: u8 = 31,
        /// FPI.
        fpi: u8 = 32,
        /// DLFEAT.
        dlfeat: DeallocateFeatures = 33,
        /// NAWUN, 0's based.
        nawun: u16 = 34,
        /// NAWUPF, 0's based.
        nawupf: u16 = 36,
        /// NACWU, 0's based.
        nacwu: u16 = 38,
        /// NABSN, 0's based.
        nabsn: u16 = 40,
        /// NABO.
        nabo: u16 = 42,
        /// NABSPF, 0's based.
        nabspf: u16 = 44,
        /// NOIOB.
        noiob: u16 = 46,
        /// NVMCAP in bytes.
        nvmcap: u128 = 48,
        /// NPWG: preferred write granularity, 0's based.
        npwg: u16 = 64,
        /// NPWA: preferred write alignment, 0's based.
        npwa: u16 = 66,
        /// NPDG: preferred deallocate granularity, 0's based.
        npdg: u16 = 68,
        /// NPDA: preferred deallocate alignment, 0's based.
        npda: u16 = 70,
        /// NOWS: optimal write size, 0's based.
        nows: u16 = 72,
        /// MSSRL: most blocks of one source range of Copy.
        mssrl: u16 = 74,
        /// MCL: most blocks of a Copy.
        mcl: u32 = 76,
        /// MSRC: most source ranges of a Copy, 0's based.
        msrc: u8 = 80,
        /// ANAGRPID.
        anagrpid: u32 = 92,
        /// NSATTR: bit 0, write protected.
        nsattr: u8 = 99,
        /// NVMSETID.
        nvmsetid: u16 = 100,
        /// ENDGID.
        endgid: u16 = 102,
        /// NGUID.
        nguid: [u8; 16] = 104,
        /// EUI64.
        eui64: [u8; 8] = 120,
        /// LBAF0 to LBAF63.
        lbaf: LbaFormats = 128,
    }
}

impl IdentifyNamespace {
    /// Index of the format in use: bits 3:0 of FLBAS, bits 6:5 above them when there are more than 16 formats.
    pub const fn format_index(&self) -> usize {
        let low = self.flbas & 0xf;
        let high = if self.nlbaf > 15 { self.flbas >> 5 & 3 } else { 0 };
        (low | high << 4) as usize
    }

    /// Bytes of a block; `None` if the format is none that a block device can have.
    pub fn block_size(&self) -> Option<u32> {
        let format = self.lbaf.0.get(self.format_index())?;
        (9..=24).contains(&format.lbads).then(|| 1 << format.lbads)
    }

    /// Bytes of metadata of a block in the format in use.
    pub fn metadata_size(&self) -> u16 {
        self.lbaf.0.get(self.format_index()).map_or(0, |format| format.ms)
    }
}

bit_groups! {
    /// NSTAT.
    pub struct NamespaceStatus(u8) {
        /// NRDY: ready.
        ready, with_ready: 0, 1;
    }
}

structure! {
    /// I/O command set independent Identify Namespace, CNS 08h.
    pub struct IndependentNamespace: 4096 {
        /// NSFEAT: bit 3 UIDREUSE, bit 4 rotational media, bit 5 volatile write cache not present.
        nsfeat: u8 = 0,
        /// NMIC: bit 0, shared by controllers.
        nmic: u8 = 1,
        /// RESCAP.
        rescap: u8 = 2,
        /// FPI.
        fpi: u8 = 3,
        /// ANAGRPID.
        anagrpid: u32 = 4,
        /// NSATTR: bit 0, write protected.
        nsattr: u8 = 8,
        /// NVMSETID.
        nvmsetid: u16 = 10,
        /// ENDGID.
        endgid: u16 = 12,
        /// NSTAT.
        nstat: NamespaceStatus = 14,
    }
}

structure! {
    /// NVM command set specific Identify Namespace, CNS 05h: NVM 1.1 section 4.1.5.3. All of it is about protection
    /// information and large granularities.
    pub struct NvmNamespace: 4096 {
        /// LBSTM.
        lbstm: u64 = 0,
        /// PIC.
        pic: u8 = 8,
        /// NPDGL: preferred deallocate granularity, for large ones.
        npdgl: u32 = 268,
        /// NPRG: preferred read granularity.
        nprg: u32 = 272,
        /// NPRA: preferred read alignment.
        npra: u32 = 276,
        /// NORS: optimal read size.
        nors: u32 = 280,
        /// NPDAL: preferred deallocate alignment, for large ones.
        npdal: u32 = 284,
    }
}
