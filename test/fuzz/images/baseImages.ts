import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { uint32 } from '../../model/support/GgufWriter.js';
import type { FolderImage, GgufImage, Json, JsonObject, ModelImage, TensorImage } from './ModelImage.js';
import { readFolderImage, readGgufImage } from './readImages.js';
import { realTokenizers, smallTokenizers, type TokenizerImage } from './smallTokenizers.js';

const ENCODERS = fileURLToPath(new URL('../../fixtures/encoders', import.meta.url));
const MODELS = fileURLToPath(new URL('../../fixtures/models', import.meta.url));

/** A well-formed model to begin with. */
export interface BaseImage {
  readonly name: string;
  readonly image: ModelImage;
}

/**
 * Well-formed models of every family, quantisation and kind of tokenizer: the tiny fixtures with small tokenizers,
 * encoders last, and
 * a tiny LLaMA with each of the real ones. Always the same, in the same order.
 */
export async function baseImages(): Promise<BaseImage[]> {
  const small = smallTokenizers();
  const names = readdirSync(MODELS, { withFileTypes: true });
  const folders = names.filter((entry) => entry.isDirectory()).map(({ name }) => ({ name, image: folderImage(name) }));
  const files = names.filter(({ name }) => name.endsWith('.gguf') && !name.includes('-of-'));
  const ggufs = await Promise.all(
    files.map(async ({ name }) => ({ name, image: await readGgufImage(join(MODELS, name)) })),
  );
  const withGguf = small.filter(({ gguf }) => gguf);
  const bases = [
    ...folders.map(({ name, image }, index) => ({ name, image: withTokenizerFiles(image, nth(small, index)) })),
    ...ggufs.map(({ name, image }, index) => ({ name, image: withTokenizerMetadata(image, nth(withGguf, index)) })),
  ];
  const folder = folders.find(({ name }) => name === 'llama')?.image;
  const gguf = ggufs.find(({ name }) => name === 'llama-Q8_0.gguf')?.image;
  const real = realTokenizers().flatMap((tokenizer) => [
    ...(folder
      ? [
          {
            name: `llama with ${tokenizer.name}`,
            image: withTokenizerFiles(widened(folder, tokenizer.vocabularySize), tokenizer),
          },
        ]
      : []),
    ...(gguf && tokenizer.gguf
      ? [
          {
            name: `llama-Q8_0.gguf with ${tokenizer.name}`,
            image: withTokenizerMetadata(widened(gguf, tokenizer.vocabularySize), tokenizer),
          },
        ]
      : []),
  ]);
  const split = gguf
    ? [{ name: 'llama-Q8_0.gguf in 3 files', image: withTokenizerMetadata({ ...gguf, files: 3 }, nth(withGguf, 0)) }]
    : [];
  return [...bases, ...split, ...real, ...(await encoders(small))];
}

/** Encoders, those that classify with the tokenizers of their own, which pair texts. */
async function encoders(small: readonly TokenizerImage[]): Promise<BaseImage[]> {
  const names = readdirSync(ENCODERS).sort();
  const withGguf = small.filter(({ gguf }) => gguf);
  return Promise.all(
    names.map(async (file, index): Promise<BaseImage> => {
      const path = join(ENCODERS, file);
      const name = `encoder ${file}`;
      if (file.endsWith('.gguf'))
        return { name, image: withTokenizerMetadata(await readGgufImage(path), nth(withGguf, index)) };
      const image = { ...readFolderImage(path), documents: { 'config.json': readJson(join(path, 'config.json')) } };
      if (!readdirSync(path).includes('tokenizer.json'))
        return { name, image: withTokenizerFiles(image, nth(small, index)) };
      const tokenizer = readJson(join(path, 'tokenizer.json'));
      return { name, image: { ...image, documents: { ...image.documents, 'tokenizer.json': tokenizer } } };
    }),
  );
}

function nth<T>(items: readonly T[], index: number): T {
  return items[index % items.length] as T;
}

/** A folder of the fixtures; some have a configuration of their own to another's weights. */
function folderImage(name: string): ModelImage & FolderImage {
  const reference = JSON.parse(readFileSync(join(MODELS, name, 'reference.json'), 'utf8')) as { weights?: string };
  const own = readJson(join(MODELS, name, 'config.json'));
  const image = readFolderImage(join(MODELS, reference.weights ?? name));
  return { ...image, documents: { 'config.json': own, 'generation_config.json': { eos_token_id: [2] } } };
}

function readJson(path: string): Json {
  return JSON.parse(readFileSync(path, 'utf8')) as Json;
}

function withTokenizerFiles(image: ModelImage & FolderImage, { folder }: TokenizerImage): ModelImage & FolderImage {
  return folder
    ? {
        ...image,
        documents: { ...image.documents, 'tokenizer.json': folder.tokenizer, 'tokenizer_config.json': folder.config },
      }
    : image;
}

function withTokenizerMetadata(image: ModelImage & GgufImage, { gguf }: TokenizerImage): ModelImage & GgufImage {
  return { ...image, metadata: [...image.metadata.filter(([key]) => !key.startsWith('tokenizer.')), ...(gguf ?? [])] };
}

/** The model with a larger vocabulary: rows of embedding and head come again and again. */
function widened<T extends ModelImage>(image: T, vocabularySize: number): T {
  const tensors = image.tensors.map((tensor): TensorImage => {
    const [rows = 1, ...rest] = tensor.shape;
    if (!/embed_tokens|lm_head|token_embd|^output\.weight/.test(tensor.name)) return tensor;
    const rowBytes = tensor.data.length / rows;
    const data = new Uint8Array(rowBytes * vocabularySize);
    for (let at = 0; at < data.length; at += tensor.data.length)
      data.set(tensor.data.subarray(0, data.length - at), at);
    return { ...tensor, shape: [vocabularySize, ...rest], data };
  });
  if (image.format === 'gguf') {
    const metadata = image.metadata.map((entry) =>
      entry[0] === 'llama.vocab_size' ? (['llama.vocab_size', uint32(vocabularySize)] as const) : entry,
    );
    return { ...image, tensors, metadata };
  }
  const config = image.documents['config.json'] as JsonObject;
  return {
    ...image,
    tensors,
    documents: { ...image.documents, 'config.json': { ...config, vocab_size: vocabularySize } },
  };
}
