//! Tests that open the web pages of the notebooks in a browser. They check that there are no errors
//! and no missing files, and that the numbers on the pages are the results that the libraries
//! compute.

#![allow(clippy::disallowed_methods, reason = "tests write files as they like")]

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use gpt::{GptConfig, GptModel};
use live::PageModel;
use model_tokenizer::ModelTokenizer;
use notebooks::{Kind, Outcome, PROGRAMS, Record, Settings, cells};
use serde_json::{Value, json};
use torch_rng::TorchRng;

#[test]
fn the_pages_open_and_show_what_is_computed() {
    let folder = tempfile::tempdir().unwrap();
    // The page of the notes is needed because its source file has a long name.
    for (selection, folder) in [
        ("3.5.1", folder.path()),
        ("notes_self_attention", &folder.path().join("notes")),
    ] {
        let status = Command::new(env!("CARGO_BIN_EXE_xtask"))
            .args(["notebook", selection, "--html"])
            .arg(folder)
            .status();
        assert!(status.unwrap().success(), "{selection}");
    }
    let mut doms = Vec::new();
    for page in ["index.html", "ch03.html", "errata.html"] {
        let Some(opened) = test_support::browser::open(&folder.path().join(page)) else {
            return;
        };
        assert_eq!(opened.console, Vec::<String>::new(), "{page}");
        assert!(opened.dom.contains("<main id=\"main\""), "{page}");
        doms.push(opened.dom);
    }
    links_lead_somewhere(folder.path());
    pages_fit_every_screen(folder.path());
    for name in [
        "3.6.2 Implementing",
        "<td>3.3</td>",
        "exercise 3.2",
        ": Causal attention weights",
        ">B3<",
    ] {
        assert!(doms[0].contains(name), "{name}");
    }

    let picture = doms[1]
        .split("id=\"p-Causal-attention-weights\"")
        .nth(1)
        .unwrap();
    let picture = picture.split("</svg>").next().unwrap();
    for shown in [
        "Your → Your: 1.0000",
        "journey → Your: 0.5517",
        "step → step: ",
    ] {
        assert!(picture.contains(shown), "{shown}");
    }
}

/// Checks that each link to a part of a page leads to an element with that ID. This includes the
/// links of the overview, but not the links to pages that weren't written.
fn links_lead_somewhere(folder: &Path) {
    let pages = ["index.html", "ch03.html", "errata.html", "glossary.html"];
    let source = |page: &str| std::fs::read_to_string(folder.join(page)).expect(page);
    let pages = pages.map(|page| (page, source(page)));
    for (page, html) in &pages {
        for link in html.split("href=\"").skip(1) {
            let link = link.split('"').next().expect(page);
            let Some((file, id)) = link.split_once('#') else {
                continue;
            };
            let file = if file.is_empty() { page } else { file };
            if let Some((_, target)) = pages.iter().find(|(page, _)| *page == file) {
                assert!(target.contains(&format!("id=\"{id}\"")), "{page}: {link}");
            }
        }
    }
    let overview = pages[0]
        .1
        .split("<svg class=\"overview\"")
        .nth(1)
        .expect("the overview");
    let overview = overview.split("</svg>").next().expect("its end");
    assert!(
        overview.contains("<a href=\"ch03.html#s-3.3.1\">"),
        "{overview}"
    );
    // The overview contains only one link, because the pages of the other notebooks weren't
    // written.
    assert_eq!(overview.matches("<a ").count(), 1);
    let places = pages[1].1.matches("class=\"here\"").count();
    assert_eq!(places, pages[1].1.matches("<h2 id=\"s-3.").count());
}

