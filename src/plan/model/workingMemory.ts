import type { MatmulWeights } from '../HardwareProfile.js';
import type { ModelShape } from '../ModelShape.js';
import { align, attentionScratchBytes, type AttentionSetting } from './attentionMemory.js';

/** Memory that computing takes beside weights and cache. */
export interface WorkingMemory {
  readonly scratchBytes: number;
  /** Hidden states, queries and rotary tables of one slot. */
  readonly activationBytes: number;
}

/**
 * To what a product's inputs are rounded: 8 bits (512 bytes for 4 rows of 32 values), or on AMX bfloat16 (64 bytes for
 * 32 values of a row).
 */
type Rounding = (width: number, rows: number) => number;
const toGroups: Rounding = (width, rows) => Math.ceil(rows / 4) * (width / 32) * 512;
const toBfloat16: Rounding = (width, rows) => rows * Math.ceil(width / 32) * 64;

/**
 * The workspace of each thread: what products unpack weights into, and the totals that they end with
 * (native/kernels/cpu/Matmul.cpp).
 */
const WORKSPACE_BYTES = (64 + 256) * 1024;
/** Rows that are rounded together, to 8 bits and to bfloat16. */
const GROUP_ROWS = 4;
const BFLOAT16_ROWS = 16;

/**
 * Gives the memory that the native runtime reserves for squares of so many tokens: the peak of its parts, each with the
 * inputs that it rounds and a workspace of 320 KiB a thread. Norms are rounded as they are made, a tile of rows at a
 * time, and stand nowhere as floats; on AMX activations too. The last layer lists the tokens that it finishes. The head
 * works on as many rows at a time as fit 32 MiB of logits.
 *
 * The addon says the same of a model's files (`measureRuntime`). It cannot be asked here: plans are also made of names
 * and configurations without files, and for instruction sets that this machine does not have. A test holds both to the
 * same bytes.
 * @param weights what products multiply by, compressed weights as such
 * @param instructionSet of the machine; with `amx` inputs are rounded otherwise, and for 16-bit weights too
 * @param attention where the processor attends; undefined where a GPU does
 */
export function workingMemory(
  shape: ModelShape,
  tokens: number,
  threads: number,
  weights: MatmulWeights,
  instructionSet: string | undefined,
  attention: AttentionSetting | undefined,
): WorkingMemory {
  const {
    hiddenSize: h,
    feedForwardSize: f,
    heads,
    kvHeads,
    headDim,
    vocabularySize: v,
    experts,
    feedForwardMatrices,
    residual,
    rotaryElements,
    mixers = [],
    latent,
  } = shape;
  const floats = (width: number, rows = tokens): number => align(rows * width * 4);
  const amx = instructionSet === 'amx';
  const rounds = amx ? weights !== 'f32' : weights.startsWith('q');
  const rounded = (width: number, rows = tokens): number =>
    rounds ? align((amx ? toBfloat16 : toGroups)(width, rows)) : 0;
  const workspaces = align(threads * WORKSPACE_BYTES);
  // What attention or another mixer makes of a token, and what layers project beside queries, keys and values.
  const query = Math.max(heads * headDim, ...mixers.map(({ mixed }) => mixed));
  const attended = latent ? heads * latent.value : query;
  const keysAndQueries = headDim * (heads + 2 * kvHeads);
  const beside = Math.max(
    0,
    ...(latent ? [] : mixers).map(({ projected, window }) =>
      window === undefined ? projected : projected - keysAndQueries,
    ),
  );
  // A norm's rows as a product's input: the bytes that stay, and those that are there while they are made.
  const normed = rounds ? rounded(h) : floats(h);
  const whileNormed = rounds ? rounded(h) + align(threads * (amx ? BFLOAT16_ROWS : GROUP_ROWS) * h * 4) : normed;
  const activatedOf = (width: number): number => (amx && rounds ? 0 : floats(width)) + rounded(width);
  const activated = activatedOf(f);
  const shared = experts?.sharedSize ?? 0;
  const routed = experts
    ? floats(experts.count) +
      align(threads * experts.count * 4) +
      2 * floats(experts.perToken) +
      2 * floats(1) +
      2 * floats(h) +
      (feedForwardMatrices === 3 ? 2 : 1) * floats(f) +
      Math.max(rounded(h), rounded(f)) +
      workspaces
    : rounded(h) + activated + workspaces;
  const feedForward =
    shared === 0 ? routed : Math.max(routed, rounded(h) + 3 * floats(1) + floats(h) + activatedOf(shared) + workspaces);
  const direct = residual === 'pre' && !experts;
  const finish = direct
    ? Math.max(rounded(attended) + workspaces, whileNormed, normed + activated + workspaces)
    : 2 * floats(h) + Math.max(rounded(attended) + workspaces, (residual === 'parallel' ? floats(h) : 0) + feedForward);
  const project = latent
    ? floats(headDim) +
      floats(heads * (latent.plain + latent.rotated)) +
      Math.max(
        whileNormed,
        normed + workspaces + (latent.queryRank === 0 ? 0 : floats(latent.queryRank) + rounded(latent.queryRank)),
        rounded(latent.plain) + workspaces,
      )
    : Math.max(
        whileNormed,
        (residual === 'post' || residual === 'branch' ? rounded(h) : normed) +
          2 * floats(kvHeads * headDim) +
          workspaces,
      );
  const expand = latent ? floats(heads * latent.value) + rounded(latent.rank) + workspaces : 0;
  const rows = Math.min(tokens, Math.min(256, Math.max(8, Math.floor((32 * 2 ** 20) / (v * 4)))));
  const head =
    floats(h, rows) + floats(v, rows) + threads * align(v * 8) + floats(1, rows) + rounded(h, rows) + workspaces;
  const attend = attention ? attentionScratchBytes(shape, threads, attention) : 0;
  return {
    scratchBytes: Math.max(finish + floats(1), project, attend, expand, head),
    activationBytes: floats(h) + floats(query) + floats(rotaryElements) + floats(beside),
  };
}
