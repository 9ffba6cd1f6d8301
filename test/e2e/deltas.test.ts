import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { from, lastValueFrom, toArray } from 'rxjs';
import { Engine, offloadGenerate, type RowDelta, type RowInput, type RowResult } from '../../src/index.js';
import { randomNumbers } from '../support/randomSchedule.js';
import { describeGrammars } from '../support/grammars.js';
import { tinyChatModel } from '../support/tinyChatModel.js';
import { collect } from './support.js';

const keyOf = ({ id, sample }: Pick<RowDelta, 'id' | 'sample'>): string => `${id} ${sample ?? ''}`;

/** Deltas of each row, put together; each is looked at by itself. */
class Joined {
  readonly rows = new Map<string, { text: string; reasoning: string; tokens: number[]; count: number }>();

  add({ text, reasoning = '', tokens, ...row }: RowDelta): void {
    // Whole characters.
    expect(Buffer.from(text).toString()).toBe(text);
    const key = keyOf(row);
    const all = this.rows.get(key) ?? { text: '', reasoning: '', tokens: [], count: 0 };
    all.text += text;
    all.reasoning += reasoning;
    all.tokens.push(...tokens);
    all.count++;
    this.rows.set(key, all);
  }

  expectOf(result: RowResult): void {
    const all = this.rows.get(keyOf(result)) ?? { text: '', reasoning: '', tokens: [] };
    expect({ text: all.text, tokens: all.tokens }).toEqual({ text: result.text, tokens: result.tokens });
    expect(all.reasoning).toBe(result.reasoning ?? '');
  }
}

