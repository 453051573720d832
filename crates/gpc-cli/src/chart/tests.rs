//! Tests of charts.

use super::*;

fn line(name: &str, times: &[(u32, u64)]) -> Line {
    Line { name: name.into(), points: times.iter().map(|&(at, ns)| Point::exact(at, ns)).collect() }
}

fn chart(lines: Vec<Line>) -> Chart {
    let (title, notes) = ("Time".into(), vec!["of one call".into()]);
    Chart { title, notes, axis: "ids", number: |n| n.to_string(), lines }
}

/// Returns the values of an attribute, in order.
fn values<'a>(svg: &'a str, attribute: &str) -> Vec<&'a str> {
    let before = format!(" {attribute}=\"");
    let parts = svg.split(before.as_str()).skip(1);
    parts.map(|part| part.split('"').next().unwrap()).collect()
}

#[test]
fn a_chart_has_a_point_for_every_size_and_tree() {
    assert_eq!(sizes(10), [2, 4, 8, 10]);
    assert_eq!(sizes(1), [1]);
    let svg = draw(&chart(vec![line("flat", &[(2, 50_000), (4, 70_000)]), line("a<b", &[(2, 1), (4, 9)])]));
    assert_eq!(svg.matches("<title>").count(), 4);
    assert!(svg.contains("<title>flat, 4 ids: 70.0 µs</title>") && svg.contains(">a&lt;b</text>"), "{svg}");
    assert!(svg.contains(">4</text>") && !svg.contains("NaN") && !svg.contains("inf"), "{svg}");
}

/// The seventh line had the colour of the first, and its sample in the legend did not show its dashes.
#[test]
fn every_line_is_told_from_every_other_in_the_legend_too() {
    let lines = (0..30).map(|number| line(&number.to_string(), &[(2, number + 1), (4, 900 * (number + 1))]));
    let svg = draw(&chart(lines.collect()));
    let samples: Vec<&str> = svg.lines().filter(|line| line.contains("h30\"")).collect();
    let look =
        |sample: &str| (values(sample, "stroke").concat(), values(sample, "stroke-dasharray").concat());
    let mut looks: Vec<_> = samples.iter().map(|sample| look(sample)).collect();
    assert_eq!(looks.len(), 30);
    looks.sort();
    looks.dedup();
    assert_eq!(looks.len(), 30, "{looks:?}");
    let dashed = samples.iter().filter(|sample| sample.contains("dasharray=\"12 4\"")).count();
    assert_eq!(dashed, 12, "the samples of the lines whose colours come again");
    assert!(svg.contains("height=\"706\""), "a long legend has room");
}

/// Chain and flat over two ids take the same time, and the picture showed only one of them.
#[test]
fn equal_lines_do_not_hide_each_other() {
    let same = [(2, 100), (4, 200), (8, 400)];
    let other = [(2, 100), (4, 300), (8, 500)];
    let svg = draw(&chart(vec![line("a", &same), line("b", &other), line("c", &same), line("d", &same)]));
    let pieces: Vec<&str> = svg.lines().filter(|line| line.starts_with("<path fill=\"none\"")).collect();
    assert_eq!(pieces.len(), 4 * 2);
    let stripes = |piece: usize| {
        ["stroke-dasharray", "stroke-dashoffset"].map(|name| values(pieces[piece], name).concat())
    };
    // Each of three lines in the same place has a third of it.
    for first in [0, 1] {
        let of = ["-0.0", "-8.0", "-16.0"].map(|offset| ["8.0 16.0".to_owned(), offset.to_owned()]);
        assert_eq!([first, first + 4, first + 6].map(stripes), of);
    }
    assert_eq!(stripes(2).concat(), "", "one point in common hides no line");
    // Where points lie upon each other, a ring of each is visible.
    let at_two: Vec<&str> = svg.lines().filter(|line| line.contains(", 2 ids: ")).collect();
    let radii: Vec<&str> = at_two.iter().map(|line| values(line, "r")[0]).collect();
    assert_eq!(radii, ["7.8", "6.2", "4.6", "3.0"]);
}

#[test]
fn error_bars_stand_beside_each_other() {
    let uncertain = |name: &str| {
        let mut line = line(name, &[(2, 100), (4, 200)]);
        line.points.iter_mut().for_each(|point| point.interval_ns = Some((point.ns / 2, point.ns * 2)));
        line
    };
    let svg = draw(&chart(vec![uncertain("a"), uncertain("b"), uncertain("c")]));
    let mut places = values(&svg, "cx");
    // The last three are samples of the legend.
    places.truncate(6);
    let at_two: Vec<f64> = [0, 2, 4].iter().map(|&place: &usize| places[place].parse().unwrap()).collect();
    assert!(at_two[1] - at_two[0] >= 7.0 && at_two[2] - at_two[1] >= 7.0, "{at_two:?}");
    assert_eq!(svg.matches("h6M").count(), 6);
    assert!(svg.contains("2 ids: 100 ns (50 ns to 200 ns)"), "{svg}");
}

/// A single row was at the left edge of an axis from its number to twice that.
#[test]
fn a_single_number_stands_in_the_middle() {
    let svg = draw(&chart(vec![line("a", &[(8, 24_000)])]));
    let x: f64 = values(&svg, "cx")[0].parse().unwrap();
    assert!((x - (LEFT + PLOT_WIDTH / 2.0)).abs() < 1.0, "{x}");
    assert!(
        svg.contains(">8</text>") && !svg.contains(">16</text>") && svg.contains(">20 µs</text>"),
        "{svg}"
    );
    let several = draw(&chart(vec![line("a", &[(8, 24_000)]), line("b", &[(8, 24_000)])]));
    assert_ne!(values(&several, "cx")[0], values(&several, "cx")[1]);
}

#[test]
fn nothing_breaks_a_picture() {
    assert!(!draw(&chart(vec![])).contains("NaN"));
    let name = "x<".repeat(1000);
    let svg = draw(&chart(vec![line(&name, &[(0, 0), (u32::MAX, u64::MAX)]), line("empty", &[])]));
    assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    let title = "long ".repeat(60);
    let svg = draw(&Chart { title, ..chart(vec![line("a", &[(1, 1), (0, 1)])]) });
    assert!(values(&svg, "width")[0].parse::<f64>().unwrap() > 2500.0 && !svg.contains("NaN"));
}
