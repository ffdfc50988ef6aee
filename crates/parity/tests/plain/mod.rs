//! The same arithmetic as plainly as can be, and stripes to try it on. Nothing of it is shared with the crate.

// Each test program uses its own part.
#![allow(dead_code)]

use proptest::prelude::*;

/// The product in GF(2^8): shift and add, then divide by x^8 + x^4 + x^3 + x^2 + 1.
pub fn product(a: u8, b: u8) -> u8 {
    let mut long = 0_u32;
    for bit in 0..8 {
        if b >> bit & 1 == 1 {
            long ^= u32::from(a) << bit;
        }
    }
    for bit in (8..16).rev() {
        if long >> bit & 1 == 1 {
            long ^= 0b1_0001_1101 << (bit - 8);
        }
    }
    u8::try_from(long).unwrap()
}

/// 2 to the power of `exponent`.
pub fn power(exponent: usize) -> u8 {
    (0..exponent).fold(1, |power, _| product(power, 2))
}

/// The products of a byte with all bytes.
pub fn products(byte: u8) -> Vec<u8> {
    (0..=255).map(|other| product(byte, other)).collect()
}

/// Bytes at an address that is `offset` behind one of an allocation.
#[derive(Clone, Debug)]
pub struct Bytes {
    memory: Vec<u8>,
    offset: usize,
}

impl Bytes {
    pub fn new(length: usize, offset: usize, fill: impl FnMut() -> u8) -> Self {
        Self { memory: std::iter::repeat_with(fill).take(length + offset).collect(), offset }
    }

    pub fn get(&self) -> &[u8] {
        &self.memory[self.offset..]
    }

    pub fn get_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.offset..]
    }

    /// Before it: not to be touched.
    pub fn before(&self) -> &[u8] {
        &self.memory[..self.offset]
    }
}

/// Columns of data, with P and Q computed plainly.
#[derive(Clone, Debug)]
pub struct Stripe {
    pub data: Vec<Bytes>,
    pub p: Bytes,
    pub q: Bytes,
}

impl Stripe {
    pub fn new(columns: usize, length: usize, seed: u64) -> Self {
        let mut random = Random(seed);
        let mut column = || {
            let offset = usize::from(random.next()) % 67;
            Bytes::new(length, offset, || random.next())
        };
        let mut stripe = Self { data: (0..columns).map(|_| column()).collect(), p: column(), q: column() };
        stripe.compute();
        stripe
    }

    /// P and Q, column by column.
    pub fn compute(&mut self) {
        self.p.get_mut().fill(0);
        self.q.get_mut().fill(0);
        for (index, column) in self.data.iter().enumerate() {
            let products = products(power(index));
            let parity = self.p.get_mut().iter_mut().zip(self.q.get_mut());
            for ((p, q), byte) in parity.zip(column.get()) {
                *p ^= byte;
                *q ^= products[usize::from(*byte)];
            }
        }
    }

    pub fn slices(&self) -> Vec<&[u8]> {
        self.data.iter().map(Bytes::get).collect()
    }
}

/// Bytes that look random (splitmix64).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u8 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed.to_le_bytes()[7]
    }
}

/// Columns, length and seed of a stripe. Wide stripes are short, so that the plain way ends.
pub fn shape() -> impl Strategy<Value = (usize, usize, u64)> {
    let usual = (1..=40_usize, 0..=64_usize);
    let long = (1..=10_usize, 64..=256_usize);
    let wide = (prop_oneof![Just(250_usize), 41..=250_usize], 1..=12_usize);
    (prop_oneof![6 => usual, 2 => long, 1 => wide], any::<u64>())
        .prop_map(|((columns, granules), seed)| (columns, granules * parity::GRANULE, seed))
}
