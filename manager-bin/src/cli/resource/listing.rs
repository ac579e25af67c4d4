//! The options and the printing that the listings of nodes have in common.

use jiff::tz::TimeZone;

use crate::cli::common::format::named::NamedFormats;
use crate::cli::common::format::{RenderOptions, Row, Template, render, sort_rows};
use crate::cli::common::message::{CliError, Prog};
use crate::cli::common::session;

/// The options for the format of a listing.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct ListingArgs {
    /// Output format, or the name of one ("help" lists the names)
    #[arg(short = 'o', long, value_name = "FORMAT")]
    format: Option<String>,
    /// Print no header line
    #[arg(short = 'n', long)]
    no_header: bool,
    /// Colour lines: always, never or auto
    #[arg(short = 'L', long, value_name = "WHEN", num_args = 0..=1, require_equals = true,
          default_value = "auto", default_missing_value = "always",
          value_parser = ["always", "never", "auto"])]
    color: String,
}

/// The options for states without nodes.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub(super) struct EmptyArgs {
    /// Omit states without nodes
    #[arg(long)]
    pub(super) skip_empty: bool,
    /// Show states without nodes
    #[arg(long, conflicts_with = "skip_empty")]
    pub(super) no_skip_empty: bool,
}

/// The format and the options of a listing.
pub(in crate::cli) struct Listing {
    template: Template,
    header: bool,
    /// Whether lines are colored.
    pub(super) color: bool,
}

impl ListingArgs {
    /// The listing for the options, with these formats and those of the user. Returns `None` after it has printed help
    /// about formats.
    pub(in crate::cli) fn listing<R: Row>(
        &self,
        formats: NamedFormats,
    ) -> Result<Option<Listing>, CliError> {
        let command = formats.command();
        let formats = formats.with_environment(|name| std::env::var_os(name))?;
        let chosen = self.format.as_deref().unwrap_or("default");
        let prog = Prog::current();
        let help = match chosen.strip_prefix("get-config=") {
            Some(name) => Some(formats.config_of(name)?),
            None => (chosen == "help").then(|| formats.help(&prog.command(command))),
        };
        if let Some(help) = help {
            session::print(&help)?;
            return Ok(None);
        }
        let template = Template::parse::<R>(formats.resolve(chosen)?).map_err(CliError::failure)?;
        let color = match self.color.as_str() {
            "always" => true,
            "never" => false,
            _ => {
                let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
                !plain && std::io::IsTerminal::is_terminal(&std::io::stdout())
            }
        };
        Ok(Some(Listing { template, header: !self.no_header, color }))
    }
}

impl Listing {
    /// A listing with this format.
    #[cfg(test)]
    pub(super) fn from_format<R: Row>(format: &str) -> Self {
        let template = Template::parse::<R>(format).unwrap_or_else(|error| panic!("{error}"));
        Self { template, header: false, color: false }
    }

    #[cfg(test)]
    pub(super) fn template(&self) -> &Template {
        &self.template
    }

    /// Returns true if the format shows the field.
    pub(super) fn shows(&self, field: &str) -> bool {
        self.template.has(field)
    }

    /// Without colors, removes the columns of the fields that begin and end them.
    pub(super) fn without_colors(mut self, fields: &[&str]) -> Self {
        if !self.color {
            self.template.remove(fields);
        }
        self
    }

    /// Sorts and prints the rows.
    pub(in crate::cli) fn print<R: Row>(&self, mut rows: Vec<R>) -> Result<(), CliError> {
        sort_rows(&mut rows, self.template.sort_keys()).map_err(CliError::failure)?;
        let options = RenderOptions { header: self.header, zone: TimeZone::system() };
        let table = render(&self.template, &rows, &options).map_err(CliError::failure)?;
        let mut text = String::new();
        let lines = table.lines.iter().filter(|line| !line.trim().is_empty());
        for line in table.header.iter().chain(lines) {
            text += line;
            text.push('\n');
        }
        // The rendered fields have been escaped already, except for the colors.
        session::print_painted(&text)
    }
}

/// Returns true if the locale has the character set UTF-8.
pub(super) fn is_utf8() -> bool {
    let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let locale = set("LC_ALL").or_else(|| set("LC_CTYPE")).or_else(|| set("LANG"));
    locale.is_some_and(|locale| {
        let locale = locale.to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    })
}
