//! Serial numbers (`CmdSN`, `StatSN`, `DataSN`, R2TSN): RFC 7143 section 4.2.2.1, RFC 1982 with 32 bits.

use std::fmt;

/// A 32-bit serial number. It has no `PartialOrd` on purpose: `<` is wrong once it has wrapped.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct SerialNumber(pub u32);

impl SerialNumber {
    /// The number `count` further on.
    #[inline]
    #[must_use]
    pub const fn plus(self, count: u32) -> Self {
        Self(self.0.wrapping_add(count))
    }

    /// The number `count` before.
    #[inline]
    #[must_use]
    pub const fn minus(self, count: u32) -> Self {
        Self(self.0.wrapping_sub(count))
    }

    /// The next number.
    #[inline]
    #[must_use]
    pub const fn next(self) -> Self {
        self.plus(1)
    }

    /// How many steps forward lead from `earlier` to `self`.
    #[inline]
    pub const fn since(self, earlier: Self) -> u32 {
        self.0.wrapping_sub(earlier.0)
    }

    /// `self < other`. Numbers exactly 2^31 apart are unordered: neither precedes the other.
    #[inline]
    pub const fn precedes(self, other: Self) -> bool {
        let steps = other.since(self);
        steps != 0 && steps < 1 << 31
    }

    /// `self <= other`.
    #[inline]
    pub const fn precedes_or_equals(self, other: Self) -> bool {
        other.since(self) < 1 << 31
    }

    /// `first <= self <= last`: the command window of section 4.2.2.1.
    ///
    /// A window with `last = first - 1` is closed and contains nothing.
    #[inline]
    pub const fn is_within(self, first: Self, last: Self) -> bool {
        first.precedes_or_equals(self) && self.precedes_or_equals(last)
    }
}

impl fmt::Debug for SerialNumber {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, formatter)
    }
}

impl fmt::Display for SerialNumber {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, formatter)
    }
}

impl From<u32> for SerialNumber {
    fn from(value: u32) -> Self {
        Self(value)
    }
}

#[cfg(test)]
mod tests {
    use super::SerialNumber as Sn;
    use proptest::prelude::*;

    #[test]
    fn order_survives_the_wrap() {
        assert!(Sn(0xffff_ffff).precedes(Sn(0)));
        assert!(!Sn(0).precedes(Sn(0xffff_ffff)));
        assert!(Sn(5).precedes_or_equals(Sn(5)));
        assert!(!Sn(5).precedes(Sn(5)));
        assert_eq!(Sn(0xffff_ffff).next(), Sn(0));
        assert_eq!(Sn(0).minus(1), Sn(0xffff_ffff));
    }

    #[test]
    fn numbers_half_the_circle_apart_are_unordered() {
        let (here, there) = (Sn(7), Sn(7).plus(1 << 31));
        assert!(!here.precedes(there) && !there.precedes(here));
        assert!(!here.precedes_or_equals(there) && !there.precedes_or_equals(here));
    }

    #[test]
    fn the_window_wraps_and_closes() {
        let (first, last) = (Sn(0xffff_fffe), Sn(1));
        for inside in [0xffff_fffe, 0xffff_ffff, 0, 1] {
            assert!(Sn(inside).is_within(first, last), "{inside:#x}");
        }
        assert!(!Sn(2).is_within(first, last));
        assert!(!Sn(0xffff_fffd).is_within(first, last));
        assert!(!Sn(9).is_within(Sn(9), Sn(8)), "a closed window holds nothing");
    }

    proptest! {
        #[test]
        fn plus_and_since_agree(start: u32, steps in 1u32..1 << 31) {
            let end = Sn(start).plus(steps);
            prop_assert_eq!(end.since(Sn(start)), steps);
            prop_assert!(Sn(start).precedes(end));
            prop_assert!(!end.precedes(Sn(start)));
            prop_assert_eq!(end.minus(steps), Sn(start));
        }
    }
}
