use super::*;
use crate::rows::ROWS;

/// Recorded from libiscsi-bin 1.19.0-3, three seconds, depth 32, shortened by trailing blanks only.
const PERF: &str = "iscsi-perf version 0.1 - (c) 2014-2015 by Peter Lieven <pl@\u{138}amp.de>\n\n\
    connected to iscsi://127.0.0.1:14001/iqn.x:t/1\n\
    capacity is 524288 blocks or 268435456 byte (256 MB)\n\
    performing RANDOM READ with 32 parallel requests\n\
    FIXED transfer size of 8 blocks (4096 byte)\n\
    will run for 3 seconds.\n\n\
    \r00:00:02 - lba 299186, iops current 46170 (180 MB/s), iops average 46170 (180 MB/s), in_flight 32, busy 0        \
    \r00:00:01 - lba 421945, iops current 46779 (182 MB/s), iops average 46474 (181 MB/s), in_flight 32, busy 0        \
    \riops average 46835 (182 MB/s)                                                        \n\nfinished.\n";

const LAB: &str = r#"{"schema":1,"tests":[{"name":"x","errors":0,"dropped":0,"total":{"operations":1000,"bytes":4096000,
    "iops":500.0,"mib_per_s":1.953125,"latency_us":{"mean":64.0,"min":1.0,"p50":60.0,"p99":90.5,"p99_9":120.0,"max":200.0}}}]}"#;

const FIO: &str = r#"nbd: note
{"fio version":"fio-3.33","jobs":[{"jobname":"bench","error":0,
 "read":{"iops":700.0,"bw_bytes":5734400,"total_ios":1400,"clat_ns":{"mean":1000.0,"percentile":{"50.000000":900,"99.000000":2000,"99.900000":3000}},"lat_ns":{"mean":2000.0}},
 "write":{"iops":300.0,"bw_bytes":2457600,"total_ios":600,"clat_ns":{"mean":1000.0},"lat_ns":{"mean":4000.0}}}]}"#;

#[test]
fn the_final_average_is_taken_not_a_progress_line() {
    assert_eq!(iscsi_perf(PERF).unwrap(), PerfOutput { iops: 46835, request_bytes: 4096 });
    let both = iscsi_perf_all(&[PERF.to_owned(), PERF.to_owned()], &ROWS[0].load).unwrap();
    assert!((both.iops - 93_670.0).abs() < 1e-6);
    assert!((both.mean_us - 32e6 / 93_670.0).abs() < 1e-6);
}

#[test]
fn a_run_that_only_made_progress_is_an_error() {
    let cut = PERF.split("\riops average").next().unwrap();
    assert!(iscsi_perf(cut).is_err());
    assert!(iscsi_perf(&format!("{cut}\n\nfinished.\n")).is_err());
    assert!(iscsi_perf(&PERF.replace("finished.", "ABORTED!")).is_err());
    assert!(iscsi_perf("").is_err());
    assert!(iscsi_perf(&PERF.replace("average 46835", "average 0")).is_err());
}

#[test]
fn the_target_s_block_size_shows_in_the_request_size() {
    let text = PERF.replace("(4096 byte)", "(32768 byte)");
    assert_eq!(iscsi_perf(&text).unwrap().request_bytes, 32768);
    assert!(iscsi_perf_all(&[text], &ROWS[0].load).is_err());
    assert!(iscsi_perf(&PERF.replace("FIXED", "RANDOM")).is_err());
}

#[test]
fn the_lab_tells_its_latencies() {
    let figures = lab(LAB).unwrap();
    assert!((figures.iops - 500.0).abs() < 1e-9 && (figures.mean_us - 64.0).abs() < 1e-9);
    assert_eq!(figures.p99_9_us, Some(120.0));
}

#[test]
fn a_lab_that_saw_errors_measured_nothing() {
    for (from, to) in [
        ("\"errors\":0", "\"errors\":1"),
        ("\"dropped\":0", "\"dropped\":1"),
        ("\"operations\":1000", "\"operations\":0"),
    ] {
        assert!(lab(&LAB.replace(from, to)).is_err(), "{to}");
    }
    assert!(lab("").is_err());
    assert!(lab("{\"tests\":[]}").is_err());
}

#[test]
fn fio_s_two_sides_are_one_load() {
    let figures = fio(FIO).unwrap();
    assert!((figures.iops - 1000.0).abs() < 1e-9);
    assert!((figures.mib_per_s - 7.8125).abs() < 1e-9);
    assert!((figures.mean_us - 2.6).abs() < 1e-9);
    assert_eq!((figures.p50_us, figures.p99_9_us), (Some(0.9), Some(3.0)));
    assert!(fio(&FIO.replace("\"error\":0", "\"error\":5")).is_err());
    assert!(fio("fio: cannot connect").is_err());
}

#[test]
fn the_limit_s_latency_follows_from_what_is_in_flight() {
    let open = r#"{"operations":2000,"seconds":2.0,"latency":{"mean_us":9.0,"p50_us":8.0,"p99_us":20.0,"p99_9_us":40.0}}"#;
    let figures = bare(open, &ROWS[0].load).unwrap();
    assert_eq!((figures.iops, figures.mean_us, figures.p99_9_us), (1000.0, 9.0, Some(40.0)));
    let figures = bare("{\"operations\":2000,\"seconds\":2.0}\n", &ROWS[0].load).unwrap();
    assert!((figures.iops - 1000.0).abs() < 1e-9 && (figures.mean_us - 32_000.0).abs() < 1e-6);
    assert!((figures.mib_per_s - 3.90625).abs() < 1e-9);
    assert!(bare("{\"operations\":0,\"seconds\":2.0}", &ROWS[0].load).is_err());
}
