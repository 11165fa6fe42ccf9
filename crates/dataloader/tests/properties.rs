//! Tests properties that hold for all corpora, windows, strides and batch sizes.

use dataloader::{Batch, Corpus, DataLoader, DataLoaderConfig, GptDataset, Window, WindowConfig};
use proptest::prelude::*;
use test_support::proptest_config;
use torch_rng::TorchRng;

/// Generates a corpus and a data set of windows over this corpus. Each token ID in the corpus is
/// equal to its position, so tests can recognize where a window begins.
fn any_dataset() -> impl Strategy<Value = (Corpus, GptDataset)> {
    (1usize..12, 1usize..12, 1u32..80).prop_map(|(max_length, stride, more)| {
        let corpus = Corpus::from_ids((0..max_length as u32 + more).collect::<Vec<u32>>());
        let dataset = GptDataset::new(&corpus, WindowConfig { max_length, stride });
        (corpus, dataset.expect("one token more than a window"))
    })
}

fn ids(corpus: &Corpus) -> Vec<u32> {
    corpus.read(..).expect("the file is there").into_owned()
}

fn windows(dataset: &GptDataset) -> Vec<Window<'_>> {
    let window = |i| dataset.get(i).expect("the file is there");
    (0..dataset.len()).filter_map(window).collect()
}

fn batches(epoch: impl Iterator<Item = Result<Batch, dataloader::DataLoaderError>>) -> Vec<Batch> {
    epoch.map(|batch| batch.expect("it is in memory")).collect()
}

/// Creates a loader with the same windows as the data set.
fn loader(dataset: &GptDataset, batch_size: usize, shuffle: bool, drop_last: bool) -> DataLoader {
    let config = DataLoaderConfig {
        batch_size,
        max_length: dataset.max_length(),
        stride: dataset.stride(),
        shuffle,
        drop_last,
    };
    DataLoader::new(dataset.corpus(), config).expect("the data set has a batch")
}

/// Returns the position in the corpus at which each window in the batches begins. The position is
/// equal to the first token ID of the window, because each ID in the test corpus is equal to its
/// position.
fn starts(batches: &[Batch]) -> Vec<usize> {
    let firsts = batches
        .iter()
        .flat_map(|batch| batch.input_ids.column(0).to_vec());
    firsts.map(|id| id as usize).collect()
}

