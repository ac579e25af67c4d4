//! Tests of whole formats, as users write them.

use std::borrow::Cow;

use jiff::tz::TimeZone;
use proptest::prelude::*;

use super::*;

struct Item {
    name: &'static str,
    queue: &'static str,
    count: i128,
    seconds: f64,
}

impl Row for Item {
    fn heading(name: &str) -> Option<Cow<'static, str>> {
        let heading = match name {
            "name" => "NAME",
            "queue" => "QUEUE",
            "count" => "COUNT",
            "seconds" => "TIME",
            "nothing" => "NOTHING",
            _ => return None,
        };
        Some(Cow::Borrowed(heading))
    }

    fn field(&self, name: &str) -> Option<FieldValue> {
        Some(match name {
            "name" => self.name.into(),
            "queue" => self.queue.into(),
            "count" => FieldValue::Int(self.count),
            "seconds" => FieldValue::Float(self.seconds),
            _ => return None,
        })
    }
}

fn items() -> Vec<Item> {
    vec![
        Item { name: "sleep", queue: "", count: 10, seconds: 0.0 },
        Item { name: "a-long-name", queue: "batch", count: 9, seconds: 90.0 },
        Item { name: "b", queue: "batch", count: 9, seconds: 5.5 },
    ]
}

fn lines(format: &str, rows: &[Item], header: bool) -> Result<Vec<String>, FormatError> {
    let template = Template::parse::<Item>(format)?;
    let options = RenderOptions { header, zone: TimeZone::UTC };
    let table = render(&template, rows, &options)?;
    Ok(table.header.into_iter().chain(table.lines).collect())
}

fn show(format: &str) -> Vec<String> {
    lines(format, &items(), true).unwrap()
}

fn message(format: &str) -> String {
    lines(format, &items(), true).unwrap_err().to_string()
}

#[test]
fn a_line_has_the_text_and_the_fields_of_the_format() {
    assert_eq!(
        show("{name:<6.6+}|{count:>5} x{seconds!F:>6h}."),
        [
            "NAME  |COUNT x  TIME.",
            "sleep |   10 x     -.",
            "a-lon+|    9 x  1.5m.",
            "b     |    9 x5.500s.",
        ]
    );
}

#[test]
fn doubled_braces_print_single_braces() {
    assert_eq!(show("{{{name}}}")[1], "{sleep}");
    assert_eq!(show("{{}} {count}}}")[1], "{} 10}");
}

#[test]
fn a_collapsed_column_omits_the_text_before_it() {
    assert_eq!(show("{count} ?:{nothing:>9} {name}")[1], "10 sleep");
    assert_eq!(show("{count} ?:{queue:>6} {name}")[1], "10        sleep");
    assert_eq!(show("?:{nothing:>9} {name}")[1], " sleep");
    let idle = [Item { name: "x", queue: "", count: 0, seconds: 0.0 }];
    assert_eq!(lines("{name} ?:{seconds!F:>6h}|", &idle, false).unwrap(), ["x|"]);
    // As in Flux, a count of 0 isn't empty.
    assert_eq!(lines("{name} ?:{count}|", &idle, false).unwrap(), ["x 0|"]);
}

#[test]
fn a_widened_column_fits_its_values_and_heading() {
    assert_eq!(show("+:{name:<4.4+}|")[..2], ["NAME       |", "sleep      |"]);
    assert_eq!(show("+:{name:<4.4+}|")[2], "a-long-name|");
    assert_eq!(show("+:{count:>2}|")[..2], ["COUNT|", "   10|"]);
    assert_eq!(lines("+:{count:>1}|", &items(), false).unwrap()[1], " 9|");
    assert_eq!(lines("+:{name:<12}|", &items()[..1], false).unwrap()[0], "sleep       |");
}

#[test]
fn both_prefixes_can_be_combined() {
    assert_eq!(show("{count} ?+:{nothing:>9}|")[1], "10|");
    assert_eq!(show("{count} ?+:{queue:>2.2}|")[2], "9 batch|");
}

#[test]
fn a_prefix_that_a_field_has_is_removed_everywhere() {
    assert_eq!(show("?:{name:<6} ?:+{count}?:|")[1], "sleep  +10|");
    assert_eq!(show("{name:<6} ?:+{count}?:|")[1], "sleep  ?:+10?:|");
}

