// The steps of scripts/verify-gpu.sh that need the engine: each takes a setting, and gives the document that the report
// is made of.
import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { endToEnd } from './endToEnd.mjs';
import { capsOf, layersThatFit, roomOf } from './fitToMachine.mjs';
import { measureFlexGen } from './flexgen.mjs';
import { makeOptModel } from './makeOptModel.mjs';
import { measureSpeed } from './speed.mjs';
import { streaming } from './streaming.mjs';

const FIXTURES = fileURLToPath(new URL('../../test/fixtures/models/', import.meta.url));

/** Runs work in a folder of its own, which is removed. */
async function within(folder, work) {
  const scratch = await mkdtemp(join(folder, 'verify-'));
  try {
    return await work(scratch);
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
}

/** @returns cases, as `endToEnd`; `ok` */
export function runEndToEnd({ library, sizes, folder, save }) {
  return within(folder, async (scratch) => {
    const models = [];
    for (const { fixture, shape, ...model } of sizes.endToEnd) {
      const path = fixture === undefined ? join(scratch, `model-${models.length}`) : join(FIXTURES, fixture);
      if (shape !== undefined) await makeOptModel(path, shape);
      models.push({ ...model, path });
    }
    const cases = await endToEnd({
      library,
      models,
      disk: scratch,
      onCase: (_, all) => save({ cases: all, ok: false, unfinished: true }),
    });
    return { cases, ok: cases.every(({ ok }) => ok) };
  });
}

/** @returns cases, as `streaming`; `ok`; `noDriver`: why the driver was not asked */
export function runStreaming({ library, sizes, folder, readDriver, noDriver, save }) {
  return within(folder, async (scratch) => {
    const { shape, ...model } = sizes.streaming;
    const path = join(scratch, 'model');
    await makeOptModel(path, shape);
    const about = {
      model: `OPT's architecture, ${shape.layers} layers of ${shape.hiddenSize}`,
      ...model,
      ...(noDriver !== undefined && { noDriver }),
    };
    const cases = await streaming({
      library,
      model: { ...model, path },
      disk: scratch,
      readDriver,
      onCase: (_, all) => save({ ...about, cases: all, ok: false, unfinished: true }),
    });
    return { ...about, cases, ok: cases.every(({ ok }) => ok) };
  });
}

/**
 * @returns what `measureSpeed` does, with the machine's figures; `ok`: the driver counted no more than the cap and what
 * CUDA itself takes
 */
export async function runSpeed({ library, sizes: { speed }, name, folder, secondsLeft, readDriver, signal }) {
  const { shapes, profileBudget, standIn, ...work } = speed;
  const before = await readDriver?.();
  // Kept in the user's cache folder, so that the next shape finds it.
  const hardware = await library.cachedProfile({
    disk: folder,
    gpuMemory: work.caps.gpuBytes,
    budget: profileBudget,
    ...(signal && { signal }),
  });
  const measured = await measureSpeed({
    library,
    name,
    shape: shapes[name],
    folder,
    hardware,
    secondsLeft,
    readDriver,
    before,
    signal,
    ...work,
  });
  return { ...measured, ...(standIn && { standIn }), hardware, ok: measured.notMeasured === undefined };
}

/**
 * @param beside what `runSpeed` gave for the shape, whose layers and caps are the peer's too; where there is none they
 * are found likewise
 * @returns what `measureFlexGen` does; a peer that is not there is no failure
 */
export async function runPeer({
  sizes: { speed },
  name,
  folder,
  beside = {},
  python,
  wheelFolder,
  signal,
  secondsLeft,
  save,
}) {
  const { shapes, caps: asked, promptTokens, newTokens, peerSeconds, standIn } = speed;
  const room = await roomOf(folder);
  const caps = beside.caps ?? capsOf(room, asked);
  const layers = beside.layers ?? layersThatFit(shapes[name], room, caps);
  if (layers < 1) return { name, notMeasured: 'no layer of the shape fits this machine', ok: true };
  return within(folder, async (scratch) => {
    const about = { layersOfModel: shapes[name].layers, ...(standIn && { standIn }) };
    const measured = await measureFlexGen({
      name,
      shape: { ...shapes[name], layers },
      caps,
      folder: scratch,
      promptTokens,
      newTokens,
      python,
      wheelFolder,
      signal,
      secondsLeft,
      ...(peerSeconds && { secondsEach: peerSeconds[name] }),
      onPolicy: (known) => save({ ...known, ...about, ok: false, unfinished: true }),
    });
    return { ...measured, ...about, ok: true };
  });
}
