//! Tests how much memory is needed to load a model and to reject an invalid file. A custom global
//! allocator measures the memory.
//!
//! There is only one test in this file, because Rust runs tests in parallel and the allocator
//! measures the memory of the whole process.

#![allow(clippy::disallowed_methods, reason = "tests write files as they like")]

use checkpoint::{Dtype, SpecialTokens, load_model, save_book, save_hugging_face};
use gpt::{GptConfig, GptModel};
use peak_alloc::PeakAlloc;
use torch_rng::TorchRng;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// Number of bytes that may be allocated for names and headers.
const SMALL: usize = 1 << 20;

/// Largest amount of memory, in bytes, that the buffers for reading files may occupy while a model
/// is loaded. The memory for the model itself isn't included.
const BUFFERS: usize = 4 << 20;

/// Calls `work`. Returns its result and the peak memory usage during the call, in bytes, not
/// counting memory that was already in use before the call.
fn peak_of<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = ALLOCATOR.current_usage();
    ALLOCATOR.reset_peak_usage();
    let made = work();
    (made, ALLOCATOR.peak_usage().saturating_sub(before))
}

#[test]
fn loading_takes_the_model_and_refusing_takes_next_to_nothing() {
    let config = GptConfig {
        vocab_size: 20_000,
        context_length: 64,
        emb_dim: 128,
        n_heads: 4,
        n_layers: 2,
        tied: true,
        qkv_bias: true,
        ..GptConfig::GPT2_124M
    };
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    {
        let model = GptModel::new(config, &mut TorchRng::manual_seed(1)).unwrap();
        save_book(&model, path("book")).unwrap();
        for precision in [Dtype::Float32, Dtype::BFloat16, Dtype::Float16] {
            save_hugging_face(
                &model,
                path(precision.name()),
                precision,
                &SpecialTokens::default(),
            )
            .unwrap();
        }
    }
    let model_bytes = 4 * config.size().unwrap().total();
    for name in ["book", "float32", "bfloat16", "float16"] {
        let (model, peak) = peak_of(|| load_model(path(name)));
        assert!(peak >= model_bytes, "{name}: {peak} bytes hold no model");
        assert!(
            peak <= model_bytes + BUFFERS,
            "{name}: {peak} bytes for a model of {model_bytes}"
        );
        drop(model.unwrap());
    }

    let weights = path("book").join("model.safetensors");
    let huge = br#"{"a":{"dtype":"F32","shape":[1152921504606846976],"data_offsets":[0,4611686018427387904]}}"#;
    let headers = [
        (huge.len() as u64, &huge[..], "the header is damaged"),
        (100_000_000, b"{}", "at most 2097152"),
        (1 << 63, b"{}", "at most 2097152"),
    ];
    for (length, header, expected) in headers {
        std::fs::write(&weights, [&length.to_le_bytes(), header].concat()).unwrap();
        // In the second test case, the file claims to have a header of 100,000,000 bytes, and it is
        // long enough to contain one. The header must nevertheless not be read into memory, because
        // it is longer than the limit of 2 MiB.
        let file = std::fs::File::options().write(true).open(&weights);
        file.unwrap().set_len(100_000_008).unwrap();
        let (model, peak) = peak_of(|| load_model(path("book")));
        let message = model.unwrap_err().to_string();
        assert!(message.contains(expected), "{message}");
        assert!(peak <= SMALL, "{peak} bytes to refuse a header of {length}");
    }
}
