// Looks at how comments and pages are written: no doc comment opens with a word that hides its subject, and no
// paragraph of the pages that people read first is longer than a screen takes in.
//   node scripts/english.mjs
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
/** They open a sentence whose subject comes last, if at all. */
const OPENINGS = /^(What|Of|Whether|Those)\b/;
const MOST_CHARACTERS = 800;
const PAGES = [
  ...['README', 'CHANGELOG', 'SECURITY'].map((name) => `${name}.md`),
  ...readdirSync(join(ROOT, 'docs'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.md') && !/^api/.test(name))
    .map((name) => `docs/${name}`),
];

const read = (path) => readFileSync(join(ROOT, path), 'utf8');
const sources = readdirSync(join(ROOT, 'src'), { recursive: true, encoding: 'utf8' }).filter((name) =>
  name.endsWith('.ts'),
);
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
for (const page of PAGES)
  for (const paragraph of read(page)
    .replaceAll(/```[^]*?```|^ {4}.*$/gm, '')
    .split(/\n\s*\n|\n(?=- |\d+\. )/))
    if (paragraph.length > MOST_CHARACTERS && !paragraph.trimStart().startsWith('|'))
      faults.push(
        `${page}: a paragraph has ${paragraph.length} characters, expected at most ${MOST_CHARACTERS}: ${paragraph.trim().slice(0, 60)}…`,
      );
for (const fault of faults) process.stderr.write(`${fault}\n`);
process.exitCode = faults.length > 0 ? 1 : 0;
