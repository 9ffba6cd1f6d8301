import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import { readResults, temporaryFolder, writeLines } from '../jobs/support/files.js';
import { tinyChatModel } from '../support/tinyChatModel.js';
import { runCli } from './support.js';

const path = temporaryFolder();

describe('generate --json-schema, --regex, --grammar, --choices', () => {
  test('what cannot be held to is refused before a model is looked for', async () => {
    writeLines(path('in.jsonl'), [{ prompt: 'x' }]);
    const refused = async (...flags: string[]): Promise<readonly [number, string]> => {
      const { code, stderr } = await runCli(['generate', '--model', path('nowhere.gguf'), '--input', path('in.jsonl'), '--output', path('never.jsonl'), ...flags]);
      return [code, stderr] as const;
    };
    writeFileSync(path('bad.json'), '{"properties":{"a":{"contains":{}}}}');
    expect(await refused('--json-schema', path('bad.json'))).toEqual([1, expect.stringContaining('/properties/a/contains')]);
    expect(await refused('--json-schema', '{"type":"object"')).toEqual([1, expect.stringContaining('--json-schema: found no JSON')]);
    expect(await refused('--json-schema', '{}', '--choices', 'a,b')).toEqual([1, expect.stringContaining('--json-schema and --choices')]);
    expect(await refused('--choices', 'a,,b')).toEqual([1, expect.stringContaining('empty choice')]);
    expect(await refused('--grammar', path('none.lark'))).toEqual([2, expect.stringContaining('none.lark')]);
    expect(existsSync(path('never.jsonl'))).toBe(false);
  });

  test('results have values, in lines, tables and answers to a batch; another schema is another job', async () => {
    await using model = await tinyChatModel();
    const run = async (input: string, output: string, ...more: string[]): Promise<{ code: number; stderr: string }> =>
      runCli(['generate', '--model', model.path, '--input', path(input), '--output', path(output), '--max-new-tokens', '40', ...more]);
    const schema = '{"type":"object","properties":{"ok":{"type":"boolean"}},"required":["ok"],"additionalProperties":false}';
    writeLines(path('rows.jsonl'), [{ prompt: 'x' }, { prompt: 'y', responseFormat: { type: 'regex', pattern: '[ab]{2}' } }]);
    expect(await run('rows.jsonl', 'out.jsonl', '--json-schema', schema, '--schema-in-prompt', 'on')).toMatchObject({ code: 0 });
    const [first, second] = readResults(path('out.jsonl'));
    expect([typeof (first?.value as { ok: unknown }).ok, second?.value]).toEqual(['boolean', second?.text]);
    expect(await run('rows.jsonl', 'out.jsonl', '--json-schema', '{"type":"boolean"}', '--schema-in-prompt', 'on', '--resume')).toMatchObject({
      code: 1, stderr: expect.stringContaining('responseFormat (was'),
    });

    writeFileSync(path('rows.csv'), 'prompt\nx\n');
    expect(await run('rows.csv', 'out.csv', '--json-schema', schema)).toMatchObject({ code: 0 });
    expect(readFileSync(path('out.csv'), 'utf8')).toMatch(/^prompt,text,value,finish_reason.*\nx,"\{""ok"":(true|false)\}","\{""ok"":(true|false)\}",stop/);

    const format = { type: 'json_schema', json_schema: { name: 'answer', strict: true, schema: JSON.parse(schema) as unknown } };
    writeLines(path('batch.jsonl'), [{ custom_id: 'a', method: 'POST', url: '/v1/chat/completions', body: { model: 'm', messages: [{ role: 'user', content: 'x' }], response_format: format } }]);
    expect(await run('batch.jsonl', 'answers.jsonl')).toMatchObject({ code: 0 });
    expect(readFileSync(path('answers.jsonl'), 'utf8')).toMatch(/"content":"\{\\"ok\\":(true|false)\}"/);
  });
});
