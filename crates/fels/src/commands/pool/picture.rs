//! A pool before it is made: which member has what of its first rows.

use super::table::{Align, table};
use plane::pool::Level;
use plane::pool::layout::{Role, Row};

/// Members that are drawn at most: more do not fit a line.
const MOST: usize = 12;
/// Rows that are drawn at most.
const ROWS: u64 = 4;

/// The first rows: numbers are units of data in their order, P and Q parity.
pub fn picture(level: Level, slots: usize) -> String {
    if slots > MOST {
        return String::new();
    }
    let head = std::iter::once("slot".to_owned()).chain((0..slots).map(|slot| slot.to_string()));
    let mut rows = vec![head.collect::<Vec<_>>()];
    for number in 0..ROWS {
        let row = Row::of(level, slots, number);
        let first = number as usize * row.units();
        let cell = |slot| match row.role(slot) {
            Role::Data(unit) => (first + unit).to_string(),
            Role::P => "P".to_owned(),
            Role::Q => "Q".to_owned(),
        };
        rows.push(std::iter::once(format!("row {number}")).chain((0..slots).map(cell)).collect());
    }
    let columns: Vec<_> = std::iter::once(Align::Left).chain((0..slots).map(|_| Align::Right)).collect();
    table(2, &columns, &rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_level_is_drawn_as_it_lies() {
        assert_eq!(
            picture(Level::Raid5, 3),
            "  slot   0  1  2\n  row 0  0  1  P\n  row 1  3  P  2\n  row 2  P  4  5\n  row 3  6  7  P\n"
        );
        assert_eq!(
            picture(Level::Raid10, 4),
            "  slot   0  1  2  3\n  row 0  0  0  1  1\n  row 1  2  2  3  3\n  row 2  4  4  5  5\n  row 3  6  6  7  7\n"
        );
        assert_eq!(picture(Level::Raid6, 64), "", "too wide for a line");
    }
}
