import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import { parse } from 'csv-parse/sync';
import { readResults, temporaryFolder, writeLines } from '../jobs/support/files.js';
import { testGrammars } from '../support/grammars.js';
import { tinyChatModel } from '../support/tinyChatModel.js';
import { runHere } from './runHere.js';
import { runCli, withFlags } from './support.js';

const path = temporaryFolder();

describe('generate --json-schema, --regex, --grammar, --choices', () => {
  test('what cannot be held to is refused before a model is looked for', async () => {
    writeLines(path('in.jsonl'), [{ prompt: 'x' }]);
    const refused = async (...flags: string[]): Promise<readonly [number, string]> => {
      const { code, stderr } = await runHere([
        'generate',
        '--model',
        path('nowhere.gguf'),
        '--input',
        path('in.jsonl'),
        '--output',
        path('never.jsonl'),
        ...flags,
      ]);
      return [code, stderr] as const;
    };
    writeFileSync(path('bad.json'), '{"properties":{"a":{"$ref":"x.json"}}}');
    expect(await refused('--json-schema', path('bad.json'))).toEqual([
      1,
      expect.stringContaining('/properties/a/$ref'),
    ]);
    expect(await refused('--json-schema', '{"type":"object"')).toEqual([
      1,
      expect.stringContaining('--json-schema: found no JSON'),
    ]);
    expect(await refused('--json-schema', '{}', '--choices', 'a,b')).toEqual([
      1,
      expect.stringContaining('--json-schema and --choices'),
    ]);
    expect(await refused('--choices', 'a,,b')).toEqual([1, expect.stringContaining('empty choice')]);
    expect(await refused('--grammar', path('none.lark'))).toEqual([2, expect.stringContaining('none.lark')]);
    expect(existsSync(path('never.jsonl'))).toBe(false);
  });

  testGrammars(
    'results have values, in lines, tables and answers to a batch; another schema is another job',
    async () => {
      await using model = await tinyChatModel();
      const run = async (input: string, output: string, ...more: string[]): Promise<{ code: number; stderr: string }> =>
        runHere([
          'generate',
          '--model',
          model.path,
          '--input',
          path(input),
          '--output',
          path(output),
          '--max-new-tokens',
          '40',
          ...more,
        ]);
      const schema =
        '{"type":"object","properties":{"ok":{"type":"boolean"}},"required":["ok"],"additionalProperties":false}';
      writeLines(path('rows.jsonl'), [
        { prompt: 'x' },
        { prompt: 'y', responseFormat: { type: 'regex', pattern: '[ab]{2}' } },
      ]);
      expect(await run('rows.jsonl', 'out.jsonl', '--json-schema', schema, '--schema-in-prompt', 'on')).toMatchObject({
        code: 0,
      });
      const [first, second] = readResults(path('out.jsonl'));
      expect([typeof (first?.value as { ok: unknown }).ok, second?.value]).toEqual(['boolean', second?.text]);
      expect(
        await run(
          'rows.jsonl',
          'out.jsonl',
          '--json-schema',
          '{"type":"boolean"}',
          '--schema-in-prompt',
          'on',
          '--resume',
        ),
      ).toMatchObject({
        code: 1,
        stderr: expect.stringContaining('responseFormat (was'),
      });

      writeFileSync(path('rows.csv'), 'prompt\nx\n');
      expect(await run('rows.csv', 'out.csv', '--json-schema', schema)).toMatchObject({ code: 0 });
      expect(readFileSync(path('out.csv'), 'utf8')).toMatch(/^prompt,ok,text,finish_reason.*\nx,(true|false),,stop/);
      expect(
        await run('rows.csv', 'whole.csv', '--json-schema', '{"type":"array","items":{"type":"boolean"},"maxItems":1}'),
      ).toMatchObject({ code: 0 });
      expect(readFileSync(path('whole.csv'), 'utf8')).toMatch(
        /^prompt,text,value,finish_reason.*\nx,(\[(?:true|false|)\]),\1,stop/,
      );

      const format = {
        type: 'json_schema',
        json_schema: { name: 'answer', strict: true, schema: JSON.parse(schema) as unknown },
      };
      writeLines(path('batch.jsonl'), [
        {
          custom_id: 'a',
          method: 'POST',
          url: '/v1/chat/completions',
          body: { model: 'm', messages: [{ role: 'user', content: 'x' }], response_format: format },
        },
      ]);
      expect(await run('batch.jsonl', 'answers.jsonl')).toMatchObject({ code: 0 });
      expect(readFileSync(path('answers.jsonl'), 'utf8')).toMatch(/"content":"\{\\"ok\\":(true|false)\}"/);
    },
  );

  testGrammars(
    'columns of properties: refused before a model is looked for, renamed, answered from earlier runs, and cut off',
    async () => {
      const schema =
        '{"type":"object","properties":{"first name":{"type":"string","maxLength":4},"n":{"type":"integer","minimum":1,"maximum":9}},"required":["first name","n"],"additionalProperties":false}';
      writeFileSync(path('table.csv'), 'prompt,n\nx,1\ny,2\n');
      const run = (model: string, output: string, ...more: string[]): ReturnType<typeof runCli> =>
        runCli(
          withFlags(
            [
              'generate',
              '--model',
              model,
              '--input',
              path('table.csv'),
              '--output',
              path(output),
              '--json-schema',
              schema,
              '--max-new-tokens',
              '60',
              '--policy',
              'default',
            ],
            ...more,
          ),
        );
      const nowhere = path('nowhere.gguf');
      expect(await run(nowhere, 'no.csv', '--result-columns', 'value=v')).toMatchObject({
        code: 1,
        stderr: expect.stringContaining(
          '--result-columns: found value, the answer as a whole, expected any of first name, n, id',
        ),
      });
      expect(await run(nowhere, 'no.csv', '--result-columns', 'name=v')).toMatchObject({
        code: 1,
        stderr: expect.stringContaining(
          '--result-columns: found the unknown "name", expected any of first name, n, id',
        ),
      });

      await using model = await tinyChatModel();
      expect(await run(model.path, 'no.csv')).toMatchObject({
        code: 1,
        stderr: expect.stringContaining(
          'found two columns "n", one of them for a property of the schema, expected each name once; --result-columns n=n_found gives',
        ),
      });
      expect(existsSync(path('no.csv.job.json'))).toBe(false);

      const names = ['--result-columns', 'n=found,first name=who'];
      expect(await run(model.path, 'computed.csv', ...names, '--reuse', path('kept'))).toMatchObject({ code: 0 });
      const table = readFileSync(path('computed.csv'), 'utf8');
      expect(table).toMatch(/^prompt,n,who,found,text,finish_reason,.*\n/);
      expect(
        parse<Record<string, string>>(table, { columns: true }).map(({ n, found = '', text }) => [
          n,
          /^[1-9]$/.test(found),
          text,
        ]),
      ).toEqual([
        ['1', true, ''],
        ['2', true, ''],
      ]);
      expect(await run(model.path, 'reused.csv', ...names, '--reuse', path('kept'))).toMatchObject({
        code: 0,
        stderr: expect.stringContaining('2 from earlier runs'),
      });
      expect(readFileSync(path('reused.csv'), 'utf8')).toBe(table);

      // What was cut off keeps its text, as often as it is done.
      const cut = await run(model.path, 'cut.csv', ...names, '--max-new-tokens', '5');
      expect(cut.code).toBe(4);
      const rows = parse<Record<string, string>>(readFileSync(path('cut.csv'), 'utf8'), { columns: true });
      expect(
        rows.map(({ who, found, text = '', error_code }) => [who, found, text.startsWith('{'), error_code]),
      ).toEqual([
        ['', '', true, 'schema'],
        ['', '', true, 'schema'],
      ]);
      expect(
        await run(model.path, 'cut.csv', ...names, '--max-new-tokens', '5', '--resume', '--retry-errors'),
      ).toMatchObject({ code: 4 });
      expect(parse(readFileSync(path('cut.csv'), 'utf8'), { columns: true })).toEqual(rows);
    },
  );
});