/// A script that measures a page and stores the results as JSON in an attribute of the page's body.
/// The results are the widths of the window and the page, the number of ticks (which mark outputs
/// that were compared with the original document), the number of ticks that aren't in the corner of
/// their output, the mean number of characters per line of text, the number of cells whose name
/// overlaps the cell or extends beyond the window, and the smallest width of the third column of a
/// table.
const MEASURE: &str = "<script>{
    const all = (what) => [...document.querySelectorAll(what)], box = (it) => it.getBoundingClientRect();
    const isInCorner = (tick) => {
        const [inner, outer] = [tick, tick.closest('.result')].map(box);
        return inner.width > 0 && inner.top - outer.top < 12 && outer.right - inner.right < 12;
    };
    const lines = all('section p').filter((it) => it.textContent.length > 400 && !it.closest('aside'))
        .map((it) => it.textContent.length / (box(it).height / parseFloat(getComputedStyle(it).lineHeight) - .5));
    const isCovered = (name) => {
        const { left, right, top, bottom } = box(name), cell = box(name.closest('.cell'));
        return left < 0 || right > innerWidth || name.scrollWidth > name.clientWidth + 1
            || (right > cell.left && bottom > cell.top + 1.5);
    };
    document.body.dataset.measured = JSON.stringify({
        widths: [innerWidth, document.documentElement.scrollWidth],
        ticks: [all('.tick').length, all('.tick').filter((it) => !isInCorner(it)).length],
        characters: lines.reduce((sum, it) => sum + it, 0) / lines.length,
        covered: all('.at').filter(isCovered).length,
        column: Math.min(...all('.table td:nth-child(3)').map((cell) => cell.clientWidth)),
    });
}</script>";

/// Returns the value of the first attribute `data-NAME` in a page.
fn data<'d>(dom: &'d str, name: &str) -> &'d str {
    let start = format!("data-{name}=\"");
    let (_, value) = dom.split_once(&start).expect(name);
    value.split_once('"').expect(name).0
}

/// Measures the pages on a phone and on a computer.
fn pages_fit_every_screen(folder: &Path) {
    let ch03 = PROGRAMS.iter().find(|program| program.name == "ch03");
    let parts = ch03.expect("a notebook").run(&Settings::default());
    let is_ticked = |cell: &&notebooks::Cell| match &cell.outcome {
        Outcome::Ran(Record { kind, verdict, .. }) => {
            let is_compared = ![Kind::Changed, Kind::OtherText, Kind::SmallModel].contains(kind);
            is_compared && verdict.figures > 0 && verdict.faults.is_empty()
        }
        _ => false,
    };
    let ticks = cells(&parts).filter(is_ticked).count();
    assert!(ticks > 30, "{ticks}");
    for page in ["index.html", "ch03.html", "notes/notes_self_attention.html"] {
        let source = std::fs::read_to_string(folder.join(page)).expect(page);
        let path = folder.join(page).with_file_name("measured.html");
        std::fs::write(&path, source + MEASURE).expect(page);
        let narrow = test_support::browser::open_narrow(&path).expect("it was there before");
        let wide = test_support::browser::open(&path).expect("it was there before");
        for (width, opened) in [(390, narrow), (1280, wide)] {
            assert_eq!(opened.console, Vec::<String>::new(), "{page}");
            let measured = data(&opened.dom, "measured").replace("&quot;", "\"");
            let measured: Value = serde_json::from_str(&measured).expect(page);
            let about = format!("{page}, {width}: {measured}");
            let number = |name: &str| measured[name].as_f64().expect(name);
            let widths = [0, 1].map(|index| measured["widths"][index].as_u64().expect(page));
            assert!(widths[0] == width && widths[1] <= width, "{about}");
            assert_eq!(measured["covered"], 0, "{about}");
            if page == "index.html" {
                assert!(number("column") > 200.0, "{about}");
            }
            if page != "ch03.html" {
                continue;
            }
            assert_eq!(measured["ticks"], json!([ticks, 0]), "{about}");
            let expected = if width == 390 { 30.0..50.0 } else { 65.0..76.0 };
            assert!(expected.contains(&number("characters")), "{about}");
        }
    }
}

