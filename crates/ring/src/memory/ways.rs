//! What this processor is best at with the bytes of a memory, and of what size that is.
//!
//! A store brings the line in from memory first, of which nothing is left when all of it is written. Stores past the cache
//! do without. Whether that is quicker depends on the processor, on how much is written, and on whether the line was in
//! memory at all: that of a small one stays in the cache. Measured (docs/performance-history.md):
//!
//! - Intel's with AVX-512 and AMD's Zen 3 and 4: quicker for what is so long that it has not been fetched in time. On Intel's
//!   for a page by itself too, when the core does something else before it waits for it.
//! - Zen 5: slower for more than a page, and to fetch what is there before brings nothing either; quicker for a page by
//!   itself, as on Intel's.
//!
//! The kernel copies what is sent from there as well. On Zen 5 one long copy of Fels's own to a buffer that is in the cache,
//! and the kernel's from that, are quicker together than the kernel's alone; on Intel's they take half as long again.

use std::ops::RangeInclusive;
use std::sync::OnceLock;

use super::PAGE;

/// No bytes.
const NEVER: RangeInclusive<usize> = RangeInclusive::new(1, 0);
/// What is so long is copied before it is sent, where that pays.
const COPIED: RangeInclusive<usize> = 64 << 10..=1 << 20;
/// A memory of so many bytes does not stay in the last cache, or no nearer than memory: where it does, a copy more costs a
/// seventh, and single pages past the cache as much.
const COLD: u64 = 128 << 20;

/// How bytes of one memory are best written and sent.
#[derive(Clone, Debug)]
pub struct Ways {
    /// A write of so many bytes goes past the cache.
    past_cache: RangeInclusive<usize>,
    /// From so many bytes on nothing is won by fetching what is there before it is written over.
    unfetched: usize,
    /// So many bytes that are to be sent go to a buffer first.
    copied: RangeInclusive<usize>,
}

/// By whether a memory stays in the cache.
struct Processor {
    warm: Ways,
    cold: Ways,
}

impl Ways {
    /// Those for a memory of so many bytes.
    pub fn of_memory(bytes: u64) -> &'static Ways {
        static PROCESSOR: OnceLock<Processor> = OnceLock::new();
        PROCESSOR.get_or_init(Processor::this).ways(bytes)
    }

    /// Whether it pays to fetch what is in memory before so many bytes are written over it.
    #[inline]
    pub fn fetches_before_write(&self, length: usize) -> bool {
        length < self.unfetched
    }

    /// Whether so many bytes, which nobody has looked at, are better copied to a buffer, which is in the cache, before they
    /// are sent.
    #[inline]
    pub fn copies_before_send(&self, length: usize) -> bool {
        self.copied.contains(&length)
    }

    /// Whether a write of so many bytes goes past the cache.
    #[inline]
    pub(super) fn writes_past_cache(&self, length: usize) -> bool {
        self.past_cache.contains(&length)
    }

    fn past_cache_from(bytes: usize) -> Ways {
        Ways { past_cache: bytes..=usize::MAX, unfetched: bytes, copied: NEVER }
    }

    /// Everything through the cache.
    fn plain() -> Ways {
        Ways { past_cache: NEVER, unfetched: usize::MAX, copied: NEVER }
    }
}

impl Processor {
    fn ways(&self, bytes: u64) -> &Ways {
        if bytes >= COLD { &self.cold } else { &self.warm }
    }

    fn same(ways: Ways) -> Processor {
        Processor { warm: ways.clone(), cold: ways }
    }

    #[cfg(target_arch = "x86_64")]
    fn this() -> Processor {
        let (maker, version) = (std::arch::x86_64::__cpuid(0), std::arch::x86_64::__cpuid(1).eax);
        let maker = [maker.ebx, maker.edx, maker.ecx].map(u32::to_le_bytes);
        // With its extended part.
        let family = (version >> 8 & 0xf) + (version >> 20 & 0xff);
        let avx2 = is_x86_feature_detected!("avx2");
        if cfg!(test) && avx2 {
            return Processor::of_tests();
        }
        match maker.as_flattened() {
            // Pages by themselves were measured on Granite Rapids, more on Emerald Rapids too.
            b"GenuineIntel" if is_x86_feature_detected!("avx512f") => {
                Processor { warm: Ways::past_cache_from(8 << 10), cold: Ways::past_cache_from(PAGE) }
            }
            // Zen 3, and Zen 4.
            b"AuthenticAMD" if family == 25 && avx2 => Processor::same(Ways::past_cache_from(8 << 10)),
            // Zen 5; writes of less than a page and sends of more than a MiB were not measured.
            b"AuthenticAMD" if family == 26 && avx2 => {
                let cold = Ways { past_cache: PAGE..=PAGE, unfetched: PAGE, copied: COPIED };
                Processor { warm: Ways { past_cache: NEVER, copied: NEVER, ..cold.clone() }, cold }
            }
            _ => Processor::same(Ways::plain()),
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn this() -> Processor {
        Processor::same(Ways::plain())
    }

    /// Tests have the ways that are easier to get wrong, wherever they run.
    #[cfg(target_arch = "x86_64")]
    fn of_tests() -> Processor {
        let warm = Ways::past_cache_from(PAGE);
        Processor { cold: Ways { copied: COPIED, ..warm.clone() }, warm }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_memory_that_stays_in_the_cache_has_ways_of_its_own() {
        let processor = Processor { warm: Ways::plain(), cold: Ways::past_cache_from(PAGE) };
        for (bytes, past) in [(COLD - 1, false), (COLD, true)] {
            let ways = processor.ways(bytes);
            assert_eq!((ways.writes_past_cache(PAGE), ways.fetches_before_write(PAGE)), (past, !past));
            assert!(ways.fetches_before_write(PAGE - 1) && !ways.writes_past_cache(PAGE - 1));
        }
        assert!(!Ways::plain().writes_past_cache(0) && !Ways::plain().writes_past_cache(usize::MAX));
    }
}
