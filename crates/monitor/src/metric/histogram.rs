//! How many operations took how long, in buckets that are linear within each power of two.

/// What is below `2^LEAST` nanoseconds (about 1 us) is one bucket.
const LEAST: u32 = 10;
/// What is not below `2^MOST` nanoseconds (about 69 s) is one bucket.
const MOST: u32 = 36;
/// Each power of two has `2^LINEAR` buckets: none is wider than an eighth of what it begins with.
const LINEAR: u32 = 3;

/// Buckets of a histogram: one below, one above, and eight for each power of two.
pub const BUCKETS: usize = (((MOST - LEAST) << LINEAR) + 2) as usize;

/// Durations of operations in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    buckets: Box<[u64; BUCKETS]>,
    sum: u128,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: Box::new([0; BUCKETS]), sum: 0 }
    }
}

impl Histogram {
    /// Counters that were kept elsewhere by [`Histogram::index`], and the sum of all durations in nanoseconds.
    pub fn of(buckets: &[u64; BUCKETS], sum: u128) -> Self {
        Self { buckets: Box::new(*buckets), sum }
    }

    /// The bucket of a duration in nanoseconds.
    pub const fn index(nanoseconds: u64) -> usize {
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

    /// The nanoseconds at which the bucket ends, itself not among them; those of the last one have no end.
    const fn end(index: usize) -> u64 {
        if index == 0 {
            return 1 << LEAST;
        }
        let index = index as u64 - 1;
        let power = LEAST as u64 + (index >> LINEAR);
        let part = index & ((1 << LINEAR) - 1);
        (1 << power) + ((part + 1) << (power - LINEAR as u64))
    }

    /// One more operation.
    pub fn record(&mut self, nanoseconds: u64) {
        self.buckets[Self::index(nanoseconds)] += 1;
        self.sum += u128::from(nanoseconds);
    }

    /// How many operations there were.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// All durations together, in seconds.
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    pub fn sum_s(&self) -> f64 {
        self.sum as f64 / 1e9
    }

    /// The mean duration in seconds, if there was one.
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    pub fn mean_s(&self) -> Option<f64> {
        let count = self.count();
        (count > 0).then(|| self.sum_s() / count as f64)
    }

    /// A time in seconds that the given part (0 to 1) of operations did not pass: the end of the bucket, up to an eighth
    /// too much and never too little. `None` without operations. What took longer than about 69 s counts as that.
    #[expect(clippy::cast_precision_loss, clippy::cast_sign_loss, reason = "a figure for people")]
    pub fn quantile_s(&self, part: f64) -> Option<f64> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        let rank = ((part.clamp(0.0, 1.0) * count as f64).ceil() as u64).clamp(1, count);
        let mut seen = 0;
        let index = self.buckets.iter().position(|bucket| {
            seen += bucket;
            seen >= rank
        })?;
        Some(Self::end(index.min(BUCKETS - 2)) as f64 / 1e9)
    }

    /// What came since `earlier`; `None` if that is not an earlier state of the same counters.
    pub fn since(&self, earlier: &Self) -> Option<Self> {
        let mut buckets = self.buckets.clone();
        for (now, then) in buckets.iter_mut().zip(earlier.buckets.iter()) {
            *now = now.checked_sub(*then)?;
        }
        Some(Self { buckets, sum: self.sum.checked_sub(earlier.sum)? })
    }

    /// Adds the operations of another histogram.
    pub fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.buckets.iter_mut().zip(other.buckets.iter()) {
            *mine += theirs;
        }
        self.sum += other.sum;
    }

    /// For each power of two: its end in seconds, and how many operations were faster.
    #[expect(clippy::cast_precision_loss, reason = "powers of two")]
    pub fn cumulative(&self) -> impl Iterator<Item = (f64, u64)> + '_ {
        let mut seen = 0;
        let mut begin = 0;
        (LEAST..=MOST).map(move |power| {
            let end = 1 + ((power - LEAST) << LINEAR) as usize;
            seen += self.buckets[begin..end].iter().sum::<u64>();
            begin = end;
            ((1u64 << power) as f64 / 1e9, seen)
        })
    }
}
