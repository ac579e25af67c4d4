//! The order of the listed jobs and their lines of text.

use super::options::{Color, JobsArgs, Setting};
use super::row::JobRow;
use crate::cli::common::format::{RenderOptions, Template, parse_sort_keys, render, sort_rows};
use crate::cli::common::message::CliError;

/// Sorts jobs by the keys of `--sort`, or else by those of the format.
pub(super) fn sort(
    args: &JobsArgs,
    template: &Template,
    rows: &mut [JobRow<'_>],
) -> Result<(), CliError> {
    match &args.sort {
        Some(sort) => sort_rows(rows, &parse_sort_keys(sort)).map_err(CliError::failure),
        None => sort_rows(rows, template.sort_keys())
            .map_err(|error| CliError::failure(format!("Error in user format: {error}"))),
    }
}

/// The text of the table: a header, unless the options suppress it, and a line for each job.
pub(super) fn table_text(
    args: &JobsArgs,
    setting: &Setting,
    template: &Template,
    rows: &[JobRow<'_>],
) -> Result<String, CliError> {
    let options = RenderOptions { header: !args.no_header, zone: setting.display.zone.clone() };
    let table = render(template, rows, &options).map_err(CliError::failure)?;
    let width = match args.width {
        None => None,
        Some(0) => setting.columns,
        // As in Flux, lines are not cut to a negative number.
        Some(width) => usize::try_from(width).ok(),
    };
    let color = match args.color {
        Some(Color::Always) => true,
        Some(Color::Never) => false,
        Some(Color::Auto) | None => setting.color,
    };
    let mut text = String::new();
    if let Some(header) = &table.header {
        text += &format!("{}\n", cut(header, width));
    }
    let shown = table.lines.iter().zip(rows).filter(|(line, _)| !line.trim().is_empty());
    for (line, row) in shown {
        let line = cut(line, width);
        // The color is added after the line was cut, since its escape sequence has no width.
        match row.color().filter(|_| color) {
            Some(code) => text += &format!("\x1b[{code}m{line}\n\x1b[0;0m"),
            None => text += &format!("{line}\n"),
        }
    }
    Ok(text)
}

/// The first `width` characters of a line. `+` replaces the last one if characters were cut.
fn cut(line: &str, width: Option<usize>) -> String {
    match width {
        Some(width) if line.chars().count() > width => {
            line.chars().take(width.saturating_sub(1)).chain(['+']).collect()
        }
        _ => line.to_owned(),
    }
}
