//! Charts as SVG: lines over time, cumulative distributions, and ranges of groups.

use std::fmt::Write as _;

use jobtap_core::simulation::Distribution;

/// The colors of policies, which people with red-green color blindness can tell apart, too.
pub(crate) const COLOURS: [&str; 6] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];

/// The dashes of policies: where lines overlap, the lower ones are seen in the gaps.
const DASHES: [&str; 6] = ["none", "9 7", "3 6", "9 4 3 4", "14 5", "1 4"];

/// The color of the policy with this number.
pub(crate) fn colour(index: usize) -> &'static str {
    COLOURS.get(index % COLOURS.len()).copied().unwrap_or("#0072b2")
}

/// Text for HTML and SVG.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c if c.is_control() && c != '\n' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

const WIDTH: f64 = 920.0;
const HEIGHT: f64 = 240.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 40.0;

/// An axis, which maps data to places on the chart.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Axis {
    /// From 0 to this value.
    Linear(f64),
    /// From the first value to the second one.
    Part(f64, f64),
    /// From the first value to the second one, both above 0.
    Log(f64, f64),
    /// From one second to this time, logarithmic as [`Log`](Self::Log), with lines at familiar times.
    Time(f64),
}

impl Axis {
    /// The place of a value on the axis, from 0 to 1.
    fn place(self, value: f64) -> f64 {
        let place = match self {
            Self::Linear(most) => value / most.max(f64::MIN_POSITIVE),
            Self::Part(least, most) => (value - least) / (most - least).max(f64::MIN_POSITIVE),
            Self::Time(most) => return Self::Log(1.0, most).place(value),
            Self::Log(least, most) => {
                (value.max(least) / least).ln() / (most / least).max(1.0 + 1e-9).ln()
            }
        };
        place.clamp(0.0, 1.0)
    }

    /// The values at which grid lines are drawn.
    fn ticks(self) -> Vec<f64> {
        match self {
            Self::Linear(most) => {
                let step = nice(most / 5.0);
                let count = (most / step + 1e-9).floor() as u32;
                (0..=count).map(|n| f64::from(n) * step).collect()
            }
            Self::Part(least, most) => {
                let above = Self::Linear(most - least).ticks();
                above.into_iter().map(|tick| least + tick).collect()
            }
            Self::Time(most) => {
                let known =
                    [1.0, 10.0, 60.0, 600.0, 3600.0, 36_000.0, 86_400.0 * 2.0, 86_400.0 * 20.0];
                known.into_iter().filter(|tick| *tick <= most).collect()
            }
            Self::Log(least, most) => {
                let (first, last) = (least.log10().floor() as i32, most.log10().floor() as i32);
                // Over a short range the powers of ten alone are too few.
                let steps: &[f64] = if most / least < 100.0 { &[1.0, 2.0, 5.0] } else { &[1.0] };
                let powers = (first..=last).map(|power| 10f64.powi(power));
                let all = powers.flat_map(|power| steps.iter().map(move |step| step * power));
                all.filter(|tick| (least..=most).contains(tick)).collect()
            }
        }
    }
}

/// Rounds a number up to 1, 2 or 5 times a power of ten.
fn nice(value: f64) -> f64 {
    let value = value.max(1e-9);
    let power = 10f64.powf(value.log10().floor());
    let round = [1.0, 2.0, 5.0, 10.0].into_iter().find(|round| round * power >= value);
    round.unwrap_or(10.0) * power
}

/// A chart with its axes.
pub(crate) struct Chart {
    svg: String,
    x: Axis,
    y: Axis,
    height: f64,
}

impl Chart {
    /// An empty chart. The labels say what the axes are.
    pub(crate) fn new(
        (x, x_label, x_text): (Axis, &str, fn(f64) -> String),
        (y, y_label, y_text): (Axis, &str, fn(f64) -> String),
    ) -> Self {
        let mut chart = Self::empty(x, y, HEIGHT);
        for tick in x.ticks() {
            chart.x_tick(tick, &x_text(tick));
        }
        for tick in y.ticks() {
            let place = chart.at_y(tick);
            let (right, text) = (WIDTH - RIGHT, escaped(&y_text(tick)));
            let _ = write!(
                chart.svg,
                "<line class=grid x1={LEFT} x2={right} y1={place:.1} y2={place:.1} />\
                 <text x={} y={:.1} text-anchor=end>{text}</text>",
                LEFT - 6.0,
                place + 4.0
            );
        }
        chart.labels(x_label, y_label);
        chart
    }

