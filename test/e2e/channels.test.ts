import { expect, test } from '@jest/globals';
import { readdirSync } from 'node:fs';
import { drained } from '../../src/collections/drained.js';
import { ActiveRow } from '../../src/engine/rows/ActiveRow.js';
import { prepareRow } from '../../src/engine/rows/prepareRow.js';
import { createTokenizer } from '../../src/model/createTokenizer.js';
import { readTokenizerFiles } from '../../src/model/safetensors/readTokenizerFiles.js';
import { parsedAnswer } from '../../src/engine/tools/AnswerReader.js';
import { formNamed } from '../../src/engine/tools/forms/index.js';
import type { Reasoning, Row, RowDelta, RowResult } from '../../src/Row.js';
import { TEMPLATES } from '../engine/tools/templates.js';
import { tinyChatModel } from '../support/tinyChatModel.js';

const REASONED = { marks: undefined, open: false };
const whole =
  '<|channel|>analysis<|message|>Let me see.<|end|><|start|>assistant<|channel|>commentary<|message|>First<|end|>' +
  '<|start|>assistant<|channel|>final<|message|>Hello 😀';

test('an answer without tools has its content from other channels than that of thoughts', () => {
  const read = (text: string) => parsedAnswer(formNamed('gpt-oss'), text, new Map(), REASONED);
  expect(read(whole)).toEqual({
    reasoning: 'Let me see.',
    content: 'First\n\nHello 😀',
    kept: 'Let me see.\n\nFirst\n\nHello 😀',
    calls: [],
  });
  // Of what breaks off, and what is to nobody, nothing is wrong, and nothing is left out.
  expect(read('<|channel|>analysis<|message|>Let me')).toEqual({
    reasoning: 'Let me',
    content: '',
    kept: 'Let me',
    calls: [],
  });
  expect(read('<|channel|>commentary to=functions.f json<|message|>{"a"')).toMatchObject({
    content: '{"a"',
    calls: [],
  });
  expect(read('as it is')).toMatchObject({ content: 'as it is', calls: [] });
});

test('without tools, answers on channels have their parts, as they grow, too', async () => {
  const { template = '', control = [] } = TEMPLATES.find(({ form }) => form === 'gpt-oss') ?? {};
  const opened = template
    .replaceAll('<|im_start|>', '<|start|>')
    .replaceAll("assistant\\n' }}{% endif %}", "assistant' }}{% endif %}");
  await using model = await tinyChatModel({ template: opened, control });
  const source = await readTokenizerFiles(model.path, new Set(readdirSync(model.path)), {});
  const tokenizer = createTokenizer(source, 256);
  const answer = (row: Row, reasoning: Reasoning): readonly [RowResult | undefined, readonly RowDelta[]] => {
    const limits = { contextTokens: 2048, vocabularySize: 256 };
    const prepared = drained(prepareRow({ ...row, maxNewTokens: 500 }, {}, tokenizer, limits));
    const deltas: RowDelta[] = [];
    const active = new ActiveRow(
      { id: 'x', index: 0, sequence: 0 },
      prepared,
      tokenizer,
      { ignoreEos: false, logprobs: undefined, reasoning },
      { token: () => undefined, row: () => undefined },
      undefined,
      undefined,
      undefined,
      (delta) => void deltas.push(delta),
    );
    const end = tokenizer.controlToken('<|im_end|>') ?? -1;
    let done: RowResult | undefined;
    for (const token of [...tokenizer.encode(whole, { specialTokens: false }), end])
      done ??= active.accept({ sampled: new Map([[1, { token, logprob: 0, top: [] }]]), scored: new Map() }, 1)?.result;
    return [done, deltas];
  };
  const chat = { messages: [{ role: 'user', content: 'What?' }] };
  for (const [row, reasoning, text, thought] of [
    [chat, 'separate', 'First\n\nHello 😀', 'Let me see.'],
    [chat, 'drop', 'First\n\nHello 😀', undefined],
    [chat, 'keep', 'Let me see.\n\nFirst\n\nHello 😀', undefined],
    // Raw text has no turns.
    [{ prompt: 'a' }, 'drop', 'analysisLet me see.assistantcommentaryFirstassistantfinalHello 😀', undefined],
  ] as const) {
    const [result, deltas] = answer(row, reasoning);
    expect(result).toMatchObject({ text, finishReason: 'stop' });
    expect(result?.reasoning).toBe(thought);
    expect(deltas.map((delta) => delta.text).join('')).toBe(text);
    expect(deltas.map((delta) => delta.reasoning ?? '').join('')).toBe(thought ?? '');
    expect(deltas.filter((delta) => delta.text !== '').length).toBeGreaterThan(5);
  }
});
