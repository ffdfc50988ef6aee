use super::file::{NEW_PEOPLE_FILE, Wrong, parse, text};
use super::store::{PEOPLE_FILE, PeopleError, Store, StoreError};
use super::*;
use crate::whole::Step;
use proptest::prelude::*;
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

/// A hash of no password, so that tests need not wait for one.
fn hash() -> PasswordHash {
    let text =
        "$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHRzYWx0c2FsdA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    PasswordHash::read(text.to_owned()).unwrap()
}

fn at(seconds: u64) -> Moment {
    Moment::from_unix(1_800_000_000 + seconds)
}

fn user(name: &str, role: Role) -> Change {
    Change::AddUser(User { name: name.to_owned(), role, password: hash(), created: at(0) })
}

fn token(user: &str, name: &str, role: Role) -> Token {
    let sha256 = Digest::of(format!("{user}/{name}").as_bytes());
    let (user, name) = (user.to_owned(), name.to_owned());
    Token { user, name, role, sha256, created: at(0), expires: at(3600), used: None }
}

fn add(user: &str, name: &str, role: Role) -> Change {
    Change::AddToken(token(user, name, role))
}

fn role(user: &str, role: Role) -> Change {
    Change::SetRole { user: user.to_owned(), role }
}

fn remove(user: &str) -> Change {
    Change::RemoveUser { user: user.to_owned() }
}

fn people(changes: impl IntoIterator<Item = Change>) -> People {
    changes.into_iter().fold(People::default(), |people, change| people.changed(change).unwrap())
}

#[test]
fn roles_hold_all_that_the_lower_ones_hold() {
    assert!(Role::Viewer < Role::Operator && Role::Operator < Role::Admin);
    for role in Role::ALL {
        assert_eq!(role.name().parse(), Ok(role));
        assert_eq!(serde_json::to_string(&role).unwrap(), format!("\"{role}\""));
    }
    assert!("root".parse::<Role>().is_err());
}

#[test]
fn the_first_user_is_an_admin_and_the_last_admin_stays_one() {
    let nobody = People::default();
    for lower in [Role::Viewer, Role::Operator] {
        assert_eq!(nobody.changed(user("alice", lower)), Err(Refusal::FirstIsAdmin));
    }
    let alice = people([user("alice", Role::Admin)]);
    assert_eq!(alice.changed(remove("alice")), Err(Refusal::LastAdmin));
    assert!(alice.changed(role("alice", Role::Viewer)).is_err());
    let both = alice.changed(user("bob", Role::Operator)).unwrap();
    assert_eq!(both.changed(remove("alice")), Err(Refusal::FirstIsAdmin));
    assert_eq!(both.changed(role("alice", Role::Operator)), Err(Refusal::LastAdmin));
    let both = both.changed(role("bob", Role::Admin)).unwrap();
    let bob = both.changed(remove("alice")).unwrap();
    assert_eq!(bob.users().len(), 1);
    assert_eq!(bob.changed(remove("alice")), Err(Refusal::NoUser { name: "alice".to_owned() }));
}

#[test]
fn names_that_are_none_are_refused() {
    let nobody = People::default();
    for name in ["", "Alice", "1alice", "-a", "a b", "a/b", "\u{e4}a", "a\n", &"a".repeat(33)] {
        assert!(matches!(nobody.changed(user(name, Role::Admin)), Err(Refusal::UserName { .. })), "{name}");
    }
    for name in ["a", "alice.b-c_9", &"a".repeat(32)] {
        let people = people([user(name, Role::Admin)]);
        assert!(matches!(people.changed(user(name, Role::Admin)), Err(Refusal::UserThere { .. })), "{name}");
        for token in ["", ".", "A", &"a".repeat(65)] {
            assert!(people.changed(add(name, token, Role::Viewer)).is_err(), "{token}");
        }
        assert!(people.changed(add(name, "2026-backup", Role::Viewer)).is_ok());
    }
}

