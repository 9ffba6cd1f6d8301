import { once } from 'node:events';
import { setImmediate } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { SpelledNumber } from '../../arguments/jsonNumbers.js';
import { isObject } from '../../arguments/isObject.js';
import { packageRoot } from '../../packageRoot.js';
import { Template, type Given } from './jinja/Template.js';

/** How a rendering ended. */
export type Rendered = { readonly text: string } | { readonly failure: unknown };

const THREAD = `
  const { parentPort, workerData: { module, source, given } } = require('node:worker_threads');
  import(module).then(({ Template }) => {
    let rendered;
    try {
      rendered = { text: new Template(source).render(given) };
    } catch (failure) {
      rendered = { failure };
    }
    parentPort.postMessage(rendered);
  });`;
/** Texts are made and dropped; a larger heap of young ones would only take more memory. */
const YOUNG_MIB = 4;
/** Lists that a template makes of a long conversation; where they take more, the row has an error. */
const OLD_MIB = 1024;

/** Threads take memory that no cap counts: there is one at a time. */
let last: Promise<unknown> = Promise.resolve();

/**
 * The rendering of a template on a thread of its own, where it may take seconds of processor time: templates come with
 * the model's file.
 */
export class ThreadRendering {
  rendered: Rendered | undefined;
  /** Resolves when it is rendered, or ended. */
  readonly over: Promise<void>;
  #worker: Worker | undefined;
  #ended = false;

  constructor(source: string, given: Given) {
    this.over = last.then(() => this.#run(source, given));
    last = this.over;
  }

  /** Nobody waits for it any more. */
  end(): void {
    this.#ended = true;
    void this.#worker?.terminate();
  }

  async #run(source: string, given: Given): Promise<void> {
    if (this.#ended) return;
    try {
      // Tests have sources, which no thread reads.
      this.rendered = import.meta.url.endsWith('.ts') ? rendered(source, given) : await this.#onThread(source, given);
    } catch (failure) {
      if (this.#ended) return;
      // The system, or how Node was started, may allow no thread.
      this.rendered = isOutOfMemory(failure) ? { failure } : rendered(source, given);
    }
  }

  async #onThread(source: string, given: Given): Promise<Rendered> {
    // The command line is bundled into other files.
    const module = new URL('dist/model/tokenizer/jinja/Template.js', packageRoot().folder).href;
    // To start a thread takes a turn of the event loop for itself: it gets a copy of all that it is given.
    await setImmediate();
    const variables = withTexts(given.variables);
    const worker = new Worker(THREAD, {
      eval: true,
      // The program's own flags, and those of NODE_OPTIONS, may say that what is evaluated is a module, or load others.
      execArgv: [],
      env: {},
      workerData: { module, source, given: { ...given, variables } },
      resourceLimits: { maxYoungGenerationSizeMb: YOUNG_MIB, maxOldGenerationSizeMb: OLD_MIB },
    });
    this.#worker = worker;
    try {
      const [rendered] = (await Promise.race([once(worker, 'message'), ended(worker)])) as [Rendered];
      return rendered;
    } finally {
      await worker.terminate();
    }
  }
}

function rendered(source: string, given: Given): Rendered {
  try {
    return { text: new Template(source).render(given) };
  } catch (failure) {
    return { failure };
  }
}

/** Tells whether a thread ended for want of memory: rendered elsewhere the template would end the process. */
function isOutOfMemory(failure: unknown): boolean {
  return failure instanceof Error && 'code' in failure && failure.code === 'ERR_WORKER_OUT_OF_MEMORY';
}

/** @throws Error */
async function ended(worker: Worker): Promise<never> {
  await once(worker, 'exit');
  throw new Error('the thread of the rendering ended');
}

/** Plain data, of which a thread is given numbers with a spelling as objects of their text. */
function withTexts(value: unknown): unknown {
  if (value instanceof SpelledNumber) return new String(value.spelling);
  if (Array.isArray(value)) return value.map(withTexts);
  if (!isObject(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, withTexts(member)]));
}
