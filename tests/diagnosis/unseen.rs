// SPDX-License-Identifier: MIT
//! unseen.rs - keeps an event of 300 bytes for each request; says "look" and waits for a line.
use std::io::{self, BufRead, Write};

#[inline(never)]
fn event_log(events: &mut Vec<Vec<u8>>, number: usize) {
    events.push(vec![number as u8; 300]);
}

fn main() {
    let mut events = vec![];
    loop {
        for number in 0..8000 {
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
