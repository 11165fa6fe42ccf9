//! The innermost loop by AMX, the matrix unit of Intel's processors since Sapphire Rapids: a tile
//! of 16 rows and 32 bf16 numbers meets a tile of 32 numbers and 16 columns.
//!
//! Stable Rust has no functions for its instructions, so they are written as assembly, which
//! declares all tiles as clobbered. Where the processor lacks them, the tests emulate them.
//! Before its first use, the kernel is compared with the one for AVX512-BF16, which replaces it for
//! good if they disagree ([`has_amx`]).
//!
//! An instruction adds the 16 products of even numbers and the 16 products of odd numbers
//! separately, and then both sums to the tile. AVX512-BF16 adds in another order, so the last bits
//! of results differ.

use std::arch::asm;
use std::arch::x86_64::*;
use std::mem::MaybeUninit;
use std::sync::OnceLock;

use ndarray::{Array2, ArrayRef2, ArrayView2, ArrayViewMut2};

use crate::operands::has_bf16;
use crate::prefetch;
use crate::product::kernel::{
    Avx512Bf16, Block, DEPTH, Kernel, Layout, RowPanel, Start, store_sum,
};
use crate::product::pack::Rows;
use crate::product::tiles::{Threads, multiply_by};
use crate::register::{Register, Square};
use crate::weight::Weight;

/// Rows of a tile, each of 64 bytes: 16 pairs of bf16, or 16 sums.
const TILE: usize = 16;
/// Two tiles.
const SIDE: usize = 2 * TILE;

/// Two tiles of rows by two of columns: four tiles of sums, and four that are read.
pub(crate) struct Amx;

/// The operand of `ldtilecfg`: the shapes of eight tiles.
#[repr(C, align(64))]
struct Configuration {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    bytes_of_a_row: [u16; 16],
    rows: [u8; 16],
}

const WHOLE_TILES: Configuration = Configuration {
    palette: 1,
    start_row: 0,
    reserved: [0; 14],
    bytes_of_a_row: [64, 64, 64, 64, 64, 64, 64, 64, 0, 0, 0, 0, 0, 0, 0, 0],
    rows: [16, 16, 16, 16, 16, 16, 16, 16, 0, 0, 0, 0, 0, 0, 0, 0],
};

#[repr(align(64))]
struct Sums([[f32; SIDE]; SIDE]);

/// Gives this thread's tiles their shapes, and fills them with 0.
///
/// # Safety
/// The CPU must have AMX; no other code uses tiles.
unsafe fn configure(shapes: &Configuration) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!(
            "ldtilecfg [{}]",
            in(reg) &raw const *shapes,
            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
            out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            options(nostack, preserves_flags),
        );
    }
}

impl Kernel for Amx {
    const ROWS: usize = SIDE;
    const COLUMNS: usize = SIDE;
    const NUMBERS: usize = 2;
    const STEPS: usize = TILE;

    unsafe fn begin() {
        // SAFETY: the caller's promise.
        unsafe { configure(&WHOLE_TILES) }
    }

    unsafe fn end() {
        // SAFETY: the caller's promise.
        unsafe {
            asm!(
                "tilerelease",
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                options(nostack, preserves_flags),
            );
        }
    }

