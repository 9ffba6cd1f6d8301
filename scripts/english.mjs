// Looks at how comments and pages are written: no doc comment opens with a word that hides its subject, no comment says
// "behind" of what comes after, and no paragraph of the pages that people read first is longer than a screen takes in,
// nor has words that the glossary has another one for.
//   node scripts/english.mjs [--count]
// `--count` prints the words of README and docs, and the grade of school that their sentences ask for (Flesch and
// Kincaid), without what scripts make.
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
/** They open a sentence whose subject comes last, if at all. */
const OPENINGS = /^(What|Of|Whether|Those)\b/;
const MOST_CHARACTERS = 800;
/** Words that pages say otherwise: what docs/glossary.md calls it, or plain English. */
const WORDS = new Map(
  Object.entries({
    behind: 'after',
    checkpointing: 'record',
    iteration: 'pass',
    'KV block': 'page',
    'mini-batch': 'micro-batch',
    'offload file': 'store',
    'pass-through': 'carry',
    scheduler: 'schedule',
    'swap file': 'spill file',
    timestep: 'pass',
    'write-ahead log': 'journal',
  }),
);
const PAGES = [
  ...['README', 'CHANGELOG', 'SECURITY'].map((name) => `${name}.md`),
  ...readdirSync(join(ROOT, 'docs'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.md') && !/^(api|flags)/.test(name))
    .map((name) => `docs/${name}`),
];

const read = (path) => readFileSync(join(ROOT, path), 'utf8');
const sources = readdirSync(join(ROOT, 'src'), { recursive: true, encoding: 'utf8' }).filter((name) =>
  name.endsWith('.ts'),
);
/** What people wrote; builds beside this one come and go, and git knows them as no part of the project. */
const code = execFileSync(
  'git',
  ['ls-files', '-z', '--cached', '--others', '--exclude-standard', 'src', 'native', 'test', 'scripts', 'bench'],
  { cwd: ROOT, encoding: 'utf8' },
)
  .split('\0')
  .filter((name) => /\.(?:ts|m?js|cpp|h|cuh?|rs|py|sh|cmake|def)$/.test(name) && existsSync(join(ROOT, name)));
/** The comment of a line, without the code that it quotes. */
const commentOf = (line) =>
  (/^\s*(?:\/\/|\/?\*|#).*|\s\/\/ .*/.exec(line)?.[0] ?? '').replaceAll(/`[^`]*`|"[^"]*"/g, '');
const faults = [];
for (const name of sources) {
  const text = read(`src/${name}`);
  for (const { 1: comment, index } of text.matchAll(/\/\*\*(?!\*)([^]*?)\*\//g)) {
    const opening = OPENINGS.exec(comment.replaceAll(/^\s*\*? ?/gm, '').trim());
    if (opening) {
      const line = text.slice(0, index).split('\n').length;
      faults.push(`src/${name}:${line}: a doc comment opens with "${opening[1]}", expected its subject first`);
    }
  }
}
for (const name of code)
  for (const [at, line] of read(name).split('\n').entries())
    if (/\bbehind\b(?! its back)/i.test(commentOf(line)))
      faults.push(`${name}:${at + 1}: a comment says "behind", expected "after"`);
for (const page of PAGES.filter((name) => !/CHANGELOG|glossary/.test(name)))
  for (const [word, ours] of WORDS)
    if (new RegExp(`\\b${word}\\b`, 'i').test(read(page))) faults.push(`${page}: found "${word}", expected "${ours}"`);
for (const page of PAGES)
  for (const paragraph of read(page)
    .replaceAll(/```[^]*?```|^ {4}.*$/gm, '')
    .split(/\n\s*\n|\n(?=- |\d+\. )/))
    if (paragraph.length > MOST_CHARACTERS && !paragraph.trimStart().startsWith('|'))
      faults.push(
        `${page}: a paragraph has ${paragraph.length} characters, expected at most ${MOST_CHARACTERS}: ${paragraph.trim().slice(0, 60)}…`,
      );

/** What people wrote of a page: no tables that a script makes, which stand between two comments of HTML. */
const written = (text) => text.replaceAll(/<!-- (?!end|\/)[^>]*-->[^]*?<!-- (?:end|\/)[^>]*-->/g, '');
/** Sentences of a page, without code, tables, headings and links' addresses. */
const sentencesOf = (text) =>
  written(text)
    .replaceAll(/```[^]*?```|^ {4}.*$|^\|.*$|^#.*$/gm, '')
    .replaceAll(/`[^`]*`/g, 'word')
    .replaceAll(/\]\([^)]*\)/g, ']')
    .split(/[.?!](?:\s|$)|\n\s*\n|\n(?=\s*- |\s*\d+\. )/)
    .map((sentence) => sentence.match(/[\p{L}][\p{L}'’-]*/gu) ?? [])
    .filter(({ length }) => length > 2);
/** Syllables as a rule of thumb counts them: groups of vowels, without a silent e. */
const syllables = (word) =>
  Math.max(
    1,
    (
      word
        .toLowerCase()
        .replace(/e$/, '')
        .match(/[aeiouyäöü]+/g) ?? []
    ).length,
  );
const gradeOf = (sentences) => {
  const words = sentences.flat();
  const each = words.reduce((sum, word) => sum + syllables(word), 0) / words.length;
  return 0.39 * (words.length / sentences.length) + 11.8 * each - 15.59;
};
if (process.argv.includes('--count')) {
  const counted = PAGES.filter((page) => !/^(CHANGELOG|SECURITY)/.test(page)).map((page) => {
    const text = read(page);
    return { page, words: written(text).split(/\s+/).filter(Boolean).length, sentences: sentencesOf(text) };
  });
  const total = {
    page: 'all',
    words: counted.reduce((sum, { words }) => sum + words, 0),
    sentences: counted.flatMap(({ sentences }) => sentences),
  };
  for (const { page, words, sentences } of [...counted, total])
    process.stdout.write(`${String(words).padStart(6)} words  grade ${gradeOf(sentences).toFixed(1)}  ${page}\n`);
}
for (const fault of faults) process.stderr.write(`${fault}\n`);
process.exitCode = faults.length > 0 ? 1 : 0;
