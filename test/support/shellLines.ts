import { readdirSync, readFileSync } from 'node:fs';

/** The pages that people read, without what scripts make, and the map of the code, which has no line for a shell. */
export const PAGES: readonly string[] = [
  ...['README.md', 'CONTRIBUTING.md', 'SECURITY.md', 'bench/README.md'],
  ...readdirSync('docs', { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.md') && !/^(?:api-report|flags|architecture)/.test(name))
    .map((name) => `docs/${name}`)
    .sort(),
];

/** Blocks of a page that its reader copies: indented ones, and fenced ones of no language but a shell's. */
function blocksOf(page: string): string[] {
  const blocks: string[] = [];
  let fence: string | undefined;
  let before = '';
  for (const line of readFileSync(page, 'utf8').split('\n')) {
    const [, language] = /^```(\w*)/.exec(line) ?? [];
    if (language !== undefined) {
      if (fence === undefined) blocks.push('');
      fence = fence === undefined ? language : undefined;
    } else if (fence === undefined) {
      if (/^ {4}\S/.test(line) && before === '') blocks.push('');
      if (/^ {4}/.test(line) && (before === '' || /^ {4}/.test(before)))
        blocks.push(`${blocks.pop() ?? ''}${line.slice(4)}\n`);
    } else if (['', 'sh', 'bash'].includes(fence)) blocks.push(`${blocks.pop() ?? ''}${line}\n`);
    before = line;
  }
  return blocks.map((block) => block.trimEnd()).filter((block) => block !== '');
}

/** Tells whether a block is a drawing, or data in JSON, as a whole or line by line. */
function isNoShell(block: string): boolean {
  const parses = (text: string): boolean => {
    try {
      JSON.parse(text);
      return true;
    } catch {
      return false;
    }
  };
  return /[─│▶]/.test(block) || parses(block) || block.split('\n').every(parses);
}

/** The lines of a page that a shell reads, each whole: one that ends with a backslash, or within a quote, goes on. */
export function linesOf(page: string): string[] {
  return blocksOf(page)
    .filter((block) => !isNoShell(block))
    .flatMap((block) => {
      const lines: string[] = [];
      let open = '';
      for (const line of block.split('\n')) {
        open += open === '' ? line : `\n${line}`;
        const quoted = open.replaceAll(/"(?:[^"\\]|\\.)*"|'[^']*'/g, '');
        if (open.endsWith('\\') || /['"]/.test(quoted.replaceAll(/\s#.*/g, ''))) continue;
        if (open.trim() !== '') lines.push(open);
        open = '';
      }
      return open === '' ? lines : [...lines, open];
    });
}
