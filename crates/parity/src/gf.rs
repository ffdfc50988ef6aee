//! GF(2^8), polynomial 0x11d, generator 2: products, powers, inverses, and tables made at compile time.

/// The polynomial without its highest term: what is added when that one overflows.
pub const REDUCTION: u8 = 0x1d;

/// The order of the generator.
const ORDER: usize = 255;

/// One multiplicand, in the forms in which the kernels want it.
pub struct Factor {
    /// The byte itself.
    pub byte: u8,
    /// Its products with 0 .. 15.
    pub low: [u8; 16],
    /// Its products with 0, 16 .. 240.
    pub high: [u8; 16],
    /// Multiplication by it as a matrix of bits for `gf2p8affineqb`: the highest byte is the row of the lowest bit.
    pub matrix: u64,
}

static FACTORS: [Factor; 256] = {
    let mut factors = [const { factor(0) }; 256];
    let mut byte = 1;
    while byte < 256 {
        factors[byte] = factor(byte as u8);
        byte += 1;
    }
    factors
};

/// `byte` as a factor.
pub fn of(byte: u8) -> &'static Factor {
    &FACTORS[byte as usize]
}

/// The product of two.
pub const fn product(a: u8, b: u8) -> u8 {
    let (mut sum, mut power, mut rest) = (0, a, b);
    while rest != 0 {
        if rest & 1 != 0 {
            sum ^= power;
        }
        power = (power << 1) ^ if power & 0x80 != 0 { REDUCTION } else { 0 };
        rest >>= 1;
    }
    sum
}

static POWERS: [u8; ORDER] = {
    let mut powers = [1; ORDER];
    let mut exponent = 1;
    while exponent < ORDER {
        powers[exponent] = product(powers[exponent - 1], 2);
        exponent += 1;
    }
    powers
};

/// The generator to the power of `exponent`.
pub fn power(exponent: usize) -> u8 {
    POWERS[exponent % ORDER]
}

/// What `byte`, which is not 0, gives 1 with.
pub fn inverse(byte: u8) -> u8 {
    assert!(byte != 0, "0 has no inverse");
    // byte^254, as byte^255 is 1: 254 is 2 + 4 + ... + 128.
    let (mut inverse, mut square) = (1, byte);
    for _ in 1..8 {
        square = product(square, square);
        inverse = product(inverse, square);
    }
    inverse
}

const fn factor(byte: u8) -> Factor {
    let mut factor = Factor { byte, low: [0; 16], high: [0; 16], matrix: 0 };
    let mut nibble = 0;
    while nibble < 16 {
        factor.low[nibble] = product(byte, nibble as u8);
        factor.high[nibble] = product(byte, (nibble as u8) << 4);
        nibble += 1;
    }
    let mut from = 0;
    while from < 8 {
        // Where the bit `from` of the other factor goes.
        let column = product(byte, 1 << from);
        let mut to = 0;
        while to < 8 {
            if column >> to & 1 != 0 {
                factor.matrix |= 1 << (8 * (7 - to) + from);
            }
            to += 1;
        }
        from += 1;
    }
    factor
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Multiplication of polynomials, then division by 0x11d: no step in common with the product above.
    fn long_product(a: u8, b: u8) -> u8 {
        let mut long =
            (0..8).filter(|bit| b >> bit & 1 != 0).fold(0_u16, |sum, bit| sum ^ u16::from(a) << bit);
        for bit in (8..15).rev() {
            if long >> bit & 1 != 0 {
                long ^= 0x11d << (bit - 8);
            }
        }
        long as u8
    }

    #[test]
    fn the_generator_has_order_255() {
        let mut seen = [false; 256];
        for exponent in 0..ORDER {
            assert!(
                !std::mem::replace(&mut seen[power(exponent) as usize], true),
                "2^{exponent} came before"
            );
        }
        assert!(!seen[0]);
        assert_eq!((power(0), power(8), power(255)), (1, 0x1d, 1));
    }

    #[test]
    fn products_are_those_of_polynomials() {
        for (a, b) in (0..=255).flat_map(|a| (0..=255).map(move |b| (a, b))) {
            let expected = long_product(a, b);
            assert_eq!(product(a, b), expected, "{a} * {b}");
            let factor = of(a);
            assert_eq!(factor.byte, a);
            assert_eq!(
                factor.low[b as usize & 15] ^ factor.high[b as usize >> 4],
                expected,
                "{a} * {b}, nibbles"
            );
            let row = |bit: u32| (factor.matrix >> (8 * (7 - bit))) as u8;
            let by_matrix = (0..8).map(|bit| (((row(bit) & b).count_ones() & 1) as u8) << bit).sum::<u8>();
            assert_eq!(by_matrix, expected, "{a} * {b}, matrix");
        }
    }

    #[test]
    fn the_field_keeps_its_laws() {
        for a in 1..=255_u8 {
            assert_eq!(product(a, inverse(a)), 1, "inverse of {a}");
            for b in 0..=255_u8 {
                assert_eq!(product(a, b), product(b, a));
                let c = a.wrapping_mul(31) ^ b.rotate_left(3);
                assert_eq!(product(a, product(b, c)), product(product(a, b), c));
                assert_eq!(product(a, b ^ c), product(a, b) ^ product(a, c));
            }
        }
    }
}
