//! What a task of a step has beside the files of every task, whatever the run makes of it, is not there for the next one.

use super::*;
use crate::workspace::OutFolder;
use base::{GraphId, PortName, StepContext, StepName, StepRole};

fn graph() -> GraphId {
    "GRAPH_1480000000.120000_AZazA".parse().unwrap()
}

fn step() -> StepContext {
    let port = |name: &str| PortName::new(name).unwrap();
    StepContext {
        graph: graph(),
        step: StepName::new("s").unwrap(),
        role: StepRole::Main,
        partition: 0,
        inputs: [(port("in"), ["a".into()].into()), (port("more"), [].into())].into(),
        outputs: [port("out")].into(),
        grace: Duration::ZERO,
    }
}

impl Site {
    fn out(&mut self, task: u64) -> OutFolder {
        let task = TaskId::new(Wall::from_micros(task), [0; 5]);
        let (out, rest) = self.dir_pool.make_out(graph(), task).unwrap();
        rest.into_iter().for_each(|rest| self.remover.take(rest));
        let metadata = fs::symlink_metadata(out.path()).unwrap();
        assert_eq!((metadata.mode() & 0o7777, fs::read_dir(out.path()).unwrap().count()), (0o700, 0));
        out
    }
}

fn number(out: &OutFolder) -> u64 {
    fs::symlink_metadata(out.path()).unwrap().ino()
}

#[test]
fn the_next_task_finds_nothing_of_a_step() {
    let step = step();
    for mut site in Site::both() {
        for (script, is_reusable) in [
            ("true", true),
            ("echo a > ../provide/out; echo b > ../out/b; cat ../inputs/in", true),
            ("mkdir -p ../inputs/x/y; mkfifo ../provide/out; ln -s /etc ../provide/x; rm ../inputs/in", true),
            ("rm ../out; mkdir -p ../out/x; touch ../out/x/y ../provide", true),
            ("rm -r ../provide ../inputs", false),
            ("rm -r ../provide; mkdir -m 700 ../provide; touch ../provide/out", false),
            ("mv ../inputs ../provide; chmod 0 ../provide", false),
            ("chmod 755 ../inputs", false),
        ] {
            site.is_step = true;
            let dir = site.first();
            let mut out = site.out(7);
            dir.make_step(&step, &out).unwrap();
            assert_eq!(fs::read_to_string(dir.path().join("inputs/in")).unwrap(), "a\n");
            dir.tell_to_finish().unwrap();
            dir.tell_to_finish().unwrap();
            site.run(dir, script);
            site.dir_pool.keep_out(&mut out);
            let (next, reused) = site.task();
            assert_eq!(found(next.path()), site.expected(), "{script}");
            assert_eq!(reused, is_reusable, "{script}");
            site.put_aside(next);

            site.is_step = false;
            let (plain, _) = site.task();
            assert_eq!(found(plain.path()), site.expected(), "{script}");
            site.put_aside(plain);
        }
    }
}

#[test]
fn what_a_run_provides_is_read_from_a_folder_that_has_settled() {
    let mut step = step();
    step.inputs.clear();
    for mut site in Site::both() {
        site.is_step = true;
        for content in ["x\n", "y\n"] {
            let (dir, out) = (site.first(), site.out(7));
            dir.make_step(&step, &out).unwrap();
            assert_eq!(dir.read_provided(&step, ""), Ok([].into()));
            fs::write(dir.path().join("provide/out"), content).unwrap();
            let provided = dir.read_provided(&step, "").unwrap();
            assert_eq!(provided.values().flatten().map(|text| &**text).collect::<Vec<_>>(), [content.trim_end()]);
            site.put_aside(dir);
        }
    }
}

#[test]
fn an_empty_folder_for_outputs_is_used_again_and_one_with_content_stays() {
    let mut site = Site::new();
    let mut first = site.out(1);
    let (path, inode) = (first.path().to_owned(), number(&first));
    assert!(site.dir_pool.keep_out(&mut first));
    assert!(!path.exists(), "nothing of the name is left");
    let mut second = site.out(2);
    assert_eq!(number(&second), inode);
    fs::write(second.path().join("data"), "x").unwrap();
    assert!(!site.dir_pool.keep_out(&mut second));
    assert_eq!(fs::read(second.path().join("data")).unwrap(), b"x");

    let mut other = site.out(3);
    assert_ne!(number(&other), inode);
    let kept = number(&other);
    assert!(site.dir_pool.keep_out(&mut other));
    let again = site.out(2);
    assert_eq!(number(&again), kept, "the outputs of the earlier round make room for it");
}

#[test]
fn a_folder_for_outputs_that_was_changed_is_not_used_again() {
    let mut site = Site::new();
    let changes: [fn(&Path); 3] = [
        |path| fs::set_permissions(path, Permissions::from_mode(0o777)).unwrap(),
        |path| {
            fs::rename(path, path.with_extension("moved")).unwrap();
            fs::create_dir(path).unwrap();
            fs::write(path.join("data"), "x").unwrap();
        },
        |path| {
            fs::remove_dir(path).unwrap();
            std::os::unix::fs::symlink("/etc", path).unwrap();
        },
    ];
    for (change, at) in changes.into_iter().zip(10..) {
        let mut out = site.out(at);
        let path = out.path().to_owned();
        change(&path);
        assert!(!site.dir_pool.keep_out(&mut out), "change {at}");
        assert!(fs::symlink_metadata(&path).is_ok(), "what stands there is not touched");
    }

    // A task of another agent can reach the folder while it is kept.
    let mut out = site.out(20);
    assert!(site.dir_pool.keep_out(&mut out));
    let spare = site.around_spares().join("out");
    fs::set_permissions(&spare, Permissions::from_mode(0o755)).unwrap();
    let mut out = site.out(21);
    assert!(site.dir_pool.keep_out(&mut out));
    fs::write(spare.join("data"), "x").unwrap();
    site.out(22);
}
