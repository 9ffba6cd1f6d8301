#!/usr/bin/env node
// The table of an engine's options in docs/command-line.md, made of the options themselves
// (dist/engine/open/engineOptions.js): run it after `npm run build` when one has changed. A test says whether the table is
// up to date.
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const FILE = new URL('../docs/command-line.md', import.meta.url);
const [BEGIN, END] = ['<!-- made by scripts/option-table.mjs -->', '<!-- end of what is made -->'];
/** Words of a flag's value that stand for something, which docs write in capitals. */
const PLACEHOLDERS = /\b(path|name|file|dir|size|n|f)\b/g;

/** The rows of the table, in Markdown. @param options `ENGINE_OPTIONS` */
export function optionTable(options) {
  const rows = Object.entries(options).map(([name, option]) => {
    const { identity, about, docs = about, defaultWords, default: value } = option;
    const cells = [
      flagOf(name, option),
      `\`${name}\`${identity ? ' †' : ''}`,
      defaultWords ?? said(option, value),
      docs,
    ];
    return `| ${cells.join(' | ')} |`;
  });
  return ['| flag | option | default | meaning |', '|-|-|-|-|', ...rows].join('\n');
}

/** The text of docs/command-line.md with this table in it. */
export function withTable(text, table) {
  const [begin, end] = [text.indexOf(BEGIN), text.indexOf(END)];
  if (begin < 0 || end < begin) throw new Error(`docs/command-line.md: found no ${BEGIN} … ${END}`);
  return `${text.slice(0, begin + BEGIN.length)}\n\n${table}\n\n${text.slice(end)}`;
}

function flagOf(name, { flag, value }) {
  if (flag === undefined) return '';
  const long = `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
  const words =
    value.kind === 'choice'
      ? [...value.among, ...(value.planned ?? [])].join('|')
      : flag.slice(1, -1).replace(PLACEHOLDERS, (word) => word.toUpperCase());
  return `\`${long} ${words.replaceAll('|', '\\|')}\``;
}

function said({ value }, given) {
  if (given === undefined) return '';
  if (value.kind === 'boolean') return given ? '`on`' : '`off`';
  return value.kind === 'number' && given === value.off ? '`off`' : `\`${given}\``;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { ENGINE_OPTIONS } = await import('../dist/engine/open/engineOptions.js');
  writeFileSync(FILE, withTable(readFileSync(FILE, 'utf8'), optionTable(ENGINE_OPTIONS)));
}
