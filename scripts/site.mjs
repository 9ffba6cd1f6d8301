// Builds the site of the documentation into site/dist, and looks at it: VitePress fails at a dead link within pages, this
// at one of the sidebar or to a heading, and at anything that a page would fetch from elsewhere.
//   npm ci --prefix site && node scripts/site.mjs
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const SITE = fileURLToPath(new URL('../site/', import.meta.url));
const DIST = join(SITE, 'dist');
execFileSync(process.execPath, [join(SITE, 'node_modules/vitepress/bin/vitepress.js'), 'build', SITE], {
  stdio: 'inherit',
});
/** The file that a page's link leads to, if there is one. */
function fileOf(page, href) {
  if (href === '') return join(DIST, page);
  const path = href.startsWith('/') ? join(DIST, href) : join(DIST, dirname(page), href);
  return [path, `${path}.html`, join(path, 'index.html')].find((file) => existsSync(file) && /\.\w+$/.test(file));
}
const known = new Map();
/** The places of a file that a link can name. */
function idsOf(file) {
  if (!known.has(file)) {
    const html = file?.endsWith('.html') ? readFileSync(file, 'utf8') : '';
    known.set(file, new Set([...html.matchAll(/\bid="([^"]+)"/g)].map(([, id]) => id)));
  }
  return known.get(file);
}
const pages = readdirSync(DIST, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.html'));
const faults = pages.flatMap((page) => {
  const html = readFileSync(join(DIST, page), 'utf8');
  const fetched = [
    ...html.matchAll(/<(?:script|link|img|source|iframe)\b[^>]*\b(?:src|href)="((?:https?:)?\/\/[^"]*)"/g),
  ];
  const linked = [...html.matchAll(/<a\b[^>]*\bhref="([^"#?]+)/g)].map(([, href]) => href);
  const places = [...html.matchAll(/<a\b[^>]*\bhref="([^":#?]*)#([^"]+)"/g)].filter(
    ([, href, id]) => !idsOf(fileOf(page, href)).has(decodeURIComponent(id)),
  );
  const dead = linked.filter((href) => {
    if (/^[a-z]+:/.test(href)) return false;
    return fileOf(page, href) === undefined;
  });
  return [
    ...fetched.map(([, url]) => `${page}: found something that is fetched from ${url}, expected nothing of elsewhere`),
    ...places.map(([, href, id]) => `${page}: found a link to ${href}#${id}, where there is no such heading`),
    ...[...new Set(dead)].map((href) => `${page}: found a link to ${href}, where there is no page`),
  ];
});
for (const fault of faults) process.stderr.write(`${fault}\n`);
process.stdout.write(`${pages.length} pages, ${faults.length} faults\n`);
process.exitCode = faults.length > 0 ? 1 : 0;
