// SPDX-License-Identifier: MIT
// Maps, compression and hashes in the main thread and in worker threads; files and child processes.
'use strict';
const {Worker, isMainThread, parentPort, workerData} = require('worker_threads');
const crypto = require('crypto');
const zlib = require('zlib');
const fs = require('fs');
const {execFileSync, spawn} = require('child_process');

function random(seed) {
    let state = seed;
    return limit => {
        state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
        return (state >>> 8) % limit;
    };
}

function churn(seed) {
    const next = random(seed);
    const map = new Map();
    for (let i = 0; i < 60000; i++) {
        const key = 'key ' + next(5000);
        map.set(key, {list: new Array(next(20)).fill(i), text: 'x'.repeat(next(100))});
    }
    let sum = 0;
    for (const [key, value] of map) {
        sum += key.length * value.list.length + value.text.length;
    }
    const hash = crypto.createHash('sha256');
    for (let i = 0; i < 60; i++) {
        const data = Buffer.alloc(1 + next(60000), i);
        hash.update(zlib.gunzipSync(zlib.gzipSync(data, {level: i % 10})));
        hash.update(zlib.brotliDecompressSync(zlib.brotliCompressSync(data, {params: {
            [zlib.constants.BROTLI_PARAM_QUALITY]: 3}})));
    }
    return seed + ': ' + sum + ' ' + hash.digest('hex');
}

if (!isMainThread) {
    parentPort.postMessage(churn(workerData));
} else {
    (async () => {
        const results = await Promise.all([1, 2, 3, 4, 5].map(seed => new Promise((done, bad) => {
            new Worker(__filename, {workerData: seed}).on('message', done).on('error', bad);
        })));
        results.forEach(result => console.log(result));
        console.log(churn(9));
        fs.writeFileSync('file.txt', 'line\n'.repeat(100000));
        const reads = await Promise.all([...Array(30)].map(() => fs.promises.readFile('file.txt')));
        console.log(reads.reduce((sum, data) => sum + data.length, 0));
        const children = await Promise.all([...Array(10)].map((_, i) => new Promise(done => {
            spawn('sh', ['-c', 'cat >/dev/null; exit ' + i], {stdio: ['pipe', 'ignore', 'ignore']})
                .on('exit', code => done(code)).stdin.end('input');
        })));
        console.log(children.join(' '), execFileSync('echo', ['sync']).toString().trim());
        const key = await new Promise((done, bad) => crypto.scrypt('a', 'salt', 64, (error, out) =>
            error ? bad(error) : done(out.toString('hex'))));
        console.log(key);
        const wasm = new WebAssembly.Memory({initial: 10, maximum: 100});
        console.log(wasm.grow(50), wasm.buffer.byteLength);
        const regular = 'a1b22c333'.repeat(5000).replace(/([a-z])(\d+)/g, '$2$1');
        console.log(crypto.createHash('md5').update(regular).digest('hex'));
        try {
            (function deep(n) { return deep(n + 1) + 1; })(0);
        } catch (error) {
            console.log(error.constructor.name);
        }
    })();
}
