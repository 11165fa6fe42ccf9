#![doc = include_str!("../README.md")]
#![deny(unsafe_code)] // not `forbid`: the one module allows it

mod caching_allocator;

pub use caching_allocator::CachingAllocator;
