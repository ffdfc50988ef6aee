//! Buckets of times: linear within each power of two. The monitor has the same ones.

/// What is below `2^LEAST` nanoseconds is one bucket.
const LEAST: u32 = 10;
/// What is not below `2^MOST` nanoseconds is one bucket.
const MOST: u32 = 36;
/// Each power of two has `2^LINEAR` buckets.
const LINEAR: u32 = 3;
/// Buckets of a histogram of times: one below, one above, eight for each power of two between about 1 us and 69 s.
pub const BUCKETS: usize = (((MOST - LEAST) << LINEAR) + 2) as usize;

/// The bucket of a time in nanoseconds.
pub const fn bucket(nanoseconds: u64) -> usize {
    if nanoseconds < 1 << LEAST {
        return 0;
    }
    let power = nanoseconds.ilog2();
    if power >= MOST {
        return BUCKETS - 1;
    }
    let part = (nanoseconds >> (power - LINEAR)) & ((1 << LINEAR) - 1);
    (1 + ((power - LEAST) << LINEAR)) as usize + part as usize
}
