//! Tests corpora that are assembled from several parts, mixes that combine several data loaders,
//! and files of token IDs that are written in several steps.

#![allow(clippy::disallowed_methods, reason = "tests write files as they like")]

use std::fs;
use std::io::Write;

use dataloader::torch_rng::TorchRng;
use dataloader::{
    Corpus, DataLoader, DataLoaderConfig, DataLoaderError, Mix, TokenFormat, write_token_file,
};
use proptest::prelude::*;

fn config(batch_size: usize, shuffle: bool) -> DataLoaderConfig {
    DataLoaderConfig {
        batch_size,
        max_length: 3,
        stride: 2,
        shuffle,
        drop_last: false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn parts_in_memory_and_in_files_are_one_corpus(
        parts in prop::collection::vec((prop::collection::vec(0..60_000u32, 0..9), any::<bool>()), 1..6),
        range in (0..40usize, 0..40usize),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let corpora = parts.iter().enumerate().map(|(i, (ids, in_file))| {
            let path = folder.path().join(format!("{i}.npy"));
            match in_file {
                true => {
                    let format = TokenFormat::Npy { len: ids.len() };
                    write_token_file::<DataLoaderError>(&path, format, |writer| {
                        ids.chunks(2).try_for_each(|piece| writer.push(piece))
                    }).unwrap();
                    Corpus::from_token_file(path).unwrap()
                }
                false => Corpus::from_ids(ids.clone()),
            }
        });
        let corpus = Corpus::concat(corpora);
        let whole: Vec<u32> = parts.iter().flat_map(|(ids, _)| ids.clone()).collect();
        prop_assert_eq!(&corpus.read(..).unwrap()[..], &whole[..]);
        let (start, end) = (range.0.min(whole.len()), range.1.min(whole.len()));
        let range = start.min(end)..start.max(end);
        prop_assert_eq!(&corpus.read(range.clone()).unwrap()[..], &whole[range.clone()]);
        // Splitting the joined corpus must not change the IDs. If the corpus is split at the start
        // of `range`, its second part must begin with the IDs of `range`, even if these IDs come
        // from several of the original corpora.
        let (_, rest) = corpus.split_at(range.start);
        prop_assert_eq!(&rest.read(..range.len()).unwrap()[..], &whole[range]);
    }

    #[test]
    fn a_resumed_mix_continues_with_the_same_batches(
        seed in any::<u64>(), before in 0..30usize, shuffle in any::<bool>(),
    ) {
        let loader = |first: u32, len: u32, batch| {
            let ids: Vec<u32> = (first..first + len).collect();
            DataLoader::new(&Corpus::from_ids(ids), config(batch, shuffle)).unwrap()
        };
        let mix = || Mix::new(vec![(loader(0, 9, 2), 3.0), (loader(100, 30, 1), 1.0)]).unwrap();
        let (mut rng, mut whole) = (TorchRng::manual_seed(seed), mix());
        for _ in 0..before {
            whole.next_batch(&mut rng).unwrap();
        }
        let (saved, mut resumed_rng, mut resumed) = (whole.position(), rng.clone(), mix());
        resumed.seek(saved).unwrap();
        for _ in 0..30 {
            let (a, b) = (whole.next_batch(&mut rng), resumed.next_batch(&mut resumed_rng));
            prop_assert_eq!(a.unwrap(), b.unwrap());
        }
        prop_assert_eq!(rng, resumed_rng);
    }
}

/// If a data loader of a mix reads from a file that has been truncated, the mix returns an error.
/// After the file has been restored, the mix must continue with the same batches and random numbers
/// as if the file had never been truncated.
#[test]
fn a_mix_continues_as_if_a_read_error_had_not_happened() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("train.bin");
    let ids = Corpus::from_ids((0..10).collect::<Vec<u32>>());
    ids.write_u16_file(&path).unwrap();
    let bytes = fs::read(&path).unwrap();
    let in_memory = DataLoader::new(&ids, config(1, true)).unwrap();
    let in_file = Corpus::from_token_file(&path).unwrap();
    let in_file = DataLoader::new(&in_file, config(1, true)).unwrap();
    let mut mix = Mix::new(vec![(in_memory, 1.0), (in_file, 1.0)]).unwrap();
    let (mut undamaged, mut errors) = (mix.clone(), 0);
    let mut rng = TorchRng::manual_seed(1);
    for _ in 0..40 {
        let (before, position) = (rng.clone(), mix.position());
        let mut file = fs::File::options().write(true).open(&path).unwrap();
        file.set_len(6).unwrap();
        let damaged = mix.next_batch(&mut rng);
        file.write_all(&bytes).unwrap();
        let mut expected_rng = before.clone();
        let expected = undamaged.next_batch(&mut expected_rng).unwrap();
        if damaged.is_err() {
            errors += 1;
            assert!(rng == before && mix.position() == position);
            assert_eq!(mix.next_batch(&mut rng).unwrap(), expected);
        }
        assert!(rng == expected_rng && mix.position() == undamaged.position());
    }
    assert!((5..35).contains(&errors), "{errors}");
}

#[test]
fn an_order_that_is_not_shuffled_needs_no_memory() {
    // The corpus has 2^39 - 1 windows. A list of their indices wouldn't fit in memory, so the test
    // would fail if the loader created such a list.
    let corpus = Corpus::concat(vec![Corpus::from_ids(vec![7; 1 << 20]); 1 << 20]);
    let loader = DataLoader::new(&corpus, config(1, false)).unwrap();
    let mut epoch = loader.epoch(&mut TorchRng::manual_seed(1));
    assert_eq!(epoch.len(), (1 << 39) - 1);
    epoch.seek(1 << 38).unwrap();
    assert_eq!(epoch.try_next().unwrap().unwrap().input_ids.dim(), (1, 3));
}

#[test]
fn impossible_mixes_and_lengths_are_errors_and_leave_no_file() {
    let loader = DataLoader::new(&Corpus::from_ids(vec![1; 9]), config(1, true)).unwrap();
    for weight in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let error = Mix::new(vec![(loader.clone(), 1.0), (loader.clone(), weight)]).unwrap_err();
        assert!(error.to_string().contains("source 1"), "{error}");
    }
    assert!(matches!(
        Mix::new(Vec::new()),
        Err(DataLoaderError::NoSource)
    ));
    let mut mix = Mix::new(vec![(loader, 1.0)]).unwrap();
    assert!(mix.seek(vec![None, None]).is_err());

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ids.npy");
    let write = |format, ids: &[u32]| {
        write_token_file::<DataLoaderError>(&path, format, |writer| writer.push(ids))
    };
    let error = write(TokenFormat::Npy { len: 3 }, &[1, 2])
        .unwrap_err()
        .to_string();
    assert!(error.contains("declares 3 token IDs, but 2"), "{error}");
    let error = write(TokenFormat::U16, &[1, 65_536])
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("the token ID at position 1 is 65536"),
        "{error}"
    );
    assert!(!path.exists());
}
