use super::*;

fn at(seconds: u64) -> Moment {
    Moment::from_unix(1_800_000_000 + seconds)
}

fn begun(sessions: &mut Sessions, user: &str, now: Moment) -> SessionSecret {
    let secret = SessionSecret::random().unwrap();
    sessions.begin(&secret, user, now);
    secret
}

#[test]
fn a_session_ends_when_nobody_uses_it_and_after_its_time_whoever_does() {
    let mut sessions = Sessions::default();
    let secret = begun(&mut sessions, "alice", at(0));
    assert_eq!(sessions.find(&secret, at(IDLE_S - 1)).unwrap().user, "alice");
    assert!(sessions.find(&secret, at(2 * IDLE_S - 2)).is_some(), "it was used");
    assert!(sessions.find(&secret, at(3 * IDLE_S - 2)).is_none());
    assert!(sessions.find(&secret, at(3 * IDLE_S - 2)).is_none(), "and is not there any more");
    let secret = begun(&mut sessions, "alice", at(0));
    let mut now = 0;
    while now + 60 < LIFE_S {
        now += 60;
        assert!(sessions.find(&secret, at(now)).is_some(), "{now}");
    }
    assert!(sessions.find(&secret, at(LIFE_S)).is_none());
}

#[test]
fn a_session_is_known_by_its_secret_alone_and_ends_when_told_to() {
    let mut sessions = Sessions::default();
    let (alice, bob) = (begun(&mut sessions, "alice", at(0)), begun(&mut sessions, "bob", at(0)));
    let other = begun(&mut sessions, "alice", at(0));
    assert!(sessions.find(&SessionSecret::random().unwrap(), at(0)).is_none());
    assert!(sessions.end(&alice) && !sessions.end(&alice));
    assert!(sessions.find(&alice, at(0)).is_none());
    assert_eq!(sessions.find(&bob, at(0)).unwrap().user, "bob");
    sessions.end_all_of("alice");
    assert!(sessions.find(&other, at(0)).is_none() && sessions.find(&bob, at(0)).is_some());
}

#[test]
fn their_number_is_bounded_and_the_idlest_goes() {
    let mut sessions = Sessions::default();
    let secrets: Vec<_> = (0..MAX_SESSIONS_OF_USER).map(|_| begun(&mut sessions, "alice", at(0))).collect();
    for secret in &secrets[1..] {
        sessions.find(secret, at(10));
    }
    let bob = begun(&mut sessions, "bob", at(0));
    let new = begun(&mut sessions, "alice", at(20));
    assert!(sessions.find(&secrets[0], at(20)).is_none(), "the idlest one of hers");
    assert!(sessions.find(&bob, at(20)).is_some(), "and nobody else's");
    assert!(secrets[1..].iter().chain([&new]).all(|secret| sessions.find(secret, at(20)).is_some()));
    for number in 0..2 * MAX_SESSIONS {
        begun(&mut sessions, &format!("u{number}"), at(30));
        assert!(sessions.sessions.len() <= MAX_SESSIONS);
    }
}

#[test]
fn what_goes_with_a_change_follows_from_the_session_and_is_not_it() {
    let secret = SessionSecret::random().unwrap();
    let again = SessionSecret::read(secret.expose()).unwrap();
    assert!(secret.csrf().is(&again.csrf()));
    assert!(!secret.csrf().is(&SessionSecret::random().unwrap().csrf()));
    assert_ne!(secret.csrf(), secret.digest());
    assert_ne!(secret.csrf().to_string(), secret.expose());
    assert_eq!(format!("{secret:?}"), "***");
    assert!(SessionSecret::read("").is_none() && SessionSecret::read(&secret.expose()[1..]).is_none());
}

/// A clock that was set back by ten hours let every session live for ten hours more, whether or not somebody used it.
#[test]
fn a_clock_that_is_set_back_makes_no_session_last_longer() {
    let mut sessions = Sessions::default();
    let (idle, used) = (begun(&mut sessions, "alice", at(36_000)), begun(&mut sessions, "bob", at(36_000)));
    assert!(sessions.find(&used, at(36_000)).is_some());
    assert!(sessions.find(&used, at(0)).is_some(), "it does not end it either");
    assert_eq!(sessions.find(&used, at(10)).unwrap().ends(), at(LIFE_S));
    assert!(sessions.find(&idle, at(IDLE_S)).is_none());
    assert!(sessions.find(&used, at(IDLE_S)).is_some());
    let mut now = IDLE_S;
    while now + 60 < LIFE_S {
        now += 60;
        assert!(sessions.find(&used, at(now)).is_some(), "{now}");
        // Two that look in at once.
        assert!(sessions.find(&used, at(now - 1)).is_some(), "{now}");
    }
    assert!(sessions.find(&used, at(LIFE_S)).is_none());
}
