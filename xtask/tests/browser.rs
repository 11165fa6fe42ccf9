//! The pages of the notebooks in a real browser: no error, nothing missing, and the numbers that
//! the library computes.

use std::io::Write;
use std::process::Command;

use attention::{SelfAttentionV2, mask_future, scaled_softmax};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use ndarray::array;
use notebooks::{Outcome, PROGRAMS, Record, Settings, cells};
use tensor_ops::matmul;
use torch_rng::TorchRng;

#[test]
fn the_pages_open_and_show_what_is_computed() {
    let folder = tempfile::tempdir().unwrap();
    let status = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(["notebook", "3.5.1", "--html"])
        .arg(folder.path())
        .status();
    assert!(status.unwrap().success());
    let mut doms = Vec::new();
    for page in ["index.html", "ch03.html", "errata.html"] {
        let Some(opened) = test_support::browser::open(&folder.path().join(page)) else {
            return;
        };
        assert_eq!(opened.console, Vec::<String>::new(), "{page}");
        assert!(opened.dom.contains("<main id=\"main\""), "{page}");
        doms.push(opened.dom);
    }
    for name in [
        "3.6.2 Implementing",
        "3.3 (3.5.3",
        "exercise 3.2",
        "Causal attention weights",
        ">B3<",
    ] {
        assert!(doms[0].contains(name), "{name}");
    }

    let inputs = array![
        [0.43, 0.15, 0.89],
        [0.55, 0.87, 0.66],
        [0.57, 0.85, 0.64],
        [0.22, 0.58, 0.33],
        [0.77, 0.25, 0.10],
        [0.05, 0.80, 0.55],
    ];
    let sa_v2 = SelfAttentionV2::new(3, 2, false, &mut TorchRng::manual_seed(789));
    let (queries, keys) = (sa_v2.w_query.forward(&inputs), sa_v2.w_key.forward(&inputs));
    let weights = scaled_softmax(&mask_future(&matmul(&queries, &keys.t())), 2);
    let picture = doms[1]
        .split("id=\"p-Causal-attention-weights\"")
        .nth(1)
        .unwrap();
    let picture = picture.split("</svg>").next().unwrap();
    let tokens = ["Your", "journey", "starts", "with", "one", "step"];
    for ((query, key), weight) in weights.indexed_iter() {
        let shown = format!("{} → {}: {weight:.4}", tokens[query], tokens[key]);
        assert!(picture.contains(&shown), "{shown}");
    }
}

/// Those whose cells compute as WebAssembly: the others catch panics, train, or count more bytes
/// than its addresses.
const LIVE: [&str; 10] = [
    "ch02",
    "ch02_bonus",
    "ch02_exercises",
    "ch03",
    "ch03_exercises",
    "ch04",
    "ch05",
    "ch05_exercises",
    "notes_self_attention",
    "notes_transformer",
];

/// A cell's line; how many figures were compared and what didn't agree, if it ran.
type Compared = (u32, Option<usize>, Option<Vec<String>>);

/// Needs the target of WebAssembly and a browser; says so where one of them is missing.
#[test]
fn a_live_page_computes_every_figure_and_what_its_address_changes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("asked.html");
    std::fs::write(&path, "<head></head>").unwrap();
    if test_support::browser::open(&path).is_none() {
        return;
    }
    let output = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(["notebook", "ch03", "--live", "--html"])
        .arg(folder.path())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    if errors.contains("rustup target add") {
        // Past the capture of the tests' output.
        writeln!(std::io::stderr(), "skipped: {errors}").unwrap();
        return;
    }
    assert!(output.status.success(), "{errors}");
    let script = format!("file://{}", folder.path().join("live.js").display());
    let opened = |page: &str| {
        std::fs::write(&path, page.replace("live.js", &script)).unwrap();
        let opened = test_support::browser::open(&path).expect("it was there before");
        assert_eq!(opened.console, Vec::<String>::new());
        opened.dom
    };

    let ask = format!(
        "<head></head><pre></pre><script src=\"live.js\"></script><script>\
         document.querySelector('pre').textContent = btoa(JSON.stringify(\
         {LIVE:?}.map((name) => askLive(name, []).cells.map(({{ line, figures, faults }}) => \
         [line, figures, faults]))))</script>"
    );
    // In Base64, as the document is told with its escapes.
    let dom = opened(&ask);
    let answers = dom
        .split(['>', '<'])
        .find(|text| text.len() > 1000 && !text.contains(' '));
    let answers = BASE64.decode(answers.expect("the answers")).unwrap();
    let answers: Vec<Vec<Compared>> = serde_json::from_slice(&answers).unwrap();
    let mut figures = 0;
    for (name, answer) in LIVE.iter().zip(answers) {
        let program = PROGRAMS.iter().find(|program| program.name == *name);
        let settings = Settings {
            small: true,
            ..Settings::default()
        };
        let parts = program.unwrap().run(&settings);
        let here = cells(&parts).map(|cell| match &cell.outcome {
            Outcome::Ran(Record { verdict, .. }) => {
                figures += verdict.figures;
                let faults = verdict.faults.clone();
                (cell.line, Some(verdict.figures), Some(faults))
            }
            _ => (cell.line, None, None),
        });
        assert_eq!(answer, here.collect::<Vec<_>>(), "{name}");
    }
    assert!(figures > 1000, "{figures}");

    let page = std::fs::read_to_string(folder.path().join("ch03.html")).unwrap();
    let with_address = |address: &str| {
        let before = format!("<head><script>location.hash = '{address}'</script>");
        opened(&page.replacen("<head>", &before, 1))
    };
    let dom = with_address("");
    assert!(dom.contains("All as in the book: ") && dom.contains(" and compared, 0 of them off."));
    assert!(!dom.contains("computed here; what differs"));
    let dom = with_address("In%20%5B24%5D.seed=123");
    assert!(dom.contains("1 changed: what follows was computed here in"));
    assert!(dom.contains("<mark>-0.5337</mark>") && dom.contains("<mark>-0.1051</mark>"));
    let dom = with_address("In%20%5B24%5D.seed=%3Cimg src=x onerror=alert(1)%3E");
    assert!(dom.contains("`&lt;img src=x onerror=alert(1)&gt;` is not a whole number"));
    assert!(!dom.contains("<img"));
}
