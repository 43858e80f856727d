// SPDX-License-Identifier: MIT
'use strict';
// Answers each line of its input with the length of what it compressed and unpacked again.
const zlib = require('zlib');
const kept = [];
require('readline').createInterface({input: process.stdin}).on('line', async () => {
    const packed = await Promise.all([...Array(40)].map((_, i) => new Promise(done =>
        zlib.deflate(Buffer.alloc(40000, i), (error, out) => done(out)))));
    kept.push(packed);
    kept.splice(0, kept.length - 3);
    const lengths = packed.map(data => zlib.inflateSync(data).length);
    console.log('done', lengths.length, lengths.reduce((sum, length) => sum + length));
});
console.log('ready');
