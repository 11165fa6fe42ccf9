//! The micro-kernel for AMX, the matrix unit of Intel's server CPUs since Sapphire Rapids.
//!
//! AMX has eight tile registers of 16 rows by 64 bytes. The instruction `tdpbf16ps` multiplies a
//! matrix of 16 x 32 bf16 values by a matrix of 32 x 16 values and adds the product to 16 x 16 sums
//! in `f32`. Each of the three matrices occupies a tile. In the tile of the second matrix, a row
//! consists of 16 pairs, each of which contains two values of the same column from two consecutive
//! rows of the matrix.
//!
//! Stable Rust has no intrinsics for AMX, so this file contains inline assembly, which declares all
//! tile registers that it changes. On CPUs without AMX, the tests emulate the AMX instructions.
//! Before a process uses AMX for the first time, [`has_amx`] computes a test product with AMX and
//! with AVX512-BF16. If the results differ, the process uses AVX512-BF16 instead of AMX.
//!
//! The instruction `tdpbf16ps` sums the products of even-numbered values and the products of
//! odd-numbered values separately, and then adds both sums to the tile. The AVX512-BF16 kernel adds
//! the products in a different order, so the results of the two kernels may differ in the last
//! bits.

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

/// Number of rows of a tile register. Each row is 64 bytes long and can hold 16 pairs of bf16
/// values or 16 `f32` sums.
const TILE: usize = 16;
/// Number of rows and number of columns of the square block of `C` that the micro-kernel computes
/// at a time. The block consists of 2 x 2 tiles.
const SIDE: usize = 2 * TILE;

/// The micro-kernel for AMX. It keeps the sums of 2 x 2 tiles of `C` in four of the eight tile
/// registers and uses the other four for the operands.
pub(crate) struct Amx;

/// The operand of the AMX instruction `ldtilecfg`, which sets the number of rows and the number of
/// bytes per row of each tile register. The instruction prescribes the layout of these 64 bytes.
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

