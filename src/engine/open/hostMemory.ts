import { highest } from '../../collections/highest.js';
import { MemoryBudgetError } from '../../errors/MemoryBudgetError.js';
import { HEAP_MARGIN_BYTES, NATIVE_GROWTH_BYTES, ROW_LEDGER_BYTES, typicalProcessBytes } from '../../plan/reserves.js';

/**
 * A process that holds no more than this beyond the typical one is typical: a search for a plan, or a heap that is
 * collected a little later, leaves what the heap takes again as it grows, in its margin. (126 to 158 MiB in all were
 * found after searches.)
 */
const UNEVEN_BYTES = 48 * 2 ** 20;
/**
 * The next start of a process that holds more may find so much more; what is advised for it is a multiple of the step.
 */
const NEXT_START_MORE_BYTES = 16 * 2 ** 20;
const ADVICE_STEP_BYTES = 32 * 2 ** 20;

export interface ProcessBytes {
  /**
   * The bytes that count against the cap at this start, and for a typical process at every start: what it really holds
   * differs by megabytes, and a budget may not.
   */
  readonly residentBytes: number;
  /** The same at the next start, at most: what advice has to reckon with. */
  readonly nextStartBytes: number;
}

/**
 * Says what a process is taken to hold before its runtime is opened.
 * @param residentBytes what it does hold
 */
export function processBytes(residentBytes: number, vocabularySize: number): ProcessBytes {
  const typical = typicalProcessBytes(vocabularySize);
  if (residentBytes <= typical + UNEVEN_BYTES) return { residentBytes: typical, nextStartBytes: typical };
  return {
    residentBytes,
    nextStartBytes: Math.ceil((residentBytes + NEXT_START_MORE_BYTES) / ADVICE_STEP_BYTES) * ADVICE_STEP_BYTES,
  };
}

/**
 * Says what an engine takes of a budget that several share: all that it reserves, but for the room of the JavaScript
 * heap, which counts once; of that room, what its own rows may take. Pure.
 */
export function sharedBytes({ reservedBytes }: Pick<HostPlan, 'reservedBytes'>): number {
  return reservedBytes - HEAP_MARGIN_BYTES + ROW_LEDGER_BYTES;
}

/**
 * Says what the JavaScript heap and its buffers may take once the runtime has been opened: of the cap, what is left
 * beside what the runtime reserves, what the process holds outside of its heap, and what that grows by
 * (`NATIVE_GROWTH_BYTES`). Pure.
 * @param residentBytes what the process held when it was laid out, and `heapBytes` of it the heap
 */
export function heapLimitBytes(
  capBytes: number,
  { reservedBytes }: Pick<HostPlan, 'reservedBytes'>,
  { residentBytes, heapBytes }: { readonly residentBytes: number; readonly heapBytes: number },
): number {
  const outside = Math.max(0, residentBytes - heapBytes) + NATIVE_GROWTH_BYTES;
  return capBytes - (reservedBytes - HEAP_MARGIN_BYTES) - outside;
}

/** The demand that has to fit under a cap on the process, wherever the weights are. */
interface HostDemand extends ProcessBytes {
  /** Cap on resident memory. */
  readonly capBytes: number;
  /** One page of cache in every layer. */
  readonly pageBytes: number;
  /** Pages of the shortest row that an engine must have room for. */
  readonly minPages: number;
}

/** All weights are in memory. */
export interface ResidentDemand extends HostDemand {
  readonly weightBytes: number;
  /** Scratch, hidden states of all slots, buffers. */
  readonly workingBytes: number;
  /** Pages beyond which more would never be used. */
  readonly maxPages: number;
}

