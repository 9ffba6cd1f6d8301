import { describe, expect, test } from '@jest/globals';
import { Engine, type Row } from '../../src/index.js';
import { collect, model } from './support.js';

/** Models that also see: their language model is computed. */
const SEEING = [
  'mistral3',
  'qwen2.5-vl',
  'qwen3-vl',
  'gemma4-vl',
  'llama4-vl',
  'mistral3-ministral3',
  'mistral3-mistral4',
];
/** As OpenAI, Anthropic and chat templates write what is no text. */
const PARTS: readonly (readonly [part: object, medium: string])[] = [
  [{ type: 'image_url', image_url: { url: 'data:image/png;base64,AA==' } }, 'a picture'],
  [{ type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AA==' } }, 'a picture'],
  [{ type: 'input_image', image_url: 'https://example.org/a.png' }, 'a picture'],
  [{ image: 'a.png' }, 'a picture'],
  [{ type: 'input_audio', input_audio: { data: 'AA==', format: 'wav' } }, 'a sound'],
  [{ type: 'audio', audio: 'a.wav' }, 'a sound'],
  [{ type: 'video', video: 'a.mp4' }, 'a video'],
  [{ type: 'file', file: { file_id: 'a' } }, 'a file'],
];

describe('a row with a picture, a sound, a video or a file', () => {
  test.each(SEEING)('is refused by name under %s, and others are answered', async (name) => {
    await using engine = await Engine.open({ model: model(name), batchSize: 4, threads: 1 });
    const rows = PARTS.flatMap(([part], i): Row[] => [
      { id: 2 * i, tokens: [3, 1 + i], maxNewTokens: 2 },
      // What programs bring need not be what the types say.
      {
        id: 2 * i + 1,
        messages: [{ role: 'user', content: [{ type: 'text', text: 'What is this?' }, part] }],
        maxNewTokens: 2,
      },
    ]);
    const results = await collect(engine.generate(rows));
    expect(results).toHaveLength(rows.length);
    for (const { id, error } of results) {
      const at = Number(id);
      if (at % 2 === 0) {
        expect({ id, error }).toEqual({ id, error: undefined });
        continue;
      }
      const [, medium] = PARTS[(at - 1) / 2] ?? [];
      expect(error?.code).toBe('unsupported-content');
      expect(error?.message).toMatch(
        new RegExp(`^messages\\[0\\]\\.content\\[1\\]: found ${medium} .*leave such parts out`),
      );
    }
  });
});
