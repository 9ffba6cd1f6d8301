import { WEIGHT_TYPES, type WeightType } from '../../../src/model/weightTypes.js';
import type { ModelImage, TensorImage } from '../images/ModelImage.js';
import type { Random } from '../Random.js';
import { bytesOf, isWeightType, tiled } from './bytes.js';
import { number, word } from './values.js';

const DTYPES = ['F32', 'F16', 'BF16'] as const;
const TYPES = Object.keys(WEIGHT_TYPES) as WeightType[];

/**
 * The tensors with one of them changed: its elements, most often; or its type or shape with as many bytes as that
 * takes; or what no reader can use.
 */
export function mutatedTensors(
  random: Random,
  { tensors, format }: Pick<ModelImage, 'tensors' | 'format'>,
): readonly TensorImage[] {
  const index = random.below(tensors.length);
  const chosen = tensors[index];
  if (chosen === undefined) return tensors;
  const change = (to: Partial<TensorImage>): readonly TensorImage[] =>
    tensors.map((tensor, each) => (each === index ? { ...tensor, ...to } : tensor));
  const other = random.pick(tensors);
  return random.weighted<() => readonly TensorImage[]>([
    [14, () => change({ data: otherElements(random, chosen) })],
    [4, () => change(retyped(random, chosen, format === 'gguf' && chosen.shape.length > 1 ? TYPES : DTYPES))],
    [
      2,
      () =>
        tensors.map((tensor) =>
          tensor.shape.length === 2
            ? retyped(random, tensor, format === 'gguf' ? ['F16', 'Q8_0', 'BF16', 'F32'] : DTYPES)
            : tensor,
        ),
    ],
    [4, () => change({ data: other.data.length === chosen.data.length ? other.data : chosen.data })],
    [1, () => change({ shape: reshaped(random, chosen.shape) })],
    [1, () => change(resized(random, chosen))],
    [
      1,
      () =>
        change({ name: random.pick([other.name, word(random), `${chosen.name}_`, chosen.name.replace(/\d/, '7')]) }),
    ],
    [1, () => tensors.filter((tensor) => tensor !== chosen)],
    [
      1,
      () => [
        ...tensors,
        {
          ...chosen,
          name: random.pick([
            chosen.name,
            `${chosen.name}.bias`,
            chosen.name.replace('weight', 'bias'),
            'rope_freqs.weight',
            'x',
          ]),
        },
      ],
    ],
    [
      1,
      () =>
        change({
          type: format === 'gguf' ? random.below(45) : random.pick(['I8', 'BOOL', 'F64', 'F8_E4M3', word(random)]),
        }),
    ],
    [
      1,
      () =>
        change({
          offset: random.chance(0.7)
            ? 32 * random.below(8192)
            : Math.min(2 ** 63, Math.abs(Math.trunc(number(random)))),
        }),
    ],
    [1, () => [...tensors].reverse()],
  ])();
}

/** As many bytes, of another content: not finite, enormous, nothing, noise. */
function otherElements(random: Random, { data }: TensorImage): Uint8Array {
  const copy = Uint8Array.from(data);
  const from = random.below(copy.length);
  const to = random.chance(0.5) ? copy.length : Math.min(copy.length, from + 1 + random.below(64));
  const noise = new Random32(random.next());
  random.weighted([
    [3, () => copy.fill(random.pick([0, 0xff, 0x7f, 0x80, 0x7c, 0xfc, 0x3f, 0x01]), from, to)],
    [
      3,
      () => {
        for (let at = from; at < to; at++) copy[at] = noise.next();
      },
    ],
    [
      2,
      () => {
        for (let at = from; at < to; at += 1 + random.below(40)) copy[at] = (copy[at] ?? 0) ^ (1 << random.below(8));
      },
    ],
  ])();
  return copy;
}

/** Cheap noise for whole tensors. */
class Random32 {
  constructor(private state: number) {}
  next(): number {
    this.state = (Math.imul(this.state, 1_664_525) + 1_013_904_223) >>> 0;
    return this.state >>> 24;
  }
}

/** The shape in another type: blocks of bytes that were there, again and again. */
function retyped(random: Random, tensor: TensorImage, types: readonly WeightType[]): TensorImage {
  const type = random.pick(types.filter((each) => (tensor.shape.at(-1) ?? 1) % WEIGHT_TYPES[each].elements === 0));
  return { ...tensor, type, data: tiled(tensor.data, bytesOf(type, tensor.shape)) };
}

function reshaped(random: Random, shape: readonly number[]): readonly number[] {
  const [first = 1, ...rest] = shape;
  return random
    .pick([
      [...shape].reverse(),
      [1, ...shape],
      [...shape, 1],
      [first * rest.reduce((a, b) => a * b, 1)],
      [first / 2, 2, ...rest],
      [],
      [0, ...rest],
      [first + 1, ...rest],
      [2 ** 40, ...rest],
      [2 ** 31, 2 ** 31, 2 ** 31],
      [-1, ...rest],
    ])
    .map((size) => Math.max(0, Math.floor(size)));
}

/** Another shape with the bytes that it takes. */
function resized(random: Random, tensor: TensorImage): TensorImage {
  const type = isWeightType(tensor.type) ? tensor.type : 'F32';
  const shape = tensor.shape.map((size) => random.pick([size, size, 2 * size, Math.max(32, size - 32), size + 1]));
  return { ...tensor, shape, data: tiled(tensor.data, Math.max(0, Math.floor(bytesOf(type, shape)))) };
}
