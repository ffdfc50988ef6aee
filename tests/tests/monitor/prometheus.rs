use beds::Tool;

fn check(text: &str) -> beds::tool::Outcome {
    Tool::new("promtool").args(["check", "metrics"]).input(text.as_bytes()).run()
}

#[test]
fn promtool_has_nothing_to_say_about_any_metric() {
    let text = monitor::prometheus::render(&super::node().snapshot);
    assert!(text.lines().count() > 1000, "something of everything");
    let outcome = check(&text).expect_success();
    assert_eq!((outcome.stdout.as_str(), outcome.stderr.as_str()), ("", ""), "{outcome}");
    // It would say something.
    let _ = check(&text.replace("_total", "_sum_total_count")).expect_failure();
    let _ = check(&text.replacen("# HELP", "# NOHELP", 1)).expect_failure();
}
