//! How often passwords may be tried, from an address and for a name.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;

use crate::moment::Moment;

/// Tries from one address at once, and seconds after which it has one more.
pub const OF_ADDRESS: Bound = Bound { tries: 10, again_s: 30 };
/// Tries for one name at once, from wherever, and seconds after which there is one more.
pub const OF_NAME: Bound = Bound { tries: 20, again_s: 60 };
/// Addresses, and names, that are remembered at most.
pub const MAX_REMEMBERED: usize = 4096;

/// How often something may be tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// So often at once.
    pub tries: u64,
    /// And once more after so many seconds.
    pub again_s: u64,
}

/// Where somebody is, as far as others cannot be there at will: an address, of IPv6 the network that one customer has; none on the socket.
type Place = Option<[u8; 8]>;

fn place(address: Option<IpAddr>) -> Place {
    address.map(|address| match address.to_canonical() {
        IpAddr::V4(address) => {
            // No network of IPv6 that anybody has begins like this.
            let mut place = [0xFF; 8];
            place[4..].copy_from_slice(&address.octets());
            place
        }
        IpAddr::V6(address) => {
            let [network @ .., _, _, _, _, _, _, _, _] = address.octets();
            network
        }
    })
}

/// What was tried lately.
#[derive(Debug)]
pub struct Limiter {
    places: Tries<Place>,
    names: Tries<String>,
}

impl Default for Limiter {
    fn default() -> Limiter {
        Limiter { places: Tries::new(OF_ADDRESS), names: Tries::new(OF_NAME) }
    }
}

impl Limiter {
    /// Notes a try before it is made, or says how many seconds to wait. A name that nobody can have is none.
    pub fn attempt(&mut self, address: Option<IpAddr>, name: Option<&str>, now: Moment) -> Result<(), u64> {
        let (place, name) = (place(address), name.map(str::to_owned));
        let wait =
            self.places.wait(&place, now).max(name.as_ref().map_or(0, |name| self.names.wait(name, now)));
        if wait > 0 {
            return Err(wait);
        }
        self.places.note(place, now);
        if let Some(name) = name {
            self.names.note(name, now);
        }
        Ok(())
    }

    /// A try was good: it is not counted. Those before it are, so that who knows one password does not get more tries for others.
    pub fn succeeded(&mut self, address: Option<IpAddr>, name: &str) {
        self.places.forgive(&place(address));
        self.names.forgive(&name.to_owned());
    }
}

/// Tries by what they are counted for.
#[derive(Debug)]
pub(crate) struct Tries<K> {
    bound: Bound,
    tried: HashMap<K, Tried>,
}

/// Tries that are not forgotten yet.
#[derive(Clone, Copy, Debug)]
struct Tried {
    /// Seconds after `at` until all of them are.
    left_s: u64,
    at: Moment,
}

impl Tried {
    /// The same, of now. While a clock was set back no time has passed.
    fn now(self, now: Moment) -> Tried {
        Tried { left_s: self.left_s.saturating_sub(now.since(self.at)), at: now }
    }
}

impl<K: Eq + Hash + Clone> Tries<K> {
    /// None yet.
    pub(crate) fn new(bound: Bound) -> Tries<K> {
        Tries { bound, tried: HashMap::new() }
    }

    /// Seconds until one more may be tried.
    pub(crate) fn wait(&mut self, key: &K, now: Moment) -> u64 {
        let Some(tried) = self.tried.get_mut(key) else { return 0 };
        *tried = tried.now(now);
        tried.left_s.saturating_sub((self.bound.tries - 1) * self.bound.again_s)
    }

    /// Notes a try.
    pub(crate) fn note(&mut self, key: K, now: Moment) {
        if !self.tried.contains_key(&key) && self.tried.len() >= MAX_REMEMBERED {
            self.tried.retain(|_, tried| {
                *tried = tried.now(now);
                tried.left_s > 0
            });
            // Those that tried most are remembered longest.
            let first = self.tried.iter().min_by_key(|(_, tried)| tried.left_s).map(|(key, _)| key.clone());
            if let Some(first) = first.filter(|_| self.tried.len() >= MAX_REMEMBERED) {
                self.tried.remove(&first);
            }
        }
        let tried = self.tried.entry(key).or_insert(Tried { left_s: 0, at: now });
        *tried = tried.now(now);
        tried.left_s += self.bound.again_s;
    }

