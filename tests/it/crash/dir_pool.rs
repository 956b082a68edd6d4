//! Folders that are used again: no task sees anything of another one, and no agent leaves any.

use std::fs;

use serde_json::json;

use crate::crash::sandbox::{eventually, names};
use crate::crash::service::Service;

/// Reports which file it is and what it finds, and leaves all sorts of things behind.
const UNTIDY: &str = "\
found=$(ls -A . .. | sort | tr '\\n' ' ')
sizes=$(stat -c %s ../stdout ../stderr | tr '\\n' ' ')
echo \"$(stat -c %i run.sh)|$found$sizes|$(grep -c . ../task.info)|$(grep -c $__TASK_ID__ ../task.info ../task.json)\" > report.log
echo out; echo err >&2
mkdir -p junk/deep ../junk
ln -s /etc/passwd ../junk/link
mkfifo junk/pipe
echo forged=1 >> ../task.info
: > ../controller.info";

#[test]
fn a_folder_that_is_used_again_is_like_a_fresh_one_and_goes_with_its_agent() {
    let service = Service::new();
    service.sandbox.tool("untidy", UNTIDY);
    service.sandbox.ok("tool pack tools/untidy");
    let _controller = service.sandbox.start("controller");
    let mut agent = service.sandbox.start("agent --name alone");
    let client = service.client();
    let mut reports = Vec::new();
    // The archive is trusted by its times only when they are some seconds ago; until then each task gets a fresh copy.
    eventually("a folder is used again", || {
        let id = client.submit("untidy", json!({}));
        eventually("it is finished", || client.status(&id) == "FINISHED");
        assert!(!names(&service.sandbox.path("work")).contains(&id));
        let task = client.query(&id);
        assert_eq!(task["__OUTCOME__"].as_str(), Some("SUCCEEDED"), "{task}");
        reports.push(task["__REPORT_LOG__"].as_str().unwrap_or_default().to_owned());
        let file = |report: &String| report.split('|').next().map(str::to_owned);
        reports.len() > 3
            && reports.iter().rev().take(3).map(file).all(|last| last == file(&reports[reports.len() - 1]))
    });
    let rest = |report: &String| report.split_once('|').map(|(_, rest)| rest.to_owned());
    assert!(reports.iter().all(|report| rest(report).is_some() && rest(report) == rest(&reports[0])), "{reports:?}");

    let spare = service.sandbox.path("work/.spare");
    let before = names(&spare);
    assert_eq!(before.len(), 1);
    agent.kill();
    let _next = service.sandbox.start("agent --name alone");
    eventually("what the dead one kept is gone", || {
        let now = names(&spare);
        now.len() == 1 && now != before && fs::read_dir(service.sandbox.path("work/.trash")).unwrap().count() == 0
    });
    service.is_swept();
}
