use proptest::prelude::*;

use super::*;
use crate::pool::format::samples::POOL;

fn encoded(number: u32, words: &[u64]) -> Vec<u8> {
    let mut out = vec![0xee; BLOCK];
    encode(&POOL, number, words, &mut out);
    out
}

#[test]
fn bits_fill_the_block() {
    assert_eq!(BITS.div_ceil(8) + HEAD, BLOCK);
    assert_eq!(WORDS * 64, BITS);
}

#[test]
fn every_byte_is_looked_at() {
    let bytes = encoded(3, &[7; WORDS]);
    for offset in 0..BLOCK {
        let mut torn = bytes.clone();
        torn[offset] ^= 0x10;
        assert!(decode(&torn, &POOL, 3).is_none(), "{offset}");
        if offset < CHECKSUM {
            seal(&mut torn, CHECKSUM);
            assert!(decode(&torn, &POOL, 3).is_none(), "{offset}");
        }
    }
    assert!(decode(&bytes, &[0x51; 16], 3).is_none());
    assert!(decode(&bytes, &POOL, 4).is_none());
    assert!(decode(&bytes[..BLOCK - 1], &POOL, 3).is_none());
    assert!(decode(&[0; BLOCK], &[0; 16], 0).is_none());
}

#[test]
fn words_that_are_not_given_are_clear() {
    let bytes = encoded(0, &[u64::MAX]);
    let mut words = decode(&bytes, &POOL, 0).unwrap();
    assert_eq!(words.len(), WORDS);
    assert_eq!(words.next(), Some(u64::MAX));
    assert!(words.all(|word| word == 0));
}

proptest! {
    #[test]
    fn round_trip(number in any::<u32>(), words in prop::collection::vec(any::<u64>(), WORDS)) {
        prop_assert!(decode(&encoded(number, &words), &POOL, number).unwrap().eq(words));
    }

    #[test]
    fn arbitrary(bytes in prop::collection::vec(any::<u8>(), 0..=BLOCK + 1), number in any::<u32>()) {
        prop_assert!(decode(&bytes, &POOL, number).is_none());
    }
}
