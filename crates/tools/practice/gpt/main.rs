//! Your GPT: a program built from the functions that you wrote.
//!
//! `cargo xtask practice gpt` writes the files of this folder again each time. If you want to
//! change them, copy the folder first.

// In this program, `practice` is the name of the program itself, so `practice::given` contains your
// own functions.
extern crate practice as library;
extern crate self as practice;

pub use library::*;

pub mod given;
mod program;
// MODULES

fn main() -> Result<(), String> {
    let sentence = program::run(7)?;
    println!("\n{sentence}\n\nYou have written a GPT.");
    Ok(())
}
