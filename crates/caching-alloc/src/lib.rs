#![doc = include_str!("../README.md")]

mod caching_allocator;

pub use caching_allocator::CachingAllocator;
