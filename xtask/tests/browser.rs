//! The pages of the notebooks in a real browser: no error, nothing missing, and the numbers that
//! the library computes.

use std::process::Command;

use attention::{SelfAttentionV2, mask_future, scaled_softmax};
use ndarray::array;
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
