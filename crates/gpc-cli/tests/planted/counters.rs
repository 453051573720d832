//! Adds counters to a source file: for each statement, arm of a match, closure, guard and further part of a condition.
//!
//! The text is rewritten, so that only the compiler is needed. The additions change nothing but the counts: a call
//! before a statement, or a block around an expression that is a scope of its own in any case. Constants and macros are
//! left alone, since nothing can be counted there, and so is a `let … else` that only leaves.

use std::ops::Range;

use proc_macro2::Span;
use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};
use syn::{BinOp, Block, Expr, Stmt};

/// Functions that only display values.
const LEFT_OUT: [&str; 1] = ["fmt"];

/// Words that leave a block.
const LEAVES: [&str; 4] = ["return", "continue", "break", "?"];

/// A counted place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Place {
    pub(super) file: String,
    pub(super) line: usize,
    /// The function around it, with its type.
    pub(super) function: String,
    /// Its text, as bytes of the file.
    pub(super) at: Range<usize>,
    /// End of its block: if the place is not reached, nothing up to there is.
    pub(super) until: usize,
    /// Places without which this one cannot be reached: the one around it, the one before it in its block, and the last
    /// part of its condition.
    pub(super) behind: Vec<usize>,
}

/// A place where a checker complains.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Rule {
    pub(super) file: String,
    pub(super) line: usize,
    /// The place that decides whether it does.
    pub(super) judged: usize,
}

/// A file with its counters.
#[derive(Debug)]
pub(super) struct Counted {
    pub(super) text: String,
    pub(super) places: Vec<Place>,
    pub(super) rules: Vec<Rule>,
}

/// Adds the counters to a file; the first one has the number `first`.
///
/// # Errors
/// The error of the parser, with the file.
pub(super) fn counted(file: &str, text: &str, first: usize) -> Result<Counted, String> {
    let parsed = syn::parse_file(text).map_err(|error| format!("{file}: it is no Rust: {error}"))?;
    let mut counter = Counter {
        file,
        text,
        first,
        of: String::new(),
        function: String::new(),
        inside: Vec::new(),
        decided: None,
        places: Vec::new(),
        rules: Vec::new(),
        added: Vec::new(),
    };
    counter.visit_file(&parsed);
    let Counter { places, rules, mut added, .. } = counter;
    // At one byte, ends come before beginnings, and an outer beginning before an inner one.
    added.sort_by_key(|(at, order, _)| (*at, *order));
    let (mut changed, mut done) = (String::new(), 0);
    for (at, _, what) in added {
        changed.push_str(&text[done..at]);
        changed.push_str(&what);
        done = at;
    }
    changed.push_str(&text[done..]);
    Ok(Counted { text: changed, places, rules })
}

/// Walks over a file, and records the counted places.
struct Counter<'a> {
    file: &'a str,
    text: &'a str,
    first: usize,
    /// The type of the current function, and the function.
    of: String,
    function: String,
    /// The places around the current position, and the last of them that decides what is done.
    inside: Vec<usize>,
    decided: Option<usize>,
    places: Vec<Place>,
    rules: Vec<Rule>,
    /// Position, order at the same byte, text.
    added: Vec<(usize, i64, String)>,
}

