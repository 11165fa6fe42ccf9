//! `gpt inspect` on a tiny model: in the terminal, as JSON, and as a page in a real browser.

use crate::support::trained;

#[test]
fn rows_sum_to_one_and_losses_are_those_of_the_logits() {
    let report = trained().json("inspect --tokens 1,2,3,4 --top 2");
    for row in report["attention"][0][1].as_array().unwrap() {
        let sum: f64 = row
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|weight| weight.as_f64())
            .sum();
        assert!((sum - 1.0).abs() < 1e-6, "{row}");
    }
    assert_eq!(report["attention"][0][1][1][2], 0.0);
    let logits = trained().json("logits --tokens 1,2,3");
    let logits: Vec<f64> = logits["logits"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|x| x.as_f64())
        .collect();
    let loss = logits.iter().map(|x| x.exp()).sum::<f64>().ln() - logits[4];
    let token = &report["tokens"][3];
    assert!(
        (token["loss"].as_f64().unwrap() - loss).abs() < 1e-4,
        "{token}"
    );
    assert_eq!(token["next"].as_array().unwrap().len(), 2);
    // The last block says what the model says.
    let blocks = report["blocks"].as_array().unwrap();
    assert_eq!(blocks.last().unwrap()[3][0]["id"], token["next"][0]["id"]);
    assert!(report["tokens"][0]["loss"].is_null());
}

#[test]
fn the_terminal_shows_the_weights_of_json() {
    let report = trained().json("inspect --tokens 1,2,3,4");
    let shown = trained()
        .ok("inspect --tokens 1,2,3,4 --layer 0 --head 1")
        .stdout;
    let last = shown.lines().last().unwrap();
    assert!(shown.contains("if it ended with a block"), "{shown}");
    let weights: Vec<String> = report["attention"][0][1][3]
        .as_array()
        .unwrap()
        .iter()
        .map(|weight| format!("{:.4}", weight.as_f64().unwrap()))
        .collect();
    assert!(last.ends_with(&weights.join(" ")), "{last}: {weights:?}");
    let all = trained().ok("inspect --tokens 1,2,3,4").stdout;
    assert!(
        all.contains("head 0") && all.contains("head 1") && all.contains('█'),
        "{all}"
    );
}

#[test]
fn the_page_shows_the_weights_of_json_in_a_browser() {
    let report = trained().json("inspect --tokens 1,2,3,4");
    let said = trained().ok("inspect --tokens 1,2,3,4 --html inspect.html");
    assert!(said.stdout.contains("4 tokens") && said.stdout.contains("inspect.html"));
    let Some(opened) = test_support::browser::open(&trained().join("inspect.html")) else {
        return;
    };
    assert_eq!(opened.console, Vec::<String>::new());
    let status = opened
        .dom
        .split("id=\"weight\"")
        .nth(1)
        .unwrap()
        .split("</p>")
        .next()
        .unwrap();
    let weight = report["attention"][0][0][3][0].as_f64().unwrap();
    assert!(
        status.ends_with(&format!(": {weight:.4}")),
        "{status}: {weight}"
    );
    for token in report["tokens"].as_array().unwrap() {
        if let Some(loss) = token["loss"].as_f64() {
            assert!(
                opened.dom.contains(&format!("<td>{loss:.4}</td>")),
                "{loss}"
            );
        }
    }
    let heads = opened
        .dom
        .matches("<button type=\"button\" title=\"layer")
        .count();
    assert_eq!(heads, 2, "all heads at a glance");
    let next = report["tokens"][3]["next"][0]["probability"]
        .as_f64()
        .unwrap();
    let expected = opened.dom.split("id=\"next\"").nth(1).unwrap();
    assert!(expected.contains(&format!("<td>{next:.4}</td>")), "{next}");
}

#[test]
fn a_page_that_computes_holds_the_model_and_one_that_cannot_what_was_computed() {
    trained().write("other.js", "alert(1)");
    trained().write("live.js", "const LIVE_WASM = \"\";");
    let page = |of: &str, script: &str| format!("inspect {of} --html page.html --live {script}");
    trained().refused(&page("Hello", "other.js"), &["other.js: not live.js"]);
    trained().ok(&page("Hello", "live.js"));
    let computing = std::fs::read_to_string(trained().join("page.html")).unwrap();
    assert!(computing.contains("data-text=\"Hello\"") && computing.contains("LIVE_MODEL = \""));
    assert!(!computing.contains("class=\"block\""));
    // "H" and "e", which a text has as one token.
    let said = trained().ok(&page("--tokens 39,68", "live.js"));
    assert!(
        said.stderr.contains("the page has what was computed here"),
        "{}",
        said.stderr
    );
    let stored = std::fs::read_to_string(trained().join("page.html")).unwrap();
    assert!(stored.contains("class=\"block\"") && !stored.contains("const LIVE_MODEL"));
}
