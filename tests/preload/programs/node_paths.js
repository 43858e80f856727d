// SPDX-License-Identifier: MIT
// Work below code that V8 makes at run time: interpreted and compiled functions that replace each
// other while they run, WebAssembly, regular expressions, exceptions, generators, promises, a worker
// thread that ends, code that the garbage collector moves and frees.
'use strict';
const {Worker, isMainThread, parentPort} = require('worker_threads');

const kept = [];

function leaf(bytes) {
    kept.push(Buffer.allocUnsafeSlow(bytes));
    if (kept.length > 500) {
        kept.length = 0;
    }
}

function loops(rounds) { // the loop is compiled while it runs
    let sum = 0;
    for (let i = 0; i < rounds; i++) {
        sum += i % 7;
        if (i % 100 === 0) {
            leaf(5000 + i % 64);
        }
    }
    return sum;
}

function changes(value) { // the types of `value` make compiled code useless, again and again
    leaf(3000);
    return value.a + value.a;
}

function expressions(rounds) {
    let sum = 0;
    for (let i = 0; i < rounds; i++) {
        const expression = new RegExp('(a+|b' + i % 50 + ')*c', 'g');
        sum += ('aab' + i + 'cc').replace(expression, () => (leaf(2000), 'd')).length;
    }
    return sum;
}

// (module (import "e" "g" (func $g (param i32)))
//     (func (export "f") (param i32) (call $g (local.get 0))))
const wasm = new WebAssembly.Instance(new WebAssembly.Module(new Uint8Array([
    0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 1, 127, 0, 2, 7, 1, 1, 101, 1, 103, 0, 0, 3, 2, 1, 0,
    7, 5, 1, 1, 102, 0, 1, 10, 8, 1, 6, 0, 32, 0, 16, 0, 11])),
{e: {g: number => leaf(4000 + number % 8)}});

function thrown(depth) {
    if (depth === 0) {
        leaf(1500);
        throw new Error('deep');
    }
    thrown(depth - 1);
}

function* generated(rounds) {
    for (let i = 0; i < rounds; i++) {
        leaf(2500);
        yield i;
    }
}

function madeAnew(rounds) { // functions that are used some times and then forgotten
    let sum = 0;
    for (let i = 0; i < rounds; i++) {
        const made = new Function('leaf', 'n', `leaf(1200); return n + ${i};`);
        for (let k = 0; k < 20; k++) {
            sum += made(leaf, k) % 1000;
        }
    }
    return sum;
}

async function work() {
    let sum = loops(300000) + expressions(1000) + madeAnew(300);
    for (let i = 0; i < 3000; i++) {
        sum += String(changes(i % 3 === 0 ? {a: i} : i % 3 === 1 ? {b: 1, a: 'x'} : {a: 0.5})).length;
        wasm.exports.f(i);
    }
    for (let i = 0; i < 200; i++) {
        try {
            thrown(10);
        } catch (error) {
            sum += error.message.length;
        }
    }
    for (const i of generated(1000)) {
        sum += i;
        if (i % 100 === 0) {
            await new Promise(resolve => setImmediate(resolve));
        }
    }
    return sum;
}

if (isMainThread) {
    const worker = new Worker(__filename);
    worker.on('message', sum => console.log('worker', sum));
    worker.on('exit', async status => console.log('exit', status, await work()));
} else {
    work().then(sum => parentPort.postMessage(sum));
}
