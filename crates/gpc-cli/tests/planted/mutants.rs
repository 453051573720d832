//! Automatic mutants: small changes of a source file, each of which is a planted bug.
//!
//! A mutant has the form of the files of bugs, with enough text around it to make its place unique. So all mutants are
//! in one build, each behind its switch.

use std::ops::Range;

use proc_macro2::Span;
use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};
use syn::{BinOp, Block, Expr, ExprClosure, Lit, ReturnType, Stmt, Type};

use super::bug::{Bug, Piece, SWITCH};
use super::counters::binds;

/// Maximum number of lines before a place that make its text unique.
const LINES_BEFORE: usize = 12;

/// Calls, and the calls that replace them.
const METHODS: [(&str, &str); 24] = [
    ("min", "max"),
    ("max", "min"),
    ("any", "all"),
    ("all", "any"),
    ("is_some", "is_none"),
    ("is_none", "is_some"),
    ("is_ok", "is_err"),
    ("is_err", "is_ok"),
    ("is_some_and", "is_none_or"),
    ("is_none_or", "is_some_and"),
    ("first", "last"),
    ("last", "first"),
    ("front", "back"),
    ("back", "front"),
    ("pop_front", "pop_back"),
    ("pop_back", "pop_front"),
    ("push_back", "push_front"),
    ("push_front", "push_back"),
    ("saturating_add", "saturating_sub"),
    ("saturating_sub", "saturating_add"),
    ("wrapping_add", "wrapping_sub"),
    ("take", "clone"),
    ("min_by_key", "max_by_key"),
    ("max_by_key", "min_by_key"),
];

/// Calls whose closure is a condition.
const CONDITIONS: [&str; 11] = [
    "filter",
    "any",
    "all",
    "retain",
    "find",
    "position",
    "take_while",
    "skip_while",
    "is_some_and",
    "is_none_or",
    "partition_point",
];

/// Functions that only display, compare or hash: no protocol depends on them.
const LEFT_OUT: [&str; 4] = ["fmt", "hash", "source", "description"];

/// A change of a text.
struct Mutant {
    at: Range<usize>,
    replacement: String,
    what: &'static str,
}

/// Returns all mutants of a file's text, in the order of their places.
///
/// # Errors
/// The error of the parser, with the file.
pub(super) fn mutants(file: &str, text: &str) -> Result<Vec<Bug>, String> {
    let parsed = syn::parse_file(text).map_err(|error| format!("{file}: it is no Rust: {error}"))?;
    let mut finder = Finder { text, found: Vec::new() };
    finder.visit_file(&parsed);
    let mut found = finder.found;
    found.sort_by_key(|mutant| (mutant.at.start, mutant.at.end));
    let bugs = found.into_iter().filter_map(|mutant| bug(file, text, mutant));
    let mut bugs: Vec<Bug> = bugs.collect();
    for (bug, number) in bugs.iter_mut().zip(1..) {
        let short = file.trim_start_matches("src/").trim_end_matches(".rs");
        bug.name = format!("{short}:{number}");
    }
    Ok(bugs)
}

/// Returns the bug of a mutant, with enough text around it to make it unique; `None` if that is impossible.
fn bug(file: &str, text: &str, mutant: Mutant) -> Option<Bug> {
    let Mutant { at, replacement, what } = mutant;
    let line_begin = |before: usize| text[..before].rfind('\n').map_or(0, |end| end + 1);
    let indented = |begin: usize| begin + text[begin..].len() - text[begin..].trim_start().len();
    let mut begin = at.start;
    let end = at.end + text[at.end..].find('\n').unwrap_or(text.len() - at.end);
    let once = |range: Range<usize>| text.match_indices(&text[range]).nth(1).is_none();
    let mut lines = 0;
    let mut until = at.end;
    while !once(begin..until) {
        let whole = indented(line_begin(at.start));
        (begin, until) = match lines {
            0 => (whole.min(at.start), end),
            LINES_BEFORE => return None,
            _ => {
                let before = line_begin(begin).checked_sub(1)?;
                (indented(line_begin(before)).min(before), end)
            }
        };
        lines += 1;
    }
    let find = text[begin..until].to_owned();
    let replacement = format!("{}{replacement}{}", &text[begin..at.start], &text[at.end..until]);
    // The form of the files cannot express a text that begins or ends with an empty line.
    let shown = !find.trim().is_empty() && !find.starts_with('\n') && !find.ends_with('\n');
    let piece = Piece { file: file.into(), find, replacement };
    let line = text[..at.start].matches('\n').count() + 1;
    shown.then(|| Bug { breaks: format!("{what}, at line {line}"), pieces: vec![piece], ..Bug::default() })
}

