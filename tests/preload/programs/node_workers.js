// SPDX-License-Identifier: MIT
// Worker threads that start, compute, pass buffers on and end. Some are terminated while they work.
"use strict";
const { Worker, isMainThread, parentPort, workerData } = require("worker_threads");
const zlib = require("zlib");
const crypto = require("crypto");

if (!isMainThread) {
    const parts = [];
    for (let i = 0; i < 200; i++) {
        const data = Buffer.alloc(1000 + (i * 977 + workerData.number * 131) % 60000, i % 256);
        parts.push(zlib.deflateSync(data, { level: 1 }));
    }
    const hash = crypto.createHash("sha256");
    for (const part of parts)
        hash.update(zlib.inflateSync(part));
    const shared = new Uint8Array(100000).fill(workerData.number);
    parentPort.postMessage({ hash: hash.digest("hex"), shared }, [shared.buffer]);
    if (workerData.forever)
        setInterval(() => Buffer.allocUnsafe(50000).fill(1), 1);
} else {
    const rounds = 12;
    const start = number => new Promise((resolve, reject) => {
        const forever = number % 3 === 0;
        const worker = new Worker(__filename, { workerData: { number, forever } });
        worker.on("error", reject);
        worker.on("message", async answer => {
            if (forever)
                await worker.terminate();
            resolve(`${number} ${answer.hash} ${answer.shared.reduce((a, b) => a + b, 0)}`);
        });
    });
    (async () => {
        for (let round = 0; round < rounds; round++) {
            const ends = await Promise.all([0, 1, 2, 3].map(i => start(round * 4 + i)));
            console.log(ends.join("\n"));
        }
    })();
}
