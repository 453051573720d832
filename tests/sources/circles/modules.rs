//! The modules of a crate, as its files define them: their items, imports, and the paths that their code mentions.

use std::collections::{BTreeMap, BTreeSet};
use std::slice;

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, ImplItem, Item, ItemMod, ItemUse, Macro, Meta, UseTree, VisRestricted, Visibility};

/// A path of a module or an item, segment by segment.
pub(crate) type Path = Vec<String>;

/// All modules of a crate but those of tests, by their paths from its root.
pub(crate) type Modules = BTreeMap<Path, Module>;

/// A module, in a file of its own or inline.
#[derive(Default)]
pub(crate) struct Module {
    /// Its file, from the folder of the sources.
    pub(crate) file: String,
    /// Names of the items that it defines, without modules.
    pub(crate) items: BTreeSet<String>,
    /// Names that it imports, with the path of each.
    pub(crate) imports: BTreeMap<String, Path>,
    /// Modules and enums from which it imports all names.
    pub(crate) globs: Vec<Path>,
    /// Paths that it imports with `use`, without the re-exports of a file that collects modules.
    pub(crate) uses: Vec<Path>,
    /// Paths in the rest of its code.
    pub(crate) mentions: Vec<Path>,
}

/// Reads the modules of a crate, from `file` (its `lib.rs` or `main.rs`) on. `text` returns the text of a file.
///
/// # Panics
/// If a file does not exist, or is not Rust.
pub(crate) fn read(file: &str, text: &dyn Fn(&str) -> Option<String>) -> Modules {
    let mut modules = Modules::new();
    read_file(&mut modules, Vec::new(), file, text);
    // `#[macro_export]` puts a macro into the root of the crate, as a re-export does.
    let exported: Vec<(String, Path)> = modules
        .iter()
        .flat_map(|(path, module)| module.items.iter().map(move |item| (path, item)))
        .filter_map(|(path, item)| {
            let name = item.strip_suffix('!')?;
            Some((name.to_owned(), [&path[..], slice::from_ref(item)].concat()))
        })
        .collect();
    if let Some(root) = modules.get_mut(&Vec::new()) {
        let paths = exported.into_iter().map(|(name, path)| (name, [vec!["crate".into()], path].concat()));
        root.imports.extend(paths);
    }
    modules
}

fn read_file(modules: &mut Modules, path: Path, file: &str, text: &dyn Fn(&str) -> Option<String>) {
    let content = text(file).unwrap_or_else(|| panic!("{file} does not exist"));
    let parsed = syn::parse_file(&content).unwrap_or_else(|error| panic!("{file}: {error}"));
    read_items(modules, path, file, &parsed.items, text);
}

fn read_items(
    modules: &mut Modules,
    path: Path,
    file: &str,
    items: &[Item],
    text: &dyn Fn(&str) -> Option<String>,
) {
    let mut reader =
        Reader { module: Module { file: file.to_owned(), ..Module::default() }, children: Vec::new() };
    for item in items {
        reader.module.items.extend(defined_name(item));
        reader.visit_item(item);
    }
    modules.insert(path.clone(), reader.module);
    for child in reader.children {
        let path = [&path[..], &[child.ident.to_string()]].concat();
        match &child.content {
            Some((_, items)) => read_items(modules, path, file, items, text),
            None => {
                let base = path.join("/");
                let own = format!("{base}.rs");
                let file = if text(&own).is_some() { own } else { format!("{base}/mod.rs") };
                read_file(modules, path, &file, text);
            }
        }
    }
}

