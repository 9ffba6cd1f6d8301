import { Semaphore } from '../../collections/Semaphore.js';
import { PeerError } from '../../errors/engineErrors.js';
import { GREEDY } from './greedy.js';
import type { RunRow } from './RunRow.js';
import type { GivenPages } from '../grid/Device.js';
import type { RowId } from '../grid/Square.js';
import type { HeadOutput } from '../grid/Task.js';
import { checkMessage } from '../peers/checkMessage.js';
import type { Peers } from '../peers/PeerConnection.js';
import type { BeginMessage, PeerMessage, PromptMessage } from '../peers/PeerMessage.js';
import { bytesOfPrompt, pageStretches, type MovingMemory, type PageStretch } from '../peers/pageStretches.js';

export interface ComputedSetup {
  readonly peers: Peers;
  /** Says whether the engine that asks fits this one, and what it gets to hear. @throws PeerError */
  readonly accept: (begin: BeginMessage) => BeginMessage;
  readonly vocabularySize: number;
  readonly pageTokens: number;
  readonly pageBytes: number;
  /** The longest row that can be computed. */
  readonly longest: () => number;
  /** Asked once, before a prompt is let in. */
  readonly keep: () => MovingMemory;
  /** Copies pages of a row of the run. */
  readonly read: (row: RowId, stretch: PageStretch) => Uint8Array;
}

/** A prompt that has been computed, and what of it is on its way. */
export interface ComputedPrompt {
  readonly number: number;
  readonly pages: readonly (PageStretch & { readonly values: Uint8Array })[];
}

/** The prompts that another engine asks for, as rows of a run here; and the way back. */
export class ComputedPrompts implements AsyncIterator<RunRow<ComputedPrompt>> {
  private readonly messages: AsyncIterator<PeerMessage>;
  /** The bytes of prompts that have been let in and not been sent. */
  private readonly moving: Semaphore;
  private readonly memory: MovingMemory;
  private begun = false;

  constructor(private readonly setup: ComputedSetup) {
    this.messages = setup.peers.source[Symbol.asyncIterator]();
    this.memory = setup.keep();
    this.moving = new Semaphore({ count: Infinity, least: 1, weight: this.memory.bytes });
  }

  async next(): Promise<IteratorResult<RunRow<ComputedPrompt>, undefined>> {
    for (;;) {
      const step = await this.messages.next();
      if (step.done === true) return { done: true, value: undefined };
      const message = checkMessage(step.value);
      if (message.kind !== (this.begun ? 'prompt' : 'begin'))
        throw new PeerError(`message: found "${message.kind}", expected "${this.begun ? 'prompt' : 'begin'}"`);
      if (message.kind === 'begin') {
        this.begun = true;
        await this.setup.peers.sink.send(this.setup.accept(message));
      }
      if (message.kind !== 'prompt') continue;
      this.check(message);
      const { row: number, tokens } = message;
      const bytes = bytesOfPrompt(tokens.length, this.setup);
      if (tokens.length > this.setup.longest() || bytes > this.memory.bytes) {
        await this.setup.peers.sink.send({
          kind: 'pages',
          row: number,
          first: 0,
          last: true,
          values: new Uint8Array(0),
        });
        continue;
      }
      await this.moving.room(bytes);
      this.moving.take(bytes);
      return { done: false, value: new PromptRow(message, this.setup) };
    }
  }

  return(): Promise<IteratorResult<RunRow<ComputedPrompt>, undefined>> {
    this.moving.open();
    this.messages.return?.().catch(() => undefined);
    return Promise.resolve({ done: true, value: undefined });
  }

  /** Sends a prompt's pages, message by message as they are taken. @throws PeerError (rejects) */
  async send({ number, pages }: ComputedPrompt): Promise<void> {
    for (const [index, { first, values }] of pages.entries())
      await this.setup.peers.sink.send({ kind: 'pages', row: number, first, last: index === pages.length - 1, values });
    this.moving.release(pages.reduce((sum, { values }) => sum + values.length, 0));
  }

  /** No prompt follows. @param error why, where the run has failed */
  close(error?: Error): void {
    this.setup.peers.sink.close(error);
    void this.return();
    this.memory.giveBack();
  }

  private check({ tokens, promptTokens }: PromptMessage): void {
    const { vocabularySize } = this.setup;
    const other = tokens.find((token) => token >= vocabularySize);
    if (other !== undefined) throw new PeerError(`prompt.tokens: found ${other}, expected ids under ${vocabularySize}`);
    if (tokens.length < 2) throw new PeerError(`prompt.tokens: found ${tokens.length}, expected at least 2`);
    if (promptTokens < 1) throw new PeerError(`prompt.promptTokens: found ${promptTokens}, expected at least 1`);
  }
}

/**
 * Pages that begin empty. No peer may see what stood in a page after so many tokens: their last page is such a one,
 * unless they fill it. So is that of a beginning that prompts have in common, of which theirs may begin as a copy.
 */
function emptyAfter(tokens: number, setup: Pick<ComputedSetup, 'pageTokens' | 'pageBytes'>): GivenPages {
  const { pageTokens, pageBytes } = setup;
  return {
    tokens: 0,
    take: () =>
      tokens % pageTokens === 0
        ? []
        : [{ first: Math.floor(tokens / pageTokens), count: 1, values: new Uint8Array(pageBytes) }],
    beginning: (first) => emptyAfter(first, setup),
  };
}

/** A prompt: when its last token has been through all layers, its pages are copied. */
class PromptRow implements RunRow<ComputedPrompt> {
  readonly newTokens = 1;
  readonly sequence;

  constructor(
    private readonly message: PromptMessage,
    private readonly setup: ComputedSetup,
  ) {
    const { tokens, promptTokens } = message;
    const given = emptyAfter(tokens.length, setup);
    this.sequence = { ...GREEDY, tokens, promptTokens, capacityTokens: tokens.length + 1, given };
  }

  accept({ sampled }: HeadOutput, row: RowId): ComputedPrompt | undefined {
    // Others of its batch have been sampled from while this prompt was under way.
    if (!sampled.has(row)) return undefined;
    const { read } = this.setup;
    const { row: number, tokens } = this.message;
    const stretches = pageStretches(tokens.length, this.setup);
    return { number, pages: stretches.map((stretch) => ({ ...stretch, values: read(row, stretch) })) };
  }
}