    fn empty(x: Axis, y: Axis, height: f64) -> Self {
        let svg = format!("<svg viewBox=\"0 0 {WIDTH} {height}\" role=img>");
        Self { svg, x, y, height }
    }

    fn at_x(&self, value: f64) -> f64 {
        LEFT + self.x.place(value) * (WIDTH - LEFT - RIGHT)
    }

    fn at_y(&self, value: f64) -> f64 {
        self.height - BOTTOM - self.y.place(value) * (self.height - TOP - BOTTOM)
    }

    fn x_tick(&mut self, tick: f64, text: &str) {
        let (place, bottom) = (self.at_x(tick), self.height - BOTTOM);
        let _ = write!(
            self.svg,
            "<line class=grid x1={place:.1} x2={place:.1} y1={TOP} y2={bottom} />\
             <text x={place:.1} y={} text-anchor=middle>{}</text>",
            bottom + 15.0,
            escaped(text)
        );
    }

    fn labels(&mut self, x: &str, y: &str) {
        let (middle, height) = ((WIDTH + LEFT - RIGHT) / 2.0, self.height);
        let across = (height - BOTTOM + TOP) / 2.0;
        let _ = write!(
            self.svg,
            "<text class=label x={middle} y={} text-anchor=middle>{}</text>\
             <text class=label x=14 y={across} text-anchor=middle transform=\"rotate(-90 14 {across})\">{}</text>",
            height - 6.0,
            escaped(x),
            escaped(y)
        );
    }

    /// Adds a line. Its name is shown when the pointer is on it.
    pub(crate) fn line(
        &mut self,
        index: usize,
        name: &str,
        points: impl IntoIterator<Item = (f64, f64)>,
    ) {
        let mut path = String::new();
        for (x, y) in points {
            let letter = if path.is_empty() { 'M' } else { 'L' };
            let _ = write!(path, "{letter}{:.1} {:.1}", self.at_x(x), self.at_y(y));
        }
        let _ = write!(
            self.svg,
            "<path class=line stroke=\"{}\" stroke-dasharray=\"{}\" d=\"{path}\"><title>{}</title></path>",
            colour(index),
            DASHES.get(index % DASHES.len()).copied().unwrap_or("none"),
            escaped(name)
        );
    }

    /// The whole SVG.
    pub(crate) fn finish(mut self) -> String {
        self.svg.push_str("</svg>");
        self.svg
    }
}

/// The share of values that don't exceed a value, in steps of a two-hundredth; the last hundredth is in steps
/// of a ten-thousandth, since a policy is judged by the few jobs with the greatest values.
pub(crate) fn cumulative(mut values: Vec<f64>) -> Vec<(f64, f64)> {
    values.sort_by(f64::total_cmp);
    let most = (0..198).map(|step| f64::from(step) / 200.0);
    let shares = most.chain((0..=100).map(|step| 0.99 + f64::from(step) / 10_000.0));
    let points = shares.filter_map(|share| {
        let last = values.len().checked_sub(1)?;
        values.get((share * last as f64).round() as usize).map(|value| (*value, share))
    });
    points.collect()
}

/// The axis for the shares of several distributions: from 0, or from a round share that all of them have
/// already reached at `least`, so that the curves above it can be told apart.
pub(crate) fn shares(distributions: &[Vec<f64>], least: f64) -> Axis {
    const FLOORS: [f64; 9] = [0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999];
    let share_at_least = |values: &Vec<f64>| {
        let there = values.iter().filter(|value| **value <= least).count();
        there as f64 / values.len().max(1) as f64
    };
    let common = distributions.iter().map(share_at_least).fold(1.0, f64::min);
    // If no value is above `least`, there is nothing to tell apart.
    match FLOORS.into_iter().rfind(|floor| *floor <= common).filter(|_| common < 1.0) {
        Some(floor) => Axis::Part(floor, 1.0),
        None => Axis::Linear(1.0),
    }
}

