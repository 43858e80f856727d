// SPDX-License-Identifier: MIT
//! unseen.rs - keeps an event of 300 bytes for each request, or with "orders" the text of a number;
//! says "look" and waits for a line.
use std::collections::HashMap;
use std::io::{self, BufRead, Write};

#[inline(never)]
fn event_log(events: &mut Vec<Vec<u8>>, number: usize) {
    events.push(vec![number as u8; 300]);
}

// The text grows while the library writes the number into it.
#[inline(never)]
fn order_insert(orders: &mut HashMap<String, Vec<String>>, number: usize) {
    orders.entry(format!("customer {:0100}", number / 3)).or_default().push(format!("order {:0200}", number));
}

fn main() {
    let numbers = std::env::args().nth(1).map_or(false, |case| case == "orders");
    let (mut events, mut orders) = (vec![], HashMap::new());
    let mut count = 0;
    loop {
        for number in 0..8000 {
            if numbers {
                order_insert(&mut orders, count);
                count += 1;
                continue;
            }
            event_log(&mut events, number);
            if number % 5 == 0 {
                let lines: Vec<String> = (0..20).map(|line| format!("line {}", line)).collect();
                drop(lines);
            }
        }
        println!("look");
        io::stdout().flush().unwrap();
        let mut line = String::new();
        if io::stdin().lock().read_line(&mut line).unwrap() == 0 {
            return;
        }
    }
}
