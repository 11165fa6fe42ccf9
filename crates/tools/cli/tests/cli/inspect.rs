//! Tests the output of `gpt inspect` for a tiny model: the table, the JSON object, and the web
//! page, which is opened in a real browser.

use std::fs;

use crate::support::{TOKENS, holds, trained};

#[test]
fn the_terminal_and_json_show_what_generate_takes() {
    let report = trained().json(&format!("inspect --tokens 1,2,3 --top {TOKENS}"));
    let next = report["tokens"][2]["next"].as_array().unwrap();
    assert_eq!(next.len(), TOKENS);
    let sum: f64 = next
        .iter()
        .map(|x| x["probability"].as_f64().unwrap())
        .sum();
    assert!((sum - 1.0).abs() < 1e-5, "{sum}");
    let greedy = trained().json("generate --tokens 1,2,3 --temp 0 -n 1");
    assert_eq!(greedy["tokens"][0], next[0]["id"]);
    let table = trained().ok("inspect --tokens 1,2,3 --top 3").stdout;
    assert_eq!(table.lines().count(), 4, "{table}");
    for (line, next) in table.lines().skip(1).zip(next) {
        let number = |key: &str| next[key].as_f64().unwrap();
        let [logit, probability] = ["logit", "probability"].map(number);
        holds(
            line,
            &[
                &format!("{} ", next["id"]),
                &format!("{logit:.4}"),
                &format!("{probability:.5}"),
            ],
        );
    }
}

#[test]
fn the_page_shows_the_losses_of_json_in_a_browser() {
    let report = trained().json("inspect --tokens 1,2,3,4");
    let page = tempfile::tempdir().unwrap();
    let page = page.path().join("inspect.html");
    let page_of = format!("inspect --tokens 1,2,3,4 --html {}", page.display());
    let output = trained().ok(&page_of);
    holds(&output.stderr, &["4 tokens", "inspect.html"]);
    trained().refused(&page_of, &["inspect.html: can't write: already exists"]);
    let written = fs::read_to_string(&page).unwrap();
    holds(
        &written,
        &["<script type=\"application/json\" class=\"block\">"],
    );
    let Some(opened) = test_support::browser::open(&page) else {
        return;
    };
    assert_eq!(opened.console, Vec::<String>::new());
    for token in report["tokens"].as_array().unwrap() {
        if let Some(loss) = token["loss"].as_f64() {
            holds(&opened.dom, &[&format!("<td>{loss:.4}</td>")]);
        }
    }
    let head = "<button type=\"button\" title=\"layer";
    let heads = opened.dom.matches(head).count();
    assert_eq!(heads, 2, "all heads at a glance");
    let next = &report["tokens"][3]["next"][0]["probability"];
    let next = next.as_f64().unwrap();
    let expected = opened.dom.split("id=\"next\"").nth(1).unwrap();
    holds(expected, &[&format!("<td>{next:.4}</td>")]);
}
