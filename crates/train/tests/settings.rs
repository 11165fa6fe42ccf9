//! Every settings type reads an empty object as its defaults, is read again as it was written, and
//! refuses an unknown field by name.

#![allow(clippy::unwrap_used)] // a test that can't begin panics

use std::fmt::Debug;

use dataloader::DataLoaderConfig;
use generate::{BookSampling, DecoderConfig, GenerateOptions, Sampling};
use gpt::{DropRates, GptConfig};
use serde::Serialize;
use serde::de::DeserializeOwned;
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
