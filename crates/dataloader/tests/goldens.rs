//! Figures printed in the book's notebooks.
//!
//! Those that need the book's text take its path from `$BOOK_TEXT` (else a copy beside the
//! repository) and say so when it is nowhere.

use std::path::Path;
use std::{env, fs};

use dataloader::{
    Corpus, DataLoader, DataLoaderConfig, GptDataset, create_dataloader_v1, train_validation_split,
};
use ndarray::{array, s};
use tokenizer::Gpt2Tokenizer;
use torch_rng::TorchRng;

fn book_text() -> Option<String> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/the-verdict.txt");
    let path = env::var_os("BOOK_TEXT").map_or(beside, Into::into);
    let text = fs::read_to_string(&path).ok();
    if text.is_none() {
        println!("NOT RUN: needs the book's text, $BOOK_TEXT names no readable file");
    }
    text
}

/// ch02, bonus notebook on the data loader: numbers 0 to 1000, windows of 4, the last of its batches.
#[test]
fn shuffling_gives_pytorch_s_order() {
    let corpus = Corpus::from_ids((0..=1000).collect::<Vec<u32>>());
    let dataset = GptDataset::new(&corpus, 4, 4).unwrap();
    let loader = DataLoader::new(dataset, 2, true, true).unwrap();
    let last = loader
        .epoch(&mut TorchRng::manual_seed(123))
        .last()
        .unwrap();
    assert_eq!(
        last.input_ids,
        array![[880, 881, 882, 883], [112, 113, 114, 115]]
    );
    assert_eq!(
        last.target_ids,
        array![[881, 882, 883, 884], [113, 114, 115, 116]]
    );
}

/// Rule 9 of PyTorch's stream: one 64-bit draw for an epoch, one more if it is shuffled.
#[test]
fn an_epoch_draws_once_and_once_more_to_shuffle() {
    let corpus = Corpus::from_ids((0..50).collect::<Vec<u32>>());
    let dataset = GptDataset::new(&corpus, 4, 4).unwrap();
    for (shuffle, draws) in [(false, 2), (true, 4)] {
        let loader = DataLoader::new(dataset.clone(), 2, shuffle, true).unwrap();
        let mut drawn = TorchRng::manual_seed(123);
        drop(loader.epoch(&mut drawn));
        let mut expected = TorchRng::manual_seed(123);
        expected.rand(draws); // a number of 32 bits each
        assert_eq!(drawn, expected, "shuffle = {shuffle}");
    }
}

/// ch02, In 41 and the solutions of exercise 2.2.
#[test]
fn the_batches_of_chapter_2() {
    let Some(text) = book_text() else { return };
    let tokenizer = Gpt2Tokenizer::new();
    let first = |batch_size, max_length, stride| {
        let config = DataLoaderConfig {
            batch_size,
            max_length,
            stride,
            shuffle: false,
            ..DataLoaderConfig::default()
        };
        let loader = create_dataloader_v1(&text, &tokenizer, config).unwrap();
        loader.epoch(&mut TorchRng::manual_seed(0)).next().unwrap()
    };
    let batch = first(8, 4, 4);
    let printed = array![
        [40, 367, 2885, 1464],
        [1807, 3619, 402, 271],
        [10899, 2138, 257, 7026],
        [15632, 438, 2016, 257],
        [922, 5891, 1576, 438],
        [568, 340, 373, 645],
        [1049, 5975, 284, 502],
        [284, 3285, 326, 11],
    ];
    assert_eq!(batch.input_ids, printed);
    assert_eq!(
        batch.target_ids.slice(s![.., ..3]),
        printed.slice(s![.., 1..])
    );
    assert_eq!(batch.target_ids.row(7).to_vec(), [3285, 326, 11, 287]);
    let printed = array![[40, 367], [2885, 1464], [1807, 3619], [402, 271]];
    assert_eq!(first(4, 2, 2).input_ids, printed);
    let printed = array![40, 367, 2885, 1464, 1807, 3619, 402, 271];
    assert_eq!(first(4, 8, 2).input_ids.row(0), printed);
}

/// ch05, #65 to #67.
#[test]
fn the_loaders_of_chapter_5() {
    let Some(text) = book_text() else { return };
    let tokenizer = Gpt2Tokenizer::new();
    let (train, validation) = train_validation_split(&text, 0.9).unwrap();
    for (part, train, batches, tokens) in [(train, true, 9, 4608), (validation, false, 1, 512)] {
        let config = DataLoaderConfig {
            batch_size: 2,
            max_length: 256,
            stride: 256,
            shuffle: train,
            drop_last: train,
        };
        let loader = create_dataloader_v1(part, &tokenizer, config).unwrap();
        let epoch: Vec<_> = loader.epoch(&mut TorchRng::manual_seed(123)).collect();
        assert_eq!(epoch.len(), batches);
        assert!(epoch.iter().all(|batch| batch.input_ids.dim() == (2, 256)));
        assert_eq!(
            epoch
                .iter()
                .map(|batch| batch.input_ids.len())
                .sum::<usize>(),
            tokens
        );
    }
}