/// Walks over a file, and records possible changes.
struct Finder<'a> {
    text: &'a str,
    found: Vec<Mutant>,
}

impl<'a> Finder<'a> {
    fn slice(&self, span: Span) -> &'a str {
        &self.text[span.byte_range()]
    }

    fn add(&mut self, span: Span, what: &'static str, replacement: String) {
        self.found.push(Mutant { at: span.byte_range(), replacement, what });
    }

    /// Replaces an expression by another one of the same type.
    fn instead(&mut self, span: Span, what: &'static str, other: &str) {
        let plain = self.slice(span);
        self.add(span, what, format!("(if {SWITCH} {{ {other} }} else {{ {plain} }})"));
    }

    /// Makes a condition always true, and always false. Of several with `&&` each is changed separately; those that
    /// bind names are left alone.
    fn condition(&mut self, condition: &Expr) {
        match condition {
            Expr::Binary(both) if matches!(both.op, BinOp::And(_)) => {
                self.condition(&both.left);
                self.condition(&both.right);
            }
            Expr::Let(_) => {}
            Expr::Paren(inner) => self.condition(&inner.expr),
            other => {
                let plain = self.slice(other.span());
                self.add(other.span(), "a condition always holds", format!("({SWITCH} || ({plain}))"));
                self.add(other.span(), "a condition never holds", format!("(!{SWITCH} && ({plain}))"));
            }
        }
    }

    fn binary(&mut self, binary: &syn::ExprBinary) {
        let others: &[&str] = match binary.op {
            _ if binds(&binary.left) || binds(&binary.right) => &[],
            BinOp::And(_) => &["||"],
            BinOp::Or(_) => &["&&"],
            BinOp::Eq(_) => &["!="],
            BinOp::Ne(_) => &["=="],
            BinOp::Lt(_) => &["<=", ">="],
            BinOp::Le(_) => &["<", ">"],
            BinOp::Gt(_) => &[">=", "<="],
            BinOp::Ge(_) => &[">", "<"],
            BinOp::Add(_) => &["-"],
            BinOp::Sub(_) => &["+"],
            _ => &[],
        };
        let (left, right) = (self.slice(binary.left.span()), self.slice(binary.right.span()));
        for other in others {
            self.instead(binary.span(), "another operator", &format!("{left} {other} {right}"));
        }
    }

    fn method(&mut self, call: &syn::ExprMethodCall) {
        let name = call.method.to_string();
        let whole = self.slice(call.span());
        let at = call.method.span().byte_range().start - call.span().byte_range().start;
        for (_, other) in METHODS.iter().filter(|(one, _)| *one == name) {
            let changed = format!("{}{other}{}", &whole[..at], &whole[at + name.len()..]);
            self.instead(call.span(), "another method", &changed);
        }
        if let Some(Expr::Closure(ExprClosure { body, .. })) = call.args.first()
            && CONDITIONS.contains(&name.as_str())
            && !matches!(**body, Expr::Block(_))
        {
            self.condition(body);
        }
        self.swapped(call.args.iter(), call.span());
    }

    /// Swaps neighbouring arguments. Most have different types, and do not compile then.
    fn swapped<'b>(&mut self, args: impl Iterator<Item = &'b Expr>, whole: Span) {
        let args: Vec<&Expr> = args.collect();
        let begin = whole.byte_range().start;
        for pair in args.windows(2) {
            let (one, two) = (pair[0].span().byte_range(), pair[1].span().byte_range());
            let text = self.slice(whole);
            let (a, b) = (one.start - begin..one.end - begin, two.start - begin..two.end - begin);
            let changed =
                [&text[..a.start], &text[b.clone()], &text[a.end..b.start], &text[a], &text[b.end..]];
            self.instead(whole, "two arguments swapped", &changed.concat());
        }
    }

    fn literal(&mut self, span: Span, literal: &Lit) {
        let plain = self.slice(span);
        match literal {
            Lit::Bool(_) => self.add(span, "the opposite", format!("({SWITCH} != {plain})")),
            Lit::Int(_) => self.instead(span, "one more", &format!("{plain} + 1")),
            _ => {}
        }
    }

    /// Omits a statement.
    fn dropped(&mut self, statement: &Stmt) {
        let Stmt::Expr(expr, Some(_)) = statement else { return };
        let what = match expr {
            Expr::Return(_) | Expr::Break(_) | Expr::Continue(_) => "it does not leave",
            Expr::Assign(_) => "an assignment is left out",
            Expr::Call(_) | Expr::MethodCall(_) | Expr::Try(_) => "a statement is left out",
            Expr::Binary(_) => "a change is left out",
            _ => return,
        };
        let plain = self.slice(statement.span());
        // Only a branch hint.
        if plain != "cold_path();" {
            self.add(statement.span(), what, format!("if !{SWITCH} {{ {plain} }}"));
        }
    }

    /// Disables arms of a match that has an arm for all other cases.
    fn arms(&mut self, matched: &syn::ExprMatch) {
        let wild = |arm: &syn::Arm| matches!(arm.pat, syn::Pat::Wild(_)) && arm.guard.is_none();
        let all = matched.arms.last().is_some_and(wild);
        for arm in &matched.arms {
            match &arm.guard {
                Some((_, guard)) => self.condition(guard),
                None if all && !wild(arm) => {
                    let plain = self.slice(arm.pat.span());
                    self.add(arm.pat.span(), "an arm never matches", format!("{plain} if !{SWITCH}"));
                }
                None => {}
            }
            if matches!(*arm.body, Expr::MethodCall(_) | Expr::Call(_) | Expr::Assign(_)) {
                let plain = self.slice(arm.body.span());
                self.add(arm.body.span(), "an arm does nothing", format!("{{ if !{SWITCH} {{ {plain} }} }}"));
            }
        }
    }

    /// Makes a function return a default at once.
    fn function(&mut self, signature: &syn::Signature, block: &Block) {
        let values: &[&str] = match &signature.output {
            ReturnType::Default => &[""],
            ReturnType::Type(_, of) => match &**of {
                Type::Path(path) => {
                    match path.path.segments.last().map(|last| last.ident.to_string()).as_deref() {
                        Some("bool") => &["true", "false"],
                        Some("Result") => &["Ok(Default::default())"],
                        Some("Option") => &["None"],
                        _ => &["Default::default()"],
                    }
                }
                Type::Tuple(_) => &["Default::default()"],
                _ => &[],
            },
        };
        let (begin, end) =
            (signature.ident.span().byte_range().start, block.brace_token.span.open().byte_range().end);
        for value in values {
            let head = &self.text[begin..end];
            let replacement = format!("{head} if {SWITCH} {{ return {value}; }}");
            self.found.push(Mutant { at: begin..end, replacement, what: "a function does nothing" });
        }
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_expr(&mut self, expr: &'ast Expr) {
        match expr {
            Expr::Binary(binary) => self.binary(binary),
            Expr::MethodCall(call) => self.method(call),
            Expr::Match(matched) => self.arms(matched),
            Expr::If(branch) => self.condition(&branch.cond),
            Expr::While(repeated) => self.condition(&repeated.cond),
            Expr::Lit(literal) => self.literal(literal.span(), &literal.lit),
            Expr::Unary(unary) if matches!(unary.op, syn::UnOp::Not(_)) => {
                let plain = self.slice(unary.expr.span());
                self.instead(unary.span(), "without `!`", plain);
            }
            Expr::Call(call) => {
                if matches!(&*call.func, Expr::Path(path) if path.path.is_ident("Some")) {
                    self.instead(call.span(), "nothing", "None");
                }
                self.swapped(call.args.iter(), call.span());
            }
            Expr::Return(returned) => {
                if let Some(value) = &returned.expr {
                    self.instead(value.span(), "a default is returned", "Default::default()");
                }
            }
            _ => {}
        }
        visit::visit_expr(self, expr);
    }

    fn visit_field_value(&mut self, field: &'ast syn::FieldValue) {
        if field.colon_token.is_some() && !matches!(field.expr, Expr::Lit(_)) {
            self.instead(field.expr.span(), "a field is left at its default", "Default::default()");
        }
        visit::visit_field_value(self, field);
    }

    fn visit_stmt(&mut self, statement: &'ast Stmt) {
        self.dropped(statement);
        visit::visit_stmt(self, statement);
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.function(&item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !LEFT_OUT.iter().any(|name| item.sig.ident == name) {
            self.function(&item.sig, &item.block);
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if module.ident != "tests" {
            visit::visit_item_mod(self, module);
        }
    }

    // The code in these does not run.
    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}
    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}
    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}
    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}
    fn visit_pat(&mut self, _: &'ast syn::Pat) {}
    fn visit_type(&mut self, _: &'ast Type) {}
}
