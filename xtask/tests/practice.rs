//! Tests of `cargo xtask practice`, which is run in temporary folders as a reader would run it.

#![allow(clippy::disallowed_methods, reason = "tests write files as they like")]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use practice::{EXERCISES, REPORT_FILE};
use tempfile::TempDir;

/// Runs the command and passes the lines `typed` to its standard input. Returns whether it
/// succeeded, and the text that it printed on standard output and standard error.
fn run(command: &mut Command, typed: &str) -> (bool, String) {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("xtask runs");
    let mut stdin = child.stdin.take().expect("it is piped");
    stdin.write_all(typed.as_bytes()).expect("it reads");
    drop(stdin);
    let output = child.wait_with_output().expect("it ends");
    let printed = [output.stdout, output.stderr].concat();
    let printed = String::from_utf8_lossy(&printed).into_owned();
    assert!(!printed.contains("src/practice/"), "a panic: {printed}");
    (output.status.success(), printed)
}

fn practice(folder: &Path, arguments: &[&str], typed: &str) -> (bool, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.arg("practice").args(arguments);
    run(command.arg("--folder").arg(folder), typed)
}

/// If the file of one exercise contains a syntax error, the other exercises can still be checked.
/// After an exercise has been solved, the option `--watch` continues with the next exercise.
#[test]
fn a_broken_file_blocks_no_other_exercise() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (_, list) = practice(folder.path(), &[], "");
    let none = format!("0 of {} done", EXERCISES.len());
    assert!(list.contains(&none), "{list}");
    let file = |name: &str| folder.path().join(format!("src/bin/{name}.rs"));
    let [broken, solved, next] = [0, 1, 2].map(|place| &EXERCISES[place]);
    fs::write(file(broken.name), "fn main() {").expect("a file");
    fs::write(file(solved.name), solved.solution()).expect("a file");

    let (is_done, checked) = practice(folder.path(), &[solved.number()], "");
    assert!(
        is_done && checked.contains("checks passed") && !checked.contains("warning"),
        "{checked}"
    );
    let (is_done, checked) = practice(folder.path(), &[broken.number()], "");
    let message = "this file contains an unclosed delimiter";
    assert!(
        !is_done && checked.contains(message) && checked.contains("it doesn't compile yet"),
        "{checked}"
    );
    let (_, list) = practice(folder.path(), &[], "");
    let one = format!("1 of {} done", EXERCISES.len());
    assert!(
        list.contains(&one) && list.contains("it doesn't compile yet"),
        "{list}"
    );

    let (_, watched) = practice(folder.path(), &["--watch", next.number()], "h\nl\nn\nq\n");
    assert!(
        watched.contains("not written yet\nsave the file"),
        "{watched}"
    );
    assert!(watched.contains(&next.hints()[0]), "{watched}");
    assert!(watched.contains(&one), "{watched}");
    let behind = format!("\n{} {} (", EXERCISES[3].number(), EXERCISES[3].title());
    assert!(watched.contains(&behind), "{watched}");

    // All stubs compile without warnings and are reported as not written.
    let (is_done, all) = practice(folder.path(), &["--all"], "");
    assert!(!is_done && all.contains(&one), "{all}");
    let unwritten = all.matches("not written yet").count();
    assert_eq!(unwritten, EXERCISES.len() - 2, "{all}");
    assert!(
        all.contains("it doesn't compile yet") && !all.contains("unclosed"),
        "{all}"
    );
    let mut build = Command::new(env!("CARGO"));
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/practice");
    build.args(["build", "--quiet", "--bins", "--keep-going", "--target-dir"]);
    build.arg(target).arg("--manifest-path");
    let (_, messages) = run(build.arg(folder.path().join("Cargo.toml")), "");
    let errors = messages.lines().filter(|line| line.starts_with("error"));
    assert!(
        !messages.contains("warning") && errors.count() == 2,
        "{messages}"
    );

    // All solutions pass.
    for exercise in EXERCISES {
        fs::write(file(exercise.name), exercise.solution()).expect("a file");
    }
    let (is_done, all) = practice(folder.path(), &["--all"], "");
    let n = EXERCISES.len();
    assert!(
        is_done && all.contains(&format!("{n} of {n} done")),
        "{all}"
    );
}

