import { readFileSync, writeFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import { readResults, temporaryFolder, writeLines } from '../jobs/support/files.js';
import { tinyChatModel } from '../support/tinyChatModel.js';
import { runCli } from './support.js';

const path = temporaryFolder();
let names = 0;

describe('generate makes prompts of rows', () => {
  test('a template, a system message and the chat template, in a table; rows share what is constant', async () => {
    await using model = await tinyChatModel();
    const run = async (
      input: string,
      ...more: string[]
    ): Promise<{ code: number; texts: unknown[]; stderr: string; saved: number }> => {
      const [output, stats] = [path(`out-${names++}.jsonl`), path('stats.json')];
      const { code, stderr } = await runCli([
        'generate',
        '--model',
        model.path,
        '--input',
        input,
        '--output',
        output,
        '--max-new-tokens',
        '4',
        '--ignore-eos',
        '--stats',
        stats,
        ...more,
      ]);
      const { sharing } = JSON.parse(readFileSync(stats, 'utf8')) as { sharing: { promptTokensSaved: number } };
      return {
        code,
        stderr,
        saved: sharing.promptTokensSaved,
        texts: readResults(output).map(({ id, tokens, usage, error }) => [id, tokens, usage.promptTokens, error?.code]),
      };
    };
    const system = 'You sort tickets. '.repeat(8);
    const template = path('template.txt');
    writeFileSync(template, 'Ticket {{ nr }}: {{body}}');
    writeFileSync(
      path('tickets.csv'),
      `nr,body\n${Array.from({ length: 12 }, (_, at) => `${at},body ${at * at}`).join('\n')}\n`,
    );
    const made = await run(
      path('tickets.csv'),
      '--prompt-template',
      template,
      '--system',
      system,
      '--columns',
      'id=nr',
    );
    expect(made.code).toBe(0);

    const talks = Array.from({ length: 12 }, (_, at) => [
      { role: 'system', content: system },
      { role: 'user', content: `Ticket ${at}: body ${at * at}` },
    ]);
    writeLines(
      path('talks.jsonl'),
      talks.map((messages, at) => ({ id: String(at), messages })),
    );
    expect(made.texts).toEqual((await run(path('talks.jsonl'))).texts);
    // All but the first leave out what is computed already, whole pages and a part of one.
    expect(made.saved).toBeGreaterThan(11 * 128);

    writeLines(path('gaps.jsonl'), [{ id: '0' }, { id: '1', body: 'b' }]);
    const missing = await run(path('gaps.jsonl'), '--prompt-template', '{{id}} {{body}}');
    expect(missing.code).toBe(4);
    expect(missing.texts[0]).toEqual(['0', [], 0, 'missing-field']);
  });

  test('what is no template, no JSON, no file is refused at once', async () => {
    writeLines(path('in.jsonl'), [{ prompt: 'x' }]);
    const refused = async (...flags: string[]): Promise<[number, string]> => {
      const { code, stderr } = await runCli([
        'generate',
        '--model',
        path('nowhere.gguf'),
        '--input',
        path('in.jsonl'),
        '--output',
        path('never.jsonl'),
        ...flags,
      ]);
      return [code, stderr];
    };
    writeFileSync(path('plain.txt'), 'no field');
    expect(await refused('--prompt-template', path('plain.txt'))).toEqual([
      1,
      expect.stringContaining('expected a text with {{field}}'),
    ]);
    expect(await refused('--prompt-template', path('missing.txt'))).toEqual([
      2,
      expect.stringContaining('missing.txt'),
    ]);
    expect(await refused('--template-args', '{x')).toEqual([
      1,
      expect.stringContaining('--template-args: found no JSON'),
    ]);
    expect(await refused('--template-args', '{"messages":[]}')).toEqual([
      1,
      expect.stringContaining('--template-args: found "messages"'),
    ]);
    expect(await refused('--tools', '[1]')).toEqual([1, expect.stringContaining('tools: found an array of 1')]);
    expect(await refused('--reasoning', 'no')).toEqual([1, expect.stringContaining('--reasoning')]);
    expect(await refused('--prompt-template', path('in.jsonl'), '--stats', path('in.jsonl'))).toEqual([
      1,
      expect.stringContaining('--stats'),
    ]);
  });
});
