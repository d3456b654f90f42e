//! Decides how much stack the evaluation of a rule gets: it goes as deep as the rule does, and the evaluator takes much of it for
//! each step. Short rules are evaluated where they are met, others on a thread of their own, and those that go too deep not at all.
//! Answers to the recursion limit of `cel-go/parser`, whose stack grows by itself.

use cel::common::ast::IdedExpr;

use super::parts::parts;

/// How deep the parts of a rule may stand in each other.
pub(super) const DEEPEST: usize = 200;
/// Up to here the stack of any thread is enough.
const SHALLOW: usize = 12;
/// Rules of this length are shallow enough to be read anywhere.
const SHORT: usize = 500;
/// Enough for the deepest, several times over; what is not used takes no memory.
const STACK: usize = 128 * 1024 * 1024;

/// Does something with a rule of some depth; nothing when there is no thread to be had.
pub(super) fn at_depth<T: Send>(depth: usize, step: impl FnOnce() -> T + Send) -> Option<T> {
    if depth <= SHALLOW { Some(step()) } else { on_a_thread(step) }
}

/// Reads a rule of some length.
pub(super) fn at_length<T: Send>(length: usize, step: impl FnOnce() -> T + Send) -> Option<T> {
    if length <= SHORT { Some(step()) } else { on_a_thread(step) }
}

fn on_a_thread<T: Send>(step: impl FnOnce() -> T + Send) -> Option<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, step);
        thread.ok()?.join().ok()
    })
}

/// How deep the parts of an expression stand in each other, counted without going in.
pub(super) fn depth_of(expr: &IdedExpr) -> usize {
    let (mut deepest, mut open) = (0, vec![(expr, 1)]);
    while let Some((expr, depth)) = open.pop() {
        deepest = deepest.max(depth);
        open.extend(parts(expr).into_iter().map(|inner| (inner, depth + 1)));
    }
    deepest
}