/// Sets the shapes of the calling thread's tile registers and fills these registers with zeros.
///
/// # Safety
///
/// The CPU must have AMX, and no other code may be using the thread's tile registers.
unsafe fn configure(shapes: &Configuration) {
    // SAFETY: The caller guarantees that the CPU has AMX, and `shapes` is a reference to the 64
    // bytes that the instruction reads.
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
    const VALUES_PER_LANE: usize = 2;
    const STEP_MULTIPLE: usize = TILE;

    unsafe fn begin() {
        // SAFETY: The caller guarantees that the CPU has AMX.
        unsafe { configure(&WHOLE_TILES) }
    }

    unsafe fn end() {
        // SAFETY: The caller guarantees that the CPU has AMX.
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
        // SAFETY: The caller guarantees that the CPU has AMX, that the panels are readable and that
        // `c` is writable. The panels are padded to whole tiles, so all loads stay within the
        // panels.
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
                "add {b}, 2048", // 16 rows of `B` have 128 bytes each.
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

/// Completes a block of the product `C`: adds the initial values of `C` to the sums of products
/// that the tile registers contained, and stores the results in `c`. The block may extend beyond
/// the last row or column of `C`. The sums of these elements are ignored.
///
/// # Safety
///
/// The conditions of [`Kernel::run`] apply.
#[target_feature(enable = "avx512f")]
unsafe fn store(Sums(sums): &Sums, rows: usize, c: *mut f32, block: &Block<'_>) {
    for (r, sums) in sums.iter().take(rows).enumerate() {
        let row = c.wrapping_offset(r as isize * block.stride);
        for before in (0..block.columns).step_by(TILE) {
            let lanes = TILE.min(block.columns - before);
            // SAFETY: The caller guarantees that `c` is writable for `rows` rows and
            // `block.columns` columns.
            unsafe {
                let sum = <__m512 as Register>::load(sums.as_ptr().add(before));
                store_sum(sum, row, before, lanes, block.start);
            }
        }
    }
}

/// Rearranges the rows of `x`, which consist of pairs of bf16 values, into tiles that can be the
/// right operand of `tdpbf16ps`. A tile contains 16 consecutive pairs of each of up to 16 rows,
/// transposed. Its first row contains the first of these pairs from each row of `x`, its second row
/// contains the second pair from each row, and so on.
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

/// Computes `C = start + x W^T`. `x` contains at most 32 rows, which [`tiles_of_rows`] has
/// rearranged, and `w` contains bf16 weights of the shape (outputs, n).
///
/// A tile contains 16 rows of weights, each of which is 64 bytes long. Each tile of weights is
/// multiplied by one or two tiles of `x`. A complete tile of weights is loaded directly from `w`,
/// and an incomplete tile at the edge of `w` is loaded from a copy that is padded with zeros.
/// `stride` is the distance between the rows of `c`, in values.
///
/// # Safety
///
/// The CPU must have AMX. `c` must be writable for the shape (rows, outputs), and it must be
/// initialized if `start` reads it.
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
    // SAFETY: The caller guarantees that the CPU has AMX and that `c` is writable. All loads stay
    // within `w`, `x` or a local array. Each `asm!` block declares the tile registers that it
    // changes. The sums remain in their registers between these blocks, because the compiler itself
    // never uses tile registers.
    unsafe {
        configure(&shapes);
        for first in (0..outputs).step_by(TILE) {
            let here = TILE.min(outputs - first);
            let from = w
                .as_ptr()
                .wrapping_add(first * (distance / size_of::<W>()))
                .cast::<u8>();
            // If the inner dimension of the product is empty, there is nothing to multiply. The
            // loop body still runs once, in order to set `c` to the initial value.
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
                    Start::beta(1.0)
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

/// The contents of a tile register.
#[repr(align(64))]
struct Panel([[f32; TILE]; TILE]);

/// Completes up to 16 outputs (columns) of the product `C`. The tile registers contain the sums of
/// products in the shape (outputs, rows). The function transposes these sums to the shape (rows,
/// outputs), adds the initial values of `C`, and stores the results in `c`.
///
/// # Safety
///
/// The conditions of [`run_few_rows`] apply.
#[target_feature(enable = "avx512f")]
unsafe fn store_columns(
    sums: &Panel,
    rows: usize,
    (c, stride): (*mut f32, isize),
    outputs: usize,
    start: Start<'_>,
) {
    // SAFETY: The caller guarantees that `c` is writable for the given rows and outputs. The
    // reference `sums` points to 16 x 16 readable values, which is what the transposition reads.
    unsafe {
        let columns = <__m512 as Square>::columns(sums.0.as_ptr().cast(), 64);
        for (r, column) in columns.into_iter().enumerate().take(rows) {
            store_sum(column, c.offset(r as isize * stride), 0, outputs, start);
        }
    }
}

/// Returns whether matrix products can use AMX. The CPU must have AMX for bf16, the operating
/// system must permit its use, and a test product must have the same result as with AVX512-BF16.
/// These checks are performed only once per process.
pub(crate) fn has_amx() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    *HAS.get_or_init(|| {
        /// Bits of the CPUID result that indicate whether the CPU supports tile registers (bit 24)
        /// and products of bf16 values (bit 22).
        const FEATURES: u32 = 1 << 24 | 1 << 22;
        #[allow(unused_unsafe, reason = "Rust 1.89 calls it unsafe")]
        // SAFETY: Every CPU with AVX512-BF16 has this CPUID leaf.
        let features = || unsafe { __cpuid_count(7, 0).edx };
        // SAFETY: The preceding conditions ensure that the CPU has AMX and AVX512-BF16 and that the
        // operating system permits the use of tile registers.
        has_bf16()
            && features() & FEATURES == FEATURES
            && permitted()
            && unsafe { is_right::<Amx>() }
    })
}

/// Computes a small matrix product with the kernel `K` and with the AVX512-BF16 kernel and returns
/// whether the results are equal. All values and sums are small integers, so the sums are exact
/// regardless of the order of addition.
///
/// # Safety
///
/// The CPU must have AVX512-BF16 and the instruction set of the kernel `K`.
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
        // SAFETY: The shapes of `a`, `b` and `c` are compatible, `Start::beta(0.0)` doesn't read
        // `c`, and the caller guarantees that the CPU supports the instruction sets of both
        // kernels.
        unsafe { multiply(&a, &b, Start::beta(0.0), c.view_mut(), Threads::One) };
        // SAFETY: All elements were initialized with NaN.
        c.mapv(|c| unsafe { c.assume_init() })
    };
    product(multiply_by::<K, f32, _>) == product(multiply_by::<Avx512Bf16, f32, _>)
}

/// The type of [`multiply_by`] for `f32` operands.
type Multiply = unsafe fn(
    &ArrayRef2<f32>,
    &ArrayRef2<f32>,
    Start<'_>,
    ArrayViewMut2<MaybeUninit<f32>>,
    Threads,
);

/// Asks Linux for permission to use tile registers and returns whether Linux has granted it. The
/// permission applies to the whole process. Linux allocates memory for a thread's tile registers
/// when the thread first uses them.
#[cfg(target_os = "linux")]
fn permitted() -> bool {
    use std::ffi::c_long;

    // Rust's standard library already links to the C library.
    unsafe extern "C" {
        fn syscall(number: c_long, ...) -> c_long;
    }
    const ARCH_PRCTL: c_long = 158;
    const REQUEST_PERMISSION: c_long = 0x1023;
    const TILE_DATA: c_long = 18;
    // SAFETY: The request doesn't change the program's memory.
    unsafe { syscall(ARCH_PRCTL, REQUEST_PERMISSION, TILE_DATA) == 0 }
}

/// Returns `false`, which means that the process may not use AMX tile registers. This crate can
/// request permission to use them only from Linux.
#[cfg(not(target_os = "linux"))]
fn permitted() -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kernel that deliberately computes wrong results, by adding 1 to the last column of the
    /// first row of each tile of `C`. A test checks that [`is_right`] detects such a kernel, so
    /// that it isn't used.
    struct Faulty;

    impl Kernel for Faulty {
        const ROWS: usize = Avx512Bf16::ROWS;
        const COLUMNS: usize = Avx512Bf16::COLUMNS;
        const VALUES_PER_LANE: usize = 2;

        unsafe fn run(a: RowPanel, c: *mut f32, block: &Block<'_>) {
            // SAFETY: The caller guarantees the conditions of [`Kernel::run`], which are the same
            // for `Faulty` and `Avx512Bf16`.
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
        // SAFETY: The CPU has AVX512-BF16.
        unsafe {
            assert!(is_right::<Avx512Bf16>());
            assert!(!is_right::<Faulty>());
        }
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
pub(crate) mod emulated {
    //! An emulator of AMX for tests on CPUs without it.
    //!
    //! The tests of the AMX kernel can run on a CPU without AMX, on which each AMX instruction
    //! raises the signal SIGILL. The emulator's signal handler then performs the operation of the
    //! instruction, as specified in Intel's Software Developer's Manual (volume 2), and continues
    //! with the next instruction. The emulator supports only those encodings of AMX instructions
    //! that this file uses.

    use std::cell::UnsafeCell;
    use std::ffi::{c_int, c_void};
    use std::mem;
    use std::sync::Once;

    use half::bf16;
    use libc::{REG_RIP, SA_SIGINFO, SIGILL, sigaction, siginfo_t, ucontext_t};

    use crate::weight::Weight;

    /// Positions of the 16 general-purpose registers in the array `gregs` of [`ucontext_t`]. The
    /// element with the index `n` belongs to the register that instructions encode as the number
    /// `n`.
    const REGISTERS: [usize; 16] = [13, 14, 12, 11, 15, 10, 9, 8, 0, 1, 2, 3, 4, 5, 6, 7];

    /// A tile of 16 rows by 64 bytes.
    type Tile = [[u8; 64]; 16];

    /// The emulated tile registers of a thread and their shapes. A shape consists of the number of
    /// rows and the number of bytes per row, both of which are 0 until the thread executes
    /// `ldtilecfg`.
    struct State {
        tiles: [Tile; 8],
        shapes: [(usize, usize); 8],
    }

    thread_local! {
        static STATE: UnsafeCell<State> = const {
            UnsafeCell::new(State { tiles: [[[0; 64]; 16]; 8], shapes: [(0, 0); 8] })
        };
    }

    /// Installs the handler for the signal SIGILL, which emulates AMX instructions, for the whole
    /// process. Later calls have no effect.
    pub(crate) fn install() {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            // SAFETY: The signal handler is sound to install, because it accesses only the emulated
            // registers (`State`) of its own thread and the operands of the instruction that it
            // emulates.
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
        // SAFETY: The system passes a valid context to the handler, and nothing else uses the
        // thread's `State`.
        unsafe {
            let registers = &mut (*context.cast::<ucontext_t>()).uc_mcontext.gregs;
            let at = registers[REG_RIP as usize] as *const u8;
            match STATE.with(|state| execute(&mut *state.get(), registers, at)) {
                Some(length) => registers[REG_RIP as usize] += length as i64,
                None => libc::abort(), // The instruction isn't part of AMX.
            }
        }
    }

    /// Executes the instruction at the address `at` and returns its length in bytes. Returns `None`
    /// if it isn't one of the AMX instructions that the emulator supports.
    ///
    /// # Safety
    ///
    /// At least 10 bytes must be readable at `at`, because the longest supported instruction has 10
    /// bytes. The memory operand of the instruction must be valid.
    unsafe fn execute(state: &mut State, registers: &[i64; 23], at: *const u8) -> Option<usize> {
        // SAFETY: The caller guarantees that 10 bytes are readable at `at`.
        let [vex, first, second, opcode, form, ..] = unsafe { at.cast::<[u8; 10]>().read() };
        // All instructions have the encoding VEX.128.0F38.W0.
        if vex != 0xc4 || first & 0x1f != 2 || second & 0x84 != 0 {
            return None;
        }
        let (mode, register, rm) = (form >> 6, usize::from(form >> 3 & 7), usize::from(form & 7));
        let third = usize::from(!second >> 3 & 0xf);
        let (prefix, in_memory) = (second & 3, mode != 3);
        match (prefix, opcode, in_memory) {
            (0, 0x49, true) => {
                // SAFETY: The caller guarantees that the memory operand, which is 64 bytes long, is
                // valid.
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
            (0, 0x49, false) => state.shapes = [(0, 0); 8], // This instruction is `tilerelease`.
            (3, 0x49, false) => state.tiles[register] = [[0; 64]; 16],
            (3 | 2, 0x4b, true) => {
                let (rows, bytes) = state.shapes[register];
                // SAFETY: The caller guarantees that the memory operand is valid for all rows of
                // the tile. The index register contains the distance between these rows.
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

    /// Emulates `tdpbf16ps`, which sums the products of even-numbered values and the products of
    /// odd-numbered values separately.
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

    /// Decodes the memory operand of the AMX instruction at the address `at`. Returns the address
    /// of the operand, which must not have an index register, and the length of the instruction in
    /// bytes.
    ///
    /// # Safety
    ///
    /// At least 10 bytes must be readable at `at`.
    unsafe fn operand(registers: &[i64; 23], at: *const u8) -> (*const u8, usize) {
        // SAFETY: The caller guarantees that 10 bytes are readable at `at`.
        let ((start, stride), length) = unsafe { operand_of_rows(registers, at) };
        assert_eq!(stride, 0, "an index register");
        (start, length)
    }

    /// Decodes a memory operand that consists of several rows, such as a tile, in the AMX
    /// instruction at the address `at`. Returns the address of the first row, the distance between
    /// two rows in bytes, and the length of the instruction in bytes. The distance is the value of
    /// the index register multiplied by the scale in the instruction, or 0 if there is no index
    /// register.
    ///
    /// # Safety
    ///
    /// At least 10 bytes must be readable at `at`.
    unsafe fn operand_of_rows(registers: &[i64; 23], at: *const u8) -> ((*const u8, isize), usize) {
        // SAFETY: The caller guarantees that 10 bytes are readable at `at`.
        let bytes = unsafe { at.cast::<[u8; 10]>().read() };
        // Each register number has four bits. Its highest bit is stored in the VEX prefix of the
        // instruction, where it is inverted.
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
