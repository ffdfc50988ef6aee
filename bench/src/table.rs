//! Tables of plain text.

/// Aligned columns: words to the left, figures to the right. The line below the head is of dashes.
pub fn table(head: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let rows: Vec<Vec<String>> = rows.collect();
    let cell = |row: &[String], column: usize| row.get(column).cloned().unwrap_or_default();
    let head: Vec<String> = head.iter().map(|&name| name.to_owned()).collect();
    let lines: Vec<&Vec<String>> = std::iter::once(&head).chain(&rows).collect();
    let width = |column| lines.iter().map(|line| cell(line, column).chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let figures = |column| {
        let starts =
            |line: &Vec<String>| cell(line, column).starts_with(|c: char| c.is_ascii_digit() || c == '(');
        !rows.is_empty() && rows.iter().all(starts)
    };
    let right: Vec<bool> = (0..head.len()).map(figures).collect();
    let mut text = String::new();
    let mut push = |line: &[String]| {
        let mut out = String::new();
        for (column, &width) in widths.iter().enumerate() {
            let cell = cell(line, column);
            let padding = " ".repeat(width - cell.chars().count());
            let (before, after) = if right[column] { (padding.as_str(), "") } else { ("", padding.as_str()) };
            out.extend([before, &cell, after, "  "]);
        }
        text += out.trim_end();
        text.push('\n');
    };
    push(&head);
    push(&widths.iter().map(|&width| "-".repeat(width)).collect::<Vec<_>>());
    for row in &rows {
        push(row);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let rows = vec![vec!["a".to_owned(), "1".to_owned()], vec!["long".to_owned(), "1000".to_owned()]];
        let text = table(&["name", "figure"], rows.into_iter());
        assert_eq!(text, "name  figure\n----  ------\na          1\nlong    1000\n");
    }
}
