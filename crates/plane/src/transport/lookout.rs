//! Which frames of what has been received are looked at before their turn, so that the memory they are about comes nearer.

use ring::Soon;

/// Frames that are looked at together, when they are [`SHORT`]: to find where memory is takes a core as long as a line of it,
/// and it finds several side by side in the time of one.
const TOGETHER: usize = 8;
/// Longer frames carry data. What one writes was slower with the addresses of others asked for before it.
const SHORT: usize = 256;

/// How far has been looked.
#[derive(Default)]
pub(super) struct Lookout {
    /// Where in the chunk the first frame begins that has not been looked at.
    until: usize,
    /// Where the frame begins that was looked at as the next one last.
    next: usize,
}

impl Lookout {
    /// Whether no frame of the chunk has been looked at.
    #[inline]
    pub(super) fn has_seen_nothing(&self) -> bool {
        self.next == 0
    }

    /// The next frame begins at `next` in the chunk; nothing is done when that was said last time, too. Says of which frames, by
    /// their places, something is wanted soon; the answer is the length of the frame there, none when that is not known.
    #[inline]
    pub(super) fn look(&mut self, next: usize, mut expect: impl FnMut(usize, Soon) -> Option<usize>) {
        if std::mem::replace(&mut self.next, next) == next {
            return;
        }
        let Some(length) = expect(next, Soon::Next) else { return };
        if next + length < self.until {
            return;
        }
        self.until = self.until.max(next + length);
        for _ in 0..TOGETHER {
            let Some(length) = expect(self.until, Soon::Later) else { return };
            self.until += length;
            if length > SHORT {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is said while frames of these lengths are taken one after the other: frame, what is said of which.
    fn said(lengths: &[usize]) -> Vec<(usize, Soon, usize)> {
        let begins: Vec<usize> =
            lengths.iter().scan(0, |end, length| Some(std::mem::replace(end, *end + length))).collect();
        let (mut lookout, mut said) = (Lookout::default(), Vec::new());
        for taken in 0..lengths.len() {
            lookout.look(begins[taken] + lengths[taken], |place, soon| {
                let frame = begins.binary_search(&place).ok()?;
                said.push((taken, soon, frame));
                Some(lengths[frame])
            });
        }
        said
    }

    fn later(said: &[(usize, Soon, usize)]) -> Vec<(usize, usize)> {
        let later = said.iter().filter(|(_, soon, _)| *soon == Soon::Later);
        later.map(|&(taken, _, frame)| (taken, frame)).collect()
    }

    #[test]
    fn every_frame_is_next_once_and_requests_are_looked_at_together() {
        let said = said(&[48; 20]);
        let next: Vec<_> = said.iter().filter(|(_, soon, _)| *soon == Soon::Next).collect();
        assert!(next.iter().enumerate().all(|(index, next)| (next.0, next.2) == (index, index + 1)));
        assert_eq!(next.len(), 19);
        // The first one is next before anything could be looked at; the others two turns ahead at least.
        let expected: Vec<_> =
            (2..10).map(|frame| (0, frame)).chain((10..18).map(|frame| (8, frame))).collect();
        assert_eq!(later(&said), [expected, vec![(16, 18), (16, 19)]].concat());
    }

    #[test]
    fn a_frame_with_data_is_the_last_to_be_looked_at() {
        assert_eq!(later(&said(&[4144; 5])), [(0, 2), (1, 3), (2, 4)]);
        assert_eq!(later(&said(&[48, 48, 48, 4144, 48, 48])), [(0, 2), (0, 3), (2, 4), (2, 5)]);
    }

    #[test]
    fn a_frame_is_the_next_one_once() {
        let (mut lookout, mut seen) = (Lookout::default(), Vec::new());
        for next in [48, 48, 96, 96] {
            lookout.look(next, |place, soon| {
                (place < 144).then(|| seen.push((place, soon)))?;
                Some(48)
            });
        }
        assert_eq!(seen, [(48, Soon::Next), (96, Soon::Later), (96, Soon::Next)]);
    }

    #[test]
    fn a_chunk_is_new_until_a_frame_of_it_was_looked_at() {
        let mut lookout = Lookout::default();
        assert!(lookout.has_seen_nothing());
        lookout.look(48, |_, _| None);
        assert!(!lookout.has_seen_nothing(), "also when it is the only one");
    }

    #[test]
    fn a_frame_of_which_nothing_is_known_stops_the_look_until_its_turn_is_over() {
        let (mut lookout, mut seen) = (Lookout::default(), Vec::new());
        for taken in 0..7 {
            lookout.look((taken + 1) * 48, |place, soon| {
                let frame = place / 48;
                (frame != 3 && frame < 8).then(|| seen.push((taken, soon, frame)))?;
                Some(48)
            });
        }
        assert_eq!(later(&seen), [(0, 2), (3, 5), (3, 6), (3, 7)]);
    }
}