    unsafe fn run(a: RowPanel, c: *mut f32, block: &Block<'_>) {
        let Layout::Rows(down) = a.layout else {
            unreachable!("tiles are packed by rows");
        };
        let mut sums = MaybeUninit::<Sums>::uninit();
        // SAFETY: the caller's promise; panels have whole tiles.
        unsafe {
            asm!(
                "tilezero tmm0",
                "tilezero tmm1",
                "tilezero tmm2",
                "tilezero tmm3",
                "test {tiles}, {tiles}",
                "jz 3f",
                "2:",
                "tileloadd tmm4, [{a} + {down}]",
                "tileloadd tmm6, [{b} + {across}]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tileloadd tmm7, [{b} + {across} + 64]",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "tileloadd tmm5, [{a_below} + {down}]",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "tdpbf16ps tmm3, tmm5, tmm7",
                "add {a}, 64",
                "add {a_below}, 64",
                "add {b}, 2048", // 16 rows of two tiles
                "dec {tiles}",
                "jnz 2b",
                "3:",
                "tilestored [{sums} + {across}], tmm0",
                "tilestored [{sums} + {across} + 64], tmm1",
                "tilestored [{sums} + {across} + 2048], tmm2",
                "tilestored [{sums} + {across} + 2112], tmm3",
                tiles = inout(reg) block.depth.div_ceil(TILE) => _,
                a = inout(reg) a.start => _,
                a_below = inout(reg) a.start.wrapping_add(TILE * down) => _,
                b = inout(reg) block.b.start => _,
                down = in(reg) size_of::<f32>() * down,
                across = in(reg) size_of::<f32>() * SIDE,
                sums = in(reg) sums.as_mut_ptr(),
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                options(nostack),
            );
            store(sums.assume_init_ref(), a.rows, c, block);
        }
    }
}

/// Adds the initial summand, and writes the rows and columns that `c` has.
#[target_feature(enable = "avx512f")]
unsafe fn store(Sums(sums): &Sums, rows: usize, c: *mut f32, block: &Block<'_>) {
    for (r, sums) in sums.iter().take(rows).enumerate() {
        let row = c.wrapping_offset(r as isize * block.stride);
        for before in (0..block.columns).step_by(TILE) {
            let lanes = TILE.min(block.columns - before);
            // SAFETY: the caller's promise.
            unsafe {
                let sum = <__m512 as Register>::load(sums.as_ptr().add(before));
                store_sum(sum, row, before, lanes, block.start);
            }
        }
    }
}

/// Packs the pairs of a few rows as the right operand of tiles: for each 16 rows, and each 16 pairs
/// of them, a tile with a pair of each row in a line.
pub(crate) fn tiles_of_rows(x: &Rows) -> Rows {
    let tiles = x.length.div_ceil(TILE);
    let length = tiles * TILE;
    let mut lanes = vec![0.0; x.count * length];
    for first in (0..x.count).step_by(TILE) {
        let here = TILE.min(x.count - first);
        let to = &mut lanes[first * length..];
        for r in 0..here {
            for k in 0..x.length {
                to[k * here + r] = x.lanes[(first + r) * x.length + k];
            }
        }
    }
    Rows {
        lanes,
        count: x.count,
        length,
    }
}

