/** Words that every tokenizer knows, most of them as one token. */
const WORDS = (
  'the of and to in is that it for was on are as with they be at one have this from by hot word but what some we can out other were all there when up use your how said an each she which do their time if will ' +
  'way about many then them write would like so these her long make thing see him two has look more day could go come did number sound no most people my over know water than call first who may down side been now find'
).split(' ');

/** Words that look like a text, the same for the same seed and others for another. */
function words(count, seed) {
  let state = (seed * 2_654_435_761) >>> 0;
  return Array.from({ length: count }, () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return WORDS[(state >>> 12) % WORDS.length];
  }).join(' ');
}

/**
 * Rows {id, prompt} of a tree: at each level a prompt's text is one of so many, and the last level is each row's
 * own.
 * @param {{branches: number, words: number}[]} levels from the beginning of the prompts, each with how many children
 * every text before it has
 */
export function prefixRows(levels) {
  let paths = [[]];
  for (const { branches } of levels)
    paths = paths.flatMap((path) => Array.from({ length: branches }, (_, child) => [...path, child]));
  const text = (path, level) =>
    words(
      levels[level].words,
      path.slice(0, level + 1).reduce((seed, child) => seed * 1009 + child + 1, 7),
    );
  return paths.map((path, at) => ({ id: at + 1, prompt: levels.map((_, level) => text(path, level)).join(' ') }));
}
