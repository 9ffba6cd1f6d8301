import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { string, uint32, writeGguf, type GgufField, type GgufTensorInput } from '../../model/support/GgufWriter.js';
import { assemble, headerText } from '../../model/support/SafetensorsWriter.js';
import { damaged } from '../mutations/damage.js';
import type { Damage, FolderImage, GgufImage, Json, ModelImage, TensorImage } from './ModelImage.js';

/** A file's bytes, and where its lengths, counts and offsets stand. */
interface Written {
  readonly name: string;
  readonly bytes: Uint8Array;
  readonly fields: readonly GgufField[];
}

/**
 * Writes a model's files into an empty folder, with lengths, counts and offsets that fit, but where the image says
 * otherwise.
 * @returns the path to open
 */
export function writeImage(folder: string, image: ModelImage): string {
  const written = image.format === 'gguf' ? ggufFiles(image) : folderFiles(image);
  for (const [index, { name, bytes, fields }] of written.entries()) {
    const damage = image.damage.filter(({ file }) => Math.floor(file * written.length) === index);
    writeFileSync(
      join(folder, name),
      damage.reduce((result: Uint8Array, each: Damage) => damaged(result, fields, each), bytes),
    );
  }
  return image.format === 'folder' ? folder : join(folder, written[0]?.name ?? '');
}

function ggufFiles({ metadata, tensors, files, alignment }: GgufImage): Written[] {
  const parts = divided(tensors, files);
  return parts.map((part, index) => {
    const split = [
      ['split.no', uint32(index)],
      ['split.count', uint32(files)],
      ['split.tensors.count', uint32(tensors.length)],
    ] as const;
    const own = index === 0 ? metadata : [['general.architecture', string('llama')] as const];
    const { bytes, fields } = writeGguf({
      metadata: files > 1 ? [...own, ...split] : own,
      tensors: part.map(({ name, type, shape, data }) => ({
        name,
        type: type as GgufTensorInput['type'],
        shape: shape.map((size) => Math.min(size, 2 ** 63)),
        data,
      })),
      alignment,
    });
    for (const { name, offset } of part) {
      const field = fields.find(({ what }) => what === `offset of ${name}`);
      if (offset !== undefined && field) bytes.writeBigUInt64LE(BigInt(offset), field.offset);
    }
    return { name: files > 1 ? `model-${numbered(index, files)}.gguf` : 'model.gguf', bytes, fields };
  });
}

function folderFiles(image: FolderImage): Written[] {
  const { tensors, files, documents, texts, header } = image;
  const parts = divided(tensors, files);
  const names = parts.map((_, index) =>
    files > 1 ? `model-${numbered(index, files)}.safetensors` : 'model.safetensors',
  );
  const weightMap = Object.fromEntries(
    parts.flatMap((part, index) => part.map(({ name }) => [name, names[index] ?? ''] as const)),
  );
  const all: Readonly<Record<string, Json>> = {
    ...(files > 1 && { 'model.safetensors.index.json': { metadata: {}, weight_map: weightMap } }),
    ...documents,
  };
  return [
    ...parts.map((part, index) => ({
      name: names[index] ?? '',
      bytes: safetensors(part, header),
      fields: [{ what: 'header', offset: 0, bytes: 8 } as const],
    })),
    ...Object.entries(all).map(([name, content]) => ({
      name,
      bytes: texts.includes(name) && typeof content === 'string' ? Buffer.from(content) : documentBytes(content),
      fields: [],
    })),
  ];
}

function safetensors(tensors: readonly TensorImage[], wrong: FolderImage['header']): Uint8Array {
  let end = 0;
  const entries = tensors.map(({ name, type, shape, data, offset }) => {
    const begin = offset ?? end;
    end += data.length;
    return [name, { dtype: type, shape, data_offsets: [begin, begin + data.length] }] as const;
  });
  const bytes = assemble(
    headerText([...entries.filter(([name]) => !Object.hasOwn(wrong, name)), ...Object.entries(wrong)]),
    end,
  );
  let at = bytes.length - end;
  for (const { data } of tensors) {
    bytes.set(data, at);
    at += data.length;
  }
  return bytes;
}

const documents = new WeakMap<object, Buffer>();

/** Most documents of a case are those of its base: their text is kept. */
function documentBytes(content: Json): Buffer {
  if (typeof content !== 'object' || content === null) return Buffer.from(JSON.stringify(content));
  let bytes = documents.get(content);
  if (bytes === undefined) documents.set(content, (bytes = Buffer.from(JSON.stringify(content))));
  return bytes;
}

function divided<T>(items: readonly T[], files: number): T[][] {
  const each = Math.ceil(items.length / files);
  return Array.from({ length: files }, (_, index) => items.slice(index * each, (index + 1) * each));
}

function numbered(index: number, count: number): string {
  return `${String(index + 1).padStart(5, '0')}-of-${String(count).padStart(5, '0')}`;
}
