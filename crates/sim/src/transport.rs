//! The three ways to a volume.

/// A transport.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Transport {
    /// iSCSI.
    Iscsi,
    /// NVMe/TCP.
    Nvme,
    /// NBD over TCP.
    Nbd,
}

impl Transport {
    /// All of them.
    pub const ALL: [Transport; 3] = [Transport::Iscsi, Transport::Nvme, Transport::Nbd];

    /// Where every node listens for it.
    pub const fn ports(self) -> [u16; 2] {
        match self {
            Transport::Iscsi => [3260, 3261],
            Transport::Nvme => [4420, 4421],
            Transport::Nbd => [10809, 10810],
        }
    }
}
