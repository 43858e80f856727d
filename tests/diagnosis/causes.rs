// SPDX-License-Identifier: MIT
// causes.rs - orders with a string, a vector and a map are never dropped. It prints "look" and
// waits for a line, as planted.cc does. The number of rounds is read as volatile, so that rustc
// does not give each round call sites of its own; Debian 12's rustc has no black_box.

use std::collections::HashMap;
use std::io::{self, BufRead, Write};
struct Order { name: String, items: Vec<u64>, tags: HashMap<String, String> }
#[inline(never)]
fn order_accept(n: u64) -> Order {
    let mut tags = HashMap::new();
    tags.insert(format!("key-{}-{}", n, "x".repeat(50)), "v".repeat(80));
    Order { name: "n".repeat(60), items: vec![n; 40], tags }
}
fn main() {
    let mut all: Vec<Order> = Vec::with_capacity(1_000_000);
    for _ in 0..unsafe { std::ptr::read_volatile(&4) } {
        for i in 0..20000u64 { all.push(order_accept(i)); }
        println!("look"); io::stdout().flush().unwrap();
        let mut line = String::new(); io::stdin().lock().read_line(&mut line).unwrap();
    }
    println!("{}", all.iter().map(|o| o.name.len() + o.items.len() + o.tags.len()).sum::<usize>());
}
