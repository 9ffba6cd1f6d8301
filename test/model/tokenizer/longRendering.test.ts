import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { describe, expect, test } from '@jest/globals';
import { SpelledNumber } from '../../../src/arguments/jsonNumbers.js';
import { inTurns } from '../../../src/collections/inTurns.js';
import { RowError } from '../../../src/errors/RowError.js';
import { Fields } from '../../../src/model/files/Fields.js';
import type { ChatMessage, TemplateInput } from '../../../src/model/Tokenizer.js';
import { ChatTemplate } from '../../../src/model/tokenizer/ChatTemplate.js';
import { Guard } from '../../../src/model/tokenizer/Guard.js';
import { built } from '../../jobs/support/built.js';
import { temporaryFolder } from '../../jobs/support/files.js';

const path = temporaryFolder();

const GUARD = new Guard(new Fields('tokenizer.json'));
const chat = (source: string): ChatTemplate => new ChatTemplate(source, {}, GUARD);
const conversation = (count: number): ChatMessage[] =>
  Array.from({ length: count }, (_, at) => ({ role: at % 2 === 0 ? 'user' : 'assistant', content: `message ${at}` }));

/** Each takes more than a turn of the event loop, in another way. */
const LONG: readonly (readonly [string, string, number])[] = [
  ['steps', '{% for m in messages %}{% for i in range(3000) %}{% set x = i %}{% endfor %}{% endfor %}end', 100],
  [
    'steps of a macro in an expression',
    '{% macro f(n) %}{% for i in range(n) %}{% set x = i %}{% endfor %}{{ n }}{% endmacro %}{{ [f(60000), f(60000), f(60000)]|join }}',
    1,
  ],
  ['text that is made', "{% for m in messages %}{% set x = 'ab' * 60000 %}{% endfor %}end", 40],
  ['text that is gone through', "{% for m in messages %}{% if 'b' in 'a' * 99999 %}{% endif %}{% endfor %}end", 40],
];

describe('a rendering that takes more than a turn of the event loop', () => {
  test.each(LONG)('%s: waits for another thread, and comes to the same', async (_, source, count) => {
    const template = chat(source);
    const first = template.renderInParts(conversation(count)).next();
    expect(first.value).toBeInstanceOf(Promise);
    expect(await inTurns(template.renderInParts(conversation(count)))).toBe(template.render(conversation(count)));
  });

  test('its errors are those of one that is done at once', async () => {
    const beyond = chat('{% for m in messages %}{% for i in range(90000) %}{% set x = i %}{% endfor %}{% endfor %}');
    const late = chat("{% for i in range(99999) %}{% set x = i + i + i %}{% endfor %}{{ raise_exception('no') }}");
    for (const template of [beyond, late]) {
      const refused: unknown = await Promise.resolve(inTurns(template.renderInParts(conversation(40)))).catch(
        (error: unknown) => error,
      );
      expect(refused).toBeInstanceOf(RowError);
      expect(() => template.render(conversation(40))).toThrow((refused as RowError).message);
    }
  });
});

test('a real conversation is rendered at once', () => {
  const chatml =
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content | trim + '<|im_end|>\n' }}{% endfor %}";
  expect(chat(chatml).renderInParts(conversation(1000)).next().done).toBe(true);
});

test('a long one has a turn of the event loop for itself, and is rendered at once then', async () => {
  const template = chat('{{ messages[0].content }}!');
  const messages = [{ role: 'user', content: 'so '.repeat(30_000) }];
  const work = template.renderInParts(messages);
  const first = work.next();
  expect(first.done).toBe(false);
  await first.value;
  expect(work.next()).toEqual({ done: true, value: template.render(messages) });
});

test('as the package has it, there is a thread, which is given all that the template is given', async () => {
  const source =
    "{% for i in range(99999) %}{% set x = i + i + i %}{% endfor %}{{ n|tojson }} {{ x is string }} {{ tools|tojson }} {{ strftime_now('%Y') }} {{ messages[0].content }}";
  const messages: ChatMessage[] = [{ role: 'user', content: 'a\ud800b 😀' }];
  const given: TemplateInput = {
    now: '2026-01-02T03:04:05Z',
    tools: [{ function: { name: 'f', least: 1e-7 } }],
    templateArgs: { n: [new SpelledNumber('1.0'), new SpelledNumber('12345678901234567890'), 2, true, null, 'é'] },
  };
  const script = `
    import { SpelledNumber } from ${JSON.stringify(pathToFileURL(built('arguments/jsonNumbers.js')).href)};
    import { inTurns } from ${JSON.stringify(pathToFileURL(built('collections/inTurns.js')).href)};
    import { ChatTemplate } from ${JSON.stringify(pathToFileURL(built('model/tokenizer/ChatTemplate.js')).href)};
    let threads = 0;
    process.on('worker', () => { threads += 1; });
    const template = new ChatTemplate(${JSON.stringify(source)}, {}, { field: '' });
    const [messages, given] = ${JSON.stringify([messages, given])};
    given.templateArgs.n.splice(0, 2, new SpelledNumber('1.0'), new SpelledNumber('12345678901234567890'));
    const both = await Promise.all([1, 2].map(() => inTurns(template.renderInParts(messages, given))));
    const failed = await Promise.resolve(inTurns(
      new ChatTemplate("{% for i in range(99999) %}{% set x = i + i + i %}{% endfor %}{{ none + 1 }}", {}, { field: '' }).renderInParts(messages),
    )).catch(({ rowCode, message }) => ({ rowCode, message }));
    console.log(JSON.stringify({ threads, both, failed }));`;
  // Loaded into each process that NODE_OPTIONS reach; a thread needs none of it.
  writeFileSync(
    path('preload.cjs'),
    `if (!require('node:worker_threads').isMainThread) require('node:fs').writeSync(1, 'preloaded');`,
  );
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', script], {
    env: { ...process.env, NODE_OPTIONS: `--require=${JSON.stringify(path('preload.cjs'))}` },
  });
  const text = chat(source).render(messages, given);
  expect(text).toContain('[1.0, 12345678901234567890, 2, true, null, "é"]');
  expect(JSON.parse(stdout)).toEqual({
    threads: 3,
    both: [text, text],
    failed: { rowCode: 'chat-template', message: expect.stringContaining('unsupported operand') as unknown },
  });
});

test('as the package has it, where no thread is to be had, it is rendered without one', async () => {
  const source = '{% for i in range(99999) %}{% set x = i + i + i %}{% endfor %}{{ messages[0].content }}';
  const script = `
    import { createRequire, syncBuiltinESMExports } from 'node:module';
    createRequire('file:///')('node:worker_threads').Worker = class {
      constructor() { throw Object.assign(new Error('EAGAIN'), { code: 'ERR_WORKER_INIT_FAILED' }); }
    };
    syncBuiltinESMExports();
    const { inTurns } = await import(${JSON.stringify(pathToFileURL(built('collections/inTurns.js')).href)});
    const { ChatTemplate } = await import(${JSON.stringify(pathToFileURL(built('model/tokenizer/ChatTemplate.js')).href)});
    const template = new ChatTemplate(${JSON.stringify(source)}, {}, { field: '' });
    const work = template.renderInParts([{ role: 'user', content: 'hello' }]);
    console.log(await inTurns(work));`;
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', script]);
  expect(stdout).toBe('hello\n');
});
