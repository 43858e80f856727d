// SPDX-License-Identifier: MIT
// store.rs - an allocation in a module of a Rust program.
use std::io::Write;

mod shelf {
    #[inline(never)]
    pub fn fill(bytes: usize) -> Vec<u8> {
        std::hint::black_box(Vec::with_capacity(bytes))
    }
}

fn main() {
    let kept = shelf::fill(7777);
    println!("ready");
    std::io::stdout().flush().unwrap();
    loop {
        std::thread::sleep(std::time::Duration::from_secs(1));
        std::hint::black_box(&kept);
    }
}