/// Opens a page in a frame in which scripts are disabled, and checks that nothing is visible that
/// needs a script.
fn a_page_without_scripts_has_no_dead_fields(page: &str) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("framed.html");
    let source = page.replace('&', "&amp;").replace('"', "&quot;");
    // After five seconds, the script stores the number of cells and the HTML of all visible fields
    // in the attribute `data-told` of the outer document.
    let framed = format!(
        "<head></head><iframe sandbox=\"allow-same-origin\" srcdoc=\"{source}\"></iframe><script>\
         setTimeout(() => {{\
           const page = document.querySelector('iframe').contentDocument;\
           const fields = page.querySelectorAll('input:not([type=radio]), textarea, select, button, .live-bar');\
           document.body.dataset.told = page.querySelectorAll('.cell').length + ' cells, ' + \
             [...fields].filter((it) => it.checkVisibility()).map((it) => it.outerHTML).join();\
           document.querySelector('iframe').remove();\
         }}, 5000)</script>"
    );
    std::fs::write(&path, framed).expect("a temporary file");
    let opened = test_support::browser::open(&path).expect("it was there before");
    let told = data(&opened.dom, "told");
    let (count, fields) = told.split_once(" cells, ").expect("a number");
    assert!(count.parse::<usize>().expect("a number") > 50, "{count}");
    assert_eq!(fields, "");
}

/// JavaScript functions with which a test can use the training page as a reader would. They find
/// buttons and settings by their labels.
const LESSON: &str = "
    const root = document.getElementById('lesson');
    const status = () => root.querySelector('[role=status]')?.textContent ?? '';
    const button = (text) => [...root.querySelectorAll('button')].find((it) => it.textContent === text);
    const label = (text) => [...root.querySelectorAll('label')].find((it) => it.textContent.startsWith(text + ' '));
    const change = (text, value) => {
        const field = label(text).querySelector('input, select');
        field.value = value;
        field.dispatchEvent(new Event(field.type === 'range' ? 'input' : 'change'));
    };
    const command = () => root.querySelector('code')?.textContent ?? '';
    await until(() => status().startsWith('step 0') && root.querySelector('mark'));";

/// A script that selects the preset `PRESET`, changes the settings `SETTINGS`, and trains for 20
/// steps, one at a time. The test replaces these two words with actual values.
const STEPS: &str = "
    if (label('model').querySelector('select').value !== 'PRESET') {
        change('model', 'PRESET');
        await until(() => command().includes('--preset PRESET'));
    }
    for (const [label, value, option] of SETTINGS) {
        change(label, value);
        await until(() => command().includes(option));
    }
    const losses = [], step = button('Step');
    for (let i = 1; i <= 20; i++) {
        step.click();
        await until(() => status().startsWith(`step ${i}:`));
        losses.push(status().match(/training loss ([0-9.]+)/)[1]);
    }
    report(JSON.stringify({ losses, command: command() }));";

/// The script of the test [`a_reader_changes_a_training_run_and_looks_at_it`].
const READER: &str = "
    const told = {}, buttons = () => ['Step', 'Run', 'Take one step and show its parts'].map((text) => button(text).disabled);
    change('learning rate', '2000');
    await until(() => label('learning rate').textContent.includes('must be'));
    told.refused = [label('learning rate').textContent, status(), label('learning rate').querySelector('input').ariaInvalid, ...buttons()];
    change('learning rate', '0.01');
    await until(() => status().startsWith('step 0'));
    told.corrected = [label('learning rate').textContent, ...buttons()];
    change('prompt', '\u{436} bell');
    await until(() => label('prompt').textContent.includes('\u{436}'));
    told.unknown = label('prompt').textContent;
    button('Run').click();
    await until(() => Number(status().match(/^step (\\d+)/)?.[1]) >= 5);
    button('Pause').click();
    await until(() => button('Run'));
    button('Keep this run to compare').click();
    told.kept = root.querySelectorAll('polyline').length;
    const before = Number(status().match(/^step (\\d+)/)[1]);
    button('Take one step and show its parts').click();
    await until(() => root.querySelector('output').textContent.startsWith(` step ${before + 1} `));
    told.parts = [before, root.querySelectorAll('h4').length, root.querySelector('h4').textContent, root.querySelector('strong').textContent,
        root.querySelectorAll('table')[1].rows.length];
    const now = [...root.querySelectorAll('output')].map((it) => it.textContent).join();
    change('snapshot', 1);
    await until(() => root.querySelector('output').textContent !== now);
    told.snapshots = [now, root.querySelector('output').textContent];
    const canvas = root.querySelector('canvas'), line = [...root.querySelectorAll('.tokens')][0].children.length;
    told.map = [canvas.clientWidth > 16 * line, document.documentElement.scrollWidth <= innerWidth];
    report(JSON.stringify(told));";

