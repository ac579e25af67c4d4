//! `/metrics`, for Prometheus: numbers about what the manager does, to be read from time to time.
//!
//! Nothing is counted here. A request reads what the parts of the manager count anyway; it reads the engine's numbers
//! in one turn.

use jobtap_core::engine::Engine;
use jobtap_core::host::HandlerStats;
use prometheus::proto::{
    Bucket, Counter, Gauge, Histogram, LabelPair, Metric, MetricFamily, MetricType,
};
use prometheus::{Encoder, TextEncoder};
use serde_json::Value;

use crate::composition;
use crate::daemon::engine::{answered, refusal};
use crate::daemon::request_parts::RequestParts;
use crate::daemon::services;
use crate::rpc::RpcError;
use crate::rpc::errno::{EIO, EPERM};
use crate::stderr;
use crate::store::CommitTimes;

/// The content type of the text.
pub(super) const TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The bounds of the histogram of callbacks, as exponents of 2 in nanoseconds: about a microsecond to a second.
const CALLBACK_BOUNDS: std::ops::RangeInclusive<usize> = 10..=30;

/// The metrics as text.
///
/// # Errors
/// EPERM for a client from whom jobs are hidden: the numbers are about the jobs of all users.
pub(super) async fn text(parts: &RequestParts, hidden: bool) -> Result<String, RpcError> {
    if hidden {
        return Err(RpcError::new(
            EPERM,
            "the numbers of all jobs are hidden: access.private-mode",
        ));
    }
    let engine = answered(parts.engine.read(OfEngine::read)).await?;
    let mut families = engine.families();
    families.push(counter(
        "jobtap_events_total",
        "Events of jobs since the start.",
        parts.journal.published(),
    ));
    families.push(commits(&parts.commits));
    families.push(requests());
    families.push(counter(
        "jobtap_log_lines_dropped_total",
        "Lines of the log that could not be written to standard error.",
        stderr::dropped(),
    ));
    families.push(gauge(
        "jobtap_start_time_seconds",
        "When the process was started, in seconds since the UNIX epoch.",
        started(parts),
    ));
    families.push(build_info());
    // The encoder refuses families without a metric, such as that of queues before the first job.
    families.retain(|family| !family.get_metric().is_empty());
    let mut text = Vec::new();
    let encoded = TextEncoder::new().encode(&families, &mut text);
    encoded.map_err(|error| RpcError::new(EIO, error.to_string()))?;
    String::from_utf8(text).map_err(|error| RpcError::new(EIO, error.to_string()))
}

/// A count in a handler's statistics.
type Count = fn(&HandlerStats) -> u64;

/// The engine's numbers, read in one turn.
struct OfEngine {
    jobs: Value,
    waiting: Value,
    plugins: Vec<(String, Vec<HandlerStats>)>,
    faulted: Vec<(String, bool)>,
}

impl OfEngine {
    fn read(engine: &Engine) -> Result<Self, RpcError> {
        let plugins = engine.plugins();
        let faulted = plugins.iter().map(|plugin| (plugin.name.to_string(), plugin.faulted));
        Ok(Self {
            jobs: engine.job_stats(),
            waiting: engine.alloc_query(),
            faulted: faulted.collect(),
            plugins: engine.plugin_stats(None).map_err(refusal)?,
        })
    }

    fn families(&self) -> Vec<MetricFamily> {
        let mut all = vec![
            family(
                "jobtap_jobs",
                "Jobs by their state.",
                MetricType::GAUGE,
                states(&self.jobs, &[]),
            ),
            family(
                "jobtap_inactive_jobs",
                "Jobs that have ended and are still kept, by their result.",
                MetricType::GAUGE,
                results(&self.jobs),
            ),
            family(
                "jobtap_queue_jobs",
                "Jobs of each queue, by their state.",
                MetricType::GAUGE,
                self.queues(),
            ),
            gauge(
                "jobtap_alloc_pending_jobs",
                "Jobs that wait for resources.",
                number(self.waiting.get("alloc_pending")),
            ),
            family(
                "jobtap_plugin_faulted",
                "Whether a plugin is out of service after repeated panics.",
                MetricType::GAUGE,
                self.faulted
                    .iter()
                    .map(|(plugin, faulted)| {
                        gauge_with(&[("plugin", plugin)], f64::from(u8::from(*faulted)))
                    })
                    .collect(),
            ),
        ];
        let counts: [(&str, &str, Count); 3] = [
            ("jobtap_callbacks_total", "Calls of handlers of plugins.", |stats| stats.calls),
            (
                "jobtap_callback_errors_total",
                "Calls of handlers that returned an error, refusals included.",
                |stats| stats.errors,
            ),
            ("jobtap_callback_panics_total", "Calls of handlers that panicked.", |stats| {
                stats.panics
            }),
        ];
        for (name, help, count) in counts {
            let metrics = self.handlers(|labels, stats| counter_with(labels, count(stats)));
            all.push(family(name, help, MetricType::COUNTER, metrics));
        }
        let times = self.handlers(|labels, stats| {
            let mut metric = Metric::from_label(pairs(labels));
            metric.set_histogram(of_callbacks(stats));
            metric
        });
        all.push(family(
            "jobtap_callback_duration_seconds",
            "Time of calls of handlers, of which some are timed. The sum is an estimate.",
            MetricType::HISTOGRAM,
            times,
        ));
        all
    }

