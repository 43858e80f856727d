// SPDX-License-Identifier: MIT
// store.rs - an allocation in a module of a Rust program. It reads the memory as volatile, because
// Debian 12's compiler has no black_box.
use std::io::Write;

mod shelf {
    #[inline(never)]
    pub fn fill(bytes: usize) -> Vec<u8> {
        let mut shelf = Vec::with_capacity(bytes);
        shelf.push(1);
        shelf
    }
}

fn main() {
    let kept = shelf::fill(7777);
    println!("ready");
    std::io::stdout().flush().unwrap();
    loop {
        std::thread::sleep(std::time::Duration::from_secs(1));
        unsafe { std::ptr::read_volatile(&kept[0]) };
    }
}
