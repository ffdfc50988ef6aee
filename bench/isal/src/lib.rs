//! isa-l, the library of C that the parity of Fels is measured beside. It is opened at run time if it is installed
//! (Debian: `libisal2`), and is no part of Fels.

use std::ffi::{c_int, c_void};
use std::marker::PhantomData;

use libloading::Library;

/// `int xor_gen(int vects, int len, void **array)`; `pq_gen` has the same shape.
type Generate = unsafe extern "C" fn(c_int, c_int, *mut *mut c_void) -> c_int;

const NAME: &str = "libisal.so.2";

/// Every address is a multiple of so many bytes: the library uses aligned loads.
pub const ALIGNMENT: usize = 32;

/// The library.
pub struct Isal {
    xor: Generate,
    pq: Generate,
    // Last, so that it is closed when nothing of it is left.
    _library: Library,
}

impl Isal {
    /// Opens it, with what it takes on this processor. The error is a sentence.
    pub fn open() -> Result<Self, String> {
        Self::with([b"xor_gen", b"pq_gen"])
    }

    /// Opens it, with its functions for AVX2 (of P there are none, only such for AVX), whatever else the processor has.
    /// None if this one does not have it.
    #[must_use]
    pub fn open_for_avx2() -> Option<Self> {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") {
            return Self::with([b"xor_gen_avx", b"pq_gen_avx2"]).ok();
        }
        None
    }

    fn with([xor, pq]: [&[u8]; 2]) -> Result<Self, String> {
        let sentence = |error: libloading::Error| format!("{NAME}: {error}");
        // SAFETY: its initialisers set up its tables and nothing else.
        let library = unsafe { Library::new(NAME) }.map_err(sentence)?;
        // SAFETY: this is what its header `raid.h` says that they are.
        let function = |name: &[u8]| unsafe { library.get::<Generate>(name) }.map(|function| *function);
        let (xor, pq) = (function(xor).map_err(sentence)?, function(pq).map_err(sentence)?);
        Ok(Self { xor, pq, _library: library })
    }

    /// P of all columns, to be computed.
    pub fn xor<'a>(&'a self, p: &'a mut [u8], data: &[&'a [u8]]) -> Call<'a> {
        Call::new(self.xor, data, vec![p])
    }

    /// P and Q of all columns, to be computed.
    pub fn pq<'a>(&'a self, p: &'a mut [u8], q: &'a mut [u8], data: &[&'a [u8]]) -> Call<'a> {
        Call::new(self.pq, data, vec![p, q])
    }
}

/// A call with its arguments as the library wants them, made beforehand so that the making is not measured.
pub struct Call<'a> {
    function: Generate,
    addresses: Vec<*mut c_void>,
    bytes: c_int,
    columns: PhantomData<(&'a [u8], &'a mut [u8])>,
}

impl<'a> Call<'a> {
    fn new(function: Generate, data: &[&'a [u8]], parity: Vec<&'a mut [u8]>) -> Self {
        let length = parity[0].len();
        let same = data.iter().all(|one| one.len() == length) && parity.iter().all(|one| one.len() == length);
        assert!(same, "columns of one length");
        let read = data.iter().map(|column| column.as_ptr().cast_mut().cast());
        let written = parity.into_iter().map(|column| column.as_mut_ptr().cast());
        let addresses: Vec<*mut c_void> = read.chain(written).collect();
        assert!(addresses.iter().all(|address| address.addr().is_multiple_of(ALIGNMENT)), "aligned columns");
        let bytes = c_int::try_from(length).expect("a column below 2 GiB");
        Self { function, addresses, bytes, columns: PhantomData }
    }

    /// Computes. False if the library refuses the shape: it wants two columns of data or more.
    #[must_use]
    pub fn run(&mut self) -> bool {
        let Ok(columns) = c_int::try_from(self.addresses.len()) else { return false };
        // SAFETY: so many addresses of so many bytes each, aligned, borrowed for as long as this value lives; those of the
        // parity, which are the last ones, to be written. The library is open for as long.
        unsafe { (self.function)(columns, self.bytes, self.addresses.as_mut_ptr()) == 0 }
    }
}

impl Drop for Call<'_> {
    /// The library leaves the upper halves of the vector registers in use, which makes narrower code that runs next two or
    /// three times slower: it would not be measured for itself.
    fn drop(&mut self) {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx") {
            #[target_feature(enable = "avx")]
            fn clear() {
                std::arch::x86_64::_mm256_zeroupper();
            }
            // SAFETY: the processor has AVX.
            unsafe { clear() };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "aligned columns")]
    fn columns_that_are_not_aligned_never_reach_the_library() {
        unsafe extern "C" fn never(_: c_int, _: c_int, _: *mut *mut c_void) -> c_int {
            unreachable!()
        }
        let memory = [0_u8; 192];
        let aligned = memory.as_ptr().align_offset(ALIGNMENT);
        let mut parity = [0_u8; 64];
        let _ = Call::new(never, &[&memory[aligned + 1..][..64]], vec![&mut parity]).run();
    }
}
