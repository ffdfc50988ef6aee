//! Reports as pages and pictures.

use super::*;

const SUMMARY: &str = r#"{"operations":1000,"iops":1250.0,"mib_per_s":4.88,"latency_us":{"mean":800,"p50":700,"p99":2500,"max":9000}}"#;
const NONE: &str =
    r#"{"operations":0,"iops":0,"mib_per_s":0,"latency_us":{"mean":0,"p50":0,"p99":0,"max":0}}"#;
const HOSTILE: &str = "<script>alert(1)</script>\\\"><!--live x-->";

fn head(rest: &str) -> Report {
    let text = format!(
        r#"{{"schema":1,"version":"0.1.0","ended_unix_s":1795207267,"host":{{"name":"{HOSTILE}","kernel":"6.1","cpus":2}},"interrupted":true,{rest}}}"#
    );
    Report::read(text.as_bytes()).unwrap()
}

fn run() -> Report {
    head(&format!(
        r#""target":"{HOSTILE}","profile":"{HOSTILE}","tests":[{{"name":"{HOSTILE}","total":{SUMMARY},"reads":{SUMMARY},"writes":{NONE},
        "seconds":[{{"span_s":1.0,"iops":1200.0}},{{"span_s":1.0,"iops":1300.0}},{{"span_s":0.1,"iops":9.0}}],"remarks":["{HOSTILE}"]}}]"#
    ))
}

fn comparison() -> Report {
    let spread = r#"{"median":1000.0,"least":900.0,"most":1100.0}"#;
    head(&format!(
        r#""rounds":3,"targets":[{{"name":"{HOSTILE}","target":"null:"}},{{"name":"b","target":"file:/b"}}],
        "rows":[{{"test":"4k","direction":"read","ceiling_iops":{spread},"cells":[{{"target":"{HOSTILE}","iops":{spread},"factor":{spread}}},{{"target":"b"}}]}}],
        "lost":[{{"target":"b","round":1,"reason":"{HOSTILE}"}}]"#
    ))
}

#[test]
fn a_run_is_told_in_figures_and_drawn() {
    let page = One::of(Frame::bare("Lab"), "a.json".into(), &run());
    assert_eq!(
        (page.state.kind, page.tests[0].kinds.len()),
        (Kind::Warning, 1),
        "what only reads is said once"
    );
    let (name, figures) = &page.tests[0].kinds[0];
    assert_eq!(
        (*name, figures.iops.as_str(), figures.latency[2].as_str()),
        ("reads", "1.25 k IO/s", "2.5 ms")
    );
    let svg = picture::svg(&run(), Theme::Auto);
    assert!(svg.starts_with("<svg") && svg.contains("class=\"l c0\""), "{svg}");
}

#[test]
fn a_comparison_is_told_with_its_spread_and_what_was_lost() {
    let page = One::of(Frame::bare("Lab"), "a.json".into(), &comparison());
    assert_eq!(page.state.kind, Kind::Critical);
    assert_eq!(page.rows[0].cells[0].1, "1 k IO/s (900 IO/s to 1.1 k IO/s)");
    assert_eq!(page.rows[0].cells[1].1, "not measured");
    let svg = picture::svg(&comparison(), Theme::Dark);
    assert!(svg.contains("4k, reads") && svg.contains("class=\"b0\""), "{svg}");
}

#[test]
fn what_a_report_says_is_text() {
    for report in [run(), comparison()] {
        let page = One::of(Frame::bare("Lab"), HOSTILE.to_owned(), &report).render().unwrap();
        let svg = picture::svg(&report, Theme::Auto);
        for text in [page, svg] {
            assert!(!text.contains("<script>alert") && !text.contains("<!--live x"), "{text}");
        }
    }
    let entry =
        ReportEntry { name: HOSTILE.to_owned(), bytes: 1, says: None, wrong: Some(HOSTILE.to_owned()) };
    let list = List { frame: Frame::bare("Lab"), reports: vec![listed(entry)], left_out: 3 };
    let page = list.render().unwrap();
    assert!(page.contains("And 3 older ones") && !page.contains("<script>alert"), "{page}");
}
