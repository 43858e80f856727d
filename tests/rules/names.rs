// SPDX-License-Identifier: MIT
// names.rs - a Rust function whose name stands in rules.
mod shop {
    pub mod till {
        pub struct Till;
        pub struct Shelf<T>(pub T);
        impl<T: Copy> Shelf<T> {
            #[inline(never)]
            pub fn put(&self, bytes: usize) -> Vec<T> {
                let mut chunk = Vec::with_capacity(bytes);
                chunk.push(self.0);
                chunk
            }
        }
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
    let other = shop::till::Shelf(2u8).put(bytes);
    println!("begun");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    println!("{}", chunk[0] + other[0]);
}