    fn queues(&self) -> Vec<Metric> {
        let queues = self.jobs.get("queues").and_then(Value::as_array).into_iter().flatten();
        let named = queues.filter_map(|queue| Some((queue.get("name")?.as_str()?, queue)));
        named.flat_map(|(name, queue)| states(queue, &[("queue", name)])).collect()
    }

    fn handlers(&self, metric: impl Fn(&[(&str, &str)], &HandlerStats) -> Metric) -> Vec<Metric> {
        let mut all = Vec::new();
        for (plugin, handlers) in &self.plugins {
            for stats in handlers {
                let labels =
                    [("handler", stats.method), ("plugin", plugin), ("topic", &stats.topic)];
                all.push(metric(&labels, stats));
            }
        }
        all
    }
}

/// Jobs by state, of `job-list.job-stats` or of a queue in it.
fn states(tally: &Value, labels: &[(&str, &str)]) -> Vec<Metric> {
    let states = tally.get("job_states").and_then(Value::as_object).into_iter().flatten();
    let states = states.filter(|(state, _)| *state != "total");
    states
        .map(|(state, count)| {
            let mut labels = labels.to_vec();
            labels.push(("state", state));
            gauge_with(&labels, number(Some(count)))
        })
        .collect()
}

fn results(tally: &Value) -> Vec<Metric> {
    let named = [
        ("completed", "successful"),
        ("failed", "failed"),
        ("canceled", "canceled"),
        ("timeout", "timeout"),
    ];
    named
        .iter()
        .map(|(result, key)| gauge_with(&[("result", result)], number(tally.get(*key))))
        .collect()
}

fn of_callbacks(stats: &HandlerStats) -> Histogram {
    let timed: u64 = stats.samples.iter().map(|calls| u64::from(*calls)).sum();
    let buckets = CALLBACK_BOUNDS.step_by(2).map(|exponent| {
        // `samples[n]` counts calls that took from 2^n to 2^(n+1) ns.
        let below: u64 = stats.samples.iter().take(exponent).map(|calls| u64::from(*calls)).sum();
        bucket(nanoseconds(exponent), below)
    });
    // Each call is taken to be in the middle of its bucket.
    let sum =
        stats.samples.iter().enumerate().map(|(n, calls)| 1.5 * nanoseconds(n) * f64::from(*calls));
    histogram(buckets.collect(), timed, sum.sum())
}

/// 2^`exponent` ns in seconds.
fn nanoseconds(exponent: usize) -> f64 {
    (exponent as f64).exp2() * 1e-9
}

fn commits(times: &CommitTimes) -> MetricFamily {
    let mut below = 0;
    let buckets = times.buckets().map(|(bound, count)| {
        below += count;
        bucket(bound.as_secs_f64(), below)
    });
    let buckets = buckets.collect();
    let mut metric = Metric::from_label(Vec::new());
    // At least the sum of the buckets: a commit may end between the two reads.
    metric.set_histogram(histogram(buckets, times.count().max(below), times.sum().as_secs_f64()));
    let help = "Time in which the store makes a group of changes durable.";
    family("jobtap_commit_duration_seconds", help, MetricType::HISTOGRAM, vec![metric])
}

fn requests() -> MetricFamily {
    let counts = services::received().into_iter();
    let metrics = counts.map(|(topic, count)| counter_with(&[("service", topic)], count)).collect();
    let help = "Requests of clients, by service; those of plugins that have no row together.";
    family("jobtap_requests_total", help, MetricType::COUNTER, metrics)
}

fn build_info() -> MetricFamily {
    let sdk = env!("CARGO_PKG_VERSION");
    let (name, version) = match composition::own() {
        Some(own) => (own.name.as_str(), own.version.clone()),
        None => ("jobtap", sdk.to_owned()),
    };
    let labels = [("name", name), ("sdk", sdk), ("version", version.as_str())];
    let help = "The manager's name and version, and the version of the SDK. Always 1.";
    family("jobtap_build_info", help, MetricType::GAUGE, vec![gauge_with(&labels, 1.0)])
}

fn started(parts: &RequestParts) -> f64 {
    let started = parts.attributes.get("broker.starttime");
    started.and_then(|started| started.parse().ok()).unwrap_or_default()
}

fn number(value: Option<&Value>) -> f64 {
    value.and_then(Value::as_f64).unwrap_or_default()
}

