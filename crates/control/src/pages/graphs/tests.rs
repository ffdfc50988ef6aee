//! Which graphs are where, and that their names are text.

use super::index::Index;
use super::*;
use crate::api::model::{GraphFigures, GraphUnit};

fn graph(name: &str, title: &str, group: &str, subject: &[(&str, &str)]) -> Graph {
    let text = |text: &str| text.to_owned();
    Graph {
        name: text(name),
        title: text(title),
        group: text(group),
        subject: subject.iter().map(|(label, value)| (text(label), text(value))).collect(),
        unit: GraphUnit::Iops,
        lines: vec![text("read")],
    }
}

fn some() -> Vec<Graph> {
    vec![
        graph("volume_operations", "Operations of volumes", "Volumes", &[]),
        graph("volume_operations@db", "Operations of volumes", "Volumes", &[("volume", "db")]),
        graph("volume_bytes@db", "Throughput of volumes", "Volumes", &[("volume", "db")]),
        graph("member_state@tank", "State of members", "Members of pools", &[("pool", "tank")]),
        graph("process_cpu_seconds", "CPU time of the process", "Process", &[]),
    ]
}

#[test]
fn graphs_are_listed_by_kind_and_thing_and_found_by_a_part_of_either() {
    let index = |find: &str| Index::of(Frame::bare("Graphs"), &some(), find.to_owned());
    let all = index("");
    let shown = |index: &Index| {
        let of = |group: &index::Group| {
            let subject = |subject: &index::Subject| {
                let titles: Vec<_> = subject.graphs.iter().map(|(_, title)| title.as_str()).collect();
                format!("{}: {}", subject.name, titles.join(", "))
            };
            format!(
                "{} | {}",
                group.title,
                group.subjects.iter().map(subject).collect::<Vec<_>>().join(" | ")
            )
        };
        index.groups.iter().map(of).collect::<Vec<_>>()
    };
    assert_eq!(
        shown(&all),
        [
            "Volumes | : Operations of volumes | volume db: Operations, Throughput",
            "Members of pools | pool tank: State",
            "Process | : CPU time of the process",
        ]
    );
    assert_eq!(all.pictures.len(), 2, "of the node, those that there are");
    assert_eq!(shown(&index("THROUGH")), ["Volumes | volume db: Throughput"]);
    assert_eq!(shown(&index("tank")), ["Members of pools | pool tank: State"]);
    let none = index("none").render().unwrap();
    assert!(none.contains("No graph has that in its name"), "{none}");
    let many: Vec<_> = (0..120)
        .map(|number| {
            graph(
                &format!("volume_bytes@v{number}"),
                "Throughput of volumes",
                "Volumes",
                &[("volume", &format!("v{number}"))],
            )
        })
        .collect();
    let many = Index::of(Frame::bare("Graphs"), &many, String::new());
    assert_eq!((many.groups[0].subjects.len(), many.groups[0].more), (50, 70));
}

#[test]
fn a_thing_has_the_pictures_that_say_most_and_no_others() {
    let pictures = chosen(&some(), &OF_VOLUMES, "db");
    let files: Vec<_> = pictures.iter().map(|picture| picture.file.as_str()).collect();
    assert_eq!(files, ["/graphs/volume_operations%40db/day.svg", "/graphs/volume_bytes%40db/day.svg"]);
    assert_eq!(pictures[0].alt, "Operations of volumes, volume db: the last 24 hours");
    assert_eq!(chosen(&some(), &OF_VOLUMES, "d"), []);
}

#[test]
fn names_of_things_are_text_and_figures_have_their_unit() {
    let hostile = "\"><script>alert(1)</script>";
    let graphs = [graph(&format!("x@{hostile}"), hostile, hostile, &[("volume", hostile)])];
    let index = Index::of(Frame::bare("Graphs"), &graphs, hostile.to_owned()).render().unwrap();
    assert!(index.contains("&#60;script&#62;") && !index.contains("<script>alert"), "{index}");
    let figures = GraphFigures { last: 1250.0, mean: 2.0, least: 0.0, most: 3.0 };
    let line = |label: &str, figures| GraphLine { label: label.to_owned(), figures, points: Vec::new() };
    let data = GraphData {
        name: String::new(),
        title: String::new(),
        note: String::new(),
        span: String::new(),
        unit: GraphUnit::Iops,
        begin_s: 0,
        step_s: 1,
        slots: 0,
        lines: vec![line(hostile, Some(figures)), line("write", None)],
    };
    let drawn = drawn(&graphs[0], hostile, SPANS[0], &data);
    assert_eq!(drawn.rows[0].figures.as_ref().unwrap()[0], "1.25 k IO/s");
    let thing = page_of(&graphs[0]);
    assert!(thing.as_ref().unwrap().0.starts_with("/volumes/%22%3E%3Cscript"), "{thing:?}");
    let one = One {
        frame: Frame::bare(hostile),
        whom: hostile.to_owned(),
        thing,
        spans: vec![drawn],
        others: vec![],
    };
    let page = one.render().unwrap();
    assert!(page.contains("nothing is known") && !page.contains("<script>alert"), "{page}");
}