/** A part of each layer's weights streams from disk in every pass. */
export interface StreamingDemand extends HostDemand {
  /**
   * Scratch, activations of all slots, and the weights that are resident in any case: those of no layer, norms and
   * biases.
   */
  readonly fixedBytes: number;
  /** The other weights of each layer, any part of which can stream. */
  readonly layerBytes: readonly number[];
  /** Layers that are in memory at once while they stream. */
  readonly buffers: number;
  /** Pages of a full block of rows of expected length. */
  readonly blockPages: number;
  /** Pages of the longest row that is to come: weights make way for them. */
  readonly longRowPages: number;
  /**
   * The share of the layers' weights that is to be resident, where somebody has decided it; else what is left when the
   * cache has its pages.
   */
  readonly residentShare?: number | undefined;
  /** That share is a plan's: it makes way for the longest row, too. */
  readonly shareYields?: boolean;
  /** The bytes pinned in addition for what streams to a GPU, as far as what is needed leaves room for them. */
  readonly morePinnedBytes: number;
}

/** The uses of the host's memory. */
export interface HostPlan {
  /** Pages of the KV cache. */
  readonly pages: number;
  /** Bytes the runtime reserves. */
  readonly reservedBytes: number;
  /** The part of `layerBytes` that stays in memory of each layer for good; undefined where nothing streams. */
  readonly residentLayerBytes?: number;
  /** The bytes pinned beyond those for a GPU that nothing streams to. */
  readonly morePinnedBytes?: number;
}

/**
 * How many KV pages the cap leaves room for beside all weights. Pure.
 * @throws MemoryBudgetError with the smallest cap that works: see `refusal`
 */
export function planResident(demand: ResidentDemand): HostPlan {
  const { capBytes, residentBytes, weightBytes, workingBytes, pageBytes, minPages, maxPages } = demand;
  const needed = HEAP_MARGIN_BYTES + weightBytes + workingBytes;
  const affordable = Math.floor((capBytes - residentBytes - needed) / pageBytes);
  if (affordable < minPages) throw refusal(demand, needed, 'the model with its working memory');
  const pages = Math.min(affordable, maxPages);
  return { pages, reservedBytes: needed + pages * pageBytes };
}

/**
 * Divides the cap between KV cache and weights for a model that does not fit. A row more in a pass costs nothing on
 * disk, so the cache of a full block comes first; what is left is pinned for what streams, little of it, and keeps a
 * part of every layer in memory. Pure.
 * @throws MemoryBudgetError with the smallest cap that works: see `refusal`
 */
export function planStreaming(demand: StreamingDemand): HostPlan {
  const { capBytes, residentBytes, fixedBytes, pageBytes, layerBytes, buffers, minPages, blockPages, longRowPages } =
    demand;
  const largest = Math.max(...layerBytes);
  const resident = (bytes: number): number => layerBytes.reduce((sum, all) => sum + Math.min(all, bytes), 0);
  // A byte of each layer that is resident costs that byte a layer, and saves it in each buffer.
  const weights = (bytes: number): number => resident(bytes) + buffers * Math.max(0, largest - bytes);
  // Of all bytes: where layers differ, less of the larger ones.
  const { residentShare: share } = demand;
  const asked =
    share === undefined ? undefined : highest(0, largest, (bytes) => resident(bytes) <= share * resident(largest));
  const least = demand.shareYields ? 0 : (asked ?? 0);
  const needed = HEAP_MARGIN_BYTES + fixedBytes + weights(least);
  const room = capBytes - residentBytes - needed;
  if (room < minPages * pageBytes) throw refusal(demand, needed, 'the model, streaming from disk,');
  // A block's pages do not make a share of the weights yield that was decided for them.
  const beside = Math.floor((room - (weights(asked ?? least) - weights(least))) / pageBytes);
  // Of a block of few and short rows one may be longer than expected: what every budget holds, it gets.
  const pages = Math.min(Math.max(Math.min(blockPages, beside), minPages, longRowPages), Math.floor(room / pageBytes));
  const spare = room - pages * pageBytes;
  const most = asked ?? largest;
  const kept = (spareBytes: number): number =>
    highest(least, most, (bytes) => weights(bytes) - weights(least) <= spareBytes);
  const morePinnedBytes = kept(spare) === largest ? 0 : Math.min(demand.morePinnedBytes, spare);
  const residentLayerBytes = kept(spare - morePinnedBytes);
  return {
    pages,
    residentLayerBytes,
    morePinnedBytes,
    reservedBytes: HEAP_MARGIN_BYTES + fixedBytes + weights(residentLayerBytes) + morePinnedBytes + pages * pageBytes,
  };
}

