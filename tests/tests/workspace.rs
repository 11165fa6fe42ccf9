//! What no single crate can show: text to tokens end to end, the same bits for any number of
//! threads, each crate used alone, each example.

mod examples;
mod pipeline;
mod standalone;
mod threads;
