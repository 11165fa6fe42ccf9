//! The files of a program that builds a GPT from the functions that a learner has written as
//! exercises. The command `cargo xtask practice gpt` builds and runs this program.

use crate::{EXERCISES, Exercise};

/// Names of the exercises whose functions the program uses.
const PARTS: [&str; 19] = [
    "s2_3", "s2_6", "s2_8", "s3_3_1", "s3_5", "s3_5_2", "s3_6", "s3_6_2", "s4_2", "s4_3", "s4_3b",
    "s4_5", "s4_6", "s5_1", "s5_2a", "s5_2b", "s5_2c", "s5_3", "s5_3_3",
];

/// Returns the exercises whose functions the program uses, in the book's order.
pub fn parts_of_gpt() -> impl Iterator<Item = &'static Exercise> {
    let all = EXERCISES.iter();
    all.filter(|exercise| PARTS.contains(&exercise.name))
}

/// Returns the name and the text of each file of the program. The program must be in a subfolder of
/// the folder that contains the exercises' files, because it refers to them by relative paths.
#[must_use]
pub fn files_of_gpt() -> [(&'static str, String); 3] {
    let modules: String = parts_of_gpt()
        .map(|part| format!("#[path = \"../{0}.rs\"]\nmod {0};\n", part.name))
        .collect();
    let main = include_str!("../gpt/main.rs").replace("// MODULES\n", &modules);
    [
        ("main.rs", main),
        ("given.rs", include_str!("../gpt/given.rs").to_owned()),
        ("program.rs", include_str!("../gpt/program.rs").to_owned()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_is_an_exercise_and_a_module() {
        assert_eq!(parts_of_gpt().count(), PARTS.len());
        let [(_, main), (_, given), (_, program)] = files_of_gpt();
        for name in PARTS {
            assert!(main.contains(&format!("mod {name};")), "{name}");
            let used = format!("super::{name}::");
            assert!(given.contains(&used) || program.contains(&used), "{name}");
        }
    }

    #[test]
    fn the_solutions_are_a_gpt_that_writes_a_sentence() {
        let sentence = crate::exercises::program::run(1).unwrap();
        assert!(sentence.starts_with("The bell"), "{sentence}");
    }
}