/// `c = start + x W^T` for at most 32 rows of `x`, in [`tiles_of_rows`], and weights (outputs, n)
/// in bf16: a tile of weights, read from where it is, meets a tile of rows of `x`.
///
/// # Safety
/// The CPU must have AMX; `c` must be the place of (rows, outputs), `stride` from row to row, and
/// initialised if `start` reads it.
pub(crate) unsafe fn run_few_rows<W: Weight>(
    x: &Rows,
    w: &ArrayView2<W>,
    c: *mut f32,
    stride: isize,
    start: Start<'_>,
) {
    assert!(W::IS_BF16, "tiles are of bf16");
    let (outputs, n) = w.dim();
    let distance = w.strides()[0] as usize * size_of::<W>();
    let groups = x.count.div_ceil(TILE);
    let rows = |group: usize| TILE.min(x.count - group * TILE);
    let mut shapes = WHOLE_TILES;
    for (sums, tile) in [(0, 2), (1, 3)] {
        let bytes = (size_of::<f32>() * rows(sums.min(groups - 1))) as u16;
        (shapes.bytes_of_a_row[sums], shapes.bytes_of_a_row[tile]) = (bytes, bytes);
    }
    let mut panel = Panel([[0.0; TILE]; TILE]);
    // SAFETY: the caller's promise. Each block of assembly declares the tiles that it changes. Sums
    // stay in tiles from block to block, because compiled code uses none.
    unsafe {
        configure(&shapes);
        for first in (0..outputs).step_by(TILE) {
            let here = TILE.min(outputs - first);
            let from = w
                .as_ptr()
                .wrapping_add(first * (distance / size_of::<W>()))
                .cast::<u8>();
            // Once even without an inner dimension, for the initial summand.
            for k in (0..x.length.max(1)).step_by(DEPTH) {
                let depth = DEPTH.min(x.length - k);
                let numbers = 2 * k..n.min(2 * (k + depth));
                let whole = if here == TILE {
                    numbers.len() / SIDE
                } else {
                    0
                };
                asm!(
                    "tilezero tmm0",
                    "tilezero tmm1",
                    out("tmm0") _, out("tmm1") _,
                    options(nostack, preserves_flags)
                );
                for tile in 0..depth / TILE {
                    let from = from.wrapping_add(4 * (k + tile * TILE));
                    let (from, distance) = if tile < whole {
                        for row in 0..TILE {
                            prefetch::far_line(from.wrapping_add((TILE + row) * distance), 0);
                        }
                        (from, distance)
                    } else {
                        let left = (numbers.len() - tile * SIDE).min(SIDE);
                        panel.0 = [[0.0; TILE]; TILE];
                        for (row, to) in panel.0.iter_mut().enumerate().take(here) {
                            let from = from.wrapping_add(row * distance);
                            let to = to.as_mut_ptr().cast::<u8>();
                            to.copy_from_nonoverlapping(from, left * size_of::<W>());
                        }
                        ((&raw const panel).cast(), 64)
                    };
                    let place = |group: usize| {
                        let rows = rows(group);
                        let at = group * TILE * x.length + (k + tile * TILE) * rows;
                        (x.lanes.as_ptr().wrapping_add(at), size_of::<f32>() * rows)
                    };
                    let (x0, across0) = place(0);
                    asm!(
                        "tileloadd tmm4, [{w} + {distance}]",
                        "tileloadd tmm2, [{x} + {across}]",
                        "tdpbf16ps tmm0, tmm4, tmm2",
                        w = in(reg) from,
                        distance = in(reg) distance,
                        x = in(reg) x0,
                        across = in(reg) across0,
                        out("tmm0") _, out("tmm2") _, out("tmm4") _,
                        options(nostack, preserves_flags),
                    );
                    if groups > 1 {
                        let (x1, across1) = place(1);
                        asm!(
                            "tileloadd tmm3, [{x} + {across}]",
                            "tdpbf16ps tmm1, tmm4, tmm3",
                            x = in(reg) x1,
                            across = in(reg) across1,
                            out("tmm1") _, out("tmm3") _,
                            options(nostack, preserves_flags),
                        );
                    }
                }
                let start = if k == 0 {
                    start.at_column(first)
                } else {
                    Start::times(1.0)
                };
                let mut sums = Panel([[0.0; TILE]; TILE]);
                for group in 0..groups {
                    match group {
                        0 => asm!(
                            "tilestored [{sums} + {across}], tmm0",
                            sums = in(reg) &raw mut sums,
                            across = in(reg) 64_usize,
                            options(nostack, preserves_flags),
                        ),
                        _ => asm!(
                            "tilestored [{sums} + {across}], tmm1",
                            sums = in(reg) &raw mut sums,
                            across = in(reg) 64_usize,
                            options(nostack, preserves_flags),
                        ),
                    }
                    let c = c.offset((group * TILE) as isize * stride).add(first);
                    store_columns(&sums, rows(group), (c, stride), here, start);
                }
            }
        }
        Amx::end();
    }
}

/// The numbers of a tile.
#[repr(align(64))]
struct Panel([[f32; TILE]; TILE]);

/// Adds the initial summand to the sums of 16 outputs (outputs, rows), and writes them to rows.
///
/// # Safety
/// As [`run_few_rows`].
#[target_feature(enable = "avx512f")]
unsafe fn store_columns(
    sums: &Panel,
    rows: usize,
    (c, stride): (*mut f32, isize),
    outputs: usize,
    start: Start<'_>,
) {
    // SAFETY: the caller's promise; a panel is a square.
    unsafe {
        let columns = <__m512 as Square>::columns(sums.0.as_ptr().cast(), 64);
        for (r, column) in columns.into_iter().enumerate().take(rows) {
            store_sum(column, c.offset(r as isize * stride), 0, outputs, start);
        }
    }
}

