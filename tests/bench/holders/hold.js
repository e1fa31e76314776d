// SPDX-License-Identifier: BSD-3-Clause
// hold.js - a node program with real data in memory, for dump-pages
//
// hold.js app|data TARGET_MIB VARIANT [AVAIL_FILE]
//
// As hold.py. `app` holds a word index of the text files of /usr/include and
// /usr/share; `data` holds the package records of AVAIL_FILE as objects.

'use strict';
const fs = require('fs');
const path = require('path');

const [kind, target, variant] =
	[process.argv[2], Number(process.argv[3]), Number(process.argv[4])];

function anonMib() {
	const m = /RssAnon:\s+(\d+)/.exec(
		fs.readFileSync('/proc/self/status', 'latin1'));
	return Number(m[1]) / 1024;
}

function* files(folder) {
	let entries;
	try {
		entries = fs.readdirSync(folder, { withFileTypes: true });
	} catch (e) {
		return;
	}
	for (const entry of entries) {
		const name = path.join(folder, entry.name);
		if (entry.isDirectory())
			yield* files(name);
		else if (entry.isFile())
			yield name;
	}
}

function rotate(items) {
	const start = Math.floor(items.length * (variant * 5 % 13) / 13);
	return items.slice(start).concat(items.slice(0, start));
}

function holdIndex() {
	const kept = { documents: [], words: new Map() };
	const names = [...files('/usr/include'), ...files('/usr/share')];
	for (const name of rotate(names)) {
		let text;
		try {
			if (fs.statSync(name).size > 1 << 20)
				continue;
			text = fs.readFileSync(name, 'utf8');
		} catch (e) {
			continue;
		}
		if (text.includes('\0') || text.includes('\ufffd'))
			continue;
		const document = { name, lines: text.split('\n'), words: 0 };
		for (const [at, line] of document.lines.entries()) {
			for (const word of line.match(/[A-Za-z_]\w+/g) || []) {
				let places = kept.words.get(word);
				if (!places)
					kept.words.set(word, places = []);
				places.push({ name, line: at });
				document.words++;
			}
		}
		kept.documents.push(document);
		if (anonMib() >= target)
			break;
	}
	return kept;
}

// Package records one by one, read in pieces of 1 MiB.
function* records(avail) {
	const file = fs.openSync(avail, 'r');
	const piece = Buffer.alloc(1 << 20);
	let at = Math.floor(fs.fstatSync(file).size * (variant * 5 % 13) / 13);
	let rest = '';
	for (let got; (got = fs.readSync(file, piece, 0, 1 << 20, at)) > 0;) {
		at += got;
		const parts = (rest + piece.toString('utf8', 0, got))
			.split('\n\n');
		rest = parts.pop();
		yield* parts;
	}
}

function holdRecords(avail) {
	const kept = new Map();
	let number = 0;
	for (const paragraph of records(avail)) {
		const record = {};
		for (const field of paragraph.split(/\n(?! )/)) {
			const colon = field.indexOf(':');
			if (colon > 0)
				record[field.slice(0, colon)] =
					field.slice(colon + 1).trim();
		}
		for (const name of ['Depends', 'Recommends', 'Suggests', 'Tag'])
			if (record[name])
				record[name] = record[name].split(',').map(
					(s) => s.trim().split(' '));
		if (variant % 2)
			record.words = (record.Description || '').split(' ');
		kept.set(`${record.Package}/${number}`, record);
		if (++number % 64 === 0 && anonMib() >= target)
			break;
	}
	return kept;
}

global.kept = kind === 'app' ? holdIndex() : holdRecords(process.argv[5]);
process.stdout.write('ready\n');
process.stdin.resume();
process.stdin.on('end', () => process.exit(0));