/// Writes the interactive pages of the selected notebooks. If the WebAssembly target isn't
/// installed, returns false and writes a line to standard error.
fn writes_live_pages(selection: &str, folder: &Path) -> bool {
    let output = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(["notebook", selection, "--live", "--html"])
        .arg(folder)
        // The page and the test must run the cells on the same text. Without `BOOK_TEXT`, both use
        // the short story that is part of this project.
        .env_remove("BOOK_TEXT")
        .output()
        .expect("xtask runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    if errors.contains("rustup target add") {
        // The test harness would capture `eprintln!`.
        let _ = writeln!(std::io::stderr(), "skipped: {errors}");
        return false;
    }
    assert!(output.status.success(), "{errors}");
    true
}

/// Trains a model in the browser, and another model with the command that the page shows. The
/// losses of the two models must agree in all four decimals.
#[test]
fn a_page_trains_as_gpt_train_does() {
    let folder = tempfile::tempdir().unwrap();
    if !writes_live_pages("5.2", folder.path()) {
        return;
    }
    let page = folder.path().join("training.html");
    let ask = |script: &str| test_support::browser::ask(&page, &(LESSON.to_owned() + script));
    let changed = "[['width', '32', '--emb-dim 32'], ['layers', '1', '--n-layers 1'], ['heads', '2', '--n-heads 2'], \
                    ['batch size', '5', '--batch-size 5'], ['dropout', '0.25', '--drop-rate 0.25']]";
    for (preset, settings) in [
        ("words", "[]"),
        ("characters", "[]"),
        ("story", "[]"),
        ("characters", changed),
    ] {
        let steps = STEPS
            .replace("PRESET", preset)
            .replace("SETTINGS", settings);
        let Some(answer) = ask(&steps) else { return };
        let answer: Value = serde_json::from_str(&answer).expect(&answer);
        let words = answer["command"]
            .as_str()
            .unwrap()
            .strip_prefix("cargo gpt ");
        let run = folder.path().join(format!("{preset}-{}", settings.len()));
        let mut gpt = Command::new("cargo")
            .args("run --release --quiet --package cli --bin gpt --".split(' '))
            .args(words.unwrap().split_whitespace())
            .arg("--out-dir")
            .arg(&run)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let losses = loop {
            let log = std::fs::read_to_string(run.join("log.jsonl")).unwrap_or_default();
            let lines = log
                .lines()
                .filter_map(|line| serde_json::from_str::<Value>(line).ok());
            let steps = lines.filter(|line| line["event"] == "step").take(20);
            let losses: Vec<String> = steps
                .map(|step| format!("{:.4}", step["loss"].as_f64().unwrap()))
                .collect();
            if losses.len() == 20 {
                break losses;
            }
            assert!(
                gpt.try_wait().unwrap().is_none(),
                "it ended after {losses:?}"
            );
            std::thread::sleep(std::time::Duration::from_millis(100));
        };
        gpt.kill().unwrap();
        gpt.wait().unwrap();
        assert_eq!(answer["losses"], json!(losses), "{preset} {settings}");
    }
}

/// Enters invalid and unusual values on the training page, trains a model, and opens a snapshot and
/// the details of a step.
#[test]
fn a_reader_changes_a_training_run_and_looks_at_it() {
    let folder = tempfile::tempdir().unwrap();
    if !writes_live_pages("5.2", folder.path()) {
        return;
    }
    let page = folder.path().join("training.html");
    let told = test_support::browser::ask(&page, &(LESSON.to_owned() + READER));
    let Some(told) = told else { return };
    let told: Value = serde_json::from_str(&told).expect(&told);
    let rule = "learning rate  must be a number from 0.000001 to 1000, got 2000";
    let refused = "A setting has an invalid value. Correct it to go on.";
    assert_eq!(
        told["refused"],
        json!([rule, refused, "true", true, true, true])
    );
    assert_eq!(
        told["corrected"],
        json!(["learning rate  ", false, false, false])
    );
    let unknown = "prompt  These characters don't occur in the story, so the model has never seen them: \u{436}.";
    assert_eq!(told["unknown"], unknown);
    assert_eq!(told["kept"], 4);
    let parts = told["parts"].as_array().unwrap();
    let step = parts[0].as_u64().unwrap() + 1;
    assert_eq!(
        parts[1..3],
        [json!(4), json!(format!("1. The batch of step {step}"))]
    );
    assert!(parts[3].as_str().unwrap().ends_with(" (target)"), "{told}");
    assert_eq!(parts[4], 7, "{told}");
    assert_eq!(
        told["snapshots"],
        json!([format!(" step {step} (now)"), " step 1"])
    );
    assert_eq!(told["map"], json!([true, true]));
}

