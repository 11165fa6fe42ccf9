//! Shows how to create batches from several corpora and how to resume after an interruption. The
//! program writes two files of token IDs, joins them into one corpus, and draws batches at random
//! from this corpus and a second one. Run the program with the following command:
//!
//! ```sh
//! cargo run --release -p dataloader --example pipeline
//! ```

use std::error::Error;

use dataloader::tokenizer::Gpt2Tokenizer;
use dataloader::torch_rng::TorchRng;
use dataloader::{
    Corpus, DataLoader, DataLoaderConfig, DataLoaderError, Mix, TokenFormat, write_token_file,
};

const PROSE: &str = "The bell rang, and the ferry came. The ferry went, and the bell was still. ";
const CODE: &str = "for i in 0..3 { println!(\"{i}\"); } ";

fn main() -> Result<(), Box<dyn Error>> {
    let (folder, tokenizer) = (tempfile::tempdir()?, Gpt2Tokenizer::new());

    // This loop encodes and writes one piece of text at a time, so the token IDs of a whole file
    // are never in memory at the same time.
    let mut files = Vec::new();
    for name in ["part-0.bin", "part-1.bin"] {
        let path = folder.path().join(name);
        write_token_file(&path, TokenFormat::U16, |writer| {
            for _ in 0..20 {
                writer.push(&tokenizer.encode(PROSE)?)?;
            }
            Ok::<(), Box<dyn Error>>(())
        })?;
        files.push(Corpus::from_token_file(&path)?);
    }
    let prose = Corpus::concat(files);
    // A token file doesn't contain the size of its vocabulary, so the program checks that all IDs
    // are in GPT-2's vocabulary.
    prose.check_ids(50257)?;
    let code = Corpus::from_text(&CODE.repeat(10), &tokenizer)?;
    println!("prose {} tokens, code {} tokens", prose.len(), code.len());

    let config = DataLoaderConfig {
        batch_size: 2,
        max_length: 8,
        stride: 8,
        ..DataLoaderConfig::default()
    };
    // The mix chooses a corpus at random for each batch. With the weights 0.8 and 0.2, four of five
    // batches contain prose on average, and one of five contains code.
    let begin = || -> Result<Mix, DataLoaderError> {
        let loader = |corpus| DataLoader::new(corpus, config);
        Mix::new(vec![(loader(&prose)?, 0.8), (loader(&code)?, 0.2)])
    };
    let mut rng = TorchRng::manual_seed(123);
    let mut mix = begin()?;
    for _ in 0..50 {
        mix.next_batch(&mut rng)?;
    }

    // A training program that can be resumed saves two values: the random number generator and the
    // position in the stream of batches. Both values can be serialized with serde.
    let (saved_rng, saved) = (rng.clone(), mix.position());
    let expected = mix.next_batch(&mut rng)?;

    let (mut rng, mut resumed) = (saved_rng, begin()?);
    resumed.seek(saved)?;
    assert_eq!(resumed.next_batch(&mut rng)?, expected);
    let first = expected.input_ids.row(0).to_vec();
    println!(
        "in batch 51, the resumed run read the same windows as the first run; \
        the first window is {first:?}"
    );
    Ok(())
}
