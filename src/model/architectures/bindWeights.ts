import { ModelFileError } from '../../errors/ModelFileError.js';
import type { DecoderSpec } from '../DecoderSpec.js';
import type { TensorInfo } from '../ModelSource.js';
import { WEIGHT_TYPES } from '../weightTypes.js';
import { type TensorBinding, type TensorSegment } from '../TensorBinding.js';
import type { Description, FusedPart, WeightSource } from './Family.js';
import type { TensorIndex } from './TensorIndex.js';
import { hasRole, isOfBlock, roleShape } from './weightRoles.js';

/**
 * Finds the tensor of every weight that the description asks for, checks its shape and type, and says where its rows
 * are.
 */
export function bindWeights(description: Description, tensors: TensorIndex): TensorBinding[] {
  const { decoder, weights, layerNumbers = [], blockNumbers = layerNumbers } = description;
  const numberOf = (layer: number, role: WeightSource['role']): string =>
    String((isOfBlock(role) ? blockNumbers : layerNumbers)[layer] ?? layer);
  const base = chooseBase(description, tensors);
  const bindings: TensorBinding[] = [];
  for (const source of weights) {
    const pattern = source.tensor.replace('{base}', base);
    if (!pattern.includes('{layer}') && source.ofAllLayers === undefined) {
      bind(pattern, -1, source);
      continue;
    }
    for (let layer = source.fromLayer ?? 0; layer < decoder.layers; layer++) {
      if (hasRole(decoder.layerSpecs[layer] ?? {}, source.role))
        bind(pattern.replace('{layer}', numberOf(layer, source.role)), layer, source);
    }
  }
  return bindings;

  function bind(first: string, layer: number, source: WeightSource): void {
    const other = source.otherwise?.replace('{base}', base).replace('{layer}', numberOf(layer, source.role));
    const name = other !== undefined && !tensors.has(first) && tensors.has(other) ? other : first;
    if (source.optional === true && !tensors.has(name)) return;
    if (source.layers !== undefined && layer >= 0 && !source.layers(layer)) return;
    bindings.push(
      source.pieces === undefined
        ? bindWeight(decoder, source, layer, tensors.take(name), tensors.path)
        : bindPieces(decoder, source, layer, name, source.pieces),
    );
  }

  function bindPieces(
    of: DecoderSpec,
    source: WeightSource,
    layer: number,
    name: string,
    named: number | readonly string[],
  ): TensorBinding {
    const [rows] = roleShape(of, source.role, of.layerSpecs[layer]);
    const names = typeof named === 'number' ? Array.from({ length: named }, (_, piece) => String(piece)) : named;
    const found = names.map((piece) => tensors.take(name.replace('{piece}', piece)));
    const sizes = found.map(({ shape }) =>
      source.unequal === true ? shape.reduce((all, size) => all * size, 1) : rows / names.length,
    );
    const total = sizes.reduce((all, size) => all + size, 0);
    if (source.unequal === true && total !== rows)
      throw new ModelFileError(tensors.path, name, `${total} elements`, `${rows} for ${source.role}`);
    const pieces = found.map((tensor, at) => bindPiece(source, layer, tensor, sizes[at] ?? 0, tensors.path));
    const [first, ...others] = pieces;
    const odd = others.find(({ type }) => type !== first?.type);
    if (first === undefined || odd !== undefined)
      throw new ModelFileError(tensors.path, name, `parts of several types`, 'one type');
    return { ...first, rows, segments: pieces.flatMap(({ segments }) => segments) };
  }
}

function chooseBase({ bases, weights }: Description, tensors: TensorIndex): string {
  const probe = weights.find((source) => source.tensor.startsWith('{base}'))?.tensor ?? '';
  const found = bases?.find((base) => tensors.has(probe.replace('{base}', base)));
  return found ?? bases?.[0] ?? '';
}

/** One of the tensors of a vector. */
function bindPiece(source: WeightSource, layer: number, tensor: TensorInfo, rows: number, path: string): TensorBinding {
  return bindShape([rows], source, layer, tensor, path);
}

