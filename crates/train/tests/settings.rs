//! Checks three properties of each settings type. An empty JSON object is deserialized as the
//! default value, serializing and deserializing a value doesn't change it, and an unknown field
//! leads to an error that contains the name of the field.

#![allow(clippy::unwrap_used)] // a test may panic if its preparation fails

use std::fmt::Debug;

use dataloader::DataLoaderConfig;
use generate::{BookSampling, Decoder, DecoderConfig, DecoderState, GenerateOptions, Sampling};
use gpt::{DropRates, GptConfig, GptModel};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use torch_rng::TorchRng;
use train::{AdamWConfig, SimpleTraining, TrainConfig};

fn check<T: Serialize + DeserializeOwned + Default + Debug + PartialEq>() {
    let default = T::default();
    assert_eq!(serde_json::from_str::<T>("{}").unwrap(), default);
    let text = serde_json::to_string(&default).unwrap();
    assert_eq!(serde_json::from_str::<T>(&text).unwrap(), default);
    let unknown = serde_json::from_str::<T>(r#"{"learning": 1}"#).unwrap_err();
    assert!(unknown.to_string().contains("learning"), "{unknown}");
}

#[test]
fn a_decoder_state_continues_after_it_was_written_and_a_damaged_one_is_refused() {
    let config = GptConfig {
        vocab_size: 30,
        context_length: 90,
        emb_dim: 8,
        n_heads: 2,
        n_layers: 2,
        ..GptConfig::GPT2_124M
    };
    let model = GptModel::new(config, &mut TorchRng::manual_seed(1)).unwrap();
    let mut decoder = Decoder::new(&model);
    let empty = serde_json::to_string(&DecoderState::default()).unwrap();
    let empty: DecoderState = serde_json::from_str(&empty).unwrap();
    assert!(empty.tokens().is_empty());
    let ids: Vec<u32> = (0..70).map(|i| i * i % 30).collect();
    decoder.start(&ids).unwrap();
    decoder.advance().unwrap();
    let written = serde_json::to_value(decoder.state()).unwrap();
    let read: DecoderState = serde_json::from_value(written.clone()).unwrap();
    let mut read = Decoder::with_state(&model, read).unwrap();
    assert_eq!((read.logits(), read.pending()), (decoder.logits(), 0));
    for decoder in [&mut decoder, &mut read] {
        decoder.push(&[7]).unwrap();
        decoder.advance().unwrap();
    }
    assert_eq!(read.logits(), decoder.logits());
    let size = json!({ "num_heads": 2, "head_dim": 4, "capacity": 90 });
    for (place, damage) in [
        ("/tokens", json!([1, 2])),
        ("/tokens/3", json!(30)),
        ("/start", json!(u64::MAX)),
        ("/logits", json!([0.5])),
        ("/caches/0/keys", json!([0.5])),
        ("/caches/1/size/num_heads", json!(1u64 << 60)),
        (
            "/caches/1",
            json!({ "size": size, "keys": [], "values": [] }),
        ),
        ("/model/n_layers", json!(1u64 << 60)),
        ("/config/context_size", json!(0)),
    ] {
        let mut written = written.clone();
        *written.pointer_mut(place).unwrap() = damage;
        let refused = serde_json::from_value::<DecoderState>(written);
        assert!(refused.is_err(), "{place}");
    }
}

#[test]
fn settings_have_defaults_and_refuse_unknown_fields() {
    check::<GptConfig>();
    check::<DropRates>();
    check::<DataLoaderConfig>();
    check::<TrainConfig>();
    check::<AdamWConfig>();
    check::<SimpleTraining>();
    check::<Sampling>();
    check::<BookSampling>();
    check::<DecoderConfig>();
    check::<GenerateOptions>();
}
