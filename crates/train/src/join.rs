//! How a run becomes one of several ranks that train together.

use std::sync::Arc;

use gpt::GptModel;
use serde_json::Value;
use sha2::{Digest, Sha256};
use tensor_ops::Parameters;

use crate::manifest::hex;
use crate::share::Share;
use crate::trainer::Optimizer;
use crate::{Ranks, TrainError, Trainer, agree};

impl Trainer {
    /// Shares this run with other processes that have begun, or resumed, the same one: each step's batches, evaluations, and the optimizer's moments.
    ///
    /// All results are bit for bit those of one process.
    /// A rank alone stays as it is.
    ///
    /// # Errors
    /// On all ranks alike, if there are more of them than batches in a step, or if settings, data, random state, weights or moments are not the same everywhere.
    pub fn share(mut self, ranks: Arc<dyn Ranks>) -> Result<Self, TrainError> {
        if ranks.size() == 1 {
            return Ok(self);
        }
        agree(&*ranks, &self.facts()?)?;
        if self.config.accumulation < ranks.size() as u64 {
            return Err(TrainError::MoreRanksThanBatches {
                ranks: ranks.size(),
                accumulation: self.config.accumulation,
            });
        }
        if let Optimizer::Alone(optimizer) = self.optimizer {
            let share = Share::new(ranks, *optimizer, &mut self.grads, self.counters.micro_step);
            self.optimizer = Optimizer::Shared(share);
        }
        Ok(self)
    }

    /// Whether this process tells what there is to tell: the first of the ranks, or the only one.
    pub(crate) fn is_first_rank(&self) -> bool {
        match &self.optimizer {
            Optimizer::Alone(_) => true,
            Optimizer::Shared(share) => share.ranks.rank() == 0,
        }
    }

    /// All that decides the numbers of the run, by names for people.
    fn facts(&self) -> Result<Vec<(String, String)>, TrainError> {
        let state = serde_json::to_value(self.state()?).expect("a state is plain data");
        let Value::Object(state) = state else {
            unreachable!("a struct is an object");
        };
        let mut facts: Vec<(String, String)> = state
            .into_iter()
            .map(|(name, value)| (name, value.to_string()))
            .collect();
        facts.push(("the weights".to_owned(), hash([&self.model])));
        if let Optimizer::Alone(optimizer) = &self.optimizer
            && optimizer.steps > 0
        {
            let moments = hash([&optimizer.m, &optimizer.v]);
            facts.push(("the moments".to_owned(), moments));
        }
        Ok(facts)
    }
}

fn hash<const N: usize>(models: [&GptModel; N]) -> String {
    let mut hasher = Sha256::new();
    for model in models {
        model.visit("", &mut |_, view| {
            let values = view.as_slice().expect("weights are row-major");
            hasher.update(bytemuck::cast_slice::<f32, u8>(values));
        });
    }
    hex(&hasher.finalize())
}
