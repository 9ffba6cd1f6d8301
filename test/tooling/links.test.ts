import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, test } from '@jest/globals';

/** The pages of the site, as `site/.vitepress/config.mjs` says which they are. */
const PAGES = [
  ...['README.md', 'CONTRIBUTING.md', 'SECURITY.md', 'CHANGELOG.md', 'bench/README.md'],
  ...readdirSync('docs', { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.md') && !/^api(-report)?\//.test(name))
    .map((name) => `docs/${name}`),
];

/** A page's text without its blocks of code. */
const textOf = (page: string): string => readFileSync(page, 'utf8').replace(/^( *)(`{3,})[^]*?^\1\2$/gm, '');
/** And without code within lines. */
const proseOf = (page: string): string => textOf(page).replace(/(`+)(?!`)[^]*?[^`]\1(?!`)/g, '`code`');

/** A heading's name in links, as VitePress makes it. */
function slugOf(heading: string): string {
  return heading
    .replace(/\[([^\]]*)\]\([^)]*\)/g, '$1')
    .normalize('NFKD')
    .replace(/[\u0300-\u036f]/g, '')
    .replace(/[\s~`!@#$%^&*()\-_+=[\]{}|\\;:"'“”‘’<>,.?/]+/g, '-')
    .replace(/^-+|-+$/g, '')
    .replace(/^\d/, '_$&')
    .toLowerCase();
}

function placesOf(page: string): ReadonlySet<string> {
  const text = textOf(page);
  const places = new Set<string>();
  for (const [, heading = ''] of text.matchAll(/^#{1,6} (.+)$/gm)) {
    const slug = slugOf(heading);
    let name = slug;
    for (let more = 1; places.has(name); more += 1) name = `${slug}-${more}`;
    places.add(name);
  }
  return places;
}

/** Links of a text that lead nowhere. @param page on which it stands */
function deadLinks(text: string, page: string): string[] {
  return [...text.matchAll(/\]\(([^()\s]+)\)/g)].flatMap(([, link = '']) => {
    if (/^[a-z]+:/.test(link)) return [];
    const [path = '', place] = decodeURI(link).split('#');
    const file = path === '' ? page : join(dirname(page), path);
    if (!existsSync(file)) return [link];
    return place === undefined || !file.endsWith('.md') || placesOf(file).has(place) ? [] : [link];
  });
}

test.each(PAGES)('links of %s lead somewhere, and it shows no picture of elsewhere', (page) => {
  const text = proseOf(page);
  expect(deadLinks(text, page)).toEqual([]);
  expect([...text.matchAll(/!\[[^\]]*\]\(https?:|<(?:img|script|link|iframe)\b/g)].map(([found]) => found)).toEqual([]);
});

test('a link to a page, a heading, a place that are not there is found', () => {
  const text =
    '[a](CHANGELOG.md) [b](#contributing) [c](none.md) [d](README.md#none) [e](#none) [f](https://none.test/)';
  expect(deadLinks(text, 'CONTRIBUTING.md')).toEqual(['none.md', 'README.md#none', '#none']);
});

test('what the sidebar of the site leads to is a page, and it leads to every page', () => {
  const sidebar = /^const SIDEBAR = [^]*?^\];$/m.exec(readFileSync('site/.vitepress/config.mjs', 'utf8'))?.[0] ?? '';
  const named = [...sidebar.matchAll(/\['[^']+', '\/([^']*)'\]/g)].map(([, path = '']) => `${path || 'README'}.md`);
  expect(named.sort()).toEqual([...PAGES].sort());
});
