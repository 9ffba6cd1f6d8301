import { errorOf } from '../../errors/errorOf.js';
import { UsageError } from '../../errors/UsageError.js';
import type { ModelSource } from '../../model/ModelSource.js';
import { FollowingRun } from '../execution/FollowingRun.js';
import type { NativeDevice } from '../execution/NativeDevice.js';
import type { Run } from '../execution/Run.js';
import type { RunRow } from '../execution/RunRow.js';
import type { SquareRunSetup } from '../execution/SquareRun.js';
import { NO_PAGES } from '../grid/pageCounts.js';
import type { PagePool } from '../memory/PagePool.js';
import type { Opened } from '../open/Opened.js';
import type { ResultIdentity } from '../open/resultIdentity.js';
import { acceptBegin, acceptPrompts, beginOf, peerFacts, type PeerFacts } from '../peers/begin.js';
import { checkEmbeds, checkMovesPages, checkPeers, sharesModel } from '../peers/checkPeers.js';
import type { Peers } from '../peers/PeerConnection.js';
import { ComputedPrompts, type ComputedPrompt } from '../execution/ComputedPrompts.js';
import { PromptedRows } from '../execution/PromptedRows.js';
import { movingPages, type MovingMemory } from '../peers/pageStretches.js';
import { connectPeers, type ConnectedPeers } from '../peers/sockets/connectPeers.js';
import { engineFacts, type EngineFacts } from '../peers/sockets/EngineFacts.js';
import { PeerListener, type ListeningEngine } from '../peers/sockets/PeerListener.js';
import type { ListenOptions, SocketOptions } from '../peers/sockets/SocketOptions.js';
import { refuseEncoder } from './AnswerRuns.js';
import { checkFollowOptions } from './checkRunOptions.js';
import type { FollowOptions } from './Generation.js';

/** An engine, as runs for other engines need it. */
export interface PeerHost {
  readonly source: ModelSource;
  readonly resultIdentity: ResultIdentity;
  readonly opened: Opened;
  readonly pool: PagePool;
  readonly device: NativeDevice;
  /** @throws UsageError where it has been closed */
  readonly checkOpen: () => void;
  readonly setup: (options: FollowOptions) => SquareRunSetup;
  /** The run ends with the engine. */
  readonly track: (run: FollowingRun) => void;
  /** A run of these rows, by the engine's own schedule. */
  readonly start: (rows: AsyncIterator<RunRow<ComputedPrompt>>, options: FollowOptions) => Run<ComputedPrompt>;
}

/** The runs that an engine makes for others of the same model, and the ways to them. */
export class PeerRuns {
  private readonly listeners = new Set<PeerListener>();
  /** Resolves when all runs that have followed are over. */
  private followed: Promise<unknown> = Promise.resolve();
  private closed = false;
  /** Pages of the cache that are kept for prompts on their way. */
  private keptPages = 0;

  constructor(private readonly host: PeerHost) {}

  get facts(): PeerFacts {
    const { source, resultIdentity, opened } = this.host;
    return peerFacts(source.decoder, opened, resultIdentity.model);
  }

  /** A run that computes this engine's layers for the rows of another one. */
  following(peers: Peers, options: FollowOptions): FollowingRun {
    this.host.checkOpen();
    checkFollowOptions(options);
    const { grid } = this.host.opened;
    checkEmbeds('follow', grid, false);
    if (!sharesModel(grid))
      throw new UsageError(
        'following: found an engine of all layers, expected one of some, or of a share of each: by `follow` it computes prompts',
      );
    checkPeers(peers);
    const run = new FollowingRun({
      ...this.host.setup(options),
      peers,
      turn: () => {
        const before = this.followed;
        this.followed = before.then(() => run.drained);
        return before;
      },
      join: (begin) => {
        const next = acceptBegin(begin, this.facts);
        void run.drained.then(this.host.pool.limitTo(next.pages, next.cache.mostFetchedPages));
        return next;
      },
    });
    this.host.track(run);
    return run;
  }

