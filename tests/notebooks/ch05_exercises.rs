//! exercise-solutions.ipynb of chapter 5; exercises 5.3 and 5.4 need the trained model, so they are
//! in ch05_training.rs.
//!
//! Cells are numbered as in revision 28c65cd of the book's repository.

use anyhow::Result;
use generate::softmax_with_temperature;
use ndarray::array;

use crate::Notebook;
use crate::ch05::sampled_tokens;

pub(crate) fn run(book: &mut Notebook) -> Result<()> {
    book.opens(
        "Tasks of chapter 5 with their solutions: temperatures and how often a rare word is drawn. Exercises 5.3 and 5.4 need the trained model and stand with the training run.",
        "section 5.3.",
        6,
    );
    book.section(
        "ex5.1",
        "Temperature-scaled softmax scores and sampling probabilities",
    );
    // Task: draw a word a thousand times at the temperatures 1, 0.1 and 5, and count how often each
    // word comes. How often is it "pizza" at 5? Expected: 0, 0 and 32 times. Solution, temperature
    // 1 first:
    #[expect(clippy::approx_constant, reason = "6.28 is a logit")]
    let next_token_logits = array![4.51, 0.89, -1.90, 6.75, 1.63, -1.62, -1.89, 6.28, 1.79];
    // Without `minlength`, `bincount` ends at the largest id that was drawn.
    let drawn = |probas| {
        let mut sampled_ids = sampled_tokens(probas);
        while sampled_ids.last() == Some(&0) {
            sampled_ids.pop();
        }
        sampled_ids
    };
    let unscaled = softmax_with_temperature(&next_token_logits, 1.0)?;
    book.prints(
        "In [3] at temperature 1",
        &drawn(&unscaled),
        "\
73 x closer
0 x every
0 x effort
582 x forward
2 x inches
0 x moves
0 x pizza
343 x toward",
    );

    // At a low temperature, nearly all draws give the most probable word.
    let temperature = book.input("temperature", 0.1, 0.001..=1000.0);
    let colder = softmax_with_temperature(&next_token_logits, temperature)?;
    book.prints(
        "In [3] at temperature 0.1",
        &drawn(&colder),
        "\
0 x closer
0 x every
0 x effort
985 x forward
0 x inches
0 x moves
0 x pizza
15 x toward",
    );

    // At a high temperature, every word is drawn.
    let temperature = book.input("temperature", 5.0, 0.001..=1000.0);
    let hotter = softmax_with_temperature(&next_token_logits, temperature)?;
    book.prints(
        "In [3] at temperature 5",
        &drawn(&hotter),
        "\
165 x closer
75 x every
42 x effort
239 x forward
71 x inches
46 x moves
32 x pizza
227 x toward
103 x you",
    );

    // The probability itself answers the question without any draws: 4.3%. The count above, 32 of
    // 1,000, is close to it.
    let pizza_idx = 6;
    book.prints("In [4]", &hotter[pizza_idx], "tensor(0.0430)");

    book.section(
        "ex5.5",
        "Training and validation set losses of the pretrained model",
    );
    book.leaves_out(
        "In [18]",
        2,
        "needs OpenAI's weights, which are not downloaded",
    );
    book.leaves_out(
        "In [19]",
        2,
        "needs OpenAI's weights, which are not downloaded",
    );

    book.section("ex5.6", "Trying larger models");
    book.leaves_out(
        "In [23]",
        1,
        "needs OpenAI's weights, which are not downloaded",
    );
    Ok(())
}