#[test]
fn a_token_may_no_more_than_its_user_and_goes_with_him() {
    let all = people([
        user("alice", Role::Admin),
        user("bob", Role::Operator),
        add("bob", "backup", Role::Operator),
        add("bob", "graphs", Role::Viewer),
        add("alice", "backup", Role::Admin),
    ]);
    let refused = all.changed(add("bob", "more", Role::Admin));
    assert_eq!(refused, Err(Refusal::TokenRole { user: "bob".to_owned(), role: Role::Operator }));
    assert!(matches!(all.changed(add("bob", "backup", Role::Viewer)), Err(Refusal::TokenThere { .. })));
    assert!(matches!(all.changed(add("eve", "backup", Role::Viewer)), Err(Refusal::NoUser { .. })));
    let mut twice = token("bob", "other", Role::Viewer);
    twice.sha256 = token("bob", "backup", Role::Viewer).sha256;
    assert_eq!(all.changed(Change::AddToken(twice)), Err(Refusal::TokenTwice));
    let lowered = all.changed(role("bob", Role::Viewer)).unwrap();
    assert!(lowered.tokens_of("bob").all(|token| token.role == Role::Viewer));
    let raised = lowered.changed(role("bob", Role::Admin)).unwrap();
    assert!(raised.tokens_of("bob").all(|token| token.role == Role::Viewer), "what was taken stays taken");
    let gone = all.changed(remove("bob")).unwrap();
    assert_eq!((gone.tokens_of("bob").count(), gone.tokens_of("alice").count()), (0, 1));
    let without = Change::RemoveToken { user: "bob".to_owned(), name: "backup".to_owned() };
    let revoked = all.changed(without.clone()).unwrap();
    assert_eq!(revoked.tokens_of("bob").count(), 1);
    assert!(matches!(revoked.changed(without), Err(Refusal::NoToken { .. })));
}

#[test]
fn a_token_is_good_until_it_expires() {
    let secret = TokenSecret::random().unwrap();
    let token = Token { sha256: secret.digest(), ..token("alice", "backup", Role::Viewer) };
    let all =
        people([user("alice", Role::Admin), add("alice", "other", Role::Admin), Change::AddToken(token)]);
    assert_eq!(all.bearer(&secret, at(3599)).unwrap().name, "backup");
    assert_eq!(all.bearer(&secret, at(3600)), None);
    assert_eq!(all.bearer(&TokenSecret::random().unwrap(), at(0)), None);
    for (from, to) in [(0, 59), (10, 9), (0, *TOKEN_TIME_S.end() + 1)] {
        let token = Token { created: at(from), expires: at(to), ..self::token("alice", "new", Role::Viewer) };
        assert_eq!(all.changed(Change::AddToken(token)), Err(Refusal::TokenTime), "{from} to {to}");
    }
}

#[test]
fn the_bounds_hold() {
    let mut all = people([user("a0", Role::Admin)]);
    for index in 1..MAX_USERS {
        all = all.changed(user(&format!("a{index}"), Role::Viewer)).unwrap();
    }
    assert_eq!(all.changed(user("more", Role::Viewer)), Err(Refusal::TooManyUsers));
    let mut all = people((0..33).map(|index| user(&format!("a{index}"), Role::Admin)));
    for index in 0..MAX_TOKENS {
        let name = format!("t{index}");
        all = all.changed(add(&format!("a{}", index / MAX_TOKENS_OF_USER), &name, Role::Viewer)).unwrap();
    }
    let refused = all.changed(add("a0", "more", Role::Viewer));
    assert_eq!(refused, Err(Refusal::TooManyTokens));
    let all = all.changed(Change::RemoveToken { user: "a1".to_owned(), name: "t32".to_owned() }).unwrap();
    let refused = all.changed(add("a0", "more", Role::Viewer));
    assert_eq!(refused, Err(Refusal::TooManyTokensOf { user: "a0".to_owned() }));
    assert!(text(&all, u64::MAX).unwrap().len() < 1 << 20, "a full file is one that is read");
    assert_eq!(parse(&text(&all, 7).unwrap()).unwrap(), (all, 7));
}

