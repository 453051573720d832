//! The time line of a traced call as a file: an SVG picture, or the JSON that Perfetto and Chrome (`about:tracing`)
//! read.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use chained_gpc::runtime::{Trace, TracedId};
use serde_json::{Value, json};

use super::path::shown;
use crate::files::write_text;
use crate::xml::Escaped;

/// Rows of a picture: what browsers still show.
const ROWS_MAX: usize = 4_096;

/// Measures of the picture, in pixels.
const WIDTH: f64 = 1_000.0;
const LEFT: f64 = 70.0;
const TOP: f64 = 76.0;
const ROW: f64 = 16.0;

/// Marks of the time axis.
const MARKS: u32 = 5;

/// Form of a time line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    /// A picture.
    Svg,
    /// Events for Perfetto and Chrome.
    Json,
}

impl Form {
    /// The form that the name of a file asks for.
    ///
    /// # Errors
    /// If it ends with neither `.svg` nor `.json`.
    pub(crate) fn of(path: &Path) -> Result<Form, String> {
        match path.extension().and_then(|end| end.to_str()) {
            Some("svg") => Ok(Form::Svg),
            Some("json") => Ok(Form::Json),
            _ => Err(format!(
                "--trace-file {}: the name must end with .svg (a picture) or .json (for Perfetto)",
                path.display()
            )),
        }
    }
}

/// Writes the time line to a file.
///
/// # Errors
/// If the name has another end, or the file cannot be written.
pub(crate) fn save(trace: &Trace, func: &str, path: &Path) -> Result<(), String> {
    let text = match Form::of(path)? {
        Form::Svg => svg(trace, func),
        Form::Json => events(trace, func).to_string() + "\n",
    };
    write_text(path, &text)
}

/// Spans of one id, each with its name and its begin since the call began.
fn spans<'a>(one: &TracedId, func: &'a str) -> [(&'a str, Duration, Duration); 3] {
    let began = one.begins + one.queue;
    let end = one.begins + one.total;
    [
        ("queue", one.begins, one.queue),
        (func, began, one.func),
        // Callbacks run between answers; the last one ends with the call.
        ("callbacks", end.saturating_sub(one.callbacks), one.callbacks),
    ]
}

/// The events of a trace: a call, and inside it what the id did.
fn events(trace: &Trace, func: &str) -> Value {
    let micros = |time: Duration| time.as_nanos() as f64 / 1e3;
    let event = |name: &str, id, begins, length| json!({ "name": name, "ph": "X", "pid": 0, "tid": id, "ts": micros(begins), "dur": micros(length) });
    let mut events = Vec::new();
    for one in trace.ids().iter().filter(|one| one.is_known) {
        events.push(json!({
            "name": "thread_name", "ph": "M", "pid": 0, "tid": one.id, "args": { "name": format!("id {}", one.id) }
        }));
        events.push(event("call", one.id, one.begins, one.total));
        let parts = spans(one, func).into_iter().filter(|(_, _, length)| !length.is_zero());
        events.extend(parts.map(|(name, begins, length)| event(name, one.id, begins, length)));
    }
    json!({ "traceEvents": events, "displayTimeUnit": "ms" })
}

/// The picture: a row for each id in tree order; those of the critical path have a darker outline.
fn svg(trace: &Trace, func: &str) -> String {
    let ids: Vec<&TracedId> = trace.ids().iter().take(ROWS_MAX).collect();
    let whole = trace.ids().iter().map(|one| one.begins + one.total).max().unwrap_or_default();
    let scale = (WIDTH - LEFT - 20.0) / whole.as_secs_f64().max(1e-9);
    let x = |time: Duration| LEFT + time.as_secs_f64() * scale;
    let height = TOP + ROW * ids.len() as f64 + 20.0;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" \
         font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text x=\"10\" y=\"20\" font-size=\"15\">{} over {} ids, {}</text>\n",
        Escaped(func),
        trace.ids().len(),
        shown(trace.total()),
    );
    write_axis(&mut text, whole, height, x);
    let path: Vec<_> = trace.path().iter().map(|one| one.id).collect();
    for (row, one) in ids.into_iter().enumerate() {
        let y = TOP + ROW * row as f64;
        let tip = if one.is_known { tip(one) } else { format!("id {}: no times", one.id) };
        let _ = write!(text, "<g><title>{tip}</title>");
        let mut bar = |begins: Duration, length: Duration, colour: &str, more: &str| {
            let width = (length.as_secs_f64() * scale).max(0.5);
            let _ = write!(
                text,
                "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"{}\" fill=\"{colour}\"{more}/>",
                x(begins),
                y,
                ROW - 4.0
            );
        };
        let on_path = path.contains(&one.id);
        let outline = if on_path { " stroke=\"#b91c1c\"" } else { " stroke=\"#bbb\"" };
        if one.is_known {
            bar(one.begins, one.total, "#f3f4f6", outline);
        }
        let spans = spans(one, func).into_iter().zip(["#fbbf24", "#2563eb", "#10b981"]);
        for ((_, begins, length), colour) in spans.filter(|((.., length), _)| !length.is_zero()) {
            bar(begins, length, colour, "");
        }
        if !one.is_known {
            let y = y + ROW - 6.0;
            let _ = write!(text, "<text x=\"{LEFT}\" y=\"{y:.1}\" fill=\"#b91c1c\">no times</text>");
        }
        let weight = if on_path { " font-weight=\"bold\"" } else { "" };
        let _ = writeln!(
            text,
            "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\"{weight}>id {}</text></g>",
            LEFT - 8.0,
            y + ROW - 6.0,
            one.id
        );
    }
    let legend =
        "yellow: waits for a worker; blue: function; green: callbacks; red outline, bold: critical path";
    let _ = writeln!(text, "<text x=\"10\" y=\"38\" fill=\"#666\">{legend}</text>\n</svg>");
    text
}

/// Writes the time axis; `x` is the place of a time.
fn write_axis(text: &mut String, whole: Duration, height: f64, x: impl Fn(Duration) -> f64) {
    for mark in 0..=MARKS {
        let time = whole * mark / MARKS;
        // The last one would end outside of the picture.
        let anchor = if mark == MARKS { "end" } else { "middle" };
        let _ = writeln!(
            text,
            "<line x1=\"{0:.1}\" x2=\"{0:.1}\" y1=\"{1}\" y2=\"{2}\" stroke=\"#ddd\"/><text x=\"{0:.1}\" y=\"{3}\" \
             text-anchor=\"{anchor}\" fill=\"#666\">{4}</text>",
            x(time),
            TOP - 8.0,
            height - 10.0,
            TOP - 12.0,
            shown(time)
        );
    }
}

/// The text that a viewer shows for a row under the pointer.
fn tip(one: &TracedId) -> String {
    let [queue, func, callbacks, link, total] =
        [one.queue, one.func, one.callbacks, one.link, one.total].map(shown);
    format!("id {}: queue {queue}, func {func}, callbacks {callbacks}, link {link}, total {total}", one.id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_follows_from_the_name() {
        let of = |name: &str| Form::of(Path::new(name));
        assert_eq!((of("a.svg"), of("b/c.json")), (Ok(Form::Svg), Ok(Form::Json)));
        assert!(of("a.png").unwrap_err().contains("must end with .svg (a picture) or .json"));
    }
}
