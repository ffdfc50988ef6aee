//! The command window of a session: which `CmdSN` is delivered when, RFC 7143 section 4.2.2.1. No I/O, no clock.

use wire::iscsi::SerialNumber;

/// What arrives in numbered order, whichever connection it takes.
// The two numbers do not lie side by side: they would be loaded as one, which waits for all that was stored before them.
#[repr(C)]
pub struct CommandWindow<T> {
    /// `ExpCmdSN`.
    expected: SerialNumber,
    size: u32,
    /// `MaxCmdSN`; never goes back.
    maximum: SerialNumber,
    /// Delivered and not done.
    outstanding: u32,
    /// Came too early; `None` is a number that was aborted before its command came.
    held: Vec<(SerialNumber, Option<T>)>,
}

impl<T> CommandWindow<T> {
    /// `first` is the number of the first command; `size` commands may be outstanding.
    pub fn new(first: SerialNumber, size: u32) -> CommandWindow<T> {
        CommandWindow {
            expected: first,
            maximum: first.plus(size).minus(1),
            size,
            outstanding: 0,
            held: Vec::new(),
        }
    }

    /// `ExpCmdSN`.
    pub fn expected(&self) -> SerialNumber {
        self.expected
    }

    /// `MaxCmdSN`.
    pub fn maximum(&self) -> SerialNumber {
        self.maximum
    }

    /// Whether a command with this number is taken: neither outside of the window nor there already.
    pub fn accepts(&self, number: SerialNumber) -> bool {
        number.is_within(self.expected, self.maximum) && !self.held.iter().any(|(held, _)| *held == number)
    }

    /// Whether a command with this number is the next one, and there is room for it.
    pub fn is_due(&self, number: SerialNumber) -> bool {
        number == self.expected && number.precedes_or_equals(self.maximum)
    }

    /// Takes in a command that [`CommandWindow::accepts`]. Gives it back when it is to be delivered now; then
    /// [`CommandWindow::next`] tells what follows.
    pub fn arrive(&mut self, number: SerialNumber, item: T) -> Option<T> {
        if number != self.expected {
            self.held.push((number, Some(item)));
            return None;
        }
        self.deliver();
        Some(item)
    }

    /// The command that is expected has come and is done. [`CommandWindow::next`] tells what follows.
    pub fn pass(&mut self) {
        self.deliver();
        self.done();
    }

    /// What was held and is to be delivered now.
    pub fn next(&mut self) -> Option<T> {
        loop {
            if self.held.is_empty() {
                return None;
            }
            let index = self.held.iter().position(|(held, _)| *held == self.expected)?;
            let (_, item) = self.held.swap_remove(index);
            self.deliver();
            match item {
                Some(item) => return Some(item),
                None => self.done(),
            }
        }
    }

    /// Counts a number as come that never will be used: its command was aborted before it came (section 11.5.1).
    /// [`CommandWindow::next`] tells what follows.
    pub fn skip(&mut self, number: SerialNumber) {
        if self.accepts(number) {
            self.held.push((number, None));
        }
    }

    fn deliver(&mut self) {
        self.expected = self.expected.next();
        self.outstanding += 1;
    }

    /// A delivered command is done: the window moves on.
    pub fn done(&mut self) {
        self.outstanding = self.outstanding.saturating_sub(1);
        let maximum = self.expected.plus(self.size.saturating_sub(self.outstanding)).minus(1);
        if self.maximum.precedes(maximum) {
            self.maximum = maximum;
        }
    }

    /// What is held, for those who abort.
    pub fn held(&self) -> impl Iterator<Item = &T> {
        self.held.iter().filter_map(|(_, item)| item.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn number(value: u32) -> SerialNumber {
        SerialNumber(value)
    }

    #[test]
    fn commands_are_delivered_in_order() {
        let mut window = CommandWindow::new(number(u32::MAX), 4);
        assert_eq!((window.expected(), window.maximum()), (number(u32::MAX), number(2)));
        assert_eq!(window.arrive(number(1), 'c'), None);
        assert_eq!(window.arrive(number(0), 'b'), None);
        assert_eq!(window.next(), None);
        assert_eq!(window.arrive(number(u32::MAX), 'a'), Some('a'));
        assert_eq!((window.next(), window.next(), window.next()), (Some('b'), Some('c'), None));
        assert_eq!(window.expected(), number(2));
    }

    #[test]
    fn outside_of_the_window_nothing_is_taken() {
        let mut window = CommandWindow::new(number(10), 4);
        assert!(!window.accepts(number(9)) && window.accepts(number(13)) && !window.accepts(number(14)));
        window.arrive(number(12), ());
        assert!(!window.accepts(number(12)), "a duplicate");
    }

    #[test]
    fn the_window_closes_and_opens_again() {
        let mut window = CommandWindow::new(number(0), 2);
        assert!(window.arrive(number(0), ()).is_some() && window.arrive(number(1), ()).is_some());
        assert!(!window.accepts(number(2)));
        window.done();
        assert!(window.accepts(number(2)) && !window.accepts(number(3)));
    }

    #[test]
    fn an_aborted_number_does_not_block_the_rest() {
        let mut window = CommandWindow::new(number(0), 8);
        assert_eq!(window.arrive(number(1), 'b'), None);
        window.skip(number(0));
        assert_eq!(window.next(), Some('b'));
        assert_eq!(window.expected(), number(2));
        assert!(!window.accepts(number(0)), "the command that comes late is ignored");
    }

    proptest! {
        #[test]
        fn any_order_is_delivered_in_order(order in Just((0u32..32).collect::<Vec<_>>()).prop_shuffle(), first in any::<u32>()) {
            let mut window = CommandWindow::new(number(first), 32);
            let mut delivered = Vec::new();
            for offset in order {
                let sn = number(first).plus(offset);
                prop_assert!(window.accepts(sn));
                let mut item = window.arrive(sn, offset);
                while let Some(next) = item {
                    delivered.push(next);
                    item = window.next();
                }
            }
            prop_assert_eq!(delivered, (0..32).collect::<Vec<_>>());
            prop_assert_eq!(window.maximum(), number(first).plus(31), "nothing is done yet");
        }
    }
}