function bindWeight(
  decoder: DecoderSpec,
  source: WeightSource,
  layer: number,
  tensor: TensorInfo,
  path: string,
): TensorBinding {
  const shape = roleShape(decoder, source.role, decoder.layerSpecs[layer]);
  const { layers } = decoder;
  if (source.ofAllLayers === 'columns' && shape.length === 2) {
    const whole = bindShape([shape[0], layers * shape[1]], source, layer, tensor, path);
    return columnsOf(whole, shape[1], layer * shape[1], tensor, path);
  }
  if (source.turnedBlocks === true && shape.length === 2) return bindTurnedBlocks(shape, source, layer, tensor, path);
  const rows = { groups: 1, sizes: Array<number>(layers).fill(shape[0]), index: layer };
  return bindShape(shape, source.ofAllLayers === 'rows' ? { ...source, part: rows } : source, layer, tensor, path);
}

/** Some columns of a matrix that was bound whole. */
function columnsOf(
  whole: TensorBinding,
  columns: number,
  first: number,
  tensor: TensorInfo,
  path: string,
): TensorBinding {
  const block = WEIGHT_TYPES[whole.type];
  if (whole.float8 ?? whole.blockScales ?? whole.packed ?? whole.coded)
    throw new ModelFileError(
      path,
      `tensor ${tensor.name}`,
      `type ${tensor.type}`,
      'one whose scales stand in its blocks',
    );
  if (columns % block.elements !== 0)
    throw new ModelFileError(
      path,
      `tensor ${tensor.name}`,
      `${columns} elements a layer`,
      `a multiple of ${block.elements} for type ${tensor.type}`,
    );
  const skipped = (first / block.elements) * block.bytes;
  const segments = whole.segments.map((segment) => ({ ...segment, offset: segment.offset + skipped }));
  return { ...whole, columns, segments, rowColumns: whole.columns };
}

/** A part of a tensor of floats whose blocks have a row for each input: those of heads, one after another. */
function bindTurnedBlocks(
  [rows, columns]: readonly [number, number],
  source: WeightSource,
  layer: number,
  tensor: TensorInfo,
  path: string,
): TensorBinding {
  const { groups, sizes, index } = source.part ?? { groups: 1, sizes: [columns], index: 0 };
  const indices = typeof index === 'number' ? [index] : index;
  const outputs = rows / (groups * indices.length);
  const period = sizes.reduce((sum, size) => sum + size, 0);
  const whole = bindShape(
    [groups * period, outputs],
    { role: source.role, tensor: source.tensor },
    layer,
    tensor,
    path,
  );
  const { elements } = WEIGHT_TYPES[whole.type];
  const bytes = whole.float8 ? 1 : WEIGHT_TYPES[whole.type].bytes;
  if (elements !== 1 || (whole.packed ?? whole.coded))
    throw new ModelFileError(
      path,
      `tensor ${tensor.name}`,
      `type ${tensor.type}`,
      'F32, F16, BF16 or 8-bit floats, for its rows become columns: use the model in 16 bits, or a GGUF file of it',
    );
  const segments = indices.flatMap((each) => {
    const before = sizes.slice(0, each).reduce((sum, size) => sum + size, 0);
    return Array.from({ length: groups }, (_, group) => ({
      file: tensor.file,
      offset: tensor.offset + (group * period + before) * outputs * bytes,
      rows: outputs,
    }));
  });
  return { ...whole, rows, columns, segments, inputRow: outputs };
}

