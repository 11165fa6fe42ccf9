//! Your GPT: a program built from the functions that you wrote.
//!
//! `cargo xtask practice gpt` overwrites the files in this folder each time it runs. If you want to
//! change them, copy the folder first.

// Your exercises call functions by paths such as `practice::given::top_k`, which usually refer to
// the library `practice`. Inside this program, the name `practice` refers to the program itself, so
// that these paths refer to your own functions. All other items of the library are re-exported.
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
