#!/usr/bin/env node
// docs/flags.md, made of the commands and options themselves (dist/cli/program.js, dist/engine/open/engineOptions.js):
// run it after `npm run build` when one has changed. A test says whether the page is up to date.
import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** Words of a flag's value that stand for something, which docs write in capitals. */
const PLACEHOLDERS = /\b(path|name|file|dir|size|n|f)\b/g;
/** Words of help that are code: flags, and what Markdown or the site would take for a sign of theirs. */
const CODE = /--[a-z-]+|[^\s(]*[|<>*_{}\\][^\s),;]*/g;

/** The page. @param program the commands @param options `ENGINE_OPTIONS` */
export function flagsPage(program, options) {
  const known = new Map(
    Object.entries(options).flatMap(([name, { flag }]) =>
      flag ? [[longOf(name), { place: 'options-of-an-engine', title: 'all', long: longOf(name) }]] : [],
    ),
  );
  const sections = commandsOf(program).map(({ command, name }) => section(command, name, known));
  return `# Flags of every command

\`node scripts/flags-page.mjs\` makes this page of what \`--help\` says. A flag that several commands have alike stands
with the first of them, and elsewhere by name or by the *title* of its table. [The command line](command-line.md) says how
commands work.

${sections.join('\n\n')}

## Options of an engine

These are options of \`Engine.open\`, and flags of all commands that open a model. Those with † decide results and are
part of \`engine.resultIdentity\`, as are the layers, AMX and what is on a GPU. A flag overrides the policy.

${optionTable(options)}
`;
}

/** The commands that do something, those of commands among them, by all of their words. */
function commandsOf(command, words = []) {
  return command.commands.flatMap((each) => {
    const name = [...words, each.name()];
    return each.commands.length > 0 ? commandsOf(each, name) : [{ command: each, name: name.join(' ') }];
  });
}

/**
 * A command's own flags by their groups, and links to those that stand elsewhere: to a whole group by its title.
 *
 * @param known where a flag stands, and in which group of those there
 */
function section(command, name, known) {
  const groups = new Map();
  const elsewhere = new Map();
  const add = (map, key, value) => map.set(key, [...(map.get(key) ?? []), value]);
  for (const option of command.options) {
    const { long, helpGroupHeading = 'Flags' } = option;
    const cells = cellsOf(option);
    const found = known.get(long) ?? known.get(cells);
    const title = helpGroupHeading.replace(/:$/, '');
    if (found !== undefined) add(elsewhere, found.place, { long, title: found.title });
    else {
      known.set(cells, { place: name.replaceAll(' ', '-'), title, long });
      add(groups, title, cells);
    }
  }
  const head = ['| flag | default | meaning |', '|-|-|-|'];
  return [
    `## \`${name}\``,
    escaped(command.description()),
    ...[...groups].flatMap(([title, rows]) => [
      ...(groups.size > 1 ? [`**${title}**`] : []),
      [...head, ...rows].join('\n'),
    ]),
    ...[...elsewhere].map(([place, flags]) =>
      place === 'options-of-an-engine'
        ? `[Options of an engine](#${place}): ${groupsOf(place, flags, known)}.`
        : `Like those of [\`${place.replaceAll('-', ' ')}\`](#${place}): ${groupsOf(place, flags, known)}.`,
    ),
  ].join('\n\n');
}

/** Flags of another command: a whole group, or most of one, by its title. */
function groupsOf(place, flags, known) {
  const titles = [...new Set(flags.map(({ title }) => title))];
  const own = new Set(flags.map(({ long }) => long));
  return titles
    .map((title) => {
      const all = [...known.values()].filter((each) => each.place === place && each.title === title);
      const lacking = all.map(({ long }) => long).filter((long) => !own.has(long));
      const words = title.replace(/ \(.*/, '');
      if (all.length > 2 && lacking.length * 3 < all.length)
        return `*${words}*${lacking.length > 0 ? ` but for ${listed(lacking)}` : ''}`;
      return listed(flags.filter((flag) => flag.title === title).map(({ long }) => long));
    })
    .join('; ');
}

const listed = (flags) => flags.map((flag) => `\`${flag}\``).join(', ');
const longOf = (name) => `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;

/** Words of help as Markdown. */
const escaped = (text) =>
  text
    .split(/(`[^`]*`)/)
    .map((piece) => (piece.startsWith('`') ? piece : piece.replaceAll(CODE, (word) => `\`${word}\``)))
    .join('');

function cellsOf({ long, flags, description, argChoices, defaultValue, defaultValueDescription }) {
  // Help says a default in its words where it follows from other flags.
  const [, before, inWords, after] = /^(.*?) ?\(default: ((?:[^()]|\([^()]*\))*)\)(.*)$/.exec(description) ?? [];
  const value = argChoices
    ? argChoices.join('|')
    : (flags.split(' ')[1] ?? '').slice(1, -1).replaceAll(/\b(?!env\b)[a-z]+/g, (word) => word.toUpperCase());
  const said = defaultValueDescription ?? (defaultValue === undefined ? (inWords ?? '') : `\`${defaultValue}\``);
  const cells = [
    `\`${[long, value].filter(Boolean).join(' ')}\``,
    said.startsWith('`') ? said : escaped(said),
    escaped(inWords === undefined ? description : `${before}${after}`),
  ];
  return `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
}

/** The rows of the engine's options. @param options `ENGINE_OPTIONS` */
function optionTable(options) {
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

function flagOf(name, { flag, value }) {
  if (flag === undefined) return '';
  const words =
    value.kind === 'choice'
      ? [...value.among, ...(value.planned ?? [])].join('|')
      : flag.slice(1, -1).replace(PLACEHOLDERS, (word) => word.toUpperCase());
  return `\`${longOf(name)} ${words.replaceAll('|', '\\|')}\``;
}

function said({ value }, given) {
  if (given === undefined) return '';
  if (value.kind === 'boolean') return given ? '`on`' : '`off`';
  return value.kind === 'number' && given === value.off ? '`off`' : `\`${given}\``;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { createProgram } = await import('../dist/cli/program.js');
  const { ENGINE_OPTIONS } = await import('../dist/engine/open/engineOptions.js');
  writeFileSync(new URL('../docs/flags.md', import.meta.url), flagsPage(createProgram({}), ENGINE_OPTIONS));
}
