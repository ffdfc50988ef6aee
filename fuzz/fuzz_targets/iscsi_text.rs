//! Any bytes as key=value text, numbers, binary values and names.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::iscsi::IscsiName;
use wire::iscsi::text::{TextPairs, TextWriter, parse_binary, parse_number};

fuzz_target!(|data: &[u8]| {
    let mut writer = TextWriter::new(data.len() + 1);
    let mut read = Vec::new();
    for (key, value) in TextPairs::new(data).map_while(Result::ok) {
        let _ = parse_number(value);
        assert!(parse_binary(value, 1024).is_none_or(|bytes| bytes.len() <= 1024));
        if let Ok(name) = IscsiName::parse(value) {
            assert_eq!(IscsiName::parse(name.as_str()), Ok(name));
        }
        writer.push(key, value).expect("what was read fits into as many bytes");
        read.push((key, value));
    }
    let again: Vec<_> = TextPairs::new(writer.as_bytes()).map_while(Result::ok).collect();
    assert_eq!(read, again);
});
