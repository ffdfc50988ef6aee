//! Tables for people.

/// How a column stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    Left,
    Right,
}

/// Rows of cells, as wide as their widest one; the first row is the head. Lines are indented, and have no space at their end.
pub fn table(indent: usize, columns: &[Align], rows: &[Vec<String>]) -> String {
    let width = |column: usize| rows.iter().map(|row| length(&row[column])).max().unwrap_or(0);
    let widths: Vec<_> = (0..columns.len()).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = " ".repeat(indent);
        for ((cell, align), width) in row.iter().zip(columns).zip(&widths) {
            let space = " ".repeat(width - length(cell));
            match align {
                Align::Left => line.extend([cell, space.as_str()]),
                Align::Right => line.extend([space.as_str(), cell]),
            }
            line.push_str("  ");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn length(cell: &str) -> usize {
    cell.chars().count()
}

/// Cells of a row.
pub fn row<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.map(str::to_owned).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_they_have_to_be() {
        let rows = [row(["slot", "size", "place"]), row(["0", "9", "/a"]), row(["12", "1000", ""])];
        let said = table(2, &[Align::Left, Align::Right, Align::Left], &rows);
        assert_eq!(said, "  slot  size  place\n  0        9  /a\n  12    1000\n");
    }
}