    fn forgive(&mut self, key: &K) {
        if let Some(tried) = self.tried.get_mut(key) {
            tried.left_s = tried.left_s.saturating_sub(self.bound.again_s);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(seconds: u64) -> Moment {
        Moment::from_unix(1_800_000_000 + seconds)
    }

    fn from(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn an_address_has_so_many_tries_and_then_one_in_a_while() {
        let mut limiter = Limiter::default();
        for name in 0..OF_ADDRESS.tries {
            assert_eq!(limiter.attempt(Some(from("192.0.2.1")), Some(&format!("n{name}")), at(0)), Ok(()));
        }
        assert_eq!(limiter.attempt(Some(from("192.0.2.1")), Some("other"), at(0)), Err(30));
        assert_eq!(limiter.attempt(Some(from("::ffff:192.0.2.1")), Some("other"), at(10)), Err(20));
        assert_eq!(
            limiter.attempt(Some(from("192.0.2.2")), Some("other"), at(10)),
            Ok(()),
            "others are others"
        );
        assert_eq!(limiter.attempt(Some(from("192.0.2.1")), None, at(30)), Ok(()));
        assert_eq!(limiter.attempt(Some(from("192.0.2.1")), None, at(30)), Err(30));
        assert_eq!(limiter.attempt(Some(from("192.0.2.1")), None, at(10_000)), Ok(()));
    }

    #[test]
    fn a_name_has_so_many_tries_from_wherever_and_a_network_is_one_place() {
        let mut limiter = Limiter::default();
        for number in 0..OF_NAME.tries {
            assert_eq!(
                limiter.attempt(Some(from(&format!("192.0.2.{number}"))), Some("alice"), at(0)),
                Ok(())
            );
        }
        assert_eq!(limiter.attempt(Some(from("198.51.100.1")), Some("alice"), at(0)), Err(60));
        assert_eq!(limiter.attempt(Some(from("198.51.100.1")), Some("bob"), at(0)), Ok(()));
        for number in 0..OF_ADDRESS.tries {
            assert_eq!(limiter.attempt(Some(from(&format!("2001:db8::{number:x}"))), None, at(0)), Ok(()));
        }
        assert_eq!(limiter.attempt(Some(from("2001:db8::ffff:1")), None, at(0)), Err(30));
        assert_eq!(limiter.attempt(Some(from("2001:db8:0:1::1")), None, at(0)), Ok(()));
    }

    #[test]
    fn what_was_good_is_not_counted_and_forgives_nothing_else() {
        let mut limiter = Limiter::default();
        for _ in 0..100 {
            assert_eq!(limiter.attempt(Some(from("192.0.2.1")), Some("alice"), at(0)), Ok(()));
            limiter.succeeded(Some(from("192.0.2.1")), "alice");
        }
        for _ in 1..OF_ADDRESS.tries {
            assert_eq!(limiter.attempt(Some(from("192.0.2.1")), Some("bob"), at(0)), Ok(()));
        }
        assert_eq!(limiter.attempt(Some(from("192.0.2.1")), Some("alice"), at(0)), Ok(()));
        limiter.succeeded(Some(from("192.0.2.1")), "alice");
        assert_eq!(limiter.attempt(Some(from("192.0.2.1")), Some("bob"), at(0)), Ok(()));
        assert_eq!(limiter.attempt(Some(from("192.0.2.1")), Some("bob"), at(0)), Err(30));
    }

    /// Who had come in was kept out for as long as the clock was set back by, and everybody at his address.
    #[test]
    fn a_clock_that_is_set_back_keeps_nobody_out_longer() {
        let mut limiter = Limiter::default();
        assert_eq!(limiter.attempt(Some(from("192.0.2.1")), Some("alice"), at(36_000)), Ok(()));
        limiter.succeeded(Some(from("192.0.2.1")), "alice");
        assert_eq!(limiter.attempt(Some(from("192.0.2.1")), Some("alice"), at(0)), Ok(()));
        for _ in 0..OF_ADDRESS.tries {
            assert_eq!(limiter.attempt(Some(from("192.0.2.1")), None, at(36_000)), Ok(()));
        }
        // Nor does it let anybody try more.
        assert_eq!(limiter.attempt(Some(from("192.0.2.1")), None, at(0)), Err(30));
        assert_eq!(limiter.attempt(Some(from("192.0.2.1")), None, at(30)), Ok(()));
    }

    #[test]
    fn who_tried_most_is_remembered_however_many_others_try() {
        let mut limiter = Limiter::default();
        for _ in 0..OF_ADDRESS.tries {
            limiter.attempt(Some(from("192.0.2.1")), None, at(0)).unwrap();
        }
        for number in 0..3 * MAX_REMEMBERED as u32 {
            let other = IpAddr::from(std::net::Ipv4Addr::from(0x0A00_0000 + number));
            assert_eq!(limiter.attempt(Some(other), Some(&format!("n{number}")), at(1)), Ok(()));
        }
        assert!(limiter.places.tried.len() <= MAX_REMEMBERED && limiter.names.tried.len() <= MAX_REMEMBERED);
        assert_eq!(limiter.attempt(Some(from("192.0.2.1")), None, at(1)), Err(29));
    }

    proptest! {
        #[test]
        fn however_it_is_tried_no_more_get_through_than_the_bound_says(
            waits in prop::collection::vec(0..100_u64, 0..200)
        ) {
            let mut limiter = Limiter::default();
            let (mut now, mut through) = (0, 0);
            for wait in waits {
                now += wait;
                through += u64::from(limiter.attempt(Some(from("192.0.2.1")), None, at(now)).is_ok());
                prop_assert!(through <= OF_ADDRESS.tries + now / OF_ADDRESS.again_s, "{} in {} s", through, now);
            }
        }
    }
}
