// What bench/capped.mjs runs, in its order.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { writeSyntheticRows } from '../lib/syntheticRows.mjs';
import { batchedBench, nodeLlamaCpp, spillway } from '../peers/contenders.mjs';

const MIB = 2 ** 20;
const PEERS = fileURLToPath(new URL('../peers/', import.meta.url));
/** Rows of the peers: the most that either of them survives in 2 GiB with a 7B model, found by trying. */
const LLAMA_CPP_SEQUENCES = 32;
const NODE_LLAMA_CPP_SEQUENCES = 8;

/**
 * @param given the values of the command line, its reader of numbers, and a scratch folder
 * @returns {Promise<{runs: {name: string, contender: object, setting: object, job: object, capBytes?: number,
 * preparation?: boolean}[], missing: {name: string, reason: string}[]}>}
 */
export async function cappedRuns({
  model,
  number,
  scratch,
  disk,
  only,
  'q4-1': q4_1,
  'compress-cache': compressCache,
  'llama-cpp': program,
}) {
  const { readModel } = await import('../../dist/api/models.js');
  const { decoder } = await readModel(model);
  const [rows, batches, promptTokens, maxNewTokens] = [
    number('rows'),
    number('batches'),
    number('prompt-tokens'),
    number('max-new-tokens'),
  ];
  const capBytes = number('cap') * MIB;
  const capName = `in ${number('cap')} MiB`;
  const prompts = writeSyntheticRows(join(scratch, 'prompts.jsonl'), {
    rows: Math.max(rows, LLAMA_CPP_SEQUENCES),
    promptTokens,
    vocabularySize: decoder.vocabularySize,
  });
  const job = {
    model,
    prompts,
    rows,
    maxNewTokens,
    threads: number('threads'),
    timeLimitSeconds: number('time-limit'),
    meanPromptTokens: promptTokens,
    steps: true,
  };
  const runs = [];
  const missing = [];

  const own = { ...spillway('spillway', model), stopsItself: true };
  const shape = {
    policy: 'default',
    disk,
    batchSize: Math.ceil(rows / batches),
    batches,
    rowTokens: promptTokens + maxNewTokens,
    ...(compressCache !== 'none' && { compressCache }),
  };
  const capped = { ...shape, cpuMemory: number('cpu-memory') * MIB };
  runs.push(
    {
      name: `spillway ${capName}, repacking`,
      contender: own,
      setting: capped,
      job: { ...job, openOnly: true },
      capBytes,
      preparation: true,
    },
    { name: `spillway ${capName}`, contender: own, setting: capped, job, capBytes },
    { name: 'spillway, no cap', contender: own, setting: shape, job },
  );
  if (existsSync(program)) {
    const sequences = LLAMA_CPP_SEQUENCES;
    const contextTokens = Math.ceil((sequences * (promptTokens + maxNewTokens)) / 256) * 256;
    const contender = batchedBench('llama.cpp', 'llama.cpp', model, program, []);
    const own32 = { ...job, rows: sequences };
    runs.push(
      // Repacked weights would be a second copy in memory that cannot be dropped; one cache for all sequences is
      // smaller than one each.
      {
        name: `llama.cpp ${capName}`,
        contender,
        setting: { sequences, contextTokens, arguments: ['--no-repack', '-kvu'] },
        job: own32,
        capBytes,
      },
      { name: 'llama.cpp, no cap', contender, setting: { sequences }, job: own32 },
    );
  } else {
    missing.push({ name: 'llama.cpp', reason: 'not built: node bench/peers/buildLlamaCpp.mjs' });
  }
  if (existsSync(join(PEERS, 'node_modules/node-llama-cpp'))) {
    const nodeRun = (name, file, sequences, bytes) => ({
      name,
      contender: { ...nodeLlamaCpp('node-llama-cpp', file), stopsItself: true },
      setting: { sequences },
      job: { ...job, model: file, rows: sequences },
      ...(bytes !== undefined && { capBytes: bytes }),
    });
    // With Q4_0 it copies all weights while loading, so under a cap it is given Q4_1 where there is such a file.
    runs.push(nodeRun(`node-llama-cpp ${capName}`, model, NODE_LLAMA_CPP_SEQUENCES, capBytes));
    if (q4_1 !== undefined)
      runs.push(nodeRun(`node-llama-cpp Q4_1 ${capName}`, q4_1, NODE_LLAMA_CPP_SEQUENCES, capBytes));
    runs.push(nodeRun('node-llama-cpp, no cap', model, LLAMA_CPP_SEQUENCES));
  } else {
    missing.push({ name: 'node-llama-cpp', reason: 'not installed: npm ci --ignore-scripts --prefix bench/peers' });
  }
  const wanted = only?.split(',').map((name) => name.trim());
  const chosen = runs.filter(
    ({ name, contender }) => wanted === undefined || wanted.includes(contender.tool) || wanted.includes(name),
  );
  // The repacking belongs to every choice that has a capped run of Spillway.
  const needsRepacking = chosen.some(({ contender, capBytes: bytes }) => contender === own && bytes !== undefined);
  return { runs: runs.filter((run) => chosen.includes(run) || (run.preparation === true && needsRepacking)), missing };
}
