// SPDX-License-Identifier: MIT
// A Rust function whose name stands in rules.
mod shop {
    pub mod till {
        pub struct Till;
        impl Till {
            #[inline(never)]
            pub fn open(&self, bytes: usize) -> Vec<u8> {
                let mut chunk = Vec::with_capacity(bytes);
                chunk.push(1);
                chunk
            }
        }
    }
}

fn main() {
    let bytes = 2999 + std::env::args().count();
    let chunk = shop::till::Till.open(bytes);
    println!("begun");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    println!("{}", chunk[0]);
}
