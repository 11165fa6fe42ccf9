#![doc = include_str!("../README.md")]

mod caching_allocator;
mod pages;

pub use caching_allocator::CachingAllocator;
