//! Creating prompts in a folder of the test's own.

#![cfg(test)]

use super::*;

struct Place(tempfile::TempDir);

impl Place {
    fn new(prompt: &str, targets: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("prompt"), prompt).unwrap();
        fs::write(folder.path().join("targets"), targets).unwrap();
        Self(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn creation(&self) -> Creation {
        Creation {
            prompt: self.path("prompt"),
            targets: self.path("targets"),
            template: None,
            root: self.path("root"),
            clear: false,
        }
    }

    fn names(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path("root/.tasks").join(folder));
        let entries = entries.map(|entries| entries.map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>());
        let mut names: Vec<_> = entries.unwrap_or_default().iter().map(|n| n.to_str().unwrap().to_owned()).collect();
        names.sort();
        names
    }
}

#[test]
fn each_target_becomes_a_file_and_nothing_else_is_left() {
    let place = Place::new("Summarise it.\n", "one\n\ntwo\n");
    let created = create(&place.creation()).unwrap();
    assert_eq!(created.names, ["task_001_one.txt", "task_002_two.txt"]);
    assert_eq!(place.names("pending"), created.names);
    assert_eq!(place.names(""), ["done", "failed", "pending", "working"]);
    let text = fs::read_to_string(created.pending.join("task_002_two.txt")).unwrap();
    assert!(text.contains("\"Summarise it.\"") && text.contains("two"), "{text}");
}

#[test]
fn a_template_of_ones_own_is_taken_as_it_is() {
    let place = Place::new("work", "a {{prompt}} b");
    fs::write(place.path("template"), "{{target}}: {{prompt}}").unwrap();
    let created = create(&Creation { template: Some(place.path("template")), ..place.creation() }).unwrap();
    let text = fs::read_to_string(created.pending.join(&created.names[0])).unwrap();
    assert_eq!(text, "a {{prompt}} b: work");
}

#[test]
fn a_name_that_is_known_anywhere_is_refused_before_anything_is_written() {
    let place = Place::new("work", "one\ntwo");
    create(&place.creation()).unwrap();
    let (from, to) =
        (place.path("root/.tasks/pending/task_002_two.txt"), place.path("root/.tasks/done/task_002_two.txt"));
    fs::rename(from, to).unwrap();
    fs::remove_file(place.path("root/.tasks/pending/task_001_one.txt")).unwrap();
    let refused = create(&place.creation()).unwrap_err().to_string();
    assert!(refused.starts_with("line 2 of the target list: ") && refused.contains("--clear"), "{refused}");
    assert_eq!(place.names("pending"), [""; 0]);
}

#[test]
fn clear_removes_everything_but_only_once_all_is_known_to_be_good() {
    let place = Place::new("work", "one");
    create(&place.creation()).unwrap();
    fs::write(place.path("root/.tasks/done/old.txt"), "").unwrap();
    fs::write(place.path("targets"), b"one\n\xff").unwrap();
    let again = Creation { clear: true, ..place.creation() };
    assert!(create(&again).is_err());
    assert_eq!(place.names("done"), ["old.txt"]);
    fs::write(place.path("targets"), "two").unwrap();
    create(&again).unwrap();
    assert_eq!((place.names("done").len(), place.names("pending")), (0, vec!["task_001_two.txt".to_owned()]));
}

#[test]
fn front_matter_comes_first_whatever_the_template_says() {
    let place = Place::new("---\npriority: 5\n---\nwork", "one");
    let created = create(&place.creation()).unwrap();
    let text = fs::read_to_string(created.pending.join(&created.names[0])).unwrap();
    let (front, prompt) = Front::split(&text).unwrap();
    assert!(front.priority == 5 && prompt.contains("\"work\""), "{text}");
    fs::write(place.path("prompt"), "---\npriority: high\n---\nwork").unwrap();
    assert!(create(&place.creation()).unwrap_err().to_string().starts_with("the front matter of "));
}

#[test]
fn nothing_is_cleared_under_a_running_master_or_worker() {
    let place = Place::new("work", "one");
    create(&place.creation()).unwrap();
    fs::create_dir(place.path("root/.tasks/.runs")).unwrap();
    let again = Creation { clear: true, ..place.creation() };
    let lock = StateLock::acquire(&place.path("root/.tasks"), MASTER).unwrap();
    assert!(create(&again).unwrap_err().to_string().contains("stop it before --clear"));
    drop(lock);
    create(&again).unwrap();
    assert!(place.path("root/.tasks/.runs").exists());
}

#[test]
fn what_cannot_be_used_is_named() {
    let place = Place::new(" \n", "one");
    let refused = |creation: &Creation| create(creation).unwrap_err().to_string();
    assert!(refused(&place.creation()).contains("prompt is empty"));
    fs::write(place.path("prompt"), b"ok\nbad \xc3").unwrap();
    assert!(refused(&place.creation()).contains("is not UTF-8: line 2"));
    let missing = Creation { targets: place.path("nowhere"), prompt: place.path("targets"), ..place.creation() };
    assert!(refused(&missing).starts_with("cannot read ") && refused(&missing).contains("nowhere"));
    let template =
        Creation { template: Some(place.path("targets")), prompt: place.path("targets"), ..place.creation() };
    assert!(refused(&template).contains("there is no {{target}}"));
    assert!(!place.path("root").exists());
}

#[test]
fn what_is_cleared_is_locked_against_a_master_until_the_new_prompts_are_there() {
    use std::os::unix::fs::MetadataExt as _;
    let place = Place::new("work", "one");
    create(&place.creation()).unwrap();
    let tasks = place.path("root/.tasks");
    drop(StateLock::acquire(&tasks, MASTER).unwrap());
    let inode = || tasks.join("master.lock").metadata().unwrap().ino();
    let before = inode();
    let lock = clear(&tasks).unwrap();
    assert_eq!((place.names(""), inode()), (vec!["master.lock".to_owned()], before));
    assert!(StateLock::holder(&tasks, MASTER).is_some());
    drop(lock);
    assert!(StateLock::holder(&tasks, MASTER).is_none());
}
