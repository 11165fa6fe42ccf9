//! The exercises in the book's order.
//!
//! Each file contains everything about one exercise. The part before the line `// CHECKS` contains
//! the task, the hints, and the functions with their solutions. The learner receives this part
//! without the hints and solutions. The part after this line contains the known mistakes and the
//! checks.

#![allow(
    unreachable_pub,
    reason = "a reader's program uses the functions of other files"
)]
#![allow(
    unused_parens,
    reason = "the macro writes a tuple, even of one function"
)]

use ndarray::{Array2, array};

use crate::Exercise;

#[path = "../gpt/given.rs"]
pub mod given;
#[cfg(test)]
#[path = "../gpt/program.rs"]
pub(crate) mod program;

mod ex3_1;
mod s2_3;
mod s2_5;
mod s2_6;
mod s2_8;
mod s3_3_1;
mod s3_3_2;
mod s3_4;
mod s3_5;
mod s3_5_2;
mod s3_6;
mod s3_6_2;
mod s4_2;
mod s4_3;
mod s4_3b;
mod s4_4;
mod s4_5;
mod s4_6;
mod s4_7;
mod s5_1;
mod s5_2a;
mod s5_2b;
mod s5_2c;
mod s5_3;
mod s5_3_3;

/// Defines [`EXERCISES`], the list of all exercises, and exports the functions that check the
/// learner's solutions. Each row of the macro's input describes one exercise: the name of its file,
/// the public name of its check and, in parentheses, the names of the functions that the learner
/// writes and the check receives.
macro_rules! exercises {
    ($($name:ident $check:ident($($function:ident),*))*) => {
        $(pub use $name::check as $check;)*

        /// All exercises in the book's order.
        pub const EXERCISES: &[Exercise] = &[$(Exercise {
            name: stringify!($name),
            functions: &[$(stringify!($function)),*],
            file: include_str!(concat!(stringify!($name), ".rs")),
            call: stringify!($check($($function),*)),
            check_solution: || $name::check($($name::$function),*),
            check_mistakes: || {
                let mistakes = $name::MISTAKES.iter();
                mistakes.map(|(name, ($($function),*))| (*name, $name::check($(*$function),*))).collect()
            },
        }),*];
    };
}

exercises! {
    s2_3 simple_tokenizer(encode, decode)
    s2_5 merge_pair(merge)
    s2_6 windows(windows)
    s2_8 embeddings(embed)
    s3_3_1 softmax(softmax)
    s3_3_2 context_vectors(context_vectors)
    s3_4 attention_with_weights(attention)
    s3_5 causal_weights(causal_weights)
    s3_5_2 dropout(dropout)
    s3_6 heads(split, join)
    s3_6_2 multi_head(multi_head)
    ex3_1 weights_of_linear(v1_weights)
    s4_2 layer_norm(layer_norm)
    s4_3 gelu(gelu)
    s4_3b feed_forward(feed_forward)
    s4_4 shortcut(forward)
    s4_5 block(block)
    s4_6 model(forward)
    s4_7 greedy(generate)
    s5_1 cross_entropy(cross_entropy, perplexity)
    s5_2a backward(cross_entropy_gradient, linear_backward)
    s5_2b adamw(adamw)
    s5_2c training_loop(train)
    s5_3 decoding(with_temperature, top_k)
    s5_3_3 generation(generate)
}

/// Returns the embeddings of the six words in chapter 3. The array has the shape (num_tokens, d_in)
/// = (6, 3).
fn inputs() -> Array2<f32> {
    array![
        [0.43, 0.15, 0.89],
        [0.55, 0.87, 0.66],
        [0.57, 0.85, 0.64],
        [0.22, 0.58, 0.33],
        [0.77, 0.25, 0.10],
        [0.05, 0.80, 0.55],
    ]
}
