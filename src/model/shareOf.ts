import { UsageError } from '../errors/UsageError.js';
import { needsProcessor, type DecoderSpec } from './DecoderSpec.js';
import {
  columnsOfShare,
  headsOfShare,
  refused,
  rowAttention,
  scaled,
  type LayerShare,
  type Range,
} from './dividedLayer.js';
import type { ModelSource } from './ModelSource.js';
import type { TensorBinding } from './TensorBinding.js';
import { WEIGHT_TYPES } from './weightTypes.js';

const EXPERT = /^expert\.\d+\./;

/**
 * A share of every layer (tensor parallelism; 1D weight-stationary in Pope et al. 2022): some of its heads
 * (`headsOfShare`), and as many of the feed-forward block's inner columns as every other share, of each expert where
 * there are some, but for a panel. Of the output projection and of the block's last product these are inputs, so that
 * their results are sums of all shares'. Norms and routers are in each share; biases of such sums, embedding and head
 * in the first one. Pure.
 *
 * @throws UsageError where heads do not divide into so many in whole blocks, or columns are too few
 */
export function shareOf(source: ModelSource, share: LayerShare): ModelSource {
  const { decoder, bindings } = source;
  const { headDim, position } = decoder;
  const { index } = share;
  if (needsProcessor(decoder))
    throw new UsageError(
      `tensorParallel: found a model of the family ${decoder.family}, expected none whose layers remember a state, gate attention, keep latent rows or differ in their heads: divide its layers over engines (layers)`,
    );
  const block = blockOf(source, 'o.weight');
  const { queryHeads, keyHeads } = headsOfShare(decoder, block, share);
  const byRows = share.attention === 'rows';
  const { qkNorm } = decoder.attention;
  if (qkNorm === 'row')
    throw refused(share, '1: the norm over all heads together that this family has is not computed in shares');
  const normsEach = qkNorm === 'layer';
  const experts = decoder.feedForward.experts;
  if (experts !== undefined && (experts.shared !== undefined || experts.denseSize !== undefined))
    throw refused(
      share,
      '1: shares of mixtures with blocks beside their experts, or without in some layers, are not made',
    );
  const inner = columnsOfShare(decoder.feedForwardSize, blockOf(source, 'down.weight'), share);
  const cut = (binding: TensorBinding): TensorBinding | undefined => {
    if (binding.layer < 0) return index === 0 ? binding : undefined;
    // Of experts as of one block.
    const role = binding.role.replace(EXPERT, '');
    switch (role) {
      case 'q.weight':
      case 'q.bias':
        return rowsOf(binding, scaled(queryHeads, headDim));
      case 'k.weight':
      case 'k.bias':
      case 'v.weight':
      case 'v.bias':
        return rowsOf(binding, scaled(keyHeads, headDim));
      case 'sinks':
        return byRows ? binding : rowsOf(binding, queryHeads);
      case 'q_norm.weight':
      case 'q_norm.bias':
        return normsEach ? rowsOf(binding, scaled(queryHeads, headDim)) : binding;
      case 'k_norm.weight':
      case 'k_norm.bias':
        return normsEach ? rowsOf(binding, scaled(keyHeads, headDim)) : binding;
      case 'gate.weight':
      case 'gate.bias':
      case 'up.weight':
      case 'up.bias':
        return rowsOf(binding, inner);
      case 'o.weight':
        return columnsOf(binding, scaled(queryHeads, headDim), share);
      case 'down.weight':
        return columnsOf(binding, inner, share);
      case 'o.bias':
      case 'down.bias':
        return index === 0 ? binding : undefined;
      default:
        return binding;
    }
  };
  const ours: DecoderSpec = {
    ...decoder,
    heads: queryHeads.count,
    kvHeads: keyHeads.count,
    feedForwardSize: inner.count,
    ...(position.kind === 'alibi' &&
      !byRows && {
        position: {
          ...position,
          slopes: position.slopes.slice(queryHeads.first, queryHeads.first + queryHeads.count),
        },
      }),
    share: { index, of: share.of, ...(byRows && { attention: rowAttention(decoder, block, share.of) }) },
  };
  return { ...source, decoder: ours, bindings: bindings.flatMap((binding) => cut(binding) ?? []) };
}

/** Neighbours that the matrices of a role, of all layers and experts, store together. */
function blockOf({ bindings }: ModelSource, role: 'o.weight' | 'down.weight'): number {
  const types = bindings.filter((binding) => binding.layer >= 0 && binding.role.replace(EXPERT, '') === role);
  return Math.max(1, ...types.map(({ type }) => WEIGHT_TYPES[type].elements));
}

function rowsOf(binding: TensorBinding, { first, count }: Range): TensorBinding {
  const pitch = pitchBytes(binding);
  let [skip, wanted] = [first, count];
  const segments = binding.segments.flatMap((segment) => {
    const { rows, offset, step = 1 } = segment;
    const skipped = Math.min(skip, rows);
    const taken = Math.min(wanted, rows - skipped);
    skip -= skipped;
    wanted -= taken;
    return taken === 0 ? [] : [{ ...segment, offset: offset + skipped * step * pitch, rows: taken }];
  });
  return { ...binding, rows: count, segments };
}

/** @throws UsageError where the first or the last of them are within a block */
function columnsOf(binding: TensorBinding, { first, count }: Range, share: LayerShare): TensorBinding {
  const { role, type, columns, float8, blockScales, packed, coded, inputRow, segments } = binding;
  if (packed) throw refused(share, `1: shares of weights in packed integers (${role}) are not made`);
  if (coded) throw refused(share, `1: shares of weights in 4-bit floats (${role}) are not made`);
  if (float8) throw refused(share, `1: shares of weights in 8-bit floats (${role}) are not made`);
  const { elements, bytes } = WEIGHT_TYPES[type];
  if (first % elements !== 0 || count % elements !== 0)
    throw refused(
      share,
      `a number that divides the ${columns} inputs of ${role} into whole blocks of ${elements}, which ${type} has`,
    );
  const before = blockScales
    ? first / 2
    : inputRow === undefined
      ? (first / elements) * bytes
      : first * inputRow * bytes;
  return {
    ...binding,
    columns: count,
    segments: segments.map((segment) => ({ ...segment, offset: segment.offset + before })),
    ...(inputRow === undefined && { rowColumns: columns }),
  };
}

/** Bytes from one of the rows that lie in a file to the next one. */
function pitchBytes({ type, columns, float8, blockScales, packed, coded, inputRow }: TensorBinding): number {
  if (packed ?? coded) return 1;
  const { elements, bytes } = WEIGHT_TYPES[type];
  if (inputRow !== undefined) return float8 ? 1 : bytes;
  if (float8) return columns;
  return blockScales ? columns / 2 : (columns / elements) * bytes;
}