/// Ranges of groups: from the median to the 99th percentile, with a dot at the mean, a row for each group and policy.
pub(crate) fn ranges(
    rows: &[(String, Vec<Distribution>)],
    axis: fn(f64) -> Axis,
    text: fn(f64) -> String,
) -> String {
    const ROW: f64 = 9.0;
    const GAP: f64 = 7.0;
    let all = || rows.iter().flat_map(|(_, each)| each);
    let most = all().map(|each| each.p99.max(each.mean)).fold(2.0, f64::max);
    let lines: usize = rows.iter().map(|(_, each)| each.len()).sum();
    let height = TOP + BOTTOM + ROW * lines as f64 + GAP * rows.len() as f64;
    let axis = axis(most);
    let mut chart = Chart::empty(axis, Axis::Linear(1.0), height);
    for tick in axis.ticks() {
        chart.x_tick(tick, &text(tick));
    }
    let mut y = TOP;
    for (name, each) in rows {
        y += GAP;
        let middle = y + ROW * each.len() as f64 / 2.0 + 3.0;
        let _ = write!(
            chart.svg,
            "<text x={} y={middle:.1} text-anchor=end>{}</text>",
            // A dot at the left edge must not touch it.
            LEFT - 10.0,
            escaped(name)
        );
        for (index, of) in each.iter().enumerate() {
            let place = y + ROW / 2.0;
            let (from, to, mean) = (chart.at_x(of.median), chart.at_x(of.p99), chart.at_x(of.mean));
            let says = format!(
                "median {}, mean {}, p90 {}, p99 {}, max {}",
                text(of.median),
                text(of.mean),
                text(of.p90),
                text(of.p99),
                text(of.max)
            );
            let _ = write!(
                chart.svg,
                "<g stroke=\"{0}\" fill=\"{0}\"><title>{1}</title>\
                 <line x1={from:.1} x2={to:.1} y1={place:.1} y2={place:.1} stroke-width=4 />\
                 <circle cx={mean:.1} cy={place:.1} r=3.5 /></g>",
                colour(index),
                escaped(&says)
            );
            y += ROW;
        }
    }
    chart.labels("line: median to 99th percentile; dot: mean", "");
    chart.finish()
}

/// A time on an axis, and in the description of a range.
pub(crate) fn short(seconds: f64) -> String {
    let (value, unit) = match seconds {
        s if s < 60.0 => (s, "s"),
        s if s < 3600.0 => (s / 60.0, "min"),
        s if s < 172_800.0 => (s / 3600.0, "h"),
        s => (s / 86_400.0, "d"),
    };
    format!("{} {unit}", (value * 10.0).round() / 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_cannot_leave_their_place() {
        assert_eq!(escaped("<b a=\"1\">&\u{7}"), "&lt;b a=&quot;1&quot;&gt;&amp;\u{fffd}");
    }

    #[test]
    fn times_are_in_the_units_of_people() {
        let texts = [1.0, 60.0, 600.0, 3600.0, 90_000.0, 172_800.0].map(short);
        assert_eq!(texts, ["1 s", "1 min", "10 min", "1 h", "25 h", "2 d"]);
    }

    #[test]
    fn axes_have_round_ticks() {
        assert_eq!(Axis::Linear(1.0).ticks(), [0.0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0]);
        assert_eq!(Axis::Linear(92.0).ticks(), [0.0, 20.0, 40.0, 60.0, 80.0]);
        assert_eq!(Axis::Log(1.0, 5000.0).ticks(), [1.0, 10.0, 100.0, 1000.0]);
        assert_eq!(Axis::Log(1.0, 30.0).ticks(), [1.0, 2.0, 5.0, 10.0, 20.0]);
        assert_eq!(Axis::Log(1.0, 100.0).place(10.0), 0.5);
        assert_eq!(Axis::Log(1.0, 100.0).place(0.0), 0.0);
    }

    #[test]
    fn the_axis_of_shares_begins_where_the_distributions_part() {
        let mostly = |zeros: usize| [vec![0.0; zeros], vec![500.0; 1000 - zeros]].concat();
        assert_eq!(shares(&[mostly(997), mostly(960)], 1.0), Axis::Part(0.95, 1.0));
        assert_eq!(shares(&[mostly(300), mostly(960)], 1.0), Axis::Linear(1.0));
        assert_eq!(shares(&[mostly(1000)], 1.0), Axis::Linear(1.0));
        assert_eq!(Axis::Part(0.5, 1.0).place(0.75), 0.5);
        assert_eq!(Axis::Part(0.5, 1.0).ticks(), [0.5, 0.6, 0.7, 0.8, 0.9, 1.0]);
    }

    #[test]
    fn a_cumulative_distribution_goes_from_the_least_to_the_greatest() {
        let points = cumulative(vec![5.0, 1.0, 3.0]);
        assert_eq!((points[0], points[100]), ((1.0, 0.0), (3.0, 0.5)));
        assert_eq!(points.last(), Some(&(5.0, 1.0)));
        assert!(points.is_sorted_by(|a, b| a.1 < b.1));
        assert!(cumulative(Vec::new()).is_empty());
    }
}
