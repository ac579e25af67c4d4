//! Plain tables without a user-defined format: each column is as wide as its widest text, and two spaces separate the
//! columns.

use crate::shown::in_line;

/// The alignment of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// For words.
    Left,
    /// For numbers.
    Right,
}

/// The heading and the alignment of a column.
#[derive(Debug, Clone, Copy)]
pub struct Column(pub &'static str, pub Side);

/// The text of a table with a header. Each row has one text per column.
pub fn table(columns: &[Column], rows: impl Iterator<Item = Vec<String>>) -> String {
    let header = columns.iter().map(|column| column.0.to_owned()).collect();
    let shown = |row: Vec<String>| row.iter().map(|cell| in_line(cell).into_owned()).collect();
    let rows: Vec<Vec<String>> = std::iter::once(header).chain(rows.map(shown)).collect();
    let width = |index: usize| {
        let cells = rows.iter().filter_map(|row| row.get(index));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let mut text = String::new();
    for row in &rows {
        let cells = row.iter().zip(columns).zip(&widths).map(|((cell, column), width)| {
            // Not by `format!`, which panics at a width above 65,535, and a plugin's text may be longer.
            let blanks = " ".repeat(width.saturating_sub(cell.chars().count()));
            match column.1 {
                Side::Left => format!("{cell}{blanks}"),
                Side::Right => format!("{blanks}{cell}"),
            }
        });
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_align_to_their_side() {
        let columns = [Column("NAME", Side::Left), Column("N", Side::Right)];
        let rows = [["a", "10"], ["ƒlong", "7"]];
        let rows = rows.into_iter().map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(table(&columns, rows), "NAME    N\na      10\nƒlong   7\n");
    }

    #[test]
    fn a_text_may_be_as_long_as_a_plugin_makes_it() {
        let long = "x".repeat(70_000);
        let row = vec![long.clone(), "7".to_owned()];
        let text =
            table(&[Column("NAME", Side::Left), Column("N", Side::Right)], [row].into_iter());
        assert!(text.ends_with(&format!("{long}  7\n")));
    }
}
