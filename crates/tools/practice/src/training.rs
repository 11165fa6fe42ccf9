//! The trait that connects the training loop of exercise 5.2c to a model.

/// A model that can be trained. The training loop of exercise 5.2c calls its methods.
pub trait Training {
    /// Sets all gradients to 0.
    fn zero_grad(&mut self);

    /// Computes and returns the loss of a batch. The batches are numbered from 0.
    fn loss(&mut self, batch: usize) -> f32;

    /// Computes the gradients of the last loss and adds them to the stored gradients.
    fn backward(&mut self);

    /// Updates the weights with the stored gradients.
    fn step(&mut self);

    /// Returns the loss on the validation data.
    fn validation_loss(&self) -> f32;
}
