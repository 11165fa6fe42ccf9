//! What the training loop of exercise 5.2c sees of a model.

/// A model in training.
pub trait Training {
    /// Sets all gradients to 0.
    fn zero_grad(&mut self);

    /// Computes and returns the loss of the batch with this number, from 0.
    fn loss(&mut self, batch: usize) -> f32;

    /// Computes the gradients of the last loss and adds them to the gradients.
    fn backward(&mut self);

    /// Changes the weights by means of the gradients.
    fn step(&mut self);

    /// Returns the loss on the validation data.
    fn validation_loss(&self) -> f32;
}