fn change() -> impl Strategy<Value = Change> {
    let name = || prop::sample::select(vec!["alice", "bob", "carol", "dave", "Eve"]);
    let role_of = || prop::sample::select(Role::ALL.to_vec());
    let token_name = || prop::sample::select(vec!["backup", "graphs", ""]);
    prop_oneof![
        (name(), role_of()).prop_map(|(name, role)| user(name, role)),
        (name(), role_of()).prop_map(|(name, new)| role(name, new)),
        name().prop_map(remove),
        (name(), token_name(), role_of()).prop_map(|(user, name, role)| add(user, name, role)),
        (name(), token_name())
            .prop_map(|(user, name)| Change::RemoveToken { user: user.to_owned(), name: name.to_owned() }),
        (name(), token_name(), 0..9_u64).prop_map(|(user, name, seconds)| Change::Used {
            user: user.to_owned(),
            name: name.to_owned(),
            at: at(seconds)
        }),
        name().prop_map(|user| Change::SetPassword { user: user.to_owned(), password: hash() }),
    ]
}

proptest! {
    #[test]
    fn whatever_is_wished_what_always_holds_holds_and_is_read_again(
        changes in prop::collection::vec(change(), 0..40)
    ) {
        let mut people = People::default();
        for change in changes {
            if let Ok(changed) = people.changed(change) {
                people = changed;
            }
            prop_assert_eq!(people.check(), Ok(()));
            prop_assert!(people.users.is_empty() || people.users.iter().any(|user| user.role == Role::Admin));
            for token in &people.tokens {
                prop_assert!(people.user(&token.user).is_some_and(|user| token.role <= user.role));
            }
        }
        prop_assert_eq!(parse(&text(&people, 3).unwrap()).unwrap(), (people, 3));
    }

    #[test]
    fn no_byte_of_the_file_can_change_unseen(at in 0..700_usize, byte in any::<u8>()) {
        let all = people([user("alice", Role::Admin), user("bob", Role::Viewer), add("bob", "b", Role::Viewer)]);
        let mut bytes = text(&all, 3).unwrap();
        let at = at % bytes.len();
        bytes[at] = byte;
        if let Ok((read, _)) = parse(&bytes) {
            // The generation is only a count, and white space says nothing.
            prop_assert_eq!(read, all);
        }
    }

    #[test]
    fn no_bytes_make_the_reader_fail(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(parse(&bytes).is_err());
    }
}

fn saved(directory: &Path, text: &[u8]) {
    let path = directory.join(PEOPLE_FILE);
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

#[test]
fn files_that_are_none_are_refused_and_left_as_they_are() {
    let directory = tempfile::tempdir().unwrap();
    let all = people([user("alice", Role::Admin)]);
    let good = String::from_utf8(text(&all, 1).unwrap()).unwrap();
    for (bytes, says) in [
        (String::new(), "not JSON"),
        (good[..good.len() / 2].to_owned(), "not JSON"),
        (good.replace("fels people", "fels pool"), "its format is not"),
        (good.replace("alice", "alicf"), "SHA-256"),
        (good.replace("\"generation\"", "\"extra\":1,\"generation\""), "unknown field `extra`"),
        (good.replace("\"tokens\":[]", "\"tokens\":[],\"groups\":[]"), "unknown field `groups`"),
        (good.replace("m=19456", "m=8"), "less or more"),
        (" ".repeat(1 << 20) + &good, "larger than 1 MiB"),
    ] {
        saved(directory.path(), bytes.as_bytes());
        let error = Store::open(directory.path()).err().unwrap_or_else(|| panic!("{bytes} is taken"));
        let said = error.to_string();
        assert!(matches!(error, PeopleError::Damaged { .. }) && said.contains(says), "{said}");
        assert!(said.contains("; hint: "), "{said}");
        assert_eq!(std::fs::read(directory.path().join(PEOPLE_FILE)).unwrap(), bytes.as_bytes());
    }
    // A later version may have anything in it.
    saved(directory.path(), br#"{"format":"fels people","version":2,"groups":[]}"#);
    let error = Store::open(directory.path()).err().unwrap();
    assert!(matches!(error, PeopleError::UnknownVersion { version: 2, .. }), "{error}");
    // What is whole, but may not be: by another program, with a sum that fits.
    let wrong =
        People { users: vec![User { role: Role::Viewer, ..all.users[0].clone() }], tokens: Vec::new() };
    assert!(matches!(parse(&text(&wrong, 1).unwrap()), Err(Wrong::Damaged(why)) if why.contains("admin")));
}

#[test]
fn a_file_that_others_may_read_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(PEOPLE_FILE);
    saved(directory.path(), &text(&people([user("alice", Role::Admin)]), 1).unwrap());
    for mode in [0o640, 0o604, 0o620, 0o602] {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        let error = Store::open(directory.path()).err().unwrap();
        assert!(matches!(error, PeopleError::Open { .. }), "{mode:o}: {error}");
    }
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o400)).unwrap();
    assert_eq!(Store::open(directory.path()).unwrap().people().users().len(), 1);
}