/// True if the processor has AMX for bf16, the system lets this process use it, and a product that
/// is computed with it once, to test it, is the product that AVX512-BF16 computes.
pub(crate) fn has_amx() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    *HAS.get_or_init(|| {
        /// Tiles (bit 24) and their products of bf16 (bit 22).
        const FEATURES: u32 = 1 << 24 | 1 << 22;
        #[allow(unused_unsafe, reason = "Rust 1.89 calls it unsafe")]
        // SAFETY: a processor with AVX512-BF16 has this leaf.
        let features = || unsafe { __cpuid_count(7, 0).edx };
        // SAFETY: the processor and the system have just been asked.
        has_bf16()
            && features() & FEATURES == FEATURES
            && permitted()
            && unsafe { is_right::<Amx>() }
    })
}

/// Computes one product with a kernel for bf16 and with the kernel for AVX512-BF16, and returns
/// true if the results are equal. All numbers and sums are small integers, so the order in which a
/// kernel adds has no influence.
///
/// # Safety
/// The CPU must have the instructions of the kernel, and AVX512-BF16.
pub(crate) unsafe fn is_right<K: Kernel>() -> bool {
    const ROWS: usize = SIDE + 1;
    const INNER: usize = 2 * SIDE + 3;
    const COLUMNS: usize = SIDE + 7;
    let integers = |shape, step: usize| {
        Array2::from_shape_fn(shape, |(i, j)| ((i * 7 + j * step) % 17) as f32 - 8.0)
    };
    let (a, b) = (integers((ROWS, INNER), 5), integers((INNER, COLUMNS), 3));
    let product = |multiply: Multiply| {
        let mut c = Array2::from_elem((ROWS, COLUMNS), MaybeUninit::new(f32::NAN));
        // SAFETY: the start doesn't read `c`, and the caller's promise.
        unsafe { multiply(&a, &b, Start::times(0.0), c.view_mut(), Threads::One) };
        // SAFETY: `c` was initialised.
        c.mapv(|c| unsafe { c.assume_init() })
    };
    product(multiply_by::<K, f32, f32>) == product(multiply_by::<Avx512Bf16, f32, f32>)
}

/// The form of [`multiply_by`] for f32.
type Multiply = unsafe fn(
    &ArrayRef2<f32>,
    &ArrayRef2<f32>,
    Start<'_>,
    ArrayViewMut2<MaybeUninit<f32>>,
    Threads,
);

/// Asks Linux for the permission to use tiles. It is granted to the whole process, whose threads
/// each get memory for their tiles when they first use one.
#[cfg(target_os = "linux")]
fn permitted() -> bool {
    use std::ffi::c_long;

    // The C library that std links anyway.
    unsafe extern "C" {
        fn syscall(number: c_long, ...) -> c_long;
    }
    const ARCH_PRCTL: c_long = 158;
    const REQUEST_PERMISSION: c_long = 0x1023;
    const TILE_DATA: c_long = 18;
    // SAFETY: a request that changes no memory of this program.
    unsafe { syscall(ARCH_PRCTL, REQUEST_PERMISSION, TILE_DATA) == 0 }
}

