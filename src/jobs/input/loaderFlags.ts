/** Flags with a value by which Node finds or loads modules; of short ones the value is the next word. */
const WITH_VALUE: ReadonlySet<string> = new Set([
  '--require',
  '-r',
  '--import',
  '--loader',
  '--experimental-loader',
  '--conditions',
  '-C',
]);
const ALONE: ReadonlySet<string> = new Set(['--preserve-symlinks', '--preserve-symlinks-main']);
/** Words of `NODE_OPTIONS`, parted by blanks; within quotes a backslash takes the next character as it is. */
const WORDS = /(?:"(?:\\[^]|[^"\\])*"|[^ "])+/g;

/**
 * Gives the flags of this process, on its command line and in `NODE_OPTIONS`, without which another one would not find
 * the same packages (Yarn's PnP is a hook that each process loads). All others, of a heap or an inspector, are for this
 * process alone.
 */
export function loaderFlags({ NODE_OPTIONS = '' }: NodeJS.ProcessEnv, argv: readonly string[]): readonly string[] {
  const words = [...NODE_OPTIONS.matchAll(WORDS)].map(([word]) =>
    word.replaceAll(/"((?:\\[^]|[^"\\])*)"/g, (_, text: string) => text.replaceAll(/\\([^])/g, '$1')),
  );
  return [...chosen(words), ...chosen(argv)];
}

function* chosen(words: readonly string[]): Generator<string> {
  for (let at = 0; at < words.length; at += 1) {
    const word = words[at] ?? '';
    const [flag = '', value] = word.startsWith('--') ? word.split('=', 2) : [word];
    // Node takes either.
    const name = flag.startsWith('--') ? flag.replaceAll('_', '-') : flag;
    if (ALONE.has(name)) yield word;
    if (!WITH_VALUE.has(name)) continue;
    yield word;
    if (value !== undefined) continue;
    at += 1;
    yield words[at] ?? '';
  }
}
