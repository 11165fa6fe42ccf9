//! Rust port of chapter 5's exercise-solutions.ipynb. Exercises 5.3 and 5.4 need the trained model,
//! so their solutions are in ch05_training.rs.
//!
//! Cells are numbered as in revision 28c65cd of the book's repository.

use anyhow::Result;
use generate::softmax_with_temperature;
use ndarray::array;

use crate::Notebook;
use crate::ch05::{sampled_tokens, with_words};

pub(crate) fn run(book: &mut Notebook) -> Result<()> {
    book.opens(
        "A task of chapter 5 with its solution: how often is an improbable word drawn at different temperatures? Exercises 5.2 to 5.4 need the trained model. The notebook for the training run contains the solutions of exercises 5.3 and 5.4, and its fields let you try the settings of exercise 5.2.",
        "section 5.3.",
        6,
    );
    book.section(
        "ex5.1",
        "Temperature-scaled softmax scores and sampling probabilities",
    );
    // Task: draw a thousand words at each of the temperatures 1, 0.1 and 5, and count how often
    // each word is drawn. How often is the word "pizza" drawn at the highest temperature? How could
    // you predict this count without drawing any words?

    // Solution: at temperature 1, the word "pizza" is drawn {pizza} times in a thousand draws.
    #[expect(clippy::approx_constant, reason = "6.28 is a logit")]
    let next_token_logits = array![4.51, 0.89, -1.90, 6.75, 1.63, -1.62, -1.89, 6.28, 1.79];
    // The list of counts has a line for each word, up to the drawn word with the largest id. Words
    // with larger ids are left out, as in the result of PyTorch's `bincount`.
    let drawn = |probas| {
        let mut sampled_ids = sampled_tokens(probas);
        while sampled_ids.last() == Some(&0) {
            sampled_ids.pop();
        }
        with_words(sampled_ids)
    };
    let unscaled = softmax_with_temperature(&next_token_logits, 1.0)?;
    book.value("pizza", sampled_tokens(&unscaled)[6]);
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

    // At temperature {temperature}, the word "pizza" is drawn {pizza_colder} times in a thousand
    // draws.
    let temperature = book.input("temperature", 0.1, 0.001..=1000.0);
    let colder = softmax_with_temperature(&next_token_logits, temperature)?;
    book.value("pizza_colder", sampled_tokens(&colder)[6]);
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

    // At temperature {temperature}, the word "pizza" is drawn {pizza_hotter} times in a thousand
    // draws.
    let temperature = book.input("temperature", 5.0, 0.001..=1000.0);
    let hotter = softmax_with_temperature(&next_token_logits, temperature)?;
    book.value("pizza_hotter", sampled_tokens(&hotter)[6]);
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

    // The probability of "pizza" is {probability:.3}. In a thousand draws, its expected count is a
    // thousand times this number. The actual count, {pizza_hotter}, usually differs from the
    // expected count, because the draws are random.
    let pizza_idx = 6;
    book.value("probability", hotter[pizza_idx]);
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
