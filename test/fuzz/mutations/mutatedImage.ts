import type { FolderImage, GgufImage, ModelImage } from '../images/ModelImage.js';
import { Random } from '../Random.js';
import { mutatedConfig } from './config.js';
import { anyDamage } from './damage.js';
import { mutatedMetadata } from './metadata.js';
import { resizedModel } from './sizes.js';
import { mutatedTemplate } from './templates.js';
import { mutatedTensors } from './tensors.js';
import { mutatedTokenizer, mutatedTokenizerConfig } from './tokenizers.js';
import { mutatedTree } from './tree.js';
import { anyJson, text } from './values.js';

/** A model with one thing about it changed, or up to three, as the seed says. */
export function mutatedImage(image: ModelImage, seed: number): ModelImage {
  const random = new Random(seed);
  let result = image;
  for (const mutation of random.list(1, random.pick([1, 1, 1, 3]), () => (image.format === 'gguf' ? gguf : folder)))
    result = mutation(random, result as never);
  return result;
}

function gguf(random: Random, image: ModelImage & GgufImage): ModelImage & GgufImage {
  return random.weighted<() => ModelImage & GgufImage>([
    [40, () => ({ ...image, metadata: mutatedMetadata(random, image.metadata) })],
    [24, () => ({ ...image, tensors: mutatedTensors(random, image) })],
    [8, () => resizedModel(random, image)],
    [1, () => ({ ...image, files: 1 + random.below(4) })],
    [1, () => ({ ...image, alignment: random.pick([8, 16, 64, 256, 4096]) })],
    [1, () => ({ ...image, damage: [...image.damage, anyDamage(random)] })],
  ])();
}

function folder(random: Random, image: ModelImage & FolderImage): ModelImage & FolderImage {
  const change = (name: string, mutate: typeof mutatedTree): ModelImage & FolderImage => ({
    ...image,
    documents: { ...image.documents, [name]: mutate(random, image.documents[name] ?? {}) },
  });
  const put = (name: string, content: string): ModelImage & FolderImage => ({
    ...image,
    documents: { ...image.documents, [name]: content },
    texts: [...image.texts, name],
  });
  return random.weighted<() => ModelImage & FolderImage>([
    [28, () => change('tokenizer.json', mutatedTokenizer)],
    [22, () => change('tokenizer_config.json', mutatedTokenizerConfig)],
    [14, () => change('config.json', mutatedConfig)],
    [20, () => ({ ...image, tensors: mutatedTensors(random, image) })],
    [8, () => resizedModel(random, image)],
    [2, () => change('generation_config.json', mutatedTree)],
    [
      4,
      () =>
        put(
          'chat_template.jinja',
          mutatedTemplate(random, '{% for message in messages %}{{ message.content }}{% endfor %}'),
        ),
    ],
    [
      1,
      () => ({
        ...image,
        documents: {
          ...image.documents,
          'chat_template.json': random.chance(0.7)
            ? { chat_template: mutatedTemplate(random, '{{ messages[0].content }}') }
            : anyJson(random),
        },
      }),
    ],
    [1, () => ({ ...image, files: 1 + random.below(4) })],
    [
      1,
      () => ({
        ...image,
        documents: {
          ...image.documents,
          'model.safetensors.index.json': random.chance(0.5) ? { weight_map: anyJson(random) } : anyJson(random),
        },
        files: 2,
      }),
    ],
    [
      1,
      () => ({
        ...image,
        header: {
          ...image.header,
          [random.pick(['__metadata__', random.pick(image.tensors).name, 'x'])]: random.chance(0.5)
            ? anyJson(random)
            : mutatedTree(random, { dtype: 'F32', shape: [2, 2], data_offsets: [0, 16] }),
        },
      }),
    ],
    [1, () => put(random.pick(Object.keys(image.documents)), text(random))],
    [1, () => ({ ...image, damage: [...image.damage, anyDamage(random)] })],
  ])();
}