proptest! {
    #![proptest_config(proptest_config(500))]

    #[test]
    fn windows_are_where_the_book_s_range_puts_them((corpus, dataset) in any_dataset()) {
        let (max_length, ids) = (dataset.max_length(), ids(&corpus));
        let range = (0..ids.len() - max_length).step_by(dataset.stride());
        let windows = windows(&dataset);
        prop_assert_eq!((dataset.len(), windows.len()), (range.len(), range.len()));
        for (start, window) in range.zip(windows) {
            prop_assert_eq!(&window.input_ids[..], &ids[start..start + max_length]);
            prop_assert_eq!(&window.target_ids[..], &ids[start + 1..=start + max_length]);
        }
        prop_assert_eq!(dataset.get(dataset.len()).unwrap(), None);
    }

    #[test]
    fn windows_are_views_into_the_corpus((corpus, dataset) in any_dataset()) {
        let ids = corpus.read(..).unwrap();
        for (i, window) in windows(&dataset).iter().enumerate() {
            prop_assert!(std::ptr::eq(&window.input_ids[0], &ids[i * dataset.stride()]));
        }
    }

    /// Checks that a corpus has the same windows regardless of whether its IDs are in a file or in
    /// memory. Also checks that splitting the corpus produces the same two parts in both cases.
    #[test]
    fn a_file_gives_the_windows_of_a_corpus_in_memory((corpus, dataset) in any_dataset(), at in 0usize..92) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ids.bin");
        corpus.write_u16_file(&file).unwrap();
        let in_file = Corpus::from_token_file(&file).unwrap();
        let (max_length, stride) = (dataset.max_length(), dataset.stride());
        let again = GptDataset::new(&in_file, WindowConfig { max_length, stride }).unwrap();
        prop_assert_eq!(windows(&dataset), windows(&again));
        let at = at.min(corpus.len());
        let (of_file, of_memory) = (in_file.split_at(at), corpus.split_at(at));
        prop_assert_eq!(ids(&of_file.0), ids(&of_memory.0));
        prop_assert_eq!(ids(&of_file.1), ids(&of_memory.1));
    }

    /// Checks that a file of 16-bit IDs isn't mistaken for a file in another format, regardless of
    /// the size of the vocabulary and the frequency of small IDs.
    #[test]
    fn no_file_of_u16_ids_is_taken_for_something_else(
        vocab_size in prop_oneof![1u32..300, 1u32..=65_536],
        places in proptest::collection::vec(0.0f64..1.0, 0..800),
        power in 1i32..9,
    ) {
        let ids: Vec<u32> = places.iter().map(|at| (at.powi(power) * f64::from(vocab_size)) as u32).collect();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ids.bin");
        Corpus::from_ids(ids.as_slice()).write_u16_file(&file).unwrap();
        let read = Corpus::from_token_file(&file);
        // If every second ID in a file is 0, the file looks like 32-bit integers. The test doesn't
        // require that such a file can be read.
        let is_wide = ids.iter().skip(1).step_by(2).all(|&id| id == 0);
        prop_assert!(is_wide || self::ids(&read.unwrap()) == ids);
    }

    #[test]
    fn batches_part_the_epoch(
        (_, dataset) in any_dataset(),
        batch_size in 1usize..9,
        shuffle: bool,
        drop_last: bool,
        seed: u64,
    ) {
        prop_assume!(!drop_last || batch_size <= dataset.len());
        let loader = loader(&dataset, batch_size, shuffle, drop_last);
        let epoch = loader.epoch(&mut TorchRng::manual_seed(seed));
        prop_assert_eq!(epoch.len(), loader.len());
        let batches = batches(epoch);
        prop_assert_eq!(batches.len(), loader.len());

        let windows = dataset.len();
        let kept = if drop_last { windows / batch_size * batch_size } else { windows };
        let mut given = starts(&batches);
        prop_assert_eq!(given.len(), kept);
        if !shuffle {
            prop_assert!(given.is_sorted());
        }
        // Each window occurs at most once.
        given.sort_unstable();
        given.dedup();
        prop_assert_eq!(given.len(), kept);
        prop_assert!(given.iter().all(|start| start.is_multiple_of(dataset.stride())));
        for (number, batch) in batches.iter().enumerate() {
            let full = number + 1 < batches.len() || drop_last;
            prop_assert!(batch.input_ids.nrows() == batch_size || !full);
            prop_assert_eq!(&batch.target_ids, &batch.input_ids.mapv(|id| id + 1));
        }
    }

    #[test]
    fn an_epoch_resumed_anywhere_goes_on_as_if_never_stopped(
        (_, dataset) in any_dataset(),
        batch_size in 1usize..5,
        seed: u64,
        stop in 0usize..90,
    ) {
        let loader = loader(&dataset, batch_size, true, false);
        let mut rng = TorchRng::manual_seed(seed);
        let before = rng.state();
        let mut epoch = loader.epoch(&mut rng);
        let stop = stop % (loader.len() + 1);
        for _ in 0..stop {
            epoch.next().unwrap().unwrap();
        }
        prop_assert_eq!(epoch.position(), stop);
        let mut drawn_again = loader.epoch(&mut TorchRng::from_state(&before).unwrap());
        drawn_again.seek(stop).unwrap();
        let skipped = loader.epoch(&mut TorchRng::from_state(&before).unwrap()).skip(stop);
        let rest = batches(epoch);
        prop_assert_eq!(&batches(drawn_again), &rest);
        prop_assert_eq!(batches(skipped), rest);
    }
}