/// If the stored progress is damaged, the error contains the name of its file, and the file isn't
/// changed.
#[test]
fn damaged_progress_is_an_error_with_its_file() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (is_done, list) = practice(folder.path(), &[], "");
    assert!(is_done, "{list}");
    let name = EXERCISES[0].name;
    for damage in [
        String::new(),
        "[]".to_owned(),
        format!("{{\"{name}\": 5}}"),
        format!("{{\"{name}\": {{\"passed\": -1}}}}"),
    ] {
        let state = folder.path().join("state.json");
        fs::write(&state, &damage).expect("a file");
        for arguments in [&[][..], &[EXERCISES[0].number(), "--hint"]] {
            let (is_done, printed) = practice(folder.path(), arguments, "");
            assert!(!is_done && printed.contains("state.json"), "{printed}");
        }
        assert_eq!(fs::read_to_string(&state).expect("a file"), damage);
    }
}

/// A copy of the project in which a very small library replaces the crate `practice`, so programs
/// compile quickly.
struct Clone {
    parent: TempDir,
    name: String,
}

/// Source code of the library that replaces `practice`. Its function `passed(n)` returns the report
/// of a check in which n of 4 rows passed.
const LIBRARY: &str = "
    pub struct Report(u32);
    pub fn passed(n: u32) -> Report { Report(n) }
    impl Report {
        pub fn print(self) {
            let text = format!(\" a row\\n{} of 4 checks passed\\n\", self.0);
            std::fs::write(std::env::var_os(\"REPORT_FILE\").unwrap(), text).unwrap();
        }
    }";

impl Clone {
    fn new() -> Self {
        let clone = Self {
            parent: tempfile::tempdir().expect("a temporary folder"),
            name: "clone".to_owned(),
        };
        let library = clone.path().join("crates/tools/practice");
        let manifest = "[package]\nname = \"practice\"\nedition = \"2024\"\n";
        fs::create_dir_all(library.join("src")).expect("a folder");
        fs::write(library.join("Cargo.toml"), manifest).expect("a file");
        let source = LIBRARY.replace("REPORT_FILE", REPORT_FILE);
        fs::write(library.join("src/lib.rs"), source).expect("a file");
        fs::create_dir(clone.path().join("xtask")).expect("a folder");
        fs::write(clone.path().join("xtask/Cargo.toml"), "").expect("a file");
        fs::write(clone.path().join("Cargo.lock"), "version = 4\n").expect("a file");
        fs::create_dir_all(clone.program().parent().expect("its folder")).expect("a folder");
        fs::copy(env!("CARGO_BIN_EXE_xtask"), clone.program()).expect("a copy");
        clone
    }

    fn path(&self) -> PathBuf {
        self.parent.path().join(&self.name)
    }

    fn program(&self) -> PathBuf {
        self.path().join("target/debug/xtask")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.program());
        command.arg("practice").args(arguments);
        for variable in [
            "CARGO_MANIFEST_DIR",
            "CARGO_TARGET_DIR",
            "CARGO_BUILD_TARGET",
        ] {
            command.env_remove(variable);
        }
        command
    }

    fn practice(&self, arguments: &[&str]) -> (bool, String) {
        run(&mut self.command(arguments), "")
    }

    fn file(&self, number: usize) -> PathBuf {
        let name = EXERCISES[number].name;
        self.path().join(format!("practice/src/bin/{name}.rs"))
    }

    /// Writes the body of `main` to the file of an exercise, and checks the exercise.
    fn check(&self, number: usize, main: &str) -> (bool, String) {
        self.practice(&[]);
        fs::write(self.file(number), format!("fn main() {{ {main} }}")).expect("a file");
        self.practice(&[EXERCISES[number].number()])
    }

    fn list(&self) -> String {
        self.practice(&[]).1
    }
}

#[test]
fn the_result_is_the_report_whatever_else_is_printed() {
    let clone = Clone::new();
    let (is_done, printed) = clone.check(
        0,
        "print!(\"before\"); practice::passed(4).print(); \
         println!(\"\\nafter\\n0 of 4 checks passed\"); eprint!(\"no newline\");",
    );
    assert!(is_done, "{printed}");
    let expected =
        "before\nafter\n0 of 4 checks passed\nno newline\n a row\n4 of 4 checks passed\n";
    assert!(printed.contains(expected), "{printed}");
    assert!(clone.list().contains("1 of "), "{printed}");

    let (is_done, printed) = clone.check(0, "practice::passed(3).print();");
    assert!(
        !is_done && printed.contains("3 of 4 checks passed\nerror: 2.3 isn't done"),
        "{printed}"
    );
    assert!(clone.list().contains("3 of 4 checks passed\n"), "{printed}");

    let much = "for i in 0..1_000_000 { println!(\"line {i}\") } practice::passed(4).print();";
    let (is_done, printed) = clone.check(0, much);
    assert!(is_done && printed.len() < 20_000, "{} bytes", printed.len());
    let cut = "... (only the first 16 KiB of the output are shown)\n a row\n4 of 4 checks passed\n";
    assert!(printed.contains(cut), "{printed}");
}

#[test]
fn a_program_without_a_whole_result_is_not_done_for_a_reason() {
    let clone = Clone::new();
    let passed = "practice::passed(4).print();";
    let cases = [
        (
            "",
            "the program ended without a result; `main` must contain practice::",
        ),
        (
            "println!(\" a row\\n4 of 4 checks passed\"); std::process::exit(0)",
            "without a result",
        ),
        ("practice::passed(4);", "without a result"),
        (
            &format!("{passed} std::process::exit(3)"),
            "the program failed (exit status: 3)",
        ),
        (
            &format!("{passed} panic!(\"why\")"),
            "the program failed (exit status: 101)",
        ),
        (
            "fn deep(n: u64) -> u64 { if n == 0 { 0 } else { 1 + deep(std::hint::black_box(n - 1)) } } \
             println!(\"{}\", deep(u64::MAX));",
            "the program failed (signal: 6",
        ),
        (
            &format!("{passed} loop {{ println!(\"again\") }}"),
            "the program was stopped after 10 seconds; it may contain an endless loop",
        ),
    ];
    let windows = cfg!(windows);
    for (main, reason) in cases
        .into_iter()
        .filter(|(_, reason)| !windows || !reason.contains("signal"))
    {
        assert!(clone.check(0, passed).0);
        let (is_done, printed) = clone.check(0, main);
        assert!(!is_done && printed.contains(reason), "{main}:\n{printed}");
        assert!(printed.len() < 20_000, "{} bytes", printed.len());
        let list = clone.list();
        let short = reason.split("; ").next().unwrap_or_default();
        assert!(
            list.contains(short) && list.contains("0 of "),
            "{reason}: {list}"
        );
    }
}

#[test]
fn a_moved_clone_and_another_target_folder_change_nothing() {
    let mut clone = Clone::new();
    assert!(clone.check(0, "practice::passed(4).print();").0);
    let elsewhere = clone.parent.path().join("moved");
    fs::rename(clone.path(), elsewhere).expect("another name");
    clone.name = "moved".to_owned();
    let list = clone.list();
    assert!(
        list.contains("1 of ") && !list.contains("doesn't compile"),
        "{list}"
    );
    assert!(clone.practice(&["2.3"]).0);

    // Only the folder of the exercises is moved.
    let folder = clone.parent.path().join("mine");
    fs::rename(clone.path().join("practice"), &folder).expect("another name");
    let path = folder.to_str().expect("UTF-8");
    let (is_done, printed) = clone.practice(&["2.3", "--folder", path]);
    assert!(is_done, "{printed}");
    fs::rename(&folder, clone.path().join("practice")).expect("the old name");
    assert!(clone.practice(&["2.3"]).0);

    // These environment variables make cargo write programs to a different folder. The command must
    // run the program in this folder, and not a program from an earlier build.
    let host = Command::new("rustc")
        .arg("-vV")
        .output()
        .expect("rustc")
        .stdout;
    let host = String::from_utf8(host).expect("UTF-8");
    let host = host
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .expect("its host");
    let other = clone.parent.path().join("target");
    let other = other.to_str().expect("UTF-8");
    let variables = [("CARGO_BUILD_TARGET", host), ("CARGO_TARGET_DIR", other)];
    for (passed, (variable, value)) in (0..).zip(variables) {
        let main = format!("fn main() {{ practice::passed({passed}).print(); }}");
        fs::write(clone.file(0), main).expect("a file");
        let (_, printed) = run(clone.command(&["2.3"]).env(variable, value), "");
        let result = format!("{passed} of 4 checks passed");
        assert!(printed.contains(&result), "{variable}: {printed}");
    }
    assert!(Path::new(other).join("debug").exists());
}

/// Waits until `holds` returns true.
///
/// # Panics
/// Panics with the message `what` after half a minute.
fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(30), "{what}");
        sleep(Duration::from_millis(50));
    }
}

