use super::*;
use std::collections::BTreeSet;

#[test]
fn names_are_words_with_hyphens_and_none_is_there_twice() {
    let names: BTreeSet<_> = Event::ALL.iter().map(|(name, _)| *name).collect();
    assert_eq!(names.len(), Event::ALL.len());
    for name in names {
        let is_word = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase());
        assert!(name.split('-').all(is_word), "{name}");
    }
}

#[test]
fn an_event_tells_its_fields_and_a_sentence_for_people() {
    let event = Event::MemberFaulted {
        pool: "tank".to_owned(),
        slot: 1,
        place: "/dev/sdb".to_owned(),
        cause: "an I/O error".to_owned(),
    };
    assert_eq!((event.name(), event.severity()), ("member-faulted", Severity::Warning));
    assert_eq!(event.sentence(), "member 1 of pool tank is out (/dev/sdb): an I/O error");
    let fields = event.fields();
    assert_eq!(fields[0], ("pool", Field::Text("tank".to_owned())));
    assert_eq!(fields[1], ("slot", Field::Number(1)));
    assert_eq!(fields.len(), 4);
}

#[test]
fn how_bad_it_is_may_depend_on_what_was_found() {
    let ended = |bad, lost| Event::ScrubEnded { pool: "tank".to_owned(), bad, repaired: bad - lost, lost };
    assert_eq!(ended(0, 0).severity(), Severity::Info);
    assert_eq!(ended(2, 0).severity(), Severity::Warning);
    assert_eq!(ended(2, 1).severity(), Severity::Critical);
    assert_eq!(ended(1, 0).sentence(), "the scrub of pool tank is over: 1 bad block, 1 repaired, 0 lost");
    assert!(Severity::Info < Severity::Warning && Severity::Warning < Severity::Critical);
    assert_eq!("warning".parse(), Ok(Severity::Warning));
    assert_eq!("Warning".parse::<Severity>(), Err(NoSeverity));
}
