//! A cache of the token IDs of short pieces of text.
//!
//! Most words of a typical text occur many times. If a word occurs again, looking up its token IDs
//! is faster than merging its bytes again.

/// A cache of the token IDs of short pieces of text. It is a hash table in which each slot contains
/// at most one piece with its IDs. If a slot is occupied, a new piece replaces the old one.
pub(crate) struct PieceCache {
    slots: Vec<Slot>, // The number of slots is a power of two.
}

/// The bytes of a piece and its token IDs.
#[derive(Clone, Copy, Default)]
struct Slot {
    piece: u128, // the bytes of the piece, and their number in the last byte
    ids: [u32; MAX_IDS],
    count: u32,
}

const MAX_BYTES: usize = 15;
const MAX_IDS: usize = 3;

/// Maximum number of slots. A slot takes up 32 bytes, so the whole table takes up at most 2 MiB.
const MAX_SLOTS: usize = 1 << 16;

impl PieceCache {
    /// Returns an empty cache for encoding `bytes` bytes of text.
    pub(crate) fn for_text(bytes: usize) -> Self {
        let slots = (bytes / 4).next_power_of_two().clamp(1, MAX_SLOTS);
        Self {
            slots: vec![Slot::default(); slots],
        }
    }

    /// Appends the token IDs of a nonempty piece to `ids`. If the cache doesn't contain the piece,
    /// calls `encode`, which must append the IDs, and then adds the piece with its IDs to the
    /// cache. If the piece or its IDs don't fit in a slot, they aren't added to the cache.
    pub(crate) fn encode(
        &mut self,
        piece: &[u8],
        ids: &mut Vec<u32>,
        encode: impl FnOnce(&mut Vec<u32>),
    ) {
        if piece.len() > MAX_BYTES {
            return encode(ids);
        }
        let mut key = [0; 16];
        key[..piece.len()].copy_from_slice(piece);
        key[MAX_BYTES] = piece.len() as u8;
        let key = u128::from_le_bytes(key);
        let folded = (key as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (key >> 64) as u64;
        let hash = folded.wrapping_mul(0xd1b5_4a32_d192_ed03) >> 32;
        let place = hash as usize & (self.slots.len() - 1);
        let slot = &mut self.slots[place];
        if slot.piece == key {
            return ids.extend_from_slice(&slot.ids[..slot.count as usize]);
        }
        let start = ids.len();
        encode(ids);
        let new = &ids[start..];
        if let Some(kept) = slot.ids.get_mut(..new.len()) {
            kept.copy_from_slice(new);
            (slot.piece, slot.count) = (key, new.len() as u32);
        }
    }
}
