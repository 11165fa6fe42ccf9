//! Short pieces and their ids, because most pieces of a text are repeated.

/// A table of pieces by their hash; a new piece takes the place of another.
pub(crate) struct KnownPieces {
    slots: Vec<Slot>, // a power of two
}

/// A piece and its ids.
#[derive(Clone, Copy, Default)]
struct Slot {
    piece: u128, // its bytes, and in the last byte their number
    ids: [u32; MAX_IDS],
    count: u32,
}

const MAX_BYTES: usize = 15;
const MAX_IDS: usize = 3;

/// 2 MiB for a thread.
const MAX_SLOTS: usize = 1 << 16;

impl KnownPieces {
    /// An empty table for a text of so many bytes.
    pub(crate) fn for_text(bytes: usize) -> Self {
        let slots = (bytes / 4).next_power_of_two().clamp(1, MAX_SLOTS);
        Self {
            slots: vec![Slot::default(); slots],
        }
    }

    /// Appends the ids of a piece that isn't empty, which `encode` appends if they are not known.
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
