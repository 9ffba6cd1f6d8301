// What bench/capped.mjs runs, in its order.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { writeSyntheticRows } from '../lib/syntheticRows.mjs';
import { batchedBench, nodeLlamaCpp, spillway } from '../peers/contenders.mjs';

const MIB = 2 ** 20;
const PEERS = fileURLToPath(new URL('../peers/', import.meta.url));
/** The most that it survives in 2 GiB with a 7B model, found by trying; llama.cpp's is a flag. */
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
  policy,
  only,
  'q4-1': q4_1,
  'compress-cache': compressCache,
  'llama-cpp': program,
  'llama-cpp-sequences': sequencesList,
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
  const sequencesOfLlamaCpp = sequencesList.split(',').map(Number);
  if (!sequencesOfLlamaCpp.every((each) => Number.isInteger(each) && each >= 1))
    throw new Error(
      `--llama-cpp-sequences: found ${sequencesList}, expected whole numbers, 1 or more, parted by commas`,
    );
  const prompts = writeSyntheticRows(join(scratch, 'prompts.jsonl'), {
    rows: Math.max(rows, ...sequencesOfLlamaCpp),
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
    // They ask for a schedule of their own.
    steps: policy === 'default',
  };
  const runs = [];
  const missing = [];

  const own = spillway('spillway', model);
  const planned = policy === 'auto';
  const shape = {
    policy,
    disk,
    ...(planned
      ? { expectedRows: { promptTokens, newTokens: maxNewTokens, rows } }
      : { batchSize: Math.ceil(rows / batches), batches, rowTokens: promptTokens + maxNewTokens }),
    ...(compressCache !== 'none' && { compressCache }),
  };
  const capped = { ...shape, ...(!planned && { cpuMemory: number('cpu-memory') * MIB }) };
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
    const contender = batchedBench('llama.cpp', 'llama.cpp', model, program, []);
    for (const sequences of sequencesOfLlamaCpp) {
      const contextTokens = Math.ceil((sequences * (promptTokens + maxNewTokens)) / 256) * 256;
      const ownRows = { ...job, rows: sequences };
      const many = sequencesOfLlamaCpp.length > 1 ? ` x ${sequences}` : '';
      runs.push(
        // Repacked weights would be a second copy in memory that cannot be dropped; one cache for all sequences is
        // smaller than one each.
        {
          name: `llama.cpp${many} ${capName}`,
          contender,
          setting: { sequences, contextTokens, arguments: ['--no-repack', '-kvu'] },
          job: ownRows,
          capBytes,
        },
        { name: `llama.cpp${many}, no cap`, contender, setting: { sequences }, job: ownRows },
      );
    }
  } else {
    missing.push({ name: 'llama.cpp', reason: 'not built: node bench/peers/buildLlamaCpp.mjs' });
  }
  if (existsSync(join(PEERS, 'node_modules/node-llama-cpp'))) {
    const nodeRun = (name, file, sequences, bytes) => ({
      name,
      contender: nodeLlamaCpp('node-llama-cpp', file),
      setting: { sequences },
      job: { ...job, model: file, rows: sequences },
      ...(bytes !== undefined && { capBytes: bytes }),
    });
    // With Q4_0 it copies all weights while loading, so under a cap it is given Q4_1 where there is such a file.
    runs.push(nodeRun(`node-llama-cpp ${capName}`, model, NODE_LLAMA_CPP_SEQUENCES, capBytes));
    if (q4_1 !== undefined)
      runs.push(nodeRun(`node-llama-cpp Q4_1 ${capName}`, q4_1, NODE_LLAMA_CPP_SEQUENCES, capBytes));
    runs.push(nodeRun('node-llama-cpp, no cap', model, Math.max(...sequencesOfLlamaCpp)));
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
