//! Lists of short tasks: what a seed plans. The rules are those of all runs ([`crate::runs`]): a list lets no task run twice.

use crate::simulation::dice::{Dice, MILLI, Nanos};
use crate::simulation::plan::{Start, TaskPlan};

/// Which tasks say that they are short, and make seeds in which many of them wait. Its dice are its own, so that a seed without
/// lists runs as if there were none.
pub(crate) fn plan(seed: u64, tasks: &mut Vec<TaskPlan>, calm: Nanos) {
    let mut dice = Dice::new(seed ^ 0x6c69_7374);
    if !dice.chance(150) {
        return;
    }
    let bursts: Vec<Nanos> = (0..1 + dice.index(4)).map(|_| dice.within(0..=calm * 3 / 4)).collect();
    for task in &mut *tasks {
        if let Start::At(at) = &mut task.start
            && dice.chance(850)
        {
            *at = bursts[dice.index(bursts.len())] + dice.within(0..=MILLI);
        }
        let is_short = task.duration <= 20 * MILLI;
        // Some expect too little.
        task.is_expected_short = dice.chance(if is_short { 950 } else { 200 });
    }
    // Only where many more wait than there are agents is there a list.
    let alone = |task: &&TaskPlan| task.is_expected_short && matches!(task.start, Start::At(_));
    let alone: Vec<TaskPlan> = tasks.iter().filter(alone).cloned().collect();
    for _ in 0..8 {
        tasks.extend(alone.iter().cloned());
    }
}
