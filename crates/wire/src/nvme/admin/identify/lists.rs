//! Lists that Identify gives: Base 2.1 sections 4.4 and 5.1.13.2.

use super::{Csi, IDENTIFY_LENGTH};
use crate::nvme::layout::Field;

/// Most identifiers of a namespace list.
pub const NAMESPACES_IN_LIST: usize = IDENTIFY_LENGTH / 4;
/// Most identifiers of a controller list.
const CONTROLLERS_IN_LIST: usize = IDENTIFY_LENGTH / 2 - 1;

/// A namespace list: at most 1024 identifiers in rising order, zeroes behind them.
pub fn put_namespace_list(bytes: &mut [u8; IDENTIFY_LENGTH], nsids: impl IntoIterator<Item = u32>) {
    *bytes = [0; IDENTIFY_LENGTH];
    for (at, nsid) in nsids.into_iter().take(NAMESPACES_IN_LIST).enumerate() {
        nsid.put(bytes, at * 4);
    }
}

/// The identifiers of a namespace list: up to the first zero.
pub fn read_namespace_list(bytes: &[u8; IDENTIFY_LENGTH]) -> impl Iterator<Item = u32> + '_ {
    bytes.as_chunks::<4>().0.iter().map(|entry| u32::from_le_bytes(*entry)).take_while(|nsid| *nsid != 0)
}

/// A controller list: a count and at most 2047 identifiers in rising order.
pub fn put_controller_list(bytes: &mut [u8; IDENTIFY_LENGTH], cntlids: impl IntoIterator<Item = u16>) {
    *bytes = [0; IDENTIFY_LENGTH];
    let mut count = 0u16;
    for cntlid in cntlids.into_iter().take(CONTROLLERS_IN_LIST) {
        count += 1;
        cntlid.put(bytes, usize::from(count) * 2);
    }
    count.put(bytes, 0);
}

/// The I/O command sets of CNS 1Ch: one combination, with these.
pub fn put_io_command_sets(bytes: &mut [u8; IDENTIFY_LENGTH], sets: &[Csi]) {
    *bytes = [0; IDENTIFY_LENGTH];
    let vector = sets.iter().filter(|set| set.0 < 64).fold(0u64, |vector, set| vector | 1 << set.0);
    vector.put(bytes, 0);
}

/// A namespace identification descriptor, CNS 03h.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Descriptor {
    /// NIDT 1h: EUI64.
    Eui64([u8; 8]),
    /// NIDT 2h: NGUID.
    Nguid([u8; 16]),
    /// NIDT 3h: a UUID.
    Uuid([u8; 16]),
    /// NIDT 4h: the I/O command set.
    Csi(Csi),
}

/// The list of CNS 03h; descriptors that do not fit are left out.
pub fn put_descriptors(bytes: &mut [u8; IDENTIFY_LENGTH], descriptors: &[Descriptor]) {
    *bytes = [0; IDENTIFY_LENGTH];
    let mut rest = &mut bytes[..];
    for descriptor in descriptors {
        let (kind, value): (u8, &[u8]) = match descriptor {
            Descriptor::Eui64(value) => (1, value),
            Descriptor::Nguid(value) => (2, value),
            Descriptor::Uuid(value) => (3, value),
            Descriptor::Csi(value) => (4, &[value.0]),
        };
        let Some((entry, behind)) = rest.split_at_mut_checked(4 + value.len()) else { return };
        if let [nidt, nidl, _, _, nid @ ..] = entry {
            *nidt = kind;
            *nidl = value.len() as u8;
            nid.copy_from_slice(value);
        }
        rest = behind;
    }
}

/// Walks over the list of CNS 03h. Descriptors of other types are skipped; ends with the list, or with the first
/// descriptor whose length is wrong.
#[derive(Debug, Clone)]
pub struct Descriptors<'a>(&'a [u8]);

impl<'a> Descriptors<'a> {
    /// Over the data of the command.
    pub const fn new(bytes: &'a [u8; IDENTIFY_LENGTH]) -> Self {
        Self(bytes)
    }
}

impl Iterator for Descriptors<'_> {
    type Item = Descriptor;

    fn next(&mut self) -> Option<Descriptor> {
        loop {
            let [kind, length, _, _, rest @ ..] = self.0 else { return None };
            if *kind == 0 || *length == 0 {
                return None;
            }
            let (value, behind) = rest.split_at_checked(usize::from(*length))?;
            self.0 = behind;
            match (*kind, value) {
                (1, value) => return Some(Descriptor::Eui64(value.try_into().ok()?)),
                (2, value) => return Some(Descriptor::Nguid(value.try_into().ok()?)),
                (3, value) => return Some(Descriptor::Uuid(value.try_into().ok()?)),
                (4, [value]) => return Some(Descriptor::Csi(Csi(*value))),
                (4, _) => return None,
                _ => {}
            }
        }
    }
}