#[test]
fn what_was_changed_is_there_after_the_next_start() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path()).unwrap();
    assert!(store.people().users().is_empty() && !directory.path().join(PEOPLE_FILE).exists());
    store.change(user("alice", Role::Admin)).unwrap();
    let refused = store.change(remove("alice"));
    assert!(matches!(refused, Err(StoreError::Refused(Refusal::LastAdmin))));
    store.change(add("alice", "backup", Role::Viewer)).unwrap();
    let metadata = std::fs::metadata(directory.path().join(PEOPLE_FILE)).unwrap();
    assert_eq!(metadata.mode() & 0o7777, 0o600);
    assert!(!directory.path().join(NEW_PEOPLE_FILE).exists());
    let again = Store::open(directory.path()).unwrap();
    assert_eq!(again.people(), store.people());
}

#[test]
fn wherever_a_change_is_cut_off_the_old_people_are_there_or_the_new_ones() {
    let steps =
        [Step::Clear, Step::Make, Step::Begin, Step::Write, Step::Sync, Step::Rename, Step::SyncDirectory];
    let mut seen = Vec::new();
    for cut in steps {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path()).unwrap();
        let old = store.change(user("alice", Role::Admin)).unwrap();
        // As an earlier one that was cut off left it, longer than the new one and open to all.
        let left = directory.path().join(NEW_PEOPLE_FILE);
        std::fs::write(&left, "x".repeat(5000)).unwrap();
        std::fs::set_permissions(&left, std::fs::Permissions::from_mode(0o666)).unwrap();
        let change = user("bob", Role::Viewer);
        let new = old.changed(change.clone()).unwrap();
        let mut done = Vec::new();
        let error = store.change_by_steps(change.clone(), &mut |step| {
            if step == cut {
                return Err(io::ErrorKind::Interrupted.into());
            }
            done.push(step);
            Ok(())
        });
        assert!(matches!(error, Err(StoreError::Write(..))), "{cut:?}");
        let expected = if done.contains(&Step::Rename) { &new } else { &*old };
        let after = Store::open(directory.path()).unwrap();
        assert_eq!(&*after.people(), expected, "after a cut before {cut:?}");
        assert_eq!(&*store.people(), expected, "a node that goes on says what the file says: {cut:?}");
        seen.push(after.people().users().len());
        // And the next change goes its way.
        after.change(user("carol", Role::Viewer)).unwrap();
        let mode = std::fs::metadata(directory.path().join(PEOPLE_FILE)).unwrap().mode();
        assert_eq!((Store::open(directory.path()).unwrap().people(), mode & 0o7777), (after.people(), 0o600));
    }
    assert_eq!(seen, [1, 1, 1, 1, 1, 1, 2]);
}

#[test]
fn nothing_is_said_of_secrets() {
    let secret = TokenSecret::random().unwrap();
    let all = people([user("alice", Role::Admin)]);
    let said = format!("{all:?} {secret:?} {:?}", user("bob", Role::Viewer));
    assert!(!said.contains("argon2") && !said.contains(secret.expose()), "{said}");
}