/// Notebooks that can run as WebAssembly. The other notebooks can't because they train models or
/// catch panics.
const LIVE: [&str; 12] = [
    "ch02",
    "ch02_bonus",
    "ch02_exercises",
    "ch03",
    "ch03_exercises",
    "ch04",
    "ch04_exercises",
    "ch05",
    "ch05_exercises",
    "notes_self_attention",
    "notes_transformer",
    "worksheet",
];

/// The source line of a cell. For a cell that ran, also the number of numbers that were compared
/// and the differences that were found.
type Compared = (u32, Option<usize>, Option<Vec<String>>);

/// This test requires the WebAssembly target and a browser. If either of them is missing, the test
/// prints a note and passes.
#[test]
fn a_live_page_computes_every_figure_and_what_its_address_changes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("asked.html");
    std::fs::write(&path, "<head></head>").unwrap();
    if test_support::browser::open(&path).is_none() {
        return;
    }
    if !writes_live_pages("ch03", folder.path()) {
        return;
    }
    let script = format!("file://{}", folder.path().join("live.js").display());
    let opened = |page: &str| {
        std::fs::write(&path, page.replace("live.js", &script)).unwrap();
        let opened = test_support::browser::open(&path).expect("it was there before");
        assert_eq!(opened.console, Vec::<String>::new());
        opened.dom
    };

    // The script runs the notebooks in `LIVE` with their default inputs, and writes the line
    // number, the number of compared values and the differences of each cell to the page as JSON.
    let ask = format!(
        "<head></head><pre></pre><script src=\"live.js\"></script><script>\
         document.querySelector('pre').textContent = btoa(JSON.stringify(\
         {LIVE:?}.map((name) => askLive({{ notebook: name, inputs: [] }}).cells.map(({{ line, figures, faults }}) => \
         [line, figures, faults]))))</script>"
    );
    let answers: Vec<Vec<Compared>> = serde_json::from_slice(&answers(&opened(&ask))).unwrap();
    let mut figures = 0;
    for (name, answer) in LIVE.iter().zip(answers) {
        let program = PROGRAMS.iter().find(|program| program.name == *name);
        let settings = Settings {
            small: true,
            other_text: Some(notebooks::text::STORY),
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
    a_model_computes_in_a_page(&opened);

    let page = std::fs::read_to_string(folder.path().join("ch03.html")).unwrap();
    a_page_without_scripts_has_no_dead_fields(&page);
    let with_address = |address: &str| {
        let before = format!("<head><script>location.hash = '{address}'</script>");
        opened(&page.replacen("<head>", &before, 1))
    };
    let dom = with_address("");
    assert!(
        dom.contains("All inputs are as in the book. ") && dom.contains(", and 0 of them differ.")
    );
    assert!(!dom.contains("Computed on this page."));
    let dom = with_address("In%20%5B24%5D.seed=123");
    assert!(dom.contains("1 input changed. The notebook was computed again in"));
    assert!(dom.contains("<mark>-0.5337</mark>") && dom.contains("<mark>-0.1051</mark>"));
    let coloured = "= <span class=\"number\"><span><mark>123</mark></span></span>;";
    assert!(dom.contains(coloured), "the code has the value");
    let dom = with_address("In%20%5B17%5D.d_out=99999999");
    let refused = dom
        .split(">expected 1 to 256, got 99999999<")
        .next()
        .unwrap();
    assert!(refused.len() < dom.len(), "the fault is beside its field");
    let field = refused.rsplit("<label class=\"live\">").next().unwrap();
    assert!(field.starts_with("d_out ") && field.contains("aria-invalid=\"true\""));
    let dom = with_address("In%20%5B24%5D.seed=%3Cimg src=x onerror=alert(1)%3E");
    assert!(dom.contains("`&lt;img src=x onerror=alert(1)&gt;` is not a whole number"));
    assert!(!dom.contains("<img"));
    a_reader_changes_words_and_heads(&opened, &page);
}

/// Adds words to the first input, removes some, changes the number of heads, and resets everything.
/// After each step, the page must state what it has computed, and its figure must contain the
/// current words.
fn a_reader_changes_words_and_heads(opened: &impl Fn(&str) -> String, page: &str) {
    let used = "<script>(() => {\
         const field = (name) => [...document.querySelectorAll('label.live')].findLast((it) => it.textContent.startsWith(name + ' ')).querySelector('input, textarea, select');\
         const tell = (step) => document.body.dataset[step] = document.querySelector('.live-bar').textContent + \
           document.querySelectorAll('.stale').length + ' stale, word 7: ' + document.querySelector('.picture svg').textContent.includes('word 7');\
         const change = (name, value, step) => {\
           Object.assign(field(name), { value }).dispatchEvent(new Event('change'));\
           tell(step);\
         };\
         const words = field('inputs').value;\
         change('inputs', words + ';0.1 0.2 0.3', 'seven');\
         change('inputs', words.split(';').slice(0, 5).join(';'), 'five');\
         change('num_heads', '3', 'heads');\
         document.querySelector('.live-bar button').click();\
         tell('book'); })();</script></body>";
    let dom = opened(&page.replacen("</body>", used, 1));
    for (step, status, seventh) in [
        (
            "seven",
            "1 input changed. The notebook was computed again",
            "true",
        ),
        (
            "five",
            "1 input changed. The notebook was computed again",
            "false",
        ),
        (
            "heads",
            "2 inputs changed. The notebook was computed again",
            "false",
        ),
        ("book", "All inputs are as in the book. ", "false"),
    ] {
        let told = data(&dom, step);
        let drawn = format!("0 stale, word 7: {seventh}");
        assert!(
            told.starts_with(status) && told.ends_with(&drawn),
            "{step}: {told}"
        );
    }
}

/// Decodes the Base64 string that a script has written into the page.
fn answers(dom: &str) -> Vec<u8> {
    let mut texts = dom.split(['>', '<']);
    let is_answer = |text: &&str| text.len() > 1000 && !text.contains(' ');
    BASE64
        .decode(texts.find(is_answer).expect("the answers"))
        .expect("Base64")
}

/// Compares the results that a model computes in the browser with those that the same model
/// computes in this process.
fn a_model_computes_in_a_page(opened: &impl Fn(&str) -> String) {
    let text = "The bell rang, and the bell was heard, and the harbour heard the bell.";
    let tokenizer = ModelTokenizer::train_bpe(text, 270).expect("270 pairs");
    let config = GptConfig {
        vocab_size: 270,
        context_length: 16,
        emb_dim: 16,
        n_heads: 2,
        n_layers: 2,
        ..GptConfig::GPT2_124M
    };
    let model = GptModel::new(config, &mut TorchRng::manual_seed(5)).expect("a model");
    let packed = live::pack("m", &model, Some(&tokenizer), Some(269), &[269]).expect("it is small");
    let drawn = json!({ "count": 30, "temperature": 1.5, "top_k": 40, "seed": 123 });
    let requests = json!([
        { "text": "and the bell" },
        { "text": "and the bell", "block": 1 },
        { "text": "and the bell", "write": drawn },
        { "next": true },
        { "next": true },
    ]);
    // The script passes the requests to the model in the page, and writes the answers to the page
    // as JSON.
    let page = format!(
        "<head></head><pre></pre><script>{}{}\";</script><script src=\"live.js\"></script><script>\
         document.querySelector('pre').textContent = btoa(JSON.stringify(\
         {requests}.map(askLive)).replace(/[^ -~]/g, (c) => '\\\\u' + \
         c.charCodeAt(0).toString(16).padStart(4, '0')))</script>",
        live::MODEL_START,
        BASE64.encode(&packed)
    );
    let there: Vec<Value> = serde_json::from_slice(&answers(&opened(&page))).expect("JSON");
    let mut here = PageModel::unpack(&packed).expect("as it was packed");
    for (request, there) in requests.as_array().expect("requests").iter().zip(there) {
        assert_close(&there, &here.answer(request).expect("an answer"));
    }
    a_view_answers_a_reader(opened, &packed);
}

/// Uses the model in a page as a reader would, and checks the page's responses. The test points at
/// a token, taps the attention map, and lets the model continue a text.
fn a_view_answers_a_reader(opened: &impl Fn(&str) -> String, packed: &[u8]) {
    // The script focuses a token, taps the attention map, and has the model continue a text at two
    // temperatures. It stores what the page shows after each action in attributes of the body.
    let page = format!(
        "<head></head><main><div id=\"model\" data-text=\"and the bell\"></div></main>\
         <script>{}{}\";</script><script src=\"live.js\"></script><script>(() => {{\
         const told = (name, text) => document.body.dataset[name] = text;\
         const [map, weight] = ['map', 'weight'].map((id) => document.getElementById(id));\
         document.querySelectorAll('.tokens button')[1].focus();\
         told('pointed', weight.textContent);\
         const {{ left, top, height }} = map.getBoundingClientRect();\
         map.dispatchEvent(new PointerEvent('pointerdown', {{ clientX: left + 1 + height / 2, clientY: top + height - 4 }}));\
         told('tapped', weight.textContent);\
         const write = (temperature, name, then) => {{\
           document.getElementById('temperature').value = temperature;\
           document.getElementById('temperature').dispatchEvent(new Event('change'));\
           document.querySelector('textarea').value = 'and the bell';\
           document.querySelector('.write').click();\
           setTimeout(() => {{ told(name, document.querySelector('textarea').value); then?.(); }}, 5000);\
         }};\
         write('4', 'hot', () => {{\
           told('top', document.getElementById('top-k').disabled);\
           write('0', 'text', () => told('greedy', document.getElementById('top-k').disabled));\
         }}); }})();</script>",
        live::MODEL_START,
        BASE64.encode(packed)
    );
    let dom = opened(&page);
    let told = |name: &str| data(&dom, name).to_owned();
    assert!(
        told("pointed").starts_with("query 1 "),
        "{}",
        told("pointed")
    );
    let last = dom.matches("class=\"tokens\"").count();
    assert_eq!(last, 1);
    assert_ne!(told("tapped"), told("pointed"));
    let text = told("text");
    let new = text
        .strip_prefix("and the bell")
        .expect("the old contents stay");
    assert!(!new.is_empty());
    assert!(
        dom.contains(&format!("and the bell<mark>{new}</mark>")),
        "{new}"
    );
    assert!(dom.contains("20 tokens, "));
    // A different temperature must lead to a different text. At temperature 0, the setting `top-k`
    // has no effect, so its field must be disabled.
    assert_ne!(told("hot"), text);
    assert_eq!([told("top"), told("greedy")], ["false", "true"]);
}

/// Compares two results. Strings must be equal, and numbers must be close to each other. Long
/// strings are encoded attention weights, which are rounded, so only their lengths are compared.
fn assert_close(there: &Value, here: &Value) {
    match (there, here) {
        (Value::Number(there), Value::Number(here)) => {
            let difference = there.as_f64().expect("a number") - here.as_f64().expect("a number");
            assert!(difference.abs() < 1e-4, "{there} {here}");
        }
        (Value::Array(there), Value::Array(here)) => {
            assert_eq!(there.len(), here.len());
            there
                .iter()
                .zip(here)
                .for_each(|(there, here)| assert_close(there, here));
        }
        (Value::Object(there), Value::Object(here)) => {
            assert!(there.keys().eq(here.keys()));
            there
                .values()
                .zip(here.values())
                .for_each(|(there, here)| assert_close(there, here));
        }
        (Value::String(there), Value::String(here)) if here.len() > 60 => {
            assert_eq!(there.len(), here.len());
        }
        _ => assert_eq!(there, here),
    }
}
