//! GET LBA STATUS parameter data (SBC-4 section 5.7.2).

use super::bytes::{u8_at, u32_at, u64_at};

/// Length of the header, in bytes.
pub const HEADER_LENGTH: usize = 8;
/// Length of a descriptor, in bytes.
pub const DESCRIPTOR_LENGTH: usize = 16;

/// PROVISIONING STATUS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Provisioning {
    /// The blocks have a place on the medium, or nobody knows.
    Mapped = 0,
    /// Without a place; they read as LBPRZ says.
    Deallocated = 1,
    /// Without a place, space reserved.
    Anchored = 2,
}

/// One run of blocks in one state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LbaStatus {
    /// First logical block.
    pub lba: u64,
    /// Number of logical blocks, at least 1.
    pub blocks: u32,
    /// Their state.
    pub provisioning: Provisioning,
}

impl LbaStatus {
    fn encode(&self) -> [u8; DESCRIPTOR_LENGTH] {
        let mut bytes = [0; DESCRIPTOR_LENGTH];
        bytes[..8].copy_from_slice(&self.lba.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.blocks.to_be_bytes());
        bytes[12] = self.provisioning as u8;
        bytes
    }
}

/// Appends the parameter data for these runs; more than 2^28 cannot be there.
pub fn encode(runs: &[LbaStatus], out: &mut Vec<u8>) {
    let length = u32::try_from(runs.len().saturating_mul(DESCRIPTOR_LENGTH) + 4).unwrap_or(u32::MAX);
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(&[0; 4]);
    for run in runs {
        out.extend_from_slice(&run.encode());
    }
}

/// The runs in received parameter data; those with an unknown state are taken as mapped.
pub fn decode(bytes: &[u8]) -> impl Iterator<Item = LbaStatus> + '_ {
    let listed = (u32_at(bytes, 0).saturating_sub(4) / DESCRIPTOR_LENGTH as u32) as usize;
    let body = bytes.get(HEADER_LENGTH..).unwrap_or(&[]);
    body.as_chunks::<DESCRIPTOR_LENGTH>().0.iter().take(listed).map(|run| LbaStatus {
        lba: u64_at(run, 0),
        blocks: u32_at(run, 8),
        provisioning: match u8_at(run, 12) & 0x0f {
            1 => Provisioning::Deallocated,
            2 => Provisioning::Anchored,
            _ => Provisioning::Mapped,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_round_trip() {
        let runs = [
            LbaStatus { lba: 1 << 40, blocks: 7, provisioning: Provisioning::Deallocated },
            LbaStatus { lba: 9, blocks: 1, provisioning: Provisioning::Mapped },
        ];
        let mut bytes = Vec::new();
        encode(&runs, &mut bytes);
        assert_eq!(decode(&bytes).collect::<Vec<_>>(), runs);
        assert_eq!(decode(&bytes[..30]).count(), 1);
        assert_eq!(decode(&[]).count(), 0);
    }
}
