import { isObject } from '../../../src/arguments/isObject.js';
import { WEIGHT_TYPES } from '../../../src/model/weightTypes.js';
import { scalar, type GgufScalarType } from '../../model/support/GgufWriter.js';
import type { Json, ModelImage, TensorImage } from '../images/ModelImage.js';
import type { Random } from '../Random.js';
import { bytesOf, isWeightType, tiled } from './bytes.js';
import { at, changedAt } from './tree.js';

const HIDDEN =
  /^(hidden_size|head_dim|intermediate_size|ffn_dim|ffn_hidden_size|word_embed_proj_dim|\w+\.embedding_length|\w+\.feed_forward_length|\w+\.attention\.(key|value)_length|\w+\.rope\.dimension_count)$/;
const VOCABULARY = /^(vocab_size|\w+\.vocab_size)$/;
/**
 * Tensors whose first dimension is the vocabulary, or one that no width depends on: positions, experts (which make a
 * third dimension, too).
 */
const OF_TOKENS = /embed_tokens|word_embeddings|embed_in|embed_out|lm_head|token_embd|^output\.weight/;
const OF_OTHERS = /embed_positions|position_embd|block_sparse_moe\.gate|ffn_gate_inp/;
/** Divisible as real sizes are, and as none is. */
const FACTORS = [1 / 8, 1 / 4, 1 / 2, 3 / 4, 9 / 8, 5 / 4, 3 / 2, 2, 3];
const VOCABULARIES = [1, 3, 17, 100, 255, 257, 300, 1024, 2500];

/** What GGUF's integers hold. */
const LARGEST: Readonly<Partial<Record<GgufScalarType, number>>> = {
  uint8: 2 ** 8 - 1,
  int8: 2 ** 7 - 1,
  uint16: 2 ** 16 - 1,
  int16: 2 ** 15 - 1,
  uint32: 2 ** 32 - 1,
  int32: 2 ** 31 - 1,
};

/** A sound model of other sizes: all widths by one factor, or another vocabulary. Elements come again and again. */
export function resizedModel<T extends ModelImage>(random: Random, image: T): T {
  const factor = random.chance(0.7) ? random.pick(FACTORS) : 1;
  const vocabulary = factor === 1 || random.chance(0.3) ? random.pick(VOCABULARIES) : undefined;
  const width = (size: number): number => Math.max(1, Math.round(size * factor));
  const tensors = image.tensors.map((tensor) => {
    const {
      name,
      shape: [first = 1, ...rest],
    } = tensor;
    const rows = OF_TOKENS.test(name)
      ? (vocabulary ?? first)
      : OF_OTHERS.test(name) || rest.length > 1
        ? first
        : width(first);
    return withShape(tensor, [rows, ...rest.map(width)]);
  });
  const sized = (key: string, value: number, most = Infinity): number =>
    Math.min(most, HIDDEN.test(key) ? width(value) : VOCABULARY.test(key) ? (vocabulary ?? value) : value);
  if (image.format === 'gguf') {
    const metadata = image.metadata.map(
      ([key, value]) =>
        [
          key,
          'value' in value && typeof value.value === 'number'
            ? scalar(value.type, sized(key, value.value, LARGEST[value.type]))
            : value,
        ] as const,
    );
    return { ...image, tensors, metadata };
  }
  const config = at(image.documents, ['config.json']) ?? {};
  // Another mutation may have put a text of millions of characters there, each of which is an entry.
  const numbers = isObject(config) ? Object.entries(config).filter(([, value]) => typeof value === 'number') : [];
  const changed = numbers.reduce<Json>(
    (tree, [key, value]) => changedAt(tree, [key], () => sized(key, Number(value))),
    config,
  );
  return { ...image, tensors, documents: { ...image.documents, 'config.json': changed } };
}

/** A shape may say anything after some changes. */
const MOST_ELEMENTS = 2 ** 24;

/**
 * The tensor in another shape; where its type's blocks do not fit any more, of another type. As it is where that would
 * be too much.
 */
function withShape(tensor: TensorImage, shape: readonly number[]): TensorImage {
  if (shape.reduce((product, size) => product * size, 1) > MOST_ELEMENTS) return tensor;
  const fits = isWeightType(tensor.type) && (shape.at(-1) ?? 1) % WEIGHT_TYPES[tensor.type].elements === 0;
  const type = fits ? tensor.type : 'F16';
  return { ...tensor, type, shape, data: tiled(tensor.data, isWeightType(type) ? bytesOf(type, shape) : 0) };
}