#[test]
fn without_rows_only_the_header_is_printed() {
    assert_eq!(lines("?:{queue:>8} {name:<8}|", &[], true).unwrap(), [" NAME    |"]);
}

#[test]
fn the_header_has_the_width_of_time_columns() {
    assert_eq!(show("{seconds!d:%R::>8h}|"), ["    TIME|", "       -|", "   00:01|", "   00:00|"]);
}

#[test]
fn the_sort_prefix_is_not_printed() {
    let template = Template::parse::<Item>("sort:count,-name {name}").unwrap();
    assert_eq!(template.sort_keys(), parse_sort_keys("count,-name"));
    let mut rows = items();
    sort_rows(&mut rows, template.sort_keys()).unwrap();
    let names: Vec<&str> = rows.iter().map(|row| row.name).collect();
    assert_eq!(names, ["b", "a-long-name", "sleep"]);
    assert_eq!(show("sort:count {name}")[1], "sleep");
}

#[test]
fn equal_rows_keep_their_order_in_both_directions() {
    for (keys, expected) in
        [("count", ["a-long-name", "b", "sleep"]), ("-count", ["sleep", "a-long-name", "b"])]
    {
        let mut rows = items();
        sort_rows(&mut rows, &parse_sort_keys(keys)).unwrap();
        let names: Vec<&str> = rows.iter().map(|row| row.name).collect();
        assert_eq!(names, expected);
    }
}

#[test]
fn invalid_formats_are_refused_with_a_message() {
    for (format, text) in [
        ("{nope}", "Unknown format field: nope"),
        ("{}", "Unknown format field: "),
        ("{name", "expected '}' before end of string"),
        ("a {", "Single '{' encountered in format string"),
        ("a }", "Single '}' encountered in format string"),
        ("{name:{count}}", "unexpected '{' in field name"),
        ("{name!}", "unmatched '{' in format spec"),
        ("{name!sx}", "expected ':' after conversion specifier"),
        ("{name!q}", "Unknown conversion specifier q"),
        ("{name:d}", "Unknown format code 'd' for object of type 'str'"),
    ] {
        assert_eq!(message(format), text, "{format}");
    }
    let error = sort_rows(&mut items(), &parse_sort_keys("name,nope")).unwrap_err();
    assert_eq!(error.to_string(), "Invalid sort key: nope");
}

proptest! {
    #[test]
    fn text_without_fields_is_printed_on_every_line(format in "[^{}:?+]{0,40}") {
        let all = vec![format.clone(); items().len() + 1];
        prop_assert_eq!(lines(&format, &items(), true).ok(), Some(all));
    }

    #[test]
    fn any_valid_format_renders_one_line_per_row(
        format in "((sort:-?(name|count) )?((\\?|\\+|\\?\\+):)?\\{(name|queue|count|seconds|nothing)(![dDFHPsr])?(:[<>^=]?[+ ]?0?[0-9]{0,2},?(\\.[0-9])?[sdxfg%]?(::>3)?h?\\+?)?\\} ?){0,5}",
        header in any::<bool>(),
    ) {
        if let Ok(shown) = lines(&format, &items(), header) {
            prop_assert_eq!(shown.len(), items().len() + usize::from(header));
        }
    }

    #[test]
    fn sorting_is_a_permutation(counts in proptest::collection::vec(0i128..5, 0..20), reverse in any::<bool>()) {
        let mut rows: Vec<Item> = counts.iter().enumerate()
            .map(|(i, count)| Item { name: "", queue: "", count: *count, seconds: i as f64 })
            .collect();
        sort_rows(&mut rows, &parse_sort_keys(if reverse { "-count" } else { "count" })).unwrap();
        let mut expected: Vec<(i128, f64)> = counts.into_iter().enumerate().map(|(i, c)| (c, i as f64)).collect();
        expected.sort_by_key(|(c, _)| if reverse { -c } else { *c });
        let actual: Vec<(i128, f64)> = rows.iter().map(|row| (row.count, row.seconds)).collect();
        prop_assert_eq!(actual, expected);
    }
}
