//! A short run of everything, and what is judged by it.

use super::*;

pub fn options() -> PoolsOptions {
    PoolsOptions {
        rows: Vec::new(),
        rounds: 2,
        milliseconds: 2,
        size: 32,
        quick: false,
        fels: "target/release/fels".into(),
        served_rounds: 2,
        seconds: 1,
        server_core: 0,
        client_core: 1,
        port_base: 14100,
        label: None,
        out: None,
    }
}

#[test]
fn every_group_is_measured_and_has_its_bars() {
    let options = options();
    let mut judged = 0;
    for group in groups(options.size() << 20) {
        let results = measure(&group, &options).unwrap();
        assert_eq!(results.len(), group.loads.len() * group.contenders.len());
        for figures in &results {
            assert!(figures.iops.min > 0.0 && figures.samples.len() == 2, "{figures:?}");
            assert_eq!(figures.ratio.is_none(), figures.contender == figures.base, "{figures:?}");
        }
        let bars: Vec<Bar> = results.iter().filter_map(|result| group.bar(result)).collect();
        assert_eq!(bars.len(), group.loads.len(), "one for each load: {bars:?}");
        judged += bars.len();
    }
    assert_eq!(judged, 2 + 6 * 4);
}

#[test]
fn streams_have_whole_rows() {
    for group in groups(1 << 30) {
        for (load, contender) in
            group.loads.iter().flat_map(|load| group.contenders.iter().map(move |one| (load, one)))
        {
            let Contender::Pool(spec) = contender else { continue };
            let row = u64::from(spec.level.data_units(spec.members)) * u64::from(spec.unit_bytes);
            assert!(load.random || load.bytes.is_multiple_of(row), "{} of {}", load.name, spec.level);
        }
    }
}

#[test]
fn rows_are_chosen_by_parts_of_their_names() {
    let chosen = |rows: &[&str]| -> Vec<String> {
        let rows: Vec<String> = rows.iter().map(|&row| row.to_owned()).collect();
        let mut chosen = Vec::new();
        for group in groups(1 << 20).into_iter().filter_map(|group| group.wanted_of(&rows)) {
            chosen.extend(group.loads.iter().map(|load| format!("{} {}", load.name, group.title())));
        }
        chosen
    };
    assert_eq!(chosen(&["4k-read raid10 / raid6"]), ["4k-read raid10 / raid6"]);
    assert_eq!(chosen(&["stream-write raid0 / raid6", "4k-write raid5"]).len(), 2);
    assert_eq!(chosen(&["nonsense"]).len(), 0);
    assert_eq!(chosen(&[]).len(), 26);
}
