//! Jobs and dependencies on the command line.

use crate::cli::sandbox::{Sandbox, eventually};

fn with(agents: u8) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.tool(
        "exits",
        "[ -e $PLACE/mended ] && exit 0; [ -z \"$PARAM_code\" ] || echo \"code $PARAM_code\" >&2; exit $PARAM_code",
    );
    sandbox.tool("sleeper", "exec sleep 1000");
    sandbox.ok(&format!("up {agents}"));
    sandbox
}

#[test]
fn a_job_is_shown_waited_for_and_retried_as_one() {
    let sandbox = with(2);
    let failed = sandbox.ok("submit exits code=3 --job j").line().to_owned();
    for line in ["submit exits --job j", "submit exits code=3 --job j", "submit exits code=4 --job j"] {
        sandbox.ok(line);
    }
    let skipped = sandbox.ok(&format!("submit exits --job j --after {failed}")).line().to_owned();
    let cleanup = sandbox.ok("submit exits --after-any job:j").line().to_owned();
    assert_eq!(sandbox.llts("wait --job j --timeout 60").code, Some(4), "as the worst of them");
    sandbox.ok(&format!("wait {cleanup} --timeout 60"));
    let said = sandbox.ok(&format!("explain {skipped}"));
    assert!(said.out.contains(&format!("SKIPPED: the term {failed} of --after cannot be met")), "{said:?}");

    let said = sandbox.ok("job j");
    for part in ["5 of 5 tasks have finished (100 %)", "succeeded 1, failed 3, skipped 1", "code 3", "code 4", "p50 "] {
        assert!(said.out.contains(part), "{part:?} is not in {said:?}");
    }
    let job = sandbox.ok("job j --output wire").json();
    assert_eq!(
        (job["failures"][0]["count"].as_u64(), &job["failures"][0]["last_line"]),
        (Some(2), &"code 3".into()),
        "{job}"
    );
    let jobs = sandbox.ok("jobs --output wire").json();
    assert_eq!((jobs["total"].as_u64(), &jobs["jobs"][0]["__JOB__"]), (Some(1), &"j".into()), "{jobs}");
    let list = |line: &str| sandbox.ok(&format!("list {line} --output wire")).json()["total"].as_u64();
    assert_eq!(
        [list("--job j"), list("--job j --failed"), list("--failed"), list("")],
        [Some(5), Some(3), Some(3), Some(6)]
    );

    std::fs::write(sandbox.path("mended"), "").unwrap();
    assert_eq!(sandbox.ok("retry --job j --failed").out, "retried 4 tasks of job j\n");
    assert_eq!(sandbox.llts("wait --job j --timeout 60").code, Some(0));
    sandbox.llts("job nonesuch").failed(5, "no job nonesuch");
    assert_eq!(sandbox.llts("submit exits --job a/b").code, Some(4));
    assert_eq!(sandbox.llts("submit exits --job-max-fails 1").code, Some(2), "without a job");
}

#[test]
fn a_whole_job_is_held_released_and_killed() {
    let sandbox = with(1);
    let running = sandbox.ok("submit sleeper --job j").line().to_owned();
    for _ in 0..3 {
        sandbox.ok("submit sleeper --job j");
    }
    eventually("one runs", || sandbox.ok("job j").out.contains("running 1"));
    assert_eq!(sandbox.ok("hold --job j").out, "paused 4 tasks of job j\n");
    assert_eq!(sandbox.ok("release --job j").out, "resumed 4 tasks of job j\n");
    sandbox.llts("wait --job j --timeout 0.1").failed(124, "4 of the 4 tasks of job j have not finished");
    let killed = sandbox.ok("kill --job j --output wire").json();
    assert_eq!(killed, serde_json::json!({ "job": "j", "result": "killed", "count": 4, "warning": null }));
    assert_eq!(sandbox.llts("wait --job j --timeout 60").code, Some(143));
    let said = sandbox.llts(&format!("wait {running}"));
    assert!(said.err.contains("(llts kill --job j"), "{said:?}");
}
