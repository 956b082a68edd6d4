//! Changes that a task makes outside of its folder are not run by another task, although all tasks belong to the same user.

use crate::cli::sandbox::{Sandbox, names};

#[test]
fn a_changed_cache_is_not_run() {
    let sandbox = Sandbox::new();
    // More than an agent keeps in memory: each task gets a copy of what is in the cache.
    sandbox.tool("victim", "echo clean > report.log");
    (0..20).for_each(|n| std::fs::write(sandbox.path(&format!("tools/victim/{n}")), "x").unwrap());
    sandbox.tool("small", "echo clean > report.log");
    sandbox.tool(
        "poison",
        "cd $PLACE/state/tools
        for script in */victim/run.sh */small/run.sh; do printf '#!/bin/sh\\necho EVILL > report.log\\n' > $script; done",
    );
    for tool in ["victim", "small", "poison"] {
        sandbox.ok(&format!("tool pack tools/{tool}"));
    }
    sandbox.ok("up 1");
    let reports = || ["victim", "small"].map(|tool| sandbox.ok(&format!("run {tool}")).out);
    assert_eq!(reports(), ["clean\n"; 2]);
    for _ in 0..2 {
        sandbox.ok("run poison");
        assert_eq!(reports(), ["clean\n"; 2]);
    }
    // Nor by an agent that starts later.
    sandbox.ok("run poison");
    sandbox.ok("down");
    sandbox.ok("up 2");
    assert_eq!(reports(), ["clean\n"; 2]);
    assert_eq!(names(&sandbox.path("state/tools")).iter().filter(|name| name.contains("victim")).count(), 1);
}
