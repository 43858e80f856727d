// SPDX-License-Identifier: MIT
//! rust_program - collections, strings, reference counts, channels, panics that are caught, and
//! threads that die with their stacks unwound. Prints sums that depend on every byte.
use std::collections::{BTreeMap, HashMap};
use std::panic;
use std::sync::{mpsc, Arc, Mutex};
use std::thread;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

fn words(seed: u64, count: usize) -> Vec<String> {
    let mut random = Random(seed);
    (0..count)
        .map(|_| {
            let length = 1 + (random.next() % 60) as usize;
            (0..length).map(|_| (b'a' + (random.next() % 26) as u8) as char).collect()
        })
        .collect()
}

fn digest(text: &str) -> u64 {
    text.bytes().fold(1469598103934665603, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(1099511628211)
    })
}

fn fragile(depth: u32, kind: u64) -> Box<u64> {
    let held: Vec<u64> = (0..u64::from(depth)).collect();
    if depth == 0 {
        if kind % 3 == 0 {
            panic!("kind {kind}");
        }
        return Box::new(kind);
    }
    let below = fragile(depth - 1, kind);
    Box::new(*below + held.len() as u64)
}

fn main() {
    panic::set_hook(Box::new(|_| {}));

    let mut tree: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (index, word) in words(7, 40_000).into_iter().enumerate() {
        let key = word.chars().take(3).collect();
        tree.entry(key).or_default().push(index + word.len());
    }
    let sum: usize = tree.values().flatten().sum();
    println!("tree: {} keys, sum {}", tree.len(), sum);

    let (sender, receiver) = mpsc::channel::<(usize, Vec<String>)>();
    let shared = Arc::new(Mutex::new(HashMap::new()));
    let threads: Vec<_> = (0..8)
        .map(|index| {
            let sender = sender.clone();
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                for round in 0..20u64 {
                    let list = words(index as u64 * 1000 + round + 1, 500);
                    shared.lock().unwrap().insert((index, round), list[0].clone());
                    sender.send((index, list)).unwrap();
                }
                if index % 2 == 1 {
                    panic!("thread {index} is done for");
                }
                index
            })
        })
        .collect();
    drop(sender);
    let mut digests = [0u64; 8];
    for (index, list) in receiver {
        for word in &list {
            digests[index] = digests[index].wrapping_add(digest(word));
        }
    }
    let ends: Vec<_> = threads.into_iter().map(|thread| thread.join().is_ok()).collect();
    println!("{digests:?} {ends:?} {}", shared.lock().unwrap().len());

    let mut caught = 0;
    let mut total = 0;
    for kind in 0..3000 {
        match panic::catch_unwind(|| fragile((kind % 40) as u32, kind)) {
            Ok(value) => total += *value,
            Err(reason) => caught += reason.downcast_ref::<String>().map_or(0, String::len),
        }
    }
    println!("{caught} {total}");

    let mut grown: Vec<u8> = Vec::new();
    for index in 0..5_000_000u32 {
        grown.push(index as u8);
    }
    grown.truncate(1000);
    grown.shrink_to_fit();
    println!("{}", grown.iter().map(|&byte| u64::from(byte)).sum::<u64>());
}
