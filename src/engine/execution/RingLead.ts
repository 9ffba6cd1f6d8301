import { PeerError, ScheduleError } from '../../errors/engineErrors.js';
import type { DeviceRow } from '../grid/Device.js';
import { batchKey, layerBounds, type Batch, type Grid, type RowId, type Square } from '../grid/Square.js';
import type { HeadOutput } from '../grid/Task.js';
import { PageNumbers } from '../memory/PageNumbers.js';
import type { RowPages } from '../memory/RowPages.js';
import type { PeerConnection } from '../peers/PeerConnection.js';
import type { BeginMessage, HeadMessage } from '../peers/PeerMessage.js';
import { announcementOf, squaresOf } from '../peers/sweeps.js';
import type { JudgedRow } from '../schedules/PathChecker.js';
import { checkHead } from './checkHead.js';

export interface RingLeadSetup {
  readonly grid: Grid;
  /** The run's message to its peers about itself. */
  readonly begin?: BeginMessage | undefined;
  /**
   * Parts of the block that sweep in turn. Default: as many as there are slots; where an engine streams weights, once
   * for each part, as many as there are engines.
   */
  readonly microBatches?: number | undefined;
}

/**
 * Where only some of the model's layers, or a share of them, are here: the others' engines are told what comes, and
 * what their head finds comes back from them. Until then a batch stays in use, but holds no credit.
 */
export class RingLead {
  /** True where the layers after these are computed elsewhere: heads come back from there. */
  readonly headAtPeer: boolean;
  /** The engines of the other layers have said what they add to the run. */
  begun = false;
  private readonly firstLayer: number;
  private readonly lastLayer: number;
  /** How the engines of the other layers name pages that rows share. */
  private readonly numbers: PageNumbers;
  /** Batches whose head is elsewhere and has not come back, by pass and slot. */
  private readonly returning = new Map<string, Batch>();

  constructor(
    private readonly setup: RingLeadSetup,
    private readonly connection: PeerConnection,
    pageTokens: number,
  ) {
    const { first, last, samples } = layerBounds(setup.grid);
    this.firstLayer = first;
    this.lastLayer = last;
    this.headAtPeer = !samples;
    this.numbers = new PageNumbers(pageTokens);
  }

  /** Nothing is on its way to the head, or back. */
  get idle(): boolean {
    return this.returning.size === 0;
  }

  begin(): void {
    this.connection.start();
    if (this.setup.begin) this.connection.post(this.setup.begin);
  }

  /** The engines of the other layers have joined. @returns the grid that all have @throws PeerError */
  joined(message: BeginMessage): Grid {
    this.begun = true;
    const { nextLayer, model, share } = message;
    if (nextLayer !== model.layers)
      throw new PeerError(`layers: found engines of the first ${nextLayer}, expected engines of all ${model.layers}`);
    const shares = this.setup.grid.share?.of;
    if (share?.of !== shares || share?.next !== shares)
      throw new PeerError(
        `tensorParallel: found engines of the first ${share?.next ?? 0} shares, expected those of all ${shares ?? 0}`,
      );
    return this.gridOf(message);
  }

  /** The slots that all engines have, and how they are divided. @throws PeerError */
  private gridOf({ grid: { slots }, engines, streams }: BeginMessage): Grid {
    const { grid } = this.setup;
    // Where all engines have every layer there is nobody to take turns with.
    const { microBatches = grid.share ? 1 : streams ? engines : slots } = this.setup;
    if (!(slots >= 1 && slots <= grid.slots))
      throw new PeerError(`begin.grid.slots: found ${slots}, expected 1 to the ${grid.slots} that were announced`);
    return { ...grid, slots, microBatches: Math.max(1, Math.min(slots, microBatches)) };
  }

  /** A square is about to enter the window: whether its batch goes on to other engines with it. */
  sends({ batch, layer }: Square): boolean {
    if (!this.headAtPeer) return false;
    if (layer === this.firstLayer) this.connection.tokens.expect(batch);
    // A schedule may leave a batch whose rows have ended where it is: only what leaves the layers here comes back.
    if (layer !== this.lastLayer) return false;
    this.returning.set(batchKey(batch), batch);
    return true;
  }

  opened({ row, newTokens, prefix = false }: JudgedRow, sequence: DeviceRow, pages: RowPages): void {
    const sharing = this.numbers.sharedBy(pages);
    this.connection.post({
      kind: 'open',
      row,
      sequence,
      newTokens,
      ...(prefix && { prefix: true }),
      ...(this.setup.grid.share?.attention && { keeper: pages.keeper }),
      ...(sharing && { sharing }),
    });
  }

  /** @param open the run goes on */
  released(row: RowId, open: boolean): void {
    this.connection.tokens.forget(row);
    if (open) this.connection.post({ kind: 'close', row });
  }

  freed(page: number): void {
    this.connection.post({ kind: 'free', page: this.numbers.free(page) });
  }

  /** Tells the peers what will come of a sweep. @throws ScheduleError for one that they could not follow */
  announced(schedule: string, squares: Iterable<Square>, grid: Grid): Iterable<Square> {
    const sweep = [...squares];
    if (sweep.length === 0) return sweep;
    const announcement = announcementOf(sweep, grid);
    this.connection.post(announcement);
    if (!grid.share) return sweep;
    // Engines that share each layer compute the same squares in the same order: that of whoever hears of them.
    if (announcement.batches.length * grid.layers !== sweep.length)
      throw new ScheduleError(
        'complete',
        `${schedule}: a sweep has ${sweep.length} squares, ${announcement.batches.length} of them of the last layer; engines that share each layer take batches through all ${grid.layers} layers in a sweep`,
      );
    return squaresOf(announcement, grid);
  }

  /**
   * Takes what the head found for a batch, which came back from the engine of the last layers.
   * @param sequenceOf of a row that is sampled from
   * @returns the batch @throws PeerError
   */
  returned(
    { pass, slot, output }: HeadMessage,
    sequenceOf: (row: RowId) => DeviceRow | undefined,
  ): { readonly batch: Batch; readonly output: HeadOutput } {
    const key = batchKey({ pass, slot });
    const batch = this.returning.get(key);
    if (!batch)
      throw new PeerError(
        `head: found one for pass ${pass}, slot ${slot}, expected one of a batch that was sent and has not come back`,
      );
    checkHead(batch, output, sequenceOf, this.setup.begin?.model);
    this.returning.delete(key);
    this.connection.tokens.returned(batch, output);
    return { batch, output };
  }
}
