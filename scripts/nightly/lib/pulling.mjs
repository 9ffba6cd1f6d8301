// Fetches a known model into a folder, as `pull` does, from a source that is a file here and breaks off now and then.
// Until it is there. usage: node pulling.mjs FILE FOLDER SEED|whole
import { open, stat } from 'node:fs/promises';
import { knownModels, resolveModel } from '../../../dist/api/models.js';
import { seededRandom } from './random.mjs';

const [file, folder, seed] = process.argv.slice(2);
const random = seededRandom(Number(seed) || 1);
const MOST_ATTEMPTS = 50;
const PIECE_BYTES = 4 * 2 ** 20;

/** Begins where it is asked to, or at the beginning; ends where it likes. */
const source = {
  name: 'a file',
  has: () => true,
  async open({ offset }) {
    const from = random.chance(0.7) ? offset : 0;
    const { size } = await stat(file);
    const to = seed === 'whole' || random.chance(0.5) ? size : random.whole(from, size);
    return { offset: from, chunks: pieces(from, to) };
  },
};

async function* pieces(from, to) {
  const handle = await open(file);
  try {
    for (let at = from; at < to; at += PIECE_BYTES) {
      const { buffer, bytesRead } = await handle.read(Buffer.alloc(Math.min(PIECE_BYTES, to - at)), { position: at });
      yield buffer.subarray(0, bytesRead);
    }
  } finally {
    await handle.close();
  }
}

const { size } = await stat(file);
const model = knownModels.find(({ bytes }) => bytes === size);
// Without the real model there is nothing that is known.
if (model !== undefined) {
  for (let attempt = 1; ; attempt++) {
    try {
      process.stdout.write(`${await resolveModel(model.id, { folder, sources: [source], verify: true })}\n`);
      break;
    } catch (error) {
      if (error.code !== 'model-file' || attempt === MOST_ATTEMPTS) throw error;
    }
  }
}
