//! The exercises: their files, and the stubs made from them.

/// An exercise: a file with its task, its hints and its solution.
#[derive(Clone, Copy, Debug)]
pub struct Exercise {
    /// The name of its file and its program: `s3_3_1`.
    pub name: &'static str,
    /// The number that a reader types: `3.3.1`.
    pub number: &'static str,
    file: &'static str,
}

/// The mark before a solution, and the one behind it.
const SOLUTION: &str = "// SOLUTION";
const END: &str = "// END";

/// The mark of a hint.
const HINT: &str = "//! HINT: ";

impl Exercise {
    /// Its title.
    pub fn title(&self) -> &'static str {
        let first = self.file.lines().next().unwrap_or_default();
        first
            .trim_start_matches("//! ")
            .trim_start_matches(self.number)
            .trim()
    }

    /// The hints, the first one first.
    pub fn hints(&self) -> Vec<&'static str> {
        self.file
            .lines()
            .filter_map(|line| line.strip_prefix(HINT))
            .collect()
    }

    /// Returns the reader's first file: `todo!()` instead of each solution, without hints.
    pub fn stub(&self) -> String {
        let mut stub = String::new();
        let mut in_solution = false;
        for line in self.file.lines().filter(|line| !line.starts_with(HINT)) {
            match line.trim() {
                SOLUTION => {
                    in_solution = true;
                    stub += &format!("{}todo!()\n", &line[..line.len() - line.trim_start().len()]);
                }
                END => in_solution = false,
                _ if in_solution => {}
                _ => stub += &format!("{line}\n"),
            }
        }
        own(&stub)
    }

    /// The file with its solution, without marks and hints.
    pub fn solution(&self) -> String {
        let is_code =
            |line: &&str| !line.starts_with(HINT) && ![SOLUTION, END].contains(&line.trim());
        let lines = self.file.lines().filter(is_code);
        own(&lines.map(|line| format!("{line}\n")).collect::<String>())
    }
}

/// A file as a reader has it: the functions are private, and nothing is left of the hints.
fn own(file: &str) -> String {
    file.replace("//!\n\n", "\n").replace("\npub fn ", "\nfn ")
}

macro_rules! exercises {
    ($($name:literal $number:literal)*) => {
        /// All exercises, in the book's order.
        pub const EXERCISES: &[Exercise] = &[$(Exercise {
            name: $name,
            number: $number,
            file: include_str!(concat!("../exercises/", $name, ".rs")),
        }),*];
    };
}

exercises! {
    "s2_3" "2.3"
    "s2_5" "2.5"
    "s2_6" "2.6"
    "s3_3_1" "3.3.1"
    "s3_3_2" "3.3.2"
    "s3_4" "3.4"
    "s3_5" "3.5"
    "s3_6" "3.6"
    "ex3_1" "ex3.1"
    "s4_2" "4.2"
    "s4_3" "4.3"
    "s4_4" "4.4"
    "s4_5" "4.5"
    "s4_7" "4.7"
    "s5_1" "5.1"
    "s5_3" "5.3"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_exercise_has_a_task_hints_a_stub_and_a_solution() {
        for exercise in EXERCISES {
            let name = exercise.name;
            let hints = exercise.hints();
            assert!((1..=3).contains(&hints.len()), "{name}");
            assert!(
                hints.iter().all(|hint| hint.split(' ').count() > 4),
                "{name}"
            );
            let stub = exercise.stub();
            assert!(stub.contains("todo!()") && !stub.contains("HINT"), "{name}");
            assert!(
                stub.contains(".print();") && !stub.contains("SOLUTION"),
                "{name}"
            );
            let task = stub.lines().take_while(|line| line.starts_with("//!"));
            assert!(
                task.collect::<String>().split(' ').count() > 20,
                "{name}: a task"
            );
            let solution = exercise.solution();
            assert!(
                !solution.contains("todo!()") && !solution.contains("// END"),
                "{name}"
            );
        }
    }
}
