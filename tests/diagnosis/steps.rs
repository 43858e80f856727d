// SPDX-License-Identifier: MIT
// steps.rs - a Vec that reserves exactly one more element before each push. It prints "look" and
// waits for a line.

use std::io::{self, Write};
#[inline(never)]
fn samples_push(samples: &mut Vec<u64>, n: u64) {
    samples.reserve_exact(1);
    samples.push(n);
}
fn main() {
    let mut samples = Vec::new();
    for n in 0..400_000u64 { samples_push(&mut samples, n); }
    println!("look"); io::stdout().flush().unwrap();
    let mut line = String::new(); io::stdin().read_line(&mut line).unwrap();
    println!("{}", samples.iter().sum::<u64>());
}
