//! An exercise and the parts of its file.
//!
//! The file of an exercise contains the task, the hints, the functions with their solutions, the
//! known mistakes and the checks. From this file, the module extracts the hints, the file that the
//! learner starts with, and the file that contains the solution.

use crate::Report;

/// An exercise on a section of the book, with a task, hints, a solution, known mistakes and checks.
#[derive(Clone, Copy, Debug)]
pub struct Exercise {
    /// Name of the exercise's file and program, such as `s3_3_1`.
    pub name: &'static str,
    /// Names of the functions that the learner writes.
    pub functions: &'static [&'static str],
    /// Text of the exercise's file.
    pub(crate) file: &'static str,
    /// Call that checks the functions, such as `softmax(softmax)`.
    pub(crate) call: &'static str,
    pub(crate) check_solution: fn() -> Report,
    pub(crate) check_mistakes: fn() -> Vec<(&'static str, Report)>,
}

/// Line in the file of an exercise that marks the beginning of a solution. A solution is the part
/// of a function that learners must write themselves, so the file that they start with contains
/// `todo!()` instead of it.
const SOLUTION: &str = "// SOLUTION";
/// Line that marks the end of a solution.
const END: &str = "// END";

/// Line that separates the task, hints and functions from the known mistakes and checks.
const CHECKS: &str = "\n// CHECKS";

/// Beginning of the first line of a hint.
const HINT: &str = "//! HINT: ";
/// Beginning of the other lines of a hint.
const MORE: &str = "//!   ";

impl Exercise {
    /// Returns the number of the exercise, such as `3.3.1`. Learners pass it to `cargo xtask
    /// practice`.
    pub fn number(&self) -> &'static str {
        self.heading().0
    }

    /// Returns the title of the exercise, without the number.
    pub fn title(&self) -> &'static str {
        self.heading().1
    }

    fn heading(&self) -> (&'static str, &'static str) {
        let first = self.file.lines().next().unwrap_or_default();
        let heading = first.trim_start_matches("//! ");
        heading.split_once(' ').unwrap_or((heading, ""))
    }

    /// Returns the hints in the order in which they are shown.
    pub fn hints(&self) -> Vec<String> {
        let mut hints: Vec<String> = Vec::new();
        for line in self.file.lines().filter(|line| is_of_hint(line)) {
            match (line.strip_prefix(HINT), hints.last_mut()) {
                (Some(hint), _) => hints.push(hint.to_owned()),
                (None, Some(hint)) => *hint += &format!(" {}", line[MORE.len()..].trim()),
                (None, None) => {}
            }
        }
        hints
    }

    /// Returns the statement in `main` that checks the learner's functions, such as
    /// `practice::softmax(softmax).print();`.
    pub fn main_call(&self) -> String {
        format!("practice::{}.print();", self.call)
    }

    /// Returns the file that the learner starts with. It contains the task, and `todo!()` in place
    /// of each solution.
    pub fn stub(&self) -> String {
        self.without_hints(|solution| {
            let indent = solution.len() - solution.trim_start().len();
            format!("{}todo!()\n", &solution[..indent])
        })
    }

    /// Returns the text of the learner's file, including the solution.
    pub fn solution(&self) -> String {
        self.without_hints(str::to_owned)
    }

    /// Returns the text of the learner's file, which consists of the task, the functions and
    /// `main`. Each solution is replaced with the result of `part`, which receives the source code
    /// of the solution.
    fn without_hints(&self, part: impl Fn(&str) -> String) -> String {
        let text = self.file.split(CHECKS).next().unwrap_or_default();
        let (mut file, mut solution) = (String::new(), None);
        for line in text.lines().filter(|line| !is_of_hint(line)) {
            match (line.trim(), &mut solution) {
                (SOLUTION, _) => solution = Some(String::new()),
                (END, _) => file += &part(&solution.take().unwrap_or_default()),
                (_, Some(solution)) => *solution += &format!("{line}\n"),
                (_, None) => file += &format!("{line}\n"),
            }
        }
        // The hints at the end of the task have been removed, because learners see them only on
        // request. Also remove the empty comment line that separated them from the rest of the
        // task.
        let file = file.replace("//!\n\n", "\n");
        let main = self.main_call();
        format!("{file}\nfn main() {{\n    {main}\n    // Your experiments go here.\n}}\n")
    }

    /// Runs the checks on the solution.
    pub fn check_solution(&self) -> Report {
        (self.check_solution)()
    }

    /// Checks each known mistake, an incorrect version of the exercise's functions, as if it were a
    /// learner's solution. Returns the description of each mistake together with the report of its
    /// check. Tests use this method to verify that all known mistakes are rejected.
    pub fn check_mistakes(&self) -> Vec<(&'static str, Report)> {
        (self.check_mistakes)()
    }
}

fn is_of_hint(line: &str) -> bool {
    line.starts_with(HINT) || line.starts_with(MORE)
}

#[cfg(test)]
mod tests {
    use crate::EXERCISES;

    #[test]
    fn each_exercise_has_a_task_hints_a_stub_and_a_solution() {
        for exercise in EXERCISES {
            let (name, hints) = (exercise.name, exercise.hints());
            assert!(hints.len() >= 2, "{name}: the formula is the second hint");
            let is_sentence = |hint: &String| hint.split(' ').count() > 4;
            assert!(hints.iter().all(is_sentence), "{name}: {hints:?}");
            let (stub, solution) = (exercise.stub(), exercise.solution());
            let solved = stub.matches("todo!()").count();
            assert_eq!(solved, exercise.functions.len(), "{name}: {stub}");
            for function in exercise.functions {
                assert!(stub.contains(&format!("pub fn {function}(")), "{name}");
            }
            for file in [&stub, &solution] {
                assert!(file.contains(&exercise.main_call()), "{file}");
                let marks = ["HINT", "SOLUTION", "// END", "CHECKS", "\n\n\n"];
                assert!(marks.iter().all(|mark| !file.contains(mark)), "{file}");
            }
            assert!(!solution.contains("todo!()"), "{name}");
            let task = stub.lines().take_while(|line| line.starts_with("//!"));
            let words = task.collect::<String>().split(' ').count();
            assert!(words > 40, "{name}: a task of {words} words");
            assert!(exercise.title().len() > 3, "{name}: {}", exercise.title());
        }
    }
}