describeGrammars('answers as they grow', () => {
  let model: Awaited<ReturnType<typeof tinyChatModel>>;
  let engine: Engine;
  beforeAll(async () => {
    model = await tinyChatModel();
    engine = await Engine.open({ model: model.path, batchSize: 16 });
  });
  afterAll(async () => {
    await engine.close();
    await model[Symbol.asyncDispose]();
  });

  const schema = {
    type: 'object',
    properties: {
      name: { type: 'string', maxLength: 6 },
      many: { type: 'array', items: { type: 'integer' }, maxItems: 3 },
    },
    required: ['name', 'many'],
    additionalProperties: false,
  };

  /** Rows of every kind: sampled bytes are rarely whole characters, and stop strings end in the middle of others. */
  function drawn(count: number): RowInput[] {
    const random = randomNumbers(7);
    const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)] as T;
    return Array.from({ length: count }, (_, id): RowInput => {
      const stop = Array.from({ length: Math.floor(random() * 4) }, () =>
        Array.from({ length: 1 + Math.floor(random() * 3) }, () =>
          String.fromCharCode(97 + Math.floor(random() * 26)),
        ).join(''),
      );
      return {
        id,
        prompt: `row ${id}`,
        maxNewTokens: 1 + Math.floor(random() * 40),
        temperature: pick([0, 1, 2]),
        seed: id,
        ...(stop.length > 0 && { stop }),
        ...(random() < 0.1 && { samples: 2 }),
        ...(random() < 0.1 && { responseFormat: { type: 'choices', choices: ['yes', 'yes, but', 'näher', '😀'] } }),
        ...(random() < 0.1 && { responseFormat: { type: 'json_schema', schema }, maxNewTokens: 100 }),
        ...(random() < 0.1 && { responseFormat: { type: 'regex', regex: '[a-c]{3,9}(ü|😀)' } }),
      };
    });
  }

  test('deltas put together are the text and tokens of 1,000 rows of every kind', async () => {
    const joined = new Joined();
    const results = await collect(
      engine.generate(drawn(1000), {
        onDelta: (delta) => {
          joined.add(delta);
        },
      }),
    );
    for (const result of results) joined.expectOf(result);
    const grown = [...joined.rows.values()];
    // Most rows have come in pieces.
    expect(grown.filter(({ count }) => count > 1).length).toBeGreaterThan(600);
    expect(results.filter(({ finishReason }) => finishReason === 'stop').length).toBeGreaterThan(100);
  });

  test('results are the same, listened to or not', async () => {
    const plain = await collect(engine.generate(drawn(60)));
    expect(await collect(engine.generate(drawn(60), { onDelta: () => undefined }))).toEqual(plain);
  });

  test('what a schema asks for only grows, up to the value', async () => {
    const rows = Array.from({ length: 12 }, (_, id) => ({ id, prompt: `json ${id}`, temperature: 1, seed: id }));
    const texts = new Map<unknown, string>();
    const results = await collect(
      engine.generate(rows, {
        responseFormat: { type: 'json_schema', schema },
        maxNewTokens: 200,
        onDelta: ({ id, text }) => {
          texts.set(id, (texts.get(id) ?? '') + text);
        },
      }),
    );
    for (const { id, value, error } of results) {
      expect(error).toBeUndefined();
      expect(JSON.parse(texts.get(id) ?? '')).toEqual(value);
    }
  });

  test('events are deltas, and after them the result of their row; equal rows have theirs at once', async () => {
    const rows = [
      ...drawn(20),
      { id: 'same', prompt: 'row 3', maxNewTokens: 9 },
      { id: 'again', prompt: 'row 3', maxNewTokens: 9 },
    ];
    const joined = new Joined();
    const over = new Set<string>();
    const results = engine.generate(rows);
    let count = 0;
    for await (const event of results.events()) {
      if (event.type === 'delta') {
        expect(over).not.toContain(keyOf(event.delta));
        joined.add(event.delta);
      } else {
        joined.expectOf(event.result);
        over.add(keyOf(event.result));
        count++;
      }
    }
    expect(count).toBe(over.size);
    expect(over).toContain('again ');
    expect((await results.stats).rows.done).toBeGreaterThan(20);
  });

  test('who looks on sees the deltas of an iteration', async () => {
    const results = engine.generate(drawn(10));
    const deltas = lastValueFrom(results.deltas$.pipe(toArray()));
    const joined = new Joined();
    const all = await collect(results);
    for (const delta of await deltas) joined.add(delta);
    for (const result of all) joined.expectOf(result);
  });

  test('an operator tells them, too', async () => {
    const joined = new Joined();
    const onDelta = (delta: RowDelta): void => {
      joined.add(delta);
    };
    const results = await lastValueFrom(from(drawn(8)).pipe(offloadGenerate(engine, { onDelta }), toArray()));
    for (const result of results) joined.expectOf(result);
  });

  test('a consumer that stops reading stops its own call alone, and finds what has come put together', async () => {
    const rows = Array.from({ length: 400 }, (_, id) => ({
      id,
      prompt: `row ${id}`,
      maxNewTokens: 30,
      temperature: 1,
      seed: id,
    }));
    let read = 0;
    const endless = (function* () {
      for (let id = 0; ; id++) {
        read++;
        yield { id, prompt: `row ${id}`, maxNewTokens: 4 };
      }
    })();
    const stopped = engine.generate(endless, { lookAhead: { rows: 4 } }).events();
    await stopped.next();
    const others = await collect(engine.generate(rows));
    expect(others).toHaveLength(400);
    for (let before = -1; before !== read; await new Promise((resolve) => setTimeout(resolve, 200))) before = read;
    expect(read).toBeLessThan(3000);
    expect(await stopped.next()).toMatchObject({ value: { type: 'delta' } });
    await stopped.return();
  });

  test("what a callback throws is its call's error", async () => {
    const failing = collect(
      engine.generate(drawn(20), {
        onDelta: () => {
          throw new Error('no more of this');
        },
      }),
    );
    const whole = collect(engine.generate(drawn(20)));
    await expect(failing).rejects.toThrow('no more of this');
    expect((await whole).length).toBeGreaterThan(19);
  });
});

test('results can be iterated over once: by themselves or as events', async () => {
  await using engine = await Engine.open({ model: 'test/fixtures/models/llama-Q4_1.gguf', cpuMemory: '4GiB' });
  const results = engine.generate([{ tokens: [1, 2], maxNewTokens: 2 }]);
  await results.next();
  await expect(results.events().next()).rejects.toThrow('expected one iteration');
  await results.return();
});