impl Counter<'_> {
    fn next(&self) -> usize {
        self.first + self.places.len()
    }

    /// Records a place, and returns its number.
    fn place(&mut self, span: Span, until: usize, behind: Option<usize>) -> usize {
        let at = span.byte_range();
        let function = match self.of.is_empty() {
            true => self.function.clone(),
            false => format!("{}::{}", self.of, self.function),
        };
        let line = self.text[..at.start].matches('\n').count() + 1;
        let behind = self.inside.last().copied().into_iter().chain(behind).collect();
        let number = self.next();
        self.places.push(Place { file: self.file.into(), line, function, at, until, behind });
        number
    }

    fn before(&mut self, at: usize, number: usize) {
        let order = i64::try_from(number).unwrap_or(i64::MAX);
        self.added.push((at, order, format!("gpc_trees::reached({number}); ")));
    }

    /// Adds a block with a counter around an expression. The displayed text of the place may begin earlier.
    fn around(&mut self, expr: &Expr, shown: Span, behind: Option<usize>) -> usize {
        let at = expr.span().byte_range();
        let number = self.place(shown, at.end, behind);
        let order = i64::try_from(number).unwrap_or(i64::MAX);
        self.added.push((at.start, order, format!("{{ gpc_trees::reached({number}); ")));
        // If several blocks end here, the inner one ends first.
        self.added.push((at.end, i64::MIN + i64::MAX - order, " }".into()));
        number
    }

    /// Continues the walk inside a place.
    fn within(&mut self, number: usize, walk: impl FnOnce(&mut Self)) {
        self.inside.push(number);
        walk(self);
        self.inside.pop();
    }

    /// Returns the last place recorded since a number, or else the place around the walk: it decides what follows.
    fn gate(&self, since: usize) -> Option<usize> {
        match self.next() > since {
            true => Some(self.next() - 1),
            false => self.inside.last().copied(),
        }
    }

    fn deciding(&mut self, gate: Option<usize>, walk: impl FnOnce(&mut Self)) {
        let before = std::mem::replace(&mut self.decided, gate);
        walk(self);
        self.decided = before;
    }

    /// Walks over a block that is entered behind a gate.
    fn branch(&mut self, block: &Block, gate: Option<usize>) {
        self.deciding(gate, |this| this.block(block, gate));
    }

    fn block(&mut self, block: &Block, gate: Option<usize>) {
        let end = block.brace_token.span.close().byte_range().start;
        let (mut behind, mut left) = (gate, false);
        for statement in &block.stmts {
            if let Stmt::Item(item) = statement {
                self.visit_item(item);
                continue;
            }
            // A statement that may leave decides what follows.
            if left {
                self.decided = behind;
            }
            left = LEAVES.iter().any(|word| self.text[statement.span().byte_range()].contains(word));
            let number = self.place(statement.span(), end, behind);
            self.before(statement.span().byte_range().start, number);
            self.within(number, |this| visit::visit_stmt(this, statement));
            behind = Some(number);
        }
    }

    fn body(&mut self, signature: &syn::Signature, block: &Block) {
        if signature.constness.is_some() || LEFT_OUT.iter().any(|name| signature.ident == name) {
            return;
        }
        let function = std::mem::replace(&mut self.function, signature.ident.to_string());
        let inside = std::mem::take(&mut self.inside);
        // The first statement is decided by whether the function is called.
        let first = self.next();
        self.deciding(Some(first), |this| this.block(block, None));
        (self.function, self.inside) = (function, inside);
    }

    /// Sets the type of an `impl`, or the trait, for the functions in it.
    fn of(&mut self, name: String, walk: impl FnOnce(&mut Self)) {
        let before = std::mem::replace(&mut self.of, name);
        walk(self);
        self.of = before;
    }

    fn matched(&mut self, matched: &syn::ExprMatch) {
        let since = self.next();
        self.visit_expr(&matched.expr);
        let gate = self.gate(since);
        for arm in &matched.arms {
            let mut gate = gate;
            if let Some((_, guard)) = &arm.guard
                && !binds(guard)
            {
                let since = self.next();
                let number = self.around(guard, guard.span(), None);
                self.within(number, |this| this.visit_expr(guard));
                gate = self.gate(since);
            }
            match &*arm.body {
                Expr::Block(body) if body.label.is_none() => self.branch(&body.block, gate),
                body => {
                    let number = self.around(body, arm.span(), gate);
                    self.deciding(gate, |this| this.within(number, |this| this.visit_expr(body)));
                }
            }
        }
    }

    /// Records a call by which a checker complains.
    fn rule(&mut self, call: &syn::ExprMethodCall) {
        let names = matches!(call.args.first(), Some(Expr::Path(_) | Expr::Lit(_) | Expr::Field(_)));
        if call.method == "add"
            && call.args.len() == 2
            && names
            && let Some(judged) = self.decided
        {
            let at = call.method.span().byte_range().start;
            let line = self.text[..at].matches('\n').count() + 1;
            self.rules.push(Rule { file: self.file.into(), line, judged });
        }
    }
}