/**
 * The refusal of a cap that holds not even one row. The smallest cap that works, which it names, is the sum of
 *
 * - what the process will hold before the engine is opened when it is started again with that cap (`nextStartBytes`),
 * - what is needed whatever the rows are: working memory, the margin for the JavaScript heap, and weights,
 * - the pages of one row, of 512 tokens or the model's context if that is shorter (`minPages`).
 *
 * That is the number for one block and one place of the weights. `firstFit` tries several (the block that was planned
 * and smaller ones down to a row alone, each with all weights in memory and then streaming); where none fits, the
 * smallest of their numbers is the one that the caller hears.
 */
function refusal(
  { capBytes, nextStartBytes, minPages, pageBytes }: HostDemand,
  needed: number,
  what: string,
): MemoryBudgetError {
  return new MemoryBudgetError('cpu', capBytes, nextStartBytes + needed + minPages * pageBytes, what);
}

/**
 * Gives what is made of the first choice that fits and holds a row of `wanted` tokens; where none holds one, of that
 * which holds the longest row. So the longest row that is answered grows with the cap, whatever each choice makes of
 * one: a larger cap has all choices of a smaller one, and each holds as much in it, or more.
 * @param longestRow of what was made. By default every row fits
 * @throws MemoryBudgetError, the smallest of all, where none fits. A choice that fits the GPU has got further than one
 * that does not
 */
export function firstFit<Choice, Made>(
  choices: Iterable<Choice>,
  make: (choice: Choice) => Made,
  wanted = 0,
  longestRow: (made: Made) => number = () => Infinity,
): Made {
  let smallest: MemoryBudgetError | undefined;
  let best: { readonly made: Made; readonly tokens: number } | undefined;
  for (const choice of choices) {
    try {
      const made = make(choice);
      const tokens = longestRow(made);
      if (tokens >= wanted) return made;
      if (best === undefined || tokens > best.tokens) best = { made, tokens };
    } catch (error) {
      if (!(error instanceof MemoryBudgetError)) throw error;
      if (smallest === undefined || isSmaller(error, smallest)) smallest = error;
    }
  }
  if (best !== undefined) return best.made;
  throw smallest ?? new RangeError('no choice was given');
}

function isSmaller(error: MemoryBudgetError, than: MemoryBudgetError): boolean {
  return error.tier === than.tier ? error.neededBytes < than.neededBytes : error.tier === 'cpu';
}

/** The bytes that a place for a row takes beside its cache: its tokens and parameters. */
const PLACE_BYTES = 8192;
/**
 * The share that rows may bring of what a plan leaves of the cap: what is made of them on the way takes as much again.
 */
const SPARE_SHARE = 1 / 4;
const MOST_SPARE_BYTES = 256 * 2 ** 20;

/**
 * Says what rows that are in flight may take together, and their results, until these are handed on. A part of the
 * margin for the JavaScript heap in any case; more where the cap leaves more, and where many rows are computed at once.
 */
export function rowLedgerBytes(
  {
    reserved: { capBytes, hostBytes },
    grid: { slots, rowsPerSlot },
  }: {
    readonly reserved: { readonly capBytes: number; readonly hostBytes: number };
    readonly grid: { readonly slots: number; readonly rowsPerSlot: number };
  },
  vocabularySize: number,
): number {
  const spare = capBytes - typicalProcessBytes(vocabularySize) - hostBytes;
  const more = Math.min(MOST_SPARE_BYTES, Math.max(0, Math.floor(spare * SPARE_SHARE)));
  return ROW_LEDGER_BYTES + Math.max(more, slots * rowsPerSlot * PLACE_BYTES);
}
