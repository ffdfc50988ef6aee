//! UNMAP parameter list (SBC-4 section 5.32.2).

use super::bytes::{u16_at, u32_at, u64_at};
use super::sense::{FieldPointer, Sense};

/// Length of the header, in bytes.
pub const HEADER_LENGTH: usize = 8;
/// Length of a block descriptor, in bytes.
pub const DESCRIPTOR_LENGTH: usize = 16;

/// One range to unmap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockDescriptor {
    /// First logical block.
    pub lba: u64,
    /// Number of logical blocks; 0 is nothing.
    pub blocks: u32,
}

/// A parameter list whose lengths have been checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnmapList<'a> {
    descriptors: &'a [[u8; DESCRIPTOR_LENGTH]],
}

impl<'a> UnmapList<'a> {
    /// Checks the header. An empty list is allowed and means nothing; a list that is cut short within the header
    /// is a PARAMETER LIST LENGTH ERROR; a descriptor data length beyond the list too. A trailing part of a
    /// descriptor is ignored (SBC-4: "a block descriptor data length that is not a multiple of sixteen").
    /// More than `maximum` descriptors are refused as INVALID FIELD IN PARAMETER LIST.
    pub fn decode(list: &'a [u8], maximum: u32) -> Result<Self, Sense> {
        if list.is_empty() {
            return Ok(Self { descriptors: &[] });
        }
        if list.len() < HEADER_LENGTH {
            return Err(Sense::parameter_list_length_error());
        }
        let descriptor_bytes = usize::from(u16_at(list, 2));
        let body = list
            .get(HEADER_LENGTH..HEADER_LENGTH + descriptor_bytes)
            .ok_or(Sense::parameter_list_length_error())?;
        let (descriptors, _) = body.as_chunks::<DESCRIPTOR_LENGTH>();
        if descriptors.len() as u64 > u64::from(maximum) {
            return Err(Sense::invalid_field(FieldPointer::parameter(2)));
        }
        Ok(Self { descriptors })
    }

    /// Number of descriptors.
    pub fn len(&self) -> usize {
        self.descriptors.len()
    }

    /// True without descriptors.
    pub fn is_empty(&self) -> bool {
        self.descriptors.is_empty()
    }

    /// The descriptors in order.
    pub fn iter(&self) -> impl Iterator<Item = BlockDescriptor> + 'a {
        self.descriptors
            .iter()
            .map(|bytes| BlockDescriptor { lba: u64_at(bytes, 0), blocks: u32_at(bytes, 8) })
    }
}

/// Appends a parameter list; for initiators. At most 4095 descriptors fit.
pub fn encode(descriptors: &[BlockDescriptor], out: &mut Vec<u8>) {
    let descriptors = descriptors.get(..descriptors.len().min(4095)).unwrap_or(&[]);
    let body = (descriptors.len() * DESCRIPTOR_LENGTH) as u16;
    out.extend_from_slice(&(body + 6).to_be_bytes());
    out.extend_from_slice(&body.to_be_bytes());
    out.extend_from_slice(&[0; 4]);
    for descriptor in descriptors {
        out.extend_from_slice(&descriptor.lba.to_be_bytes());
        out.extend_from_slice(&descriptor.blocks.to_be_bytes());
        out.extend_from_slice(&[0; 4]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(count: usize) -> Vec<u8> {
        let descriptors: Vec<_> =
            (0..count).map(|index| BlockDescriptor { lba: index as u64 * 10, blocks: 3 }).collect();
        let mut out = Vec::new();
        encode(&descriptors, &mut out);
        out
    }

    #[test]
    fn descriptors_round_trip() {
        let bytes = list(3);
        let read: Vec<_> = UnmapList::decode(&bytes, 3).unwrap().iter().collect();
        assert_eq!(read.len(), 3);
        assert_eq!(read[2], BlockDescriptor { lba: 20, blocks: 3 });
    }

    #[test]
    fn lengths_that_do_not_fit_are_refused() {
        let bytes = list(2);
        assert_eq!(UnmapList::decode(&[], 1).unwrap().len(), 0);
        assert_eq!(UnmapList::decode(&bytes[..7], 9), Err(Sense::parameter_list_length_error()));
        assert_eq!(UnmapList::decode(&bytes[..39], 9), Err(Sense::parameter_list_length_error()));
        assert!(UnmapList::decode(&bytes, 1).is_err());
    }

    #[test]
    fn part_of_a_descriptor_is_ignored() {
        let mut bytes = list(2);
        bytes[3] = 20;
        assert_eq!(UnmapList::decode(&bytes, 9).unwrap().len(), 1);
    }
}
