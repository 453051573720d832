//! A tree to draw.

use gpc_trees::{Layout, Limits, Tree, TreeError, edges};

/// A tree to draw: its positions in preorder, each with its parent, depth and label.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sketch {
    name: String,
    /// By place in preorder: the place of its parent, which comes before it. The root, at 0, has itself.
    pub(super) parents: Vec<u32>,
    /// By place: levels below the root.
    pub(super) depths: Vec<u32>,
    /// By place: number of children.
    pub(super) fan_outs: Vec<u32>,
    /// By place: its label. The labels are the numbers from 0 to n-1, each once.
    pub(super) labels: Vec<u32>,
    /// By depth: number of places.
    levels: Vec<u32>,
}

impl Sketch {
    /// Returns a tree over `n` ids, labelled by their places.
    ///
    /// # Errors
    /// If it is not a tree over that many ids.
    pub fn of_tree(name: impl Into<String>, tree: &Tree, n: u32) -> Result<Sketch, TreeError> {
        Sketch::new(name.into(), tree, n, (0..n).collect())
    }

    /// Returns a user tree, labelled by the positions of its author.
    ///
    /// # Errors
    /// If it is not a tree, which a layout always is.
    pub fn of_layout(name: impl Into<String>, layout: &Layout) -> Result<Sketch, TreeError> {
        Sketch::new(name.into(), &layout.tree(), layout.len(), layout.order().to_vec())
    }

    fn new(name: String, tree: &Tree, n: u32, labels: Vec<u32>) -> Result<Sketch, TreeError> {
        tree.check(n, &Limits::default())?;
        let all = n as usize;
        let mut sketch = Sketch {
            name,
            parents: vec![0; all],
            depths: vec![0; all],
            fan_outs: vec![0; all],
            labels,
            levels: vec![1],
        };
        for edge in edges(tree, n) {
            let (parent, child) = edge?;
            let depth = sketch.depths[parent as usize] + 1;
            sketch.parents[child as usize] = parent;
            sketch.depths[child as usize] = depth;
            sketch.fan_outs[parent as usize] += 1;
            match sketch.levels.get_mut(depth as usize) {
                Some(count) => *count += 1,
                // Children come after their parents, so a level begins right after the level above it.
                None => sketch.levels.push(1),
            }
        }
        Ok(sketch)
    }

    /// Number of ids, at least 1.
    pub fn nodes(&self) -> u32 {
        u32::try_from(self.parents.len()).expect("made of a number of 32 bits")
    }

    /// Levels below the root.
    pub fn depth(&self) -> u32 {
        u32::try_from(self.levels.len() - 1).expect("no more levels than ids")
    }

    /// Maximum number of children of one id.
    pub fn fan_out(&self) -> u32 {
        self.fan_outs.iter().copied().max().unwrap_or_default()
    }

    /// Number of ids at each depth, that of the root first.
    pub fn levels(&self) -> &[u32] {
        &self.levels
    }

    /// Name of the tree, as given to the constructor.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns a summary in one line: `binary over 7 ids: depth 2, fan-out 2; ids per level 1 2 4`.
    pub fn summary(&self) -> String {
        let n = self.nodes();
        let (ids, depth, fan_out) = (if n == 1 { "id" } else { "ids" }, self.depth(), self.fan_out());
        let name = &self.name;
        format!(
            "{name} over {n} {ids}: depth {depth}, fan-out {fan_out}; ids per level {}",
            self.shown_levels()
        )
    }

    /// Returns the ids per level; of many levels, the middle is omitted.
    pub(super) fn shown_levels(&self) -> String {
        let words = |levels: &[u32]| levels.iter().map(u32::to_string).collect::<Vec<_>>().join(" ");
        match self.levels.len() {
            0..=SHOWN_LEVELS => words(&self.levels),
            many => {
                let (first, last) =
                    (&self.levels[..SHOWN_LEVELS / 2], &self.levels[many - SHOWN_LEVELS / 2..]);
                format!("{} ... {}", words(first), words(last))
            }
        }
    }

    /// Returns depth, label and the parent's label (`None` for the root) of each place, in preorder.
    pub(super) fn nodes_in_preorder(&self) -> impl Iterator<Item = (u32, u32, Option<u32>)> + '_ {
        let label = |place: u32| self.labels[place as usize];
        (0..).zip(&self.parents).map(move |(place, &parent)| {
            (self.depths[place as usize], label(place), (place > 0).then(|| label(parent)))
        })
    }
}

/// Maximum number of levels in a summary: a line or two of a terminal.
const SHOWN_LEVELS: usize = 32;
