//! Bars are to scale, and text is text.

use super::*;

fn bar(label: &str, value: f64, spread: Option<(f64, f64)>) -> Bar {
    Bar { label: label.to_owned(), value, spread, figure: format!("{value}"), tone: Tone::Ours }
}

fn chart(bars: Vec<Bar>) -> String {
    let panels = vec![Panel { title: "IOPS".to_owned(), bars }];
    let (title, note) = ("A & B <c>".to_owned(), String::new());
    Bars { title, note, panels, columns: 1, width: 432 }.to_svg(Theme::Auto)
}

/// The numbers of an attribute in the order of the elements.
fn numbers(svg: &str, element: &str, attribute: &str) -> Vec<f64> {
    let of = |line: &str| -> Option<f64> {
        let rest = line.strip_prefix(element)?.split_once(&format!(" {attribute}=\""))?.1;
        rest.split('"').next()?.parse().ok()
    };
    svg.lines().filter_map(of).collect()
}

#[test]
fn bars_are_to_scale_and_the_longest_sample_fills_the_room() {
    // 432 - 2 * 16 - 96 - 104 = 200 pixels.
    let svg = chart(vec![bar("a", 50.0, Some((40.0, 100.0))), bar("b", 25.0, None)]);
    assert_eq!(numbers(&svg, "<rect class=\"b0\"", "width"), [100.0, 50.0]);
    assert_eq!(numbers(&svg, "<line", "x1"), [192.0]);
    assert_eq!(numbers(&svg, "<line", "x2"), [312.0]);
}

#[test]
fn text_is_text_and_not_markup() {
    let svg = chart(vec![bar("<script>", 1.0, None)]);
    assert!(svg.contains("A &amp; B &lt;c&gt;") && svg.contains("&lt;script&gt;"), "{svg}");
    assert!(!svg.contains("<script"));
}

#[test]
fn what_is_no_number_has_no_bar() {
    let svg = chart(vec![bar("a", f64::NAN, None), bar("b", f64::INFINITY, None), bar("c", -1.0, None)]);
    assert_eq!(numbers(&svg, "<rect class=\"b0\"", "width"), [0.0, 0.0, 0.0]);
}

#[test]
fn panels_stand_beside_each_other_and_none_leaves_the_picture() {
    let one = Panel { title: "p".to_owned(), bars: vec![bar("a", 1.0, None)] };
    let two = Panel { bars: vec![bar("a", 1.0, None), bar("b", 1.0, None)], ..one.clone() };
    let chart = Bars {
        title: String::new(),
        note: "where and when, at length ".repeat(8),
        panels: vec![one.clone(), two, one],
        columns: 2,
        width: 800,
    };
    let svg = chart.to_svg(Theme::Auto);
    let tops = numbers(&svg, "<text class=\"p\"", "y");
    assert!((tops[0] - tops[1]).abs() < 1e-9 && tops[2] > tops[1], "{tops:?}");
    let height = numbers(&svg, "<svg", "height")[0];
    assert!(numbers(&svg, "<rect class=\"b0\"", "y").iter().all(|y| y + f64::from(BAR) < height));
    // The note is wrapped, and the panels begin below it.
    let notes = numbers(&svg, "<text class=\"n\"", "y");
    assert!(notes[1] > notes[0] && notes[1] < tops[0], "{notes:?}");
}

#[test]
fn who_sees_no_bars_is_told_their_figures() {
    let svg = chart(vec![bar("tgt", 50.0, None)]);
    assert!(svg.contains("<desc> IOPS: tgt 50.</desc>"), "{svg}");
}
