//! The folder, with what may lie in it.

use super::*;

const RUN: &str = r#"{"schema":1,"version":"0.1.0","ended_unix_s":1795207267,"host":{"name":"lab1","kernel":"6.1","cpus":2},
  "target":"null:","measured_by":null,"profile":"vmware","interrupted":false,"tests":[]}"#;

fn at(unix_s: u64) -> Moment {
    Moment::from_unix(unix_s)
}

#[test]
fn what_is_kept_is_listed_the_newest_first_and_read_as_it_was_written() {
    let data = tempfile::tempdir().unwrap();
    assert_eq!(list(data.path()).unwrap().0.len(), 0, "there is no folder yet");
    let first = keep(data.path(), "vmware", at(1_795_207_267), RUN).unwrap();
    assert!(first.ends_with("lab/2026-11-20T20-41-07Z-vmware.json"), "{}", first.display());
    let again = keep(data.path(), "vm/../ware", at(1_795_207_267), RUN).unwrap();
    assert!(again.ends_with("lab/2026-11-20T20-41-07Z-vm----ware.json"), "{}", again.display());
    let third = keep(data.path(), "vmware", at(1_795_207_267), RUN).unwrap();
    assert!(third.ends_with("lab/2026-11-20T20-41-07Z-vmware-2.json"), "{}", third.display());
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(1000);
    File::options().write(true).open(&again).unwrap().set_modified(long_ago).unwrap();
    let (kept, left_out) = list(data.path()).unwrap();
    assert_eq!((kept.len(), left_out), (3, 0));
    assert!(kept[2].name.contains("vm----ware"), "{kept:?}");
    assert_eq!(kept[0].report.as_ref().unwrap().title(), "profile vmware");
    assert_eq!(read(data.path(), &kept[0].name).unwrap().unwrap(), RUN.as_bytes());
    let mode = |path: &Path| std::fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!((mode(&first), mode(&data.path().join("lab"))), (0o600, 0o700));
}

#[test]
fn nothing_outside_of_the_folder_and_nothing_but_plain_files_is_read() {
    let data = tempfile::tempdir().unwrap();
    let folder = data.path().join(REPORTS_DIRECTORY);
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(data.path().join("secret.json"), RUN).unwrap();
    std::os::unix::fs::symlink(data.path().join("secret.json"), folder.join("link.json")).unwrap();
    std::fs::create_dir(folder.join("folder.json")).unwrap();
    for name in [".hidden.json", "notes.txt", "a b.json", "<b>.json"] {
        std::fs::write(folder.join(name), RUN).unwrap();
    }
    assert_eq!(list(data.path()).unwrap().0.len(), 0);
    for name in [
        "../secret.json",
        "link.json",
        "folder.json",
        ".hidden.json",
        "notes.txt",
        "<b>.json",
        "",
        "/etc/passwd",
    ] {
        let error = read(data.path(), name).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound, "{name}");
    }
}

#[test]
fn what_is_no_report_or_too_large_is_listed_with_why() {
    let data = tempfile::tempdir().unwrap();
    keep(data.path(), "a", at(0), "{}").unwrap();
    keep(data.path(), "b", at(0), &RUN.replace("\"schema\":1", "\"schema\":2")).unwrap();
    let large = keep(data.path(), "c", at(0), RUN).unwrap();
    File::options().write(true).open(&large).unwrap().set_len(MAX_REPORT_BYTES + 1).unwrap();
    let (kept, _) = list(data.path()).unwrap();
    let why = |what: &str| {
        let found = kept.iter().find(|kept| kept.name.contains(what)).unwrap();
        found.report.as_ref().unwrap_err().clone()
    };
    assert!(why("-a.").contains("no report of the lab"), "{}", why("-a."));
    assert!(why("-b.").contains("schema 2"));
    assert!(why("-c.").contains("8 MiB"));
    assert!(read(data.path(), large.file_name().unwrap().to_str().unwrap()).unwrap().is_none());
}

#[test]
fn a_list_reads_no_more_than_its_bound_and_says_what_is_left_out() {
    let data = tempfile::tempdir().unwrap();
    for number in 0..120 {
        keep(data.path(), "vmware", at(number), RUN).unwrap();
    }
    let (kept, left_out) = list(data.path()).unwrap();
    assert_eq!((kept.len(), left_out), (MAX_LISTED, 20));
    for kept in &kept[..20] {
        let path = data.path().join(REPORTS_DIRECTORY).join(&kept.name);
        File::options().write(true).open(path).unwrap().set_len(MAX_REPORT_BYTES).unwrap();
    }
    let (kept, left_out) = list(data.path()).unwrap();
    assert!(kept.len() <= 8 && kept.len() + left_out == 120, "{} and {left_out}", kept.len());
}

#[test]
fn a_folder_that_is_a_link_gets_no_report() {
    let (data, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::os::unix::fs::symlink(elsewhere.path(), data.path().join(REPORTS_DIRECTORY)).unwrap();
    keep(data.path(), "vmware", at(0), RUN).unwrap_err();
    assert_eq!(std::fs::read_dir(elsewhere.path()).unwrap().count(), 0);
}

#[test]
fn what_went_wrong_is_said() {
    let tests = r#""tests":[{"name":"4k","total":T,"reads":T,"writes":T,"errors":2,"error_texts":["no disk"],"findings":{"count":3}}]"#;
    let summary =
        r#"{"operations":1,"iops":1.0,"mib_per_s":1.0,"latency_us":{"mean":1,"p50":1,"p99":1,"max":1}}"#;
    let text = RUN.replace("\"tests\":[]", &tests.replace(":T", &format!(":{summary}")));
    let report = Report::read(text.as_bytes()).unwrap();
    assert_eq!(report.faults(), ["4k: 3 blocks are wrong", "4k: 2 operations failed: no disk"]);
}
