import type { ModelShape } from '../ModelShape.js';
import { matmulKind } from './computeSeconds.js';

const align = (bytes: number): number => Math.ceil(bytes / 64) * 64;

/** Memory that computing takes beside weights and cache. */
export interface WorkingMemory {
  readonly scratchBytes: number;
  /** Hidden states, queries and rotary tables of one slot. */
  readonly activationBytes: number;
}

/** To what a product's inputs are rounded: 8 bits (512 bytes for 4 rows of 32 values), or on AMX bfloat16 (64 bytes for 32 values of a row). */
type Rounding = (width: number, rows: number) => number;
const toGroups: Rounding = (width, rows) => Math.ceil(rows / 4) * (width / 32) * 512;
const toBfloat16: Rounding = (width, rows) => rows * Math.ceil(width / 32) * 64;

/**
 * What the native runtime reserves for squares of so many tokens: the peak of its parts, each with the inputs that it rounds and a workspace of 64 KiB a
 * thread. The head works on as many rows at a time as fit 32 MiB of logits.
 * @param instructionSet of the machine; with `amx` inputs are rounded otherwise, and for 16-bit weights too
 */
export function workingMemory(shape: ModelShape, tokens: number, threads: number, instructionSet?: string): WorkingMemory {
  const { hiddenSize: h, feedForwardSize: f, heads, kvHeads, headDim, vocabularySize: v, experts, feedForwardMatrices, parallelBranches, rotaryElements } = shape;
  const floats = (width: number, rows = tokens): number => align(rows * width * 4);
  const amx = instructionSet === 'amx';
  const kind = matmulKind(shape, 'none');
  const rounds = amx ? kind !== 'f32' : kind.startsWith('q');
  const rounded = (width: number, rows = tokens): number => (rounds ? align((amx ? toBfloat16 : toGroups)(width, rows)) : 0);
  const workspaces = threads * 65_536;
  const query = heads * headDim;
  const inner = feedForwardMatrices === 3 ? 2 : 1;
  const block = inner * floats(f) + Math.max(rounded(h), rounded(f)) + workspaces;
  const mixture = experts ? floats(experts.count) + 2 * floats(experts.perToken) + 2 * floats(1) + 2 * floats(h) : 0;
  const finish = 2 * floats(h) + Math.max(rounded(query) + workspaces, (parallelBranches ? floats(h) : 0) + block + mixture);
  const project = floats(h) + 2 * floats(kvHeads * headDim) + rounded(h) + workspaces;
  const rows = Math.min(tokens, Math.min(256, Math.max(8, Math.floor((32 * 2 ** 20) / (v * 4)))));
  const head = floats(h, rows) + floats(v, rows) + threads * align(v * 8) + floats(1, rows) + rounded(h, rows) + workspaces;
  return { scratchBytes: Math.max(finish, project, head), activationBytes: floats(h) + floats(query) + floats(rotaryElements) };
}