/// Returns true if the process is running, and false if it has ended.
#[cfg(target_os = "linux")]
fn is_running(pid: &str) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/stat"));
    status.is_ok_and(|status| !status.contains(") Z "))
}

/// Returns the body of a `main` that starts a process, writes its process ID to a file, and
/// continues with `then`.
#[cfg(target_os = "linux")]
fn starts_another(file: &Path, then: &str) -> String {
    format!(
        "let child = std::process::Command::new(\"sleep\").arg(\"1000\").spawn().unwrap(); \
         std::fs::write({file:?}, child.id().to_string()).unwrap(); practice::passed(4).print(); {then}"
    )
}

#[cfg(target_os = "linux")]
#[test]
fn processes_that_a_program_starts_end_with_it() {
    let clone = Clone::new();
    let file = clone.parent.path().join("pid");
    for (then, expected) in [("", true), ("loop {}", false)] {
        let began = Instant::now();
        let (is_done, printed) = clone.check(0, &starts_another(&file, then));
        assert_eq!(is_done, expected, "{printed}");
        assert!(began.elapsed() < Duration::from_secs(60), "{printed}");
        let pid = fs::read_to_string(&file).expect("a process ID");
        wait_for("the other process ends", || !is_running(&pid));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_signal_ends_the_program_and_what_it_started() {
    let clone = Clone::new();
    let file = clone.parent.path().join("pid");
    clone.practice(&[]);
    let main = format!("fn main() {{ {} }}", starts_another(&file, "loop {}"));
    fs::write(clone.file(0), main).expect("a file");
    let mut xtask = clone
        .command(&["2.3"])
        .stdout(Stdio::null())
        .spawn()
        .expect("xtask runs");
    wait_for("the program runs", || {
        fs::read_to_string(&file).is_ok_and(|pid| !pid.is_empty())
    });
    let id = xtask.id().to_string();
    let sent = Command::new("kill").args(["-INT", &id]).status();
    assert!(sent.expect("kill").success());
    assert!(!xtask.wait().expect("it ends").success());
    let pid = fs::read_to_string(&file).expect("a process ID");
    wait_for("the other process ends", || !is_running(&pid));
}

/// Ends a process when it goes out of scope.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_watch_keeps_what_another_terminal_stores() {
    let clone = Clone::new();
    clone.practice(&[]);
    let main = |passed: u32| format!("fn main() {{ practice::passed({passed}).print(); }}");
    fs::write(clone.file(0), main(1)).expect("a file");
    let mut watch = clone.command(&["--watch"]);
    let watch = watch.stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
    let _watch = Killed(watch.expect("xtask runs"));
    wait_for("the watch checks", || {
        clone.list().contains("1 of 4 checks")
    });
    assert!(clone.check(1, "practice::passed(4).print();").0);
    fs::write(clone.file(0), main(2)).expect("a file");
    wait_for("the watch checks again", || {
        clone.list().contains("2 of 4 checks")
    });
    assert!(clone.list().contains("\n1 of "), "{}", clone.list());
}
