#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# node: buffers and compression in three worker threads, and in child processes.
# packages: nodejs
# shellcheck source=tests/preload/lib.sh
. "$(dirname "$0")/lib.sh"
command -v node >/dev/null || skip "node is not installed"

cat >"$tmp/script.js" <<'END'
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
const crypto = require('crypto');
const zlib = require('zlib');

function churn(seed) {
	const hash = crypto.createHash('sha256');
	const kept = [];
	let x = seed;
	for (let i = 0; i < 30000; i++) {
		x = (Math.imul(x, 1103515245) + 12345) >>> 0;
		kept[x % 300] = Buffer.alloc(1 + (x % 40000), x & 255); // outside of V8's heap
		if (i % 1000 === 0)
			hash.update(zlib.deflateSync(kept[x % 300]));
	}
	kept.forEach((b) => hash.update(b));
	return hash.digest('hex');
}

if (!isMainThread) {
	parentPort.postMessage(churn(workerData));
} else {
	const workers = [1, 2, 3].map((seed) => new Promise((resolve, reject) => {
		const w = new Worker(__filename, { workerData: seed });
		w.on('message', resolve);
		w.on('error', reject);
	}));
	const object = {};
	for (let i = 0; i < 50000; i++)
		object['key' + i] = 'v'.repeat(i % 50);
	const text = JSON.stringify(object);
	console.log(crypto.createHash('sha256').update(text).digest('hex'));
	console.log(JSON.stringify(JSON.parse(text)) === text);
	Promise.all(workers).then((all) => console.log(all.join('\n')));
}
END
same node "$tmp/script.js"
