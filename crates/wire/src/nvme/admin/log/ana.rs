//! Asymmetric Namespace Access log page: Base 2.1 section 5.1.12.1.13.

use crate::nvme::layout::{Field, codes, structure};

codes! {
    /// ANA state of a group.
    pub struct AnaState(u8) {
        /// Optimized.
        OPTIMIZED = 0x1,
        /// Non-optimized.
        NON_OPTIMIZED = 0x2,
        /// Inaccessible.
        INACCESSIBLE = 0x3,
        /// Persistent loss.
        PERSISTENT_LOSS = 0x4,
        /// Change.
        CHANGE = 0xf,
    }
}

structure! {
    /// The header of the page.
    pub struct AnaHeader: 16 {
        /// CHGCNT: counts changes of the page; 0 is not reported.
        chgcnt: u64 = 0,
        /// NAGD: groups that follow.
        ngrps: u16 = 8,
    }
}

structure! {
    /// The descriptor of a group; its namespace identifiers follow, 4 bytes each.
    pub struct AnaGroup: 32 {
        /// AGID.
        grpid: u32 = 0,
        /// NNV: identifiers that follow.
        nnsids: u32 = 4,
        /// CHGCNT of the group.
        chgcnt: u64 = 8,
        /// The state.
        state: AnaState = 16,
    }
}

/// Appends a group to `out`: NNV becomes the number of `nsids`.
pub fn put_group(out: &mut Vec<u8>, group: AnaGroup, nsids: &[u32]) {
    let mut descriptor = [0; AnaGroup::LENGTH];
    AnaGroup { nnsids: nsids.len() as u32, ..group }.encode(&mut descriptor);
    out.extend_from_slice(&descriptor);
    for nsid in nsids {
        out.extend_from_slice(&nsid.to_le_bytes());
    }
}

/// The groups of a page as it was received; ends at the page's end, or at the first group that is cut short.
pub fn read_groups(page: &[u8]) -> impl Iterator<Item = (AnaGroup, &[[u8; 4]])> {
    let header: AnaHeader = Field::get(page, 0);
    let mut rest = page.get(AnaHeader::LENGTH..).unwrap_or(&[]);
    (0..header.ngrps).map_while(move |_| {
        let (descriptor, behind) = rest.split_first_chunk()?;
        let group = AnaGroup::decode(descriptor);
        let (nsids, _) = behind.as_chunks::<4>();
        let nsids = nsids.get(..group.nnsids as usize)?;
        rest = behind.get(nsids.len() * 4..)?;
        Some((group, nsids))
    })
}
