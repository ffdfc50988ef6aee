//! Lost columns come back from the others, with every kernel of this processor.

mod plain;

use parity::Column::{self, Absent, Known, Missing};
use parity::{Kernel, Unrecoverable};
use plain::{Bytes, Random, Stripe, shape};
use proptest::prelude::*;

/// What happens to a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Kept,
    /// Lost and asked for.
    Lost,
    /// Lost, and nobody asks.
    Gone,
}

/// Takes columns away (data, then P and Q as the last two), recovers, and looks.
fn try_it(kernel: Kernel, stripe: &Stripe, fates: &[(usize, Fate)]) -> Result<(), Unrecoverable> {
    let columns = stripe.data.len();
    let fate = |index| fates.iter().find(|(lost, _)| *lost == index).map_or(Fate::Kept, |(_, fate)| *fate);
    let mut random = Random(99);
    let all: Vec<&Bytes> = stripe.data.iter().chain([&stripe.p, &stripe.q]).collect();
    let mut copies: Vec<Bytes> = all
        .iter()
        .enumerate()
        .map(|(index, bytes)| match fate(index) {
            Fate::Kept => (*bytes).clone(),
            Fate::Lost | Fate::Gone => Bytes::new(bytes.get().len(), 3, || random.next()),
        })
        .collect();
    let mut stripe: Vec<Column> = copies
        .iter_mut()
        .enumerate()
        .map(|(index, copy)| match fate(index) {
            Fate::Kept => Known(copy.get()),
            Fate::Lost => Missing(copy.get_mut()),
            Fate::Gone => Absent,
        })
        .collect();
    let (data, parity) = stripe.split_at_mut(columns);
    let [p, q] = parity else { unreachable!() };
    kernel.recover(data, p, q)?;
    for (index, (copy, right)) in copies.iter().zip(all).enumerate() {
        if fate(index) == Fate::Lost {
            assert!(copy.get() == right.get(), "{kernel:?}: column {index} of {columns}, {fates:?}");
        }
    }
    Ok(())
}

#[test]
fn any_two_columns_come_back() {
    for columns in 1..=10 {
        // Wide and narrow steps of every kernel.
        let stripe = Stripe::new(columns, 1024 + 64 + 64, columns as u64);
        for kernel in Kernel::all_available() {
            for first in 0..columns + 2 {
                try_it(kernel, &stripe, &[(first, Fate::Lost)]).unwrap();
                for second in (0..columns + 2).filter(|second| *second != first) {
                    for fate in [Fate::Lost, Fate::Gone] {
                        try_it(kernel, &stripe, &[(first, Fate::Lost), (second, fate)]).unwrap();
                    }
                }
            }
        }
    }
}

#[test]
fn three_lost_columns_are_an_error_and_write_nothing() {
    let known = [1_u8; 64];
    let [mut first, mut second, mut third] = [[7_u8; 64]; 3];
    let mut data = [Missing(&mut first), Known(&known), Missing(&mut second), Missing(&mut third)];
    let result = parity::recover(&mut data, &mut Known(&known), &mut Known(&known));
    let error = Unrecoverable { unknown_data: 3, known_parity: 2 };
    assert_eq!(result, Err(error));
    assert_eq!(error.to_string(), "3 columns of data are unknown and 2 of parity known");
    assert_eq!([first, second, third], [[7; 64]; 3]);
}

#[test]
fn raid_5_recovers_one_column_only() {
    let stripe = Stripe::new(5, 4096, 5);
    for kernel in Kernel::all_available() {
        let no_q = (6, Fate::Gone);
        for lost in 0..=5 {
            try_it(kernel, &stripe, &[(lost, Fate::Lost), no_q]).unwrap();
            for other in (0..=5).filter(|other| *other != lost) {
                let result = try_it(kernel, &stripe, &[(lost, Fate::Lost), (other, Fate::Gone), no_q]);
                let known_parity = usize::from(lost != 5 && other != 5);
                let unknown_data = 1 + known_parity;
                assert_eq!(result, Err(Unrecoverable { unknown_data, known_parity }), "{lost} and {other}");
            }
        }
    }
}

#[test]
fn where_nothing_is_asked_for_any_number_may_be_lost() {
    parity::recover(&mut [Absent, Absent, Absent], &mut Absent, &mut Absent).unwrap();
}

#[test]
fn what_is_not_needed_is_not_read() {
    // With P and all data but one, a wrong Q does no harm.
    let mut stripe = Stripe::new(4, 256, 4);
    stripe.q.get_mut().fill(0xee);
    for kernel in Kernel::all_available() {
        try_it(kernel, &stripe, &[(2, Fate::Lost)]).unwrap();
    }
}

#[test]
#[should_panic(expected = "columns of 64 and 128 bytes")]
fn a_parity_of_another_length_is_refused() {
    let mut lost = [0; 64];
    let _ = parity::recover(&mut [Missing(&mut lost)], &mut Known(&[0; 64]), &mut Known(&[0; 128]));
}

proptest! {
    #[test]
    fn drawn_columns_come_back(
        (columns, length, seed) in shape(),
        lost in any::<[prop::sample::Index; 2]>(),
        gone in any::<bool>(),
    ) {
        let stripe = Stripe::new(columns, length, seed);
        let [first, second] = lost.map(|index| index.index(columns + 2));
        let fate = if gone { Fate::Gone } else { Fate::Lost };
        let both = [(first, Fate::Lost), (second, fate)];
        for kernel in Kernel::all_available() {
            let result = try_it(kernel, &stripe, if first == second { &both[..1] } else { &both });
            prop_assert_eq!(result, Ok(()));
        }
    }
}
