use super::*;
use proptest::prelude::*;

fn pairs(bytes: &[u8]) -> Result<Vec<(&str, &str)>, TextError> {
    TextPairs::new(bytes).collect()
}

#[test]
fn reads_pairs_with_empty_and_odd_values() {
    assert_eq!(
        pairs(b"InitiatorName=iqn.x:y\0A=\0B=c=d\0X-com.acme.y@z+_=1 2\0"),
        Ok(vec![("InitiatorName", "iqn.x:y"), ("A", ""), ("B", "c=d"), ("X-com.acme.y@z+_", "1 2")])
    );
    assert_eq!(pairs(b""), Ok(vec![]));
}

#[test]
fn public_extension_keys_have_a_number_sign() {
    assert_eq!(pairs(b"X#NodeArchitecture=a,1\0"), Ok(vec![("X#NodeArchitecture", "a,1")]));
}

#[test]
fn padding_counted_as_text_is_passed_over() {
    assert_eq!(pairs(b"A=1\0\0\0B=2\0\0"), Ok(vec![("A", "1"), ("B", "2")]));
}

#[test]
fn bad_text_and_its_reasons() {
    let long_key = [vec![b'k'; 64], b"=v\0".to_vec()].concat();
    let long_value = [b"K=".to_vec(), vec![b'v'; MAX_VALUE_LENGTH + 1], vec![0]].concat();
    for (bytes, error) in [
        (&b"A=1"[..], TextError::Unterminated),
        (b"A=1\0B", TextError::Unterminated),
        (b"A\0", TextError::MissingEquals),
        (b"=1\0", TextError::KeyLength(0)),
        (&long_key, TextError::KeyLength(64)),
        (b"A B=1\0", TextError::KeyCharacter(b' ')),
        (b"\xc3\xa4=1\0", TextError::KeyCharacter(0xc3)),
        (&long_value, TextError::ValueLength(MAX_VALUE_LENGTH + 1)),
        (b"A=\xff\0", TextError::ValueCharacter),
        (b"A=\x07\0", TextError::ValueCharacter),
    ] {
        assert_eq!(pairs(bytes), Err(error));
    }
}

#[test]
fn the_writer_keeps_its_bound_and_forges_no_pairs() {
    let mut writer = TextWriter::new(10);
    writer.push("A", "1").unwrap();
    assert_eq!(writer.push("Key", "value"), Err(TextFull { limit: 10 }));
    writer.push("B", "2\x003").unwrap();
    assert_eq!(pairs(writer.as_bytes()), Ok(vec![("A", "1"), ("B", "23")]));
}

#[test]
fn numbers() {
    for (text, number) in [
        ("0", Some(0)),
        ("16777215", Some(16_777_215)),
        ("0xFf", Some(255)),
        ("0X10", Some(16)),
        ("", None),
        ("0x", None),
        ("+1", None),
        ("-1", None),
        ("1a", None),
        (" 1", None),
        ("18446744073709551616", None),
    ] {
        assert_eq!(parse_number(text), number, "{text}");
    }
}

#[test]
fn binary_values() {
    for (text, bytes) in [
        ("0x", None),
        ("0x0", Some(vec![0])),
        ("0x123", Some(vec![1, 0x23])),
        ("0XfF00", Some(vec![255, 0])),
        ("0xgg", None),
        ("0x1122334455", None),
        ("0bAQID", Some(vec![1, 2, 3])),
        ("0BAQI=", Some(vec![1, 2])),
        ("0bAQ==", Some(vec![1])),
        ("0bA===", None),
        ("0bAQ=", None),
        ("0b", None),
        ("0b====", None),
        ("0bA=ID", None),
        ("0bAQIDBAU=", None),
        ("17", None),
        ("0\u{e4}", None),
        ("\u{e4}\u{e4}", None),
    ] {
        assert_eq!(parse_binary(text, 4), bytes, "{text}");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_to_an_end(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        prop_assert!(TextPairs::new(&bytes).count() <= bytes.len() / 3 + 1);
    }

    #[test]
    fn any_value_is_judged_without_panic(value in any::<String>()) {
        let _ = parse_number(&value);
        prop_assert!(parse_binary(&value, 16).is_none_or(|bytes| bytes.len() <= 16));
    }

    #[test]
    fn what_is_written_is_read(
        written in prop::collection::vec(("[A-Z][A-Za-z0-9._+@-]{0,62}", "[ -~]{0,100}"), 0..20),
    ) {
        let mut writer = TextWriter::new(1 << 16);
        for (key, value) in &written {
            writer.push(key, value).unwrap();
        }
        let read: Vec<_> = TextPairs::new(writer.as_bytes()).collect::<Result<_, _>>().unwrap();
        let written: Vec<_> = written.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        prop_assert_eq!(read, written);
    }

    #[test]
    fn hex_round_trip(bytes in prop::collection::vec(any::<u8>(), 1..64)) {
        prop_assert_eq!(parse_binary(&to_hex(&bytes), 64), Some(bytes));
    }
}