/// The name that an item defines in its module. The name of an exported macro ends with `!`.
fn defined_name(item: &Item) -> Option<String> {
    let ident = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::TraitAlias(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        Item::Macro(item) => {
            let exported = item.attrs.iter().any(|attribute| attribute.path().is_ident("macro_export"));
            let mark = if exported { "!" } else { "" };
            return item.ident.as_ref().map(|ident| format!("{ident}{mark}"));
        }
        _ => return None,
    };
    (!is_for_tests(attributes(item))).then(|| ident.to_string())
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::ForeignMod(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::TraitAlias(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// Whether an item is compiled in tests only: `cfg(test)`, or `cfg(all(test, ...))`.
fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().filter(|attribute| attribute.path().is_ident("cfg")).any(|attribute| {
        let Meta::List(list) = &attribute.meta else { return false };
        let condition = list.tokens.to_string();
        let words: Vec<&str> = condition.split(|character: char| !character.is_alphanumeric()).collect();
        words.iter().any(|word| ["test", "doctest"].contains(word)) && !words.contains(&"not")
    })
}

/// Collects what the code of one module mentions.
struct Reader {
    module: Module,
    /// Its modules.
    children: Vec<ItemMod>,
}

impl Reader {
    /// Adds the names of an import; `path` is the path up to this part of it.
    fn import(&mut self, path: &[String], tree: &UseTree, reexported: bool) {
        let (name, segment) = match tree {
            UseTree::Path(tree) => {
                return self.import(&[path, &[tree.ident.to_string()]].concat(), &tree.tree, reexported);
            }
            UseTree::Group(group) => {
                return group.items.iter().for_each(|tree| self.import(path, tree, reexported));
            }
            UseTree::Glob(_) => return self.module.globs.push(path.to_vec()),
            UseTree::Name(name) => (name.ident.to_string(), name.ident.to_string()),
            UseTree::Rename(renamed) => (renamed.rename.to_string(), renamed.ident.to_string()),
        };
        let is_self = segment == "self";
        let name = if is_self && name == "self" { path.last().cloned().unwrap_or_default() } else { name };
        let target = if is_self { path.to_vec() } else { [path, &[segment]].concat() };
        if !reexported {
            self.module.uses.push(target.clone());
        }
        self.module.imports.insert(name, target);
    }

    /// Whether the file collects modules, so that its `pub use` only passes names on.
    fn collects_modules(&self) -> bool {
        let file = self.module.file.as_str();
        ["lib.rs", "main.rs"].contains(&file) || file.ends_with("/mod.rs")
    }

    /// Adds the paths in the tokens of a macro or an attribute, which are not parsed.
    fn scan(&mut self, tokens: TokenStream) {
        let (mut path, mut colons) = (Path::new(), 0);
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => {
                    if colons != 2 {
                        self.mention(&mut path);
                    }
                    path.push(ident.to_string());
                    colons = 0;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' && colons < 2 => colons += 1,
                TokenTree::Group(group) => {
                    self.mention(&mut path);
                    self.scan(group.stream());
                }
                _ => self.mention(&mut path),
            }
        }
        self.mention(&mut path);
    }

    fn mention(&mut self, path: &mut Path) {
        if !path.is_empty() {
            self.module.mentions.push(std::mem::take(path));
        }
    }
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item(&mut self, item: &'ast Item) {
        if !is_for_tests(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item(&mut self, item: &'ast ImplItem) {
        let attributes: &[Attribute] = match item {
            ImplItem::Const(item) => &item.attrs,
            ImplItem::Fn(item) => &item.attrs,
            ImplItem::Type(item) => &item.attrs,
            _ => &[],
        };
        if !is_for_tests(attributes) {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        self.children.push(module.clone());
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        let reexported = self.collects_modules() && !matches!(item.vis, Visibility::Inherited);
        // A path that begins with `::` is that of another crate.
        if item.leading_colon.is_none() {
            self.import(&[], &item.tree, reexported);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() {
            self.module
                .mentions
                .push(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast Macro) {
        self.visit_path(&call.path);
        self.scan(call.tokens.clone());
    }

    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        if let Meta::List(list) = &attribute.meta {
            self.scan(list.tokens.clone());
        }
    }

    /// Visibility such as `pub(in crate::chain)` is not a use.
    fn visit_vis_restricted(&mut self, _: &'ast VisRestricted) {}
}
