//! `gpt inspect` on a tiny model: in the terminal, as JSON, and as a page in a real browser.

use serde_json::Value;

use crate::support::{holds, trained};

fn numbers(list: &Value) -> Vec<f64> {
    let numbers = list.as_array().expect("a list").iter();
    numbers.map(|x| x.as_f64().expect("a number")).collect()
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
