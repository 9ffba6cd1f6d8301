// Writes a model of OPT's architecture with random 16-bit weights, as a folder of safetensors, one file a layer: for
// speed and for comparing devices, not for text. Only a few megabytes are in memory at a time, and making the weights
// takes no longer than writing them.
import { mkdir, open, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { elementsOf, globalTensors, layerTensors, optConfig } from './optShapes.mjs';

/**
 * Random halves that are written again and again, from another place each time: no multiple of any row, so that no two
 * rows of a matrix are the same.
 */
const POOL_ELEMENTS = 1_000_003;
const CHUNK_BYTES = 16 * 2 ** 20;
/** Files that are written at a time: node has four threads for that. */
const WRITERS = 4;

const asFloat = new Float32Array(1);
const asBits = new Uint32Array(asFloat.buffer);

/** The nearest half below, of numbers that are no subnormal half; smaller ones become 0. */
export function halfBits(value) {
  asFloat[0] = value;
  const [bits] = asBits;
  const exponent = ((bits >>> 23) & 0xff) - 112;
  return ((bits >>> 16) & 0x8000) | (exponent <= 0 ? 0 : (exponent << 10) | ((bits >>> 13) & 0x3ff));
}

/** xorshift32: numbers from -1 to 1. */
function randomNumbers(seed) {
  let state = seed;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) / 2 ** 31 - 1;
  };
}

/** Pools of random halves by their standard deviation, repeated so that a chunk of it begins anywhere. */
class Pools {
  #pools = new Map();

  of({ one, deviation }) {
    const key = one ? 'one' : String(deviation);
    let pool = this.#pools.get(key);
    if (pool === undefined) {
      const random = randomNumbers(2_463_534_242);
      // Of a uniform distribution from -a to a the deviation is a / sqrt(3).
      const halves = Uint16Array.from(
        { length: POOL_ELEMENTS },
        one ? () => 0x3c00 : () => halfBits(random() * deviation * Math.sqrt(3)),
      );
      const once = Buffer.from(halves.buffer);
      pool = Buffer.concat(Array.from({ length: Math.ceil(CHUNK_BYTES / once.length) + 1 }, () => once));
      this.#pools.set(key, pool);
    }
    return pool;
  }
}

async function writeFully(file, buffer) {
  for (let at = 0; at < buffer.length;) at += (await file.write(buffer, at, buffer.length - at)).bytesWritten;
}

async function writeShard(path, tensors, pools, index) {
  const header = {};
  let end = 0;
  let turn = index * 7_919;
  for (const tensor of tensors) {
    const bytes = 2 * elementsOf(tensor);
    header[tensor.name] = { dtype: 'F16', shape: tensor.shape, data_offsets: [end, end + bytes] };
    end += bytes;
  }
  const json = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(json.length));
  const file = await open(path, 'w');
  try {
    await writeFully(file, Buffer.concat([length, json]));
    for (const tensor of tensors) {
      const pool = pools.of(tensor);
      for (let left = 2 * elementsOf(tensor); left > 0;) {
        const bytes = Math.min(left, CHUNK_BYTES);
        turn = (turn + 104_729) % POOL_ELEMENTS;
        await writeFully(file, pool.subarray(2 * turn, 2 * turn + bytes));
        left -= bytes;
      }
    }
  } finally {
    await file.close();
  }
  return end;
}

/**
 * Writes config.json, model.safetensors.index.json and the shards. What was begun and cannot be ended is removed.
 * @param folder is made; must not hold a model already
 * @param shape layers, heads, hiddenSize; vocabularySize and contextTokens where they are not OPT's
 * @returns bytes of the weights
 */
export async function makeOptModel(folder, shape, signal) {
  const shards = [
    globalTensors(shape),
    ...Array.from({ length: shape.layers }, (_, layer) => layerTensors(shape, layer)),
  ];
  const name = (index) =>
    `model-${String(index + 1).padStart(5, '0')}-of-${String(shards.length).padStart(5, '0')}.safetensors`;
  await mkdir(folder, { recursive: true });
  try {
    const pools = new Pools();
    const sizes = [];
    const waiting = [...shards.entries()];
    const writer = async () => {
      for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
        signal?.throwIfAborted();
        sizes.push(await writeShard(join(folder, name(next[0])), next[1], pools, next[0]));
      }
    };
    // All of them have to be done before anything is removed.
    const failed = (await Promise.allSettled(Array.from({ length: WRITERS }, writer))).find(
      ({ status }) => status === 'rejected',
    );
    if (failed !== undefined) throw failed.reason;
    const bytes = sizes.reduce((sum, size) => sum + size, 0);
    const weightMap = Object.fromEntries(
      shards.flatMap((tensors, index) => tensors.map((tensor) => [tensor.name, name(index)])),
    );
    await writeFile(join(folder, 'config.json'), JSON.stringify(optConfig(shape)));
    await writeFile(
      join(folder, 'model.safetensors.index.json'),
      JSON.stringify({ metadata: { total_size: bytes }, weight_map: weightMap }),
    );
    return bytes;
  } catch (error) {
    await rm(folder, { recursive: true, force: true });
    throw error;
  }
}