fn family(name: &str, help: &str, kind: MetricType, metrics: Vec<Metric>) -> MetricFamily {
    let mut family = MetricFamily::default();
    family.set_name(name.to_owned());
    family.set_help(help.to_owned());
    family.set_field_type(kind);
    family.set_metric(metrics);
    family
}

fn pairs(labels: &[(&str, &str)]) -> Vec<LabelPair> {
    let pair = |(name, value): &(&str, &str)| {
        let mut pair = LabelPair::default();
        pair.set_name((*name).to_owned());
        pair.set_value((*value).to_owned());
        pair
    };
    labels.iter().map(pair).collect()
}

fn gauge_with(labels: &[(&str, &str)], value: f64) -> Metric {
    let mut gauge = Gauge::default();
    gauge.set_value(value);
    let mut metric = Metric::from_label(pairs(labels));
    metric.set_gauge(gauge);
    metric
}

fn counter_with(labels: &[(&str, &str)], value: u64) -> Metric {
    let mut counter = Counter::default();
    counter.set_value(value as f64);
    let mut metric = Metric::from_label(pairs(labels));
    metric.set_counter(counter);
    metric
}

fn gauge(name: &str, help: &str, value: f64) -> MetricFamily {
    family(name, help, MetricType::GAUGE, vec![gauge_with(&[], value)])
}

fn counter(name: &str, help: &str, value: u64) -> MetricFamily {
    family(name, help, MetricType::COUNTER, vec![counter_with(&[], value)])
}

fn bucket(bound: f64, count: u64) -> Bucket {
    let mut bucket = Bucket::default();
    bucket.set_upper_bound(bound);
    bucket.set_cumulative_count(count);
    bucket
}

fn histogram(buckets: Vec<Bucket>, count: u64, sum: f64) -> Histogram {
    let mut histogram = Histogram::default();
    histogram.set_bucket(buckets);
    histogram.set_sample_count(count);
    histogram.set_sample_sum(sum);
    histogram
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_histogram_of_callbacks_counts_each_timed_call_once() {
        let mut samples = vec![0; 40];
        // 512 ns to 1 µs, 1 to 2 µs, and longer than all bounds.
        for (n, calls) in [(9, 3), (10, 5), (35, 7)] {
            samples[n] = calls;
        }
        let topic = "job.new".to_owned();
        let stats =
            HandlerStats { topic, method: "seen", calls: 99, errors: 0, panics: 0, samples };
        let histogram = of_callbacks(&stats);
        let counts: Vec<u64> =
            histogram.get_bucket().iter().map(Bucket::cumulative_count).collect();
        assert_eq!(counts[..3], [3, 8, 8]);
        assert_eq!(counts.last(), Some(&8));
        assert_eq!(histogram.get_sample_count(), 15);
        assert!((histogram.get_bucket()[0].upper_bound() - 1.024e-6).abs() < 1e-12);
        // 7 calls of about 52 seconds.
        assert!((histogram.get_sample_sum() - 360.8).abs() < 0.1, "{}", histogram.get_sample_sum());
    }

    #[test]
    fn states_results_errors_panics_and_faults_are_told_apart() {
        let topic = "job.new".to_owned();
        let stats =
            HandlerStats { topic, method: "seen", calls: 9, errors: 3, panics: 2, samples: vec![] };
        let engine = OfEngine {
            jobs: json!({"job_states": {"run": 5, "total": 6}, "successful": 1, "failed": 2,
                         "canceled": 3, "timeout": 4}),
            waiting: Value::Null,
            plugins: vec![("quota".to_owned(), vec![stats])],
            faulted: vec![("quota".to_owned(), true), ("limits".to_owned(), false)],
        };
        let families: Vec<_> =
            engine.families().into_iter().filter(|it| !it.get_metric().is_empty()).collect();
        let mut text = Vec::new();
        TextEncoder::new().encode(&families, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let of = r#"{handler="seen",plugin="quota",topic="job.new"}"#;
        for line in [
            format!("jobtap_callbacks_total{of} 9"),
            format!("jobtap_callback_errors_total{of} 3"),
            format!("jobtap_callback_panics_total{of} 2"),
            r#"jobtap_jobs{state="run"} 5"#.to_owned(),
            r#"jobtap_inactive_jobs{result="completed"} 1"#.to_owned(),
            r#"jobtap_inactive_jobs{result="failed"} 2"#.to_owned(),
            r#"jobtap_inactive_jobs{result="canceled"} 3"#.to_owned(),
            r#"jobtap_inactive_jobs{result="timeout"} 4"#.to_owned(),
            r#"jobtap_plugin_faulted{plugin="quota"} 1"#.to_owned(),
            r#"jobtap_plugin_faulted{plugin="limits"} 0"#.to_owned(),
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is missing in\n{text}");
        }
        assert!(!text.contains("total\"}"), "the sum of the states is no state: {text}");
    }
}
