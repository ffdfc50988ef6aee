//! P and Q, and their updates, against the plain way, with every kernel of this processor.

mod plain;

use parity::{GRANULE, Kernel, MAX_DATA_COLUMNS};
use plain::{Bytes, Random, Stripe, shape};
use proptest::prelude::*;

#[test]
fn the_portable_kernel_is_always_there() {
    let names: Vec<&str> = Kernel::all_available().iter().map(|kernel| kernel.name()).collect();
    assert_eq!(names[0], "portable");
    assert!(names.contains(&Kernel::best().name()));
    #[cfg(target_arch = "x86_64")]
    for (name, is_there) in [
        ("avx2", is_x86_feature_detected!("avx2")),
        ("avx512", is_x86_feature_detected!("avx512bw")),
        ("avx512-gfni", is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("gfni")),
    ] {
        assert_eq!(names.contains(&name), is_there, "{name}");
    }
}

#[test]
fn the_first_column_has_the_lowest_power() {
    let ones = [1_u8; GRANULE];
    let zeros = [0_u8; GRANULE];
    let [mut p, mut q] = [[0xff_u8; GRANULE]; 2];
    for kernel in Kernel::all_available() {
        kernel.pq(&mut p, &mut q, &[&ones, &zeros, &zeros]);
        assert_eq!((p[0], q[0]), (1, 1));
        kernel.pq(&mut p, &mut q, &[&zeros, &zeros, &ones]);
        assert_eq!((p[63], q[63]), (1, 4));
        kernel.pq(&mut p, &mut q, &[&zeros[..]; 8].map(|_| &ones[..]));
        assert_eq!((p[7], q[7]), (0, 0xff));
        // 2^8 is where the polynomial shows: 0x11d.
        let mut nine = [&zeros[..]; 9];
        nine[8] = &ones;
        kernel.pq(&mut p, &mut q, &nine);
        assert_eq!(q, [0x1d; GRANULE]);
    }
}

proptest! {
    #[test]
    fn p_and_q_are_those_of_the_plain_way((columns, length, seed) in shape()) {
        let stripe = Stripe::new(columns, length, seed);
        for kernel in Kernel::all_available() {
            let mut random = Random(seed ^ 1);
            let mut target = |offset| Bytes::new(length, offset, || random.next());
            let [mut p, mut q, mut only_p] = [target(1), target(33), target(62)];
            let before = [&p, &q, &only_p].map(|bytes| bytes.before().to_vec());
            kernel.pq(p.get_mut(), q.get_mut(), &stripe.slices());
            kernel.xor(only_p.get_mut(), &stripe.slices());
            prop_assert!(p.get() == stripe.p.get(), "{kernel:?}: P of {columns} columns of {length}");
            prop_assert!(q.get() == stripe.q.get(), "{kernel:?}: Q of {columns} columns of {length}");
            prop_assert!(only_p.get() == stripe.p.get(), "{kernel:?}: P alone");
            prop_assert_eq!([&p, &q, &only_p].map(|bytes| bytes.before().to_vec()), before);
        }
    }

    #[test]
    fn an_update_is_as_good_as_all_anew((columns, length, seed) in shape(), which in any::<prop::sample::Index>()) {
        let column = which.index(columns);
        let old = Stripe::new(columns, length, seed);
        let mut new = old.clone();
        let mut random = Random(!seed);
        new.data[column] = Bytes::new(length, 5, || random.next());
        new.compute();
        let change = [old.data[column].get(), new.data[column].get()];
        for kernel in Kernel::all_available() {
            let [mut p, mut q] = [old.p.clone(), old.q.clone()];
            kernel.update_p(p.get_mut(), change[0], change[1]);
            kernel.update_q(q.get_mut(), column, change[0], change[1]);
            prop_assert!(p.get() == new.p.get() && q.get() == new.q.get(), "{kernel:?}: one by one");
            // And back, both at once.
            kernel.update_pq(p.get_mut(), q.get_mut(), column, change[1], change[0]);
            prop_assert!(p.get() == old.p.get() && q.get() == old.q.get(), "{kernel:?}: both");
        }
    }

    #[test]
    fn a_part_of_a_stripe_stands_for_itself(
        columns in 1..=12_usize,
        (from, granules) in (0..8_usize, 1..8_usize),
        seed in any::<u64>(),
    ) {
        let stripe = Stripe::new(columns, 16 * GRANULE, seed);
        let part = from * GRANULE..(from + granules) * GRANULE;
        let data: Vec<&[u8]> = stripe.slices().into_iter().map(|column| &column[part.clone()]).collect();
        let [mut p, mut q] = [vec![0; part.len()], vec![0; part.len()]];
        parity::pq(&mut p, &mut q, &data);
        prop_assert!(p == stripe.p.get()[part.clone()] && q == stripe.q.get()[part]);
    }
}

#[test]
#[should_panic(expected = "65 bytes are no multiple of 64")]
fn odd_lengths_are_refused() {
    parity::xor(&mut [0; 65], &[&[0; 65]]);
}

#[test]
#[should_panic(expected = "columns of 64 and 128 bytes")]
fn columns_of_different_lengths_are_refused() {
    parity::xor(&mut [0; 64], &[&[0; 64], &[0; 128]]);
}

#[test]
#[should_panic(expected = "columns of 64 and 128 bytes")]
fn a_longer_q_is_refused() {
    parity::pq(&mut [0; 64], &mut [0; 128], &[&[0; 64]]);
}

#[test]
#[should_panic(expected = "251 columns of data")]
fn too_many_columns_are_refused() {
    parity::xor(&mut [0; 64], &vec![&[0; 64][..]; MAX_DATA_COLUMNS + 1]);
}

#[test]
#[should_panic(expected = "0 columns of data")]
fn no_columns_are_refused() {
    parity::xor(&mut [0; 64], &[]);
}

#[test]
#[should_panic(expected = "251 columns of data")]
fn an_update_of_a_column_that_cannot_be_is_refused() {
    parity::update_q(&mut [0; 64], MAX_DATA_COLUMNS, &[0; 64], &[0; 64]);
}
