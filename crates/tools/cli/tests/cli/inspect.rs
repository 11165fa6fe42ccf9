//! `gpt inspect` on a tiny model: in the terminal, as JSON, and as a page in a real browser.

use serde_json::Value;

use crate::support::{holds, trained};

fn numbers(list: &Value) -> Vec<f64> {
    let numbers = list.as_array().expect("a list").iter();
    numbers.map(|x| x.as_f64().expect("a number")).collect()
}

#[test]
fn rows_sum_to_one_and_losses_are_those_of_the_logits() {
    let report = trained().json("inspect --tokens 1,2,3,4 --top 2");
    for row in report["attention"][0][1].as_array().unwrap() {
        let sum: f64 = numbers(row).iter().sum();
        assert!((sum - 1.0).abs() < 1e-6, "{row}");
    }
    assert_eq!(report["attention"][0][1][1][2], 0.0);
    let logits = numbers(&trained().json("logits --tokens 1,2,3")["logits"]);
    let loss = logits.iter().map(|x| x.exp()).sum::<f64>().ln() - logits[4];
    let token = &report["tokens"][3];
    let told = token["loss"].as_f64().unwrap();
    assert!((told - loss).abs() < 1e-4, "{token}");
    assert_eq!(token["next"].as_array().unwrap().len(), 2);
    // The last block says what the model says.
    let blocks = report["blocks"].as_array().unwrap();
    assert_eq!(blocks.last().unwrap()[3][0]["id"], token["next"][0]["id"]);
    assert!(report["tokens"][0]["loss"].is_null());
}

#[test]
fn the_terminal_shows_the_weights_of_json() {
    let report = trained().json("inspect --tokens 1,2,3,4");
    let one = "inspect --tokens 1,2,3,4 --layer 0 --head 1";
    let shown = trained().ok(one).stdout;
    let last = shown.lines().last().unwrap();
    holds(&shown, &["if it ended with a block"]);
    let weights = numbers(&report["attention"][0][1][3]);
    let weights: Vec<String> = weights.iter().map(|x| format!("{x:.4}")).collect();
    assert!(last.ends_with(&weights.join(" ")), "{last}: {weights:?}");
    let all = trained().ok("inspect --tokens 1,2,3,4").stdout;
    holds(&all, &["head 0", "head 1", "█"]);
}

#[test]
fn the_page_shows_the_weights_of_json_in_a_browser() {
    let report = trained().json("inspect --tokens 1,2,3,4");
    let said = trained().ok("inspect --tokens 1,2,3,4 --html inspect.html");
    holds(&said.stdout, &["4 tokens", "inspect.html"]);
    let Some(opened) = test_support::browser::open(&trained().join("inspect.html")) else {
        return;
    };
    assert_eq!(opened.console, Vec::<String>::new());
    let status = opened.dom.split("id=\"weight\"").nth(1).unwrap();
    let status = status.split("</p>").next().unwrap();
    let weight = report["attention"][0][0][3][0].as_f64().unwrap();
    let ends = status.ends_with(&format!(": {weight:.4}"));
    assert!(ends, "{status}: {weight}");
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
