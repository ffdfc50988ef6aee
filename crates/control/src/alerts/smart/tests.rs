//! Answers as smartctl(8) and its JSON format have them, written by hand.

use super::*;

#[test]
fn a_disk_that_is_well_is_read() {
    let json = br#"{
        "json_format_version": [1, 0],
        "smartctl": { "version": [7, 3], "argv": ["smartctl", "--json", "--all", "/dev/sda"], "exit_status": 0 },
        "device": { "name": "/dev/sda", "type": "sat", "protocol": "ATA" },
        "model_name": "A DISK", "smart_status": { "passed": true },
        "temperature": { "current": 34 }, "power_on_time": { "hours": 12345 }
    }"#;
    assert_eq!(read(json), Health { temperature: Some(34.0), state: Some(0) });
}

#[test]
fn a_disk_that_expects_to_fail_and_one_with_trouble_are_told_apart() {
    let json = |exit: u64, passed: bool| {
        format!(
            r#"{{"smartctl":{{"exit_status":{exit}}},"smart_status":{{"passed":{passed}}},"temperature":{{"current":61}}}}"#
        )
    };
    for (exit, passed, state) in [
        (0, true, 0),
        (8, false, 2),
        (0, false, 2),
        (16, true, 2),
        (64, true, 1),
        (128, true, 1),
        (32, true, 1),
    ] {
        let read = read(json(exit, passed).as_bytes());
        assert_eq!(read, Health { temperature: Some(61.0), state: Some(state) }, "{exit} {passed}");
    }
}

#[test]
fn nvme_tells_warnings_and_media_errors_of_its_own() {
    let json = |warning: u64, media: u64| {
        format!(
            r#"{{"smartctl":{{"exit_status":0}},"smart_status":{{"passed":true,"nvme":{{"value":0}}}},
            "nvme_smart_health_information_log":{{"critical_warning":{warning},"temperature":41,"available_spare":100,
            "media_errors":{media}}},"temperature":{{"current":41}}}}"#
        )
    };
    assert_eq!(read(json(0, 0).as_bytes()).state, Some(0));
    assert_eq!(read(json(0, 3).as_bytes()).state, Some(1));
    assert_eq!(read(json(4, 0).as_bytes()).state, Some(2));
}

#[test]
fn what_was_not_found_out_is_not_known() {
    let refused =
        br#"{"smartctl":{"exit_status":2,"messages":[{"string":"Permission denied","severity":"error"}]}}"#;
    for json in
        [&b""[..], b"{}", b"[1]", b"smartctl: not found", refused, br#"{"temperature":{"current":"hot"}}"#]
    {
        assert_eq!(read(json), Health::default(), "{}", String::from_utf8_lossy(json));
    }
}

#[test]
fn a_program_that_does_not_end_is_ended() {
    let start =
        |script: &str| Command::new("sh").args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap();
    assert_eq!(within(start("printf hello"), Duration::from_secs(10)), b"hello");
    let begun = Instant::now();
    assert_eq!(within(start("printf hello; exec sleep 30"), Duration::from_millis(200)), b"");
    assert!(begun.elapsed() < Duration::from_secs(10));
}

#[test]
fn files_are_on_no_disk_that_is_asked() {
    let file = tempfile::NamedTempFile::new().unwrap();
    assert_eq!(disk(file.path()), None);
    assert_eq!(disk(Path::new("/nonexistent")), None);
}
