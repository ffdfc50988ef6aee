//! What requests that were followed through the layers did in the last minutes.

use std::collections::HashMap;
use std::time::Duration;

use plane::layers::Followed;
use plane::volume::Figures;

/// It looks back as long as this, at least, and twice as long at most.
const WINDOW: Duration = Duration::from_secs(300);

/// Where windows begin, by the place of the volume: one that is taken away never gives its place to another.
#[derive(Debug, Default)]
pub(super) struct Lately {
    base: HashMap<usize, Followed>,
    next: HashMap<usize, Followed>,
    begun: Option<Duration>,
}

impl Lately {
    /// For each volume what its requests did lately, and the time that this is of. `now` is of a clock that never jumps.
    pub fn look(&mut self, volumes: &[Figures], now: Duration) -> Vec<Followed> {
        let since = |figures: &Figures| match self.base.get(&figures.place) {
            Some(base) => figures.followed.since(base),
            None => figures.followed.clone(),
        };
        let lately = volumes.iter().map(since).collect();
        if self.begun.is_none_or(|begun| now.saturating_sub(begun) >= WINDOW) {
            let next = volumes.iter().map(|figures| (figures.place, figures.followed.clone())).collect();
            self.base = std::mem::replace(&mut self.next, next);
            self.begun = Some(now);
        }
        lately
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plane::layers::Alike;

    fn figures(requests: u64) -> Figures {
        let followed = Followed(vec![Alike { bucket: 9, requests, own: vec![requests] }]);
        Figures { followed, ..Figures::new(3, "demo") }
    }

    #[test]
    fn what_was_long_ago_is_forgotten_and_no_sooner() {
        let mut lately = Lately::default();
        let mut look =
            |requests, seconds| lately.look(&[figures(requests)], Duration::from_secs(seconds))[0].requests();
        assert_eq!(look(100, 0), 100);
        assert_eq!(look(120, 299), 120);
        assert_eq!(look(130, 300), 130, "a window ends, and the first one is the base from now on");
        assert_eq!(look(150, 310), 50);
        assert_eq!(look(160, 600), 60);
        assert_eq!(look(170, 610), 40);
    }
}