function bindShape(
  shape: readonly [number] | readonly [number, number],
  source: WeightSource,
  layer: number,
  tensor: TensorInfo,
  path: string,
): TensorBinding {
  const vector = shape.length === 1;
  const [rows, columns] = [shape[0], vector ? 1 : shape[1]];
  const { part, slice } = source;
  const turned = source.turned === true && tensor.type !== 'MXFP4' && !vector;

  const fusedRows = part === undefined ? rows : part.groups * part.sizes.reduce((sum, size) => sum + size, 0);
  const matrix = turned ? [columns, fusedRows] : [fusedRows, columns];
  const stored = source.shape ?? [...(slice === undefined ? [] : [slice.count]), ...(vector ? [fusedRows] : matrix)];
  const refuse = (found: string, expected: string): never => {
    throw new ModelFileError(path, `tensor ${tensor.name}`, found, expected);
  };
  const fits =
    source.reshaped === true
      ? elementsOf(tensor.shape) === elementsOf(stored)
      : tensor.shape.length === stored.length && tensor.shape.every((size, i) => size === stored[i]);
  if (!fits) {
    refuse(`shape [${tensor.shape.slice(0, 8).join(', ')}]`, `[${stored.join(', ')}] for ${source.role}`);
  }
  const { scales, blockScales, packed, coded } = tensor;
  const counted = packed !== undefined || coded !== undefined;
  if (counted && (vector || slice || turned)) refuse(packed ? 'packed integers' : '4-bit floats', 'floats');
  if (tensor.type === 'F8_E4M3' && (scales === undefined || vector))
    return refuse('type F8_E4M3', vector ? 'F32, F16 or BF16 for a vector' : 'scales beside it');
  const type = tensor.type === 'F8_E4M3' ? 'F16' : tensor.type;
  const block = scales ? { elements: 1, bytes: 1 } : blockScales ? SPLIT_BLOCK : WEIGHT_TYPES[type];
  if (vector && block.elements !== 1) refuse(`type ${tensor.type}`, 'F32, F16 or BF16 for a vector');
  if (turned && (block.elements !== 1 || scales)) refuse(`type ${tensor.type}`, 'F32, F16, BF16 or MXFP4');
  if (columns % block.elements !== 0)
    refuse(`rows of ${columns} elements`, `a multiple of ${block.elements} for type ${tensor.type}`);
  const rowBytes = (columns / block.elements) * block.bytes;
  const bytes = (slice?.count ?? 1) * fusedRows * rowBytes;
  if (tensor.bytes !== bytes && !counted) refuse(`${tensor.bytes} bytes`, `${bytes} for ${tensor.type} of that shape`);

  // Rows of packed integers and of 4-bit floats are counted.
  const pitch = counted ? 1 : turned ? block.bytes : rowBytes;
  const start = counted ? 0 : tensor.offset + (slice === undefined ? 0 : slice.index * fusedRows * rowBytes);
  const segments = rowRanges(part, rows).map((range): TensorSegment => ({
    file: tensor.file,
    offset: start + range.first * pitch,
    rows: range.rows,
    ...(range.step !== undefined && { step: range.step }),
  }));
  return {
    role: source.role,
    layer,
    kind: vector ? 'vector' : 'matrix',
    type,
    rows,
    columns,
    segments,
    ...(scales && {
      float8: { ...scales, tensorOffset: tensor.offset, tensorRows: (slice?.count ?? 1) * fusedRows },
    }),
    ...(blockScales && { blockScales: { ...blockScales, tensorOffset: tensor.offset } }),
    ...(packed && { packed }),
    ...(coded && { coded }),
    ...(turned && { inputRow: fusedRows }),
    ...(source.add !== undefined && { add: source.add }),
  };
}

const elementsOf = (shape: readonly number[]): number => shape.reduce((product, size) => product * size, 1);

/** Block of MXFP4 whose scales are elsewhere. */
const SPLIT_BLOCK = { elements: 32, bytes: 16 } as const;

interface RowRange {
  readonly first: number;
  readonly rows: number;
  readonly step?: number;
}

/** The runs of rows that a role takes from its tensor; neighbouring ones, and single ones, are joined. */
function rowRanges(part: WeightSource['part'], rows: number): RowRange[] {
  if (part === undefined) return [{ first: 0, rows }];
  const { index } = part;
  return typeof index === 'number' ? blockRanges(part, index) : index.flatMap((each) => blockRanges(part, each));
}

/** One block of every group. */
function blockRanges(part: FusedPart, index: number): RowRange[] {
  const before = part.sizes.slice(0, index).reduce((sum, size) => sum + size, 0);
  const period = part.sizes.reduce((sum, size) => sum + size, 0);
  const size = part.sizes[index] ?? 0;
  if (size === period) return [{ first: 0, rows: size * part.groups }];
  if (size === 1) return [{ first: before, rows: part.groups, step: period }];
  return Array.from({ length: part.groups }, (_, group) => ({ first: group * period + before, rows: size }));
}
