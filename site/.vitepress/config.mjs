import { existsSync, statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitepress';

// Pages are Markdown files of the repository, where they lie: the README, those beside it, docs, bench/README.md.
const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** Sections of the sidebar: a title, and the pages under it by name and path without `.md`. */
const SIDEBAR = [
  [
    'Learn',
    [
      ['Spillway', '/'],
      ['The first hour', '/docs/learn/first-hour'],
      ['Larger than memory', '/docs/learn/larger-than-memory'],
      ['Good answers', '/docs/learn/good-answers'],
      ['Installation', '/docs/installation'],
    ],
  ],
  [
    'Use',
    [
      ['The library', '/docs/library'],
      ['Recipes', '/docs/recipes'],
      ['Answers in a format', '/docs/structured-output'],
      ['The server', '/docs/serve'],
      ['The AI SDK', '/docs/ai-sdk'],
    ],
  ],
  [
    'Extend',
    [
      ['Write a schedule', '/docs/guides/schedule'],
      ['Write a stage', '/docs/guides/stage'],
      ['Add a model family', '/docs/guides/family'],
      ['Add a weight type', '/docs/guides/weight-type'],
      ['Add a format', '/docs/guides/format'],
      ['Write a law of the cache', '/docs/guides/memory-law'],
      ['Contribute', '/CONTRIBUTING'],
    ],
  ],
  [
    'Reference',
    [
      ['Command line', '/docs/command-line'],
      ['Flags', '/docs/flags'],
      ['Errors', '/docs/errors'],
      ['Models and machines', '/docs/models'],
      ['Hardware files', '/docs/policy-hardware'],
      ['Security and limits', '/SECURITY'],
      ['Glossary', '/docs/glossary'],
      ['Changelog', '/CHANGELOG'],
    ],
  ],
  [
    'How it works',
    [
      ['Architecture', '/docs/architecture'],
      ['Scheduling', '/docs/how-it-works/scheduling'],
      ['Memory', '/docs/how-it-works/memory'],
      ['Sharing', '/docs/how-it-works/sharing'],
      ['Formats', '/docs/how-it-works/formats'],
      ['Jobs', '/docs/how-it-works/jobs'],
      ['Peers', '/docs/how-it-works/peers'],
      ['GPU', '/docs/how-it-works/gpu'],
      ['Policies', '/docs/policy'],
    ],
  ],
  [
    'Measurements',
    [
      ['Speed and precision', '/docs/performance'],
      ['Beside the papers', '/docs/papers'],
      ['How peers are run', '/bench/README'],
    ],
  ],
];

/** A file of the repository that is no page: the site has no copy of it, its name is shown instead of a link. */
function isNoPage(href, page) {
  if (/^[a-z]+:|^#/.test(href)) return false;
  const path = resolve(ROOT, dirname(page), decodeURI(href.split('#')[0]));
  return (
    existsSync(path) && (statSync(path).isDirectory() || !path.endsWith('.md') || path.includes('/bench/results/'))
  );
}

export default defineConfig({
  title: 'Spillway',
  description: 'Language models larger than memory, over streams of rows',
  srcDir: ROOT,
  srcExclude: ['!(docs|bench)/**/*', 'bench/!(README.md)', 'bench/*/**', 'docs/{api,api-report}/**'],
  rewrites: { 'README.md': 'index.md' },
  outDir: join(ROOT, 'site/dist'),
  cacheDir: join(ROOT, 'site/.vitepress/cache'),
  lastUpdated: false,
  // Pages lie outside of this folder, what they become is made with its packages.
  vite: { resolve: { alias: [{ find: /^vue(?=$|\/)/, replacement: join(ROOT, 'site/node_modules/vue') }] } },
  markdown: {
    // `{{column}}` stands in texts and tables: nothing in these pages is a component.
    config: (md) => {
      const open =
        md.renderer.rules.link_open ?? ((tokens, at, options, _, self) => self.renderToken(tokens, at, options));
      md.renderer.rules.link_open = (tokens, at, options, env, self) => {
        const href = tokens[at].attrGet('href') ?? '';
        if (!isNoPage(href, env.relativePath === 'index.md' ? 'README.md' : env.relativePath))
          return open(tokens, at, options, env, self);
        tokens[at].attrs = [
          ['class', 'file'],
          ['title', `${href}, in the repository`],
        ];
        tokens[at].tag = 'span';
        for (let close = at + 1; close < tokens.length; close++)
          if (tokens[close].type === 'link_close') {
            tokens[close].tag = 'span';
            break;
          }
        return self.renderToken(tokens, at, options);
      };
      md.renderer.rules.code_block = (tokens, at) =>
        `<div class="language-"><pre><code v-pre>${md.utils.escapeHtml(tokens[at].content)}</code></pre></div>`;
      md.renderer.rules.code_inline = (tokens, at) => `<code v-pre>${md.utils.escapeHtml(tokens[at].content)}</code>`;
    },
  },
  themeConfig: {
    search: { provider: 'local' },
    outline: [2, 3],
    sidebar: SIDEBAR.map(([text, items]) => ({ text, items: items.map(([name, link]) => ({ text: name, link })) })),
  },
});