  /** A run that computes prompts for an engine of all layers, as this one is. */
  prompts(
    peers: Peers,
    options: FollowOptions,
  ): { readonly run: Run<ComputedPrompt>; readonly prompts: ComputedPrompts } {
    const { source, opened, pool, device, start, checkOpen } = this.host;
    checkOpen();
    checkFollowOptions(options);
    checkPeers(peers);
    refuseEncoder('follow', source);
    checkMovesPages(opened);
    const { pageTokens, pageBytes } = opened.cache;
    const prompts = new ComputedPrompts({
      peers,
      accept: (begin) => acceptPrompts(begin, this.facts),
      vocabularySize: source.decoder.vocabularySize,
      pageTokens,
      pageBytes,
      longest: () => Math.min(pool.rowLimit.tokens, source.decoder.contextTokens),
      keep: () => this.keep(),
      read: (row, stretch) => device.readPages(run.id, row, stretch),
    });
    const started = (): Run<ComputedPrompt> => {
      try {
        return start(prompts, options);
      } catch (error) {
        prompts.close(errorOf(error));
        throw error;
      }
    };
    const run = started();
    return { run, prompts };
  }

  /** Rows whose prompts another engine computes. */
  prompted<Result>(rows: AsyncIterator<RunRow<Result>>, peers: Peers): PromptedRows<Result> {
    const { cache, grid } = this.host.opened;
    const { pageTokens, pageBytes } = cache;
    const mostAsked = grid.slots * grid.rowsPerSlot;
    const begin = beginOf(this.facts);
    return new PromptedRows(rows, { peers, begin, pageTokens, pageBytes, mostAsked, keep: () => this.keep() });
  }

  /** Keeps pages of the cache from rows: prompts on their way take the memory of those that none has touched yet. */
  private keep(): MovingMemory {
    const { source, opened, pool } = this.host;
    const { pages, pageTokens, pageBytes } = opened.cache;
    const { contextTokens } = source.decoder;
    const left = pages - this.keptPages;
    const kept = movingPages({ pages: left, pageTokens, pageBytes, contextTokens });
    const untouched = left - pool.peakUsed.memory;
    this.keptPages += kept;
    const unlimited = pool.limitTo({ ...NO_PAGES, memory: left - kept });
    let given = false;
    return {
      bytes: Math.max(0, Math.min(kept, untouched)) * pageBytes,
      giveBack: () => {
        if (!given) this.keptPages -= kept;
        given = true;
        unlimited();
      },
    };
  }

  /** The ends of a ring over sockets, for a run of this engine's. */
  async connect(addresses: readonly string[], options: SocketOptions | undefined): Promise<ConnectedPeers> {
    const { opened, checkOpen } = this.host;
    checkOpen();
    checkEmbeds('connect', opened.grid, true);
    if (!sharesModel(opened.grid)) checkMovesPages(opened);
    return connectPeers(this.socketFacts, addresses, options);
  }

  /**
   * Serves this engine's layers, or prompts, over sockets.
   * @param follow what is done with a run that somebody dials for
   */
  async listen(
    address: string,
    options: ListenOptions | undefined,
    follow: ListeningEngine['follow'],
  ): Promise<PeerListener> {
    const { opened, checkOpen } = this.host;
    checkOpen();
    checkEmbeds('listen', opened.grid, false);
    const prompts = !sharesModel(opened.grid);
    if (prompts) checkMovesPages(opened);
    const { layers, ...facts } = this.socketFacts;
    const engine = { facts: { ...facts, layers: { ...layers, ...(prompts && { prompts }) } }, follow };
    const listener = await PeerListener.open(engine, address, options);
    if (this.closed) {
      await listener.close();
      checkOpen();
    }
    this.listeners.add(listener);
    return listener;
  }

  /** Ends what listens. */
  async close(): Promise<void> {
    this.closed = true;
    await Promise.all([...this.listeners].map((listener) => listener.close()));
  }

  private get socketFacts(): EngineFacts {
    const { source, resultIdentity, opened } = this.host;
    return engineFacts(source.decoder, resultIdentity, opened.grid, opened.cache.pageBytes);
  }
}