/// Whether a block only leaves, without a value or with a plain one.
fn only_leaves(expr: &Expr) -> bool {
    let Expr::Block(block) = expr else { return false };
    let [Stmt::Expr(only, _)] = &block.block.stmts[..] else { return false };
    match only {
        Expr::Continue(_) | Expr::Break(_) => true,
        Expr::Return(with) => matches!(with.expr.as_deref(), None | Some(Expr::Path(_) | Expr::Lit(_))),
        _ => false,
    }
}

/// Whether a condition binds names, so that it cannot be in a block or in parentheses.
pub(super) fn binds(expr: &Expr) -> bool {
    match expr {
        Expr::Let(_) => true,
        Expr::Binary(both) => binds(&both.left) || binds(&both.right),
        _ => false,
    }
}

impl<'ast> Visit<'ast> for Counter<'_> {
    fn visit_expr(&mut self, expr: &'ast Expr) {
        match expr {
            Expr::If(branch) => {
                let since = self.next();
                self.visit_expr(&branch.cond);
                let gate = self.gate(since);
                self.branch(&branch.then_branch, gate);
                if let Some((_, other)) = &branch.else_branch {
                    // If the last part of the condition was not reached, this may still be reached.
                    let gate = if self.next() > since { self.gate(since) } else { gate };
                    self.deciding(gate, |this| this.visit_expr(other));
                }
            }
            Expr::While(repeated) => {
                let since = self.next();
                self.visit_expr(&repeated.cond);
                let gate = self.gate(since);
                self.branch(&repeated.body, gate);
            }
            Expr::ForLoop(repeated) => {
                let since = self.next();
                self.visit_expr(&repeated.expr);
                let gate = self.gate(since);
                self.deciding(gate, |this| this.block(&repeated.body, None));
            }
            Expr::Match(matched) => self.matched(matched),
            Expr::Closure(closure) => {
                let gate = self.gate(self.inside.last().map_or(0, |inside| inside + 1));
                match &*closure.body {
                    Expr::Block(body) => self.deciding(gate, |this| this.block(&body.block, None)),
                    body => {
                        let number = self.around(body, closure.span(), None);
                        self.deciding(gate, |this| this.within(number, |this| this.visit_expr(body)));
                    }
                }
            }
            Expr::Binary(both) if matches!(both.op, BinOp::And(_) | BinOp::Or(_)) => {
                self.visit_expr(&both.left);
                match binds(&both.right) {
                    true => self.visit_expr(&both.right),
                    false => {
                        let number = self.around(&both.right, both.right.span(), None);
                        self.within(number, |this| this.visit_expr(&both.right));
                    }
                }
            }
            Expr::MethodCall(call) => {
                self.rule(call);
                visit::visit_expr(self, expr);
            }
            _ => visit::visit_expr(self, expr),
        }
    }

    fn visit_local(&mut self, local: &'ast syn::Local) {
        if let Some(init) = &local.init {
            self.visit_expr(&init.expr);
            let gate = self.inside.last().copied();
            // A branch that only leaves is mostly for impossible cases, so it need not be reached.
            let other = init.diverge.iter().filter(|(_, other)| !only_leaves(other));
            other.for_each(|(_, other)| self.deciding(gate, |this| this.visit_expr(other)));
        }
    }

    fn visit_block(&mut self, block: &'ast Block) {
        self.block(block, None);
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.body(&item.sig, &item.block);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.body(&item.sig, &item.block);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        item.default.iter().for_each(|block| self.body(&item.sig, block));
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let name = match &*item.self_ty {
            syn::Type::Path(path) => path.path.segments.last().map(|last| last.ident.to_string()),
            _ => None,
        };
        self.of(name.unwrap_or_default(), |this| visit::visit_item_impl(this, item));
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.of(item.ident.to_string(), |this| visit::visit_item_trait(this, item));
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
    fn visit_type(&mut self, _: &'ast syn::Type) {}
    fn visit_expr_const(&mut self, _: &'ast syn::ExprConst) {}
    fn visit_expr_repeat(&mut self, _: &'ast syn::ExprRepeat) {}
}