/// Other systems have other requests.
#[cfg(not(target_os = "linux"))]
fn permitted() -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kernel whose last column is wrong.
    struct Faulty;

    impl Kernel for Faulty {
        const ROWS: usize = Avx512Bf16::ROWS;
        const COLUMNS: usize = Avx512Bf16::COLUMNS;
        const NUMBERS: usize = 2;

        unsafe fn run(a: RowPanel, c: *mut f32, block: &Block<'_>) {
            // SAFETY: the caller's promise.
            unsafe {
                Avx512Bf16::run(a, c, block);
                *c.add(block.columns - 1) += 1.0;
            }
        }
    }

    #[test]
    fn a_kernel_with_wrong_results_is_not_used() {
        if !has_bf16() {
            return println!("skipped: this processor can't round to bf16");
        }
        // SAFETY: the CPU has AVX512-BF16.
        unsafe {
            assert!(is_right::<Avx512Bf16>());
            assert!(!is_right::<Faulty>());
        }
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
pub(crate) mod emulated {
    //! AMX's instructions on a processor without them: each raises SIGILL, and the signal's handler
    //! executes it by Intel's Software Developer's Manual (volume 2) and returns to the next one.
    //! It knows only the forms that are used above.

    use std::cell::UnsafeCell;
    use std::ffi::{c_int, c_void};
    use std::mem;
    use std::sync::Once;

    use half::bf16;
    use libc::{REG_RIP, SA_SIGINFO, SIGILL, sigaction, siginfo_t, ucontext_t};

    use crate::weight::Weight;

    /// The registers of [`ucontext_t`] by their numbers in an instruction.
    const REGISTERS: [usize; 16] = [13, 14, 12, 11, 15, 10, 9, 8, 0, 1, 2, 3, 4, 5, 6, 7];

    /// Rows of 64 bytes.
    type Tile = [[u8; 64]; 16];

    /// A thread's tiles, and the rows and bytes of a row that each has; none before `ldtilecfg`.
    struct State {
        tiles: [Tile; 8],
        shapes: [(usize, usize); 8],
    }

    thread_local! {
        static STATE: UnsafeCell<State> = const {
            UnsafeCell::new(State { tiles: [[[0; 64]; 16]; 8], shapes: [(0, 0); 8] })
        };
    }

    /// Runs AMX's instructions in this way from now on.
    pub(crate) fn install() {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            // SAFETY: the handler touches its thread's state and the instructions' operands.
            unsafe {
                let mut action: sigaction = mem::zeroed();
                action.sa_sigaction = handle as *const () as usize;
                action.sa_flags = SA_SIGINFO;
                assert_eq!(
                    sigaction(SIGILL, &raw const action, std::ptr::null_mut()),
                    0
                );
            }
        });
    }

    extern "C" fn handle(_: c_int, _: *mut siginfo_t, context: *mut c_void) {
        // SAFETY: the system's context of this signal; no other handler uses the thread's state.
        unsafe {
            let registers = &mut (*context.cast::<ucontext_t>()).uc_mcontext.gregs;
            let at = registers[REG_RIP as usize] as *const u8;
            match STATE.with(|state| execute(&mut *state.get(), registers, at)) {
                Some(length) => registers[REG_RIP as usize] += length as i64,
                None => libc::abort(), // an instruction that isn't AMX's
            }
        }
    }

    /// Executes the instruction at an address; returns its length, if it is known.
    unsafe fn execute(state: &mut State, registers: &[i64; 23], at: *const u8) -> Option<usize> {
        // SAFETY: the caller's promise; no instruction is longer.
        let [vex, first, second, opcode, form, ..] = unsafe { at.cast::<[u8; 10]>().read() };
        // VEX.128.0F38.W0
        if vex != 0xc4 || first & 0x1f != 2 || second & 0x84 != 0 {
            return None;
        }
        let (mode, register, rm) = (form >> 6, usize::from(form >> 3 & 7), usize::from(form & 7));
        let third = usize::from(!second >> 3 & 0xf);
        let (prefix, in_memory) = (second & 3, mode != 3);
        match (prefix, opcode, in_memory) {
            (0, 0x49, true) => {
                // SAFETY: the caller's promise.
                let (configuration, length) = unsafe {
                    let (from, length) = operand(registers, at);
                    (from.cast::<[u8; 64]>().read(), length)
                };
                let shape = |tile: usize| {
                    let bytes = [configuration[16 + 2 * tile], configuration[17 + 2 * tile]];
                    (
                        configuration[48 + tile].into(),
                        u16::from_le_bytes(bytes).into(),
                    )
                };
                assert!(configuration[0] == 1, "palette");
                state.shapes = std::array::from_fn(shape);
                state.tiles = [[[0; 64]; 16]; 8];
                return Some(length);
            }
            (0, 0x49, false) => state.shapes = [(0, 0); 8], // tilerelease
            (3, 0x49, false) => state.tiles[register] = [[0; 64]; 16],
            (3 | 2, 0x4b, true) => {
                let (rows, bytes) = state.shapes[register];
                // SAFETY: the caller's promise; the index register is the distance of rows.
                unsafe {
                    let (start, length) = operand_of_rows(registers, at);
                    for row in 0..rows {
                        let memory = start.0.wrapping_offset(start.1 * row as isize).cast_mut();
                        let tile = state.tiles[register][row].as_mut_ptr();
                        match prefix {
                            3 => tile.copy_from_nonoverlapping(memory, bytes),
                            _ => memory.copy_from_nonoverlapping(tile, bytes),
                        }
                    }
                    return Some(length);
                }
            }
            (2, 0x5c, false) => add_products(state, register, rm, third),
            _ => return None,
        }
        Some(5)
    }

    /// `tdpbf16ps`: the products of even and of odd numbers are summed apart.
    fn add_products(state: &mut State, sums: usize, a: usize, b: usize) {
        let (rows, bytes) = state.shapes[sums];
        let (rows_of_a, bytes_of_a) = state.shapes[a];
        let expected = [(rows, bytes_of_a), (bytes_of_a / 4, bytes)];
        assert_eq!(
            [(rows_of_a, bytes_of_a), state.shapes[b]],
            expected,
            "shapes of tiles"
        );
        let number =
            |row: &[u8; 64], at: usize| bf16::from_le_bytes([row[2 * at], row[2 * at + 1]]).value();
        for row in 0..rows {
            for column in 0..bytes / 4 {
                let mut parts = [0.0f32; 2];
                for pair in 0..bytes_of_a / 4 {
                    for (odd, part) in parts.iter_mut().enumerate() {
                        let left = number(&state.tiles[a][row], 2 * pair + odd);
                        let right = number(&state.tiles[b][pair], 2 * column + odd);
                        *part = left.mul_add(right, *part);
                    }
                }
                let place = &mut state.tiles[sums][row][4 * column..][..4];
                let before = f32::from_le_bytes(place.try_into().expect("four bytes"));
                place.copy_from_slice(&(before + (parts[0] + parts[1])).to_le_bytes());
            }
        }
    }

    /// The address of an operand without an index register, and the instruction's length.
    unsafe fn operand(registers: &[i64; 23], at: *const u8) -> (*const u8, usize) {
        // SAFETY: the caller's promise.
        let ((start, stride), length) = unsafe { operand_of_rows(registers, at) };
        assert_eq!(stride, 0, "an index register");
        (start, length)
    }

    /// The address of an operand, the value of its index register, or 0 without one, and the
    /// instruction's length.
    unsafe fn operand_of_rows(registers: &[i64; 23], at: *const u8) -> ((*const u8, isize), usize) {
        // SAFETY: the caller's promise; no instruction is longer.
        let bytes = unsafe { at.cast::<[u8; 10]>().read() };
        // The highest bits of numbers of registers are inverted.
        let [high_index, high_base] = [0x40, 0x20].map(|bit| usize::from(bytes[1] & bit == 0) * 8);
        let (mode, rm) = (bytes[4] >> 6, usize::from(bytes[4] & 7));
        let value = |register: usize| registers[REGISTERS[register]];
        let (base, stride, mut length) = match rm {
            4 => {
                let (scale, index) = (bytes[5] >> 6, usize::from(bytes[5] >> 3 & 7) + high_index);
                let stride = if index == 4 { 0 } else { value(index) << scale };
                (usize::from(bytes[5] & 7), stride, 6)
            }
            _ => (rm, 0, 5),
        };
        assert!(mode != 0 || base != 5, "an operand without a base register");
        let displacement = match mode {
            0 => 0,
            1 => i64::from(bytes[length] as i8),
            _ => {
                let four = bytes[length..length + 4].try_into().expect("four bytes");
                i64::from(i32::from_le_bytes(four))
            }
        };
        length += [0, 1, 4][usize::from(mode)];
        let start = (value(base + high_base) + displacement) as *const u8;
        ((start, stride as isize), length)
    }
}
