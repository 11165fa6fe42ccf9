//! Implementations of the traits `Serialize` and `Deserialize` from the `serde` crate. A generator
//! or its state is serialized as a string of hexadecimal digits, which represent the bytes that
//! [`RngState::to_bytes`] returns.

use serde::de::{Deserialize, Deserializer, Error};
use serde::ser::{Serialize, Serializer};

use crate::{RngState, TorchRng};

impl Serialize for RngState {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let bytes = self.to_bytes();
        let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        serializer.serialize_str(&digits)
    }
}

impl<'de> Deserialize<'de> for RngState {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let digits = String::deserialize(deserializer)?;
        let byte = |at| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
        let bytes: Option<Vec<u8>> = (0..digits.len()).step_by(2).map(byte).collect();
        let bytes = bytes.ok_or_else(|| {
            D::Error::custom("the state of the random number generator isn't a string of hexadecimal digit pairs")
        })?;
        Self::from_bytes(&bytes).map_err(D::Error::custom)
    }
}

impl Serialize for TorchRng {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.state().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for TorchRng {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let state = RngState::deserialize(deserializer)?;
        Self::from_state(&state).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generator_comes_back_from_json_and_damage_is_an_error() {
        let mut rng = TorchRng::manual_seed(123);
        rng.randn(3);
        let json = serde_json::to_string(&rng).expect("a string");
        let mut back: TorchRng = serde_json::from_str(&json).expect("its own state");
        assert_eq!(back.randn(5), rng.randn(5));
        for damaged in [&json[..99], "\"\"", "\"0x\"", "\"éé\"", "7"] {
            assert!(
                serde_json::from_str::<TorchRng>(damaged).is_err(),
                "{damaged}"
            );
        }
    }
}
