//! CHAP: RFC 1994, and how iSCSI carries it, RFC 7143 section 12.1.3.

/// A hash of CHAP, with the number that IANA gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Algorithm {
    Md5,
    Sha1,
    Sha256,
}

/// What we offer, best first.
pub(super) const OFFER: &str = "7,6,5";
/// What we offer a target that refused us: tgt takes 7 for SHA-1, which is 6 in the registry of IANA.
pub(super) const PLAIN_OFFER: &str = "5";
/// The longest challenge that RFC 7143 section 12.1.3 allows, in bytes.
pub(super) const MAX_CHALLENGE: usize = 1024;

impl Algorithm {
    pub(super) fn from_number(number: u64) -> Option<Algorithm> {
        match number {
            5 => Some(Algorithm::Md5),
            6 => Some(Algorithm::Sha1),
            7 => Some(Algorithm::Sha256),
            _ => None,
        }
    }

    /// Hash of identifier, secret and challenge.
    pub(super) fn response(self, identifier: u8, secret: &[u8], challenge: &[u8]) -> Vec<u8> {
        fn hash<D: md5::Digest>(parts: [&[u8]; 3]) -> Vec<u8> {
            let mut hash = D::new();
            for part in parts {
                hash.update(part);
            }
            hash.finalize().to_vec()
        }
        let parts = [&[identifier][..], secret, challenge];
        match self {
            Algorithm::Md5 => hash::<md5::Md5>(parts),
            Algorithm::Sha1 => hash::<sha1::Sha1>(parts),
            Algorithm::Sha256 => hash::<sha2::Sha256>(parts),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::iscsi::text::to_hex;

    /// Against `printf '\001secretchallenge' | md5sum` and its sisters.
    #[test]
    fn responses_are_the_hashes_of_the_three_parts() {
        for (number, expected) in [
            (5, "0x46e47770030e2b4e26a0db72a7efec00"),
            (6, "0x011f25d29fe1baaced569c0d7e4878e40ddb7d7e"),
            (7, "0x2dfa0526f4764864b7c3c5bc6596bcead3d8dbd984f4fc1d9f330299f0beced4"),
        ] {
            let algorithm = Algorithm::from_number(number).unwrap();
            assert_eq!(to_hex(&algorithm.response(1, b"secret", b"challenge")), expected);
        }
        assert_eq!(Algorithm::from_number(4), None);
    }
}
